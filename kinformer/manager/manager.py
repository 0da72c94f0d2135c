"""The manager: starts and stops all parts of an operator's process in the right order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.fence import check_fences
from kinformer._runtime.logs import get_logger
from kinformer._runtime.signatures import check_callback
from kinformer.client.client import Client
from kinformer.controller.managed import ManagedController
from kinformer.exceptions import ConfigError, LeadershipLostError
from kinformer.informer.collection import core_of
from kinformer.informer.factory import SharedInformerFactory
from kinformer.leaderelection.leader_election import LeaderElector
from kinformer.manager.health import Check, ManagerHealth
from kinformer.manager.http_server import HealthServer
from kinformer.manager.signals import handled_signals
from kinformer.metrics import Metrics

__all__ = ["Manager"]

log = get_logger("kinformer.manager")

_FORCED = 3.0  # seconds for tasks that were cancelled a second time; a task's own grace is one
_LEAVING = 1.0  # seconds for leaving after a second signal

Runnable = Callable[[], Awaitable[object]]
A = TypeVar("A")


class _Stopping:
    """Why a manager stops: it was asked to, or a part of it failed; and whether it may take its time.

    Attributes:
        requested: Set once it is to stop as by a first signal.
        forced: Set by a second signal.
        failed: Set by the first failure.
        failures: The failures, by the task that ended with them.
    """

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.forced = asyncio.Event()
        self.failed = asyncio.Event()
        self.failures: dict[asyncio.Task[object] | None, BaseException] = {}

    def take_signal(self, number: signal.Signals) -> bool:
        """Stop at a first signal, and return True; force the end at a second one, and return False."""
        if not self.requested.is_set():
            log.info("%s: stopping; a second signal cancels everything at once", number.name, reason="signal")
            self.requested.set()
            return True
        log.warning("%s again: everything is cancelled", number.name, reason="signal")
        self.forced.set()
        return False

    def take_failure(self, error: BaseException) -> None:
        """Tell `run` of a failure or a lost lead at once: ending may take forever, and only `run` has a limit."""
        if isinstance(error, asyncio.CancelledError):
            try:
                check_fences()
            except LeadershipLostError as lost:
                error = lost
            else:
                return  # the manager is stopping
        self.failures[asyncio.current_task()] = error
        self.failed.set()


class Manager:
    """One `async with` for the client, the informers, the controllers, leader election, probes, metrics and signals.

    ::

        async with Manager(
            elector=lambda client: LeaderElector(client, namespace="prod", name="foo-operator"),
            listen=":8080",
            metrics=PrometheusMetrics(),
        ) as manager:
            foos = manager.factory.for_resource("example.com/v1/foos")
            manager.add(Controller(reconcile, workers=4).for_(foos))
            await manager.run()

    Entering connects, starts to serve probes, and starts the informers that are asked for. `run` works until it is to
    stop: by SIGTERM or SIGINT, by `stop()`, or by a failure, which it raises. Then the controllers take no new key and
    finish those they have, the Lease is given back, and leaving ends the informers, the client and at last the probes.
    Informers run before the lead is won, so that a new leader has warm caches.
    (controller-runtime, pkg/manager/internal.go)

    Args:
        client: An entered one, which is not closed here; None makes and closes a `Client()`, with this sink.
        elector: A LeaderElector, or a function that makes one on the manager's client; None: no election.
        listen: The address that serves `/livez`, `/healthz`, `/readyz`, `/statusz` and, if the sink can be read,
            `/metrics`: `":8080"`, `"127.0.0.1:8080"`. None, the default: they are not served.
        metrics: A sink for the informers and `/metrics`. Controllers and electors take a sink of their own.
        shutdown_timeout: Seconds from the request to stop, or from a failure, until tasks that have not ended are
            cancelled a second time. 30, as in controller-runtime, and as long as Kubernetes waits before it kills.
        signals: Those that stop `run`; handled only while it runs, and restored after. The second one cancels all tasks
            that are left, at once; a third one has its usual effect, as without a manager.
        **defaults: Options of the `SharedInformerFactory`.

    Raises:
        ConfigError: `listen` is not an address, or an option cannot work or does not exist.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        elector: LeaderElector | Callable[[Client], LeaderElector] | None = None,
        listen: str | None = None,
        metrics: Metrics | None = None,
        shutdown_timeout: float = 30.0,
        signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
        **defaults: Any,
    ) -> None:
        if not shutdown_timeout >= 0:
            raise ConfigError(f"Manager: invalid shutdown_timeout={shutdown_timeout!r}: expected seconds, 0 or more")
        if elector is not None and not isinstance(elector, LeaderElector):
            check_callback(elector, "elector", "client", "Manager", plain=True)
        self._own_client = client is None
        self._client = Client(metrics=metrics) if client is None else client
        self._elector_or_maker = elector
        self._elector: LeaderElector | None = None
        self._shutdown_timeout = shutdown_timeout
        self._signals = tuple(signals)
        if metrics is not None:
            defaults.setdefault("metrics", metrics)
        self._factory = SharedInformerFactory(self._client, **defaults)
        self._entered = False
        self._left = False
        self._controllers: list[ManagedController] = []
        self._runnables: list[tuple[Runnable, bool, str]] = []  # with: needs the lead, name
        self._running = False
        self._stopping = _Stopping()
        self._health = ManagerHealth(
            lambda: self._factory if self._entered and not self._left else None,
            lambda: self._controllers,
            lambda: self._elector,
            metrics,
        )
        self._server = None if listen is None else HealthServer(listen, self._health.pages())
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._entered:
            raise RuntimeError("a Manager can be entered once; make another one")
        self._entered = True
        async with AsyncExitStack() as stack:
            if self._server is not None:
                await self._server.start()
                stack.push_async_callback(self._server.close)
            if self._own_client:
                await stack.enter_async_context(self._client)
            await stack.enter_async_context(self._factory)
            maker = self._elector_or_maker
            self._elector = maker if maker is None or isinstance(maker, LeaderElector) else maker(self._client)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._left = True
        if not self._stopping.forced.is_set():
            return await self._stack.__aexit__(kind, error, traceback)
        try:
            async with asyncio.timeout(_LEAVING):
                return await self._stack.__aexit__(kind, error, traceback)
        except TimeoutError:
            text = "leaving took longer than %g s after the second signal; the rest is abandoned"
            log.warning(text, _LEAVING, reason="abandoned")
            return None

    # --- parts ------------------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """The connection."""
        return self._client

    @property
    def factory(self) -> SharedInformerFactory:
        """The informers: ask it for those that the controllers need."""
        return self._factory

    @property
    def elector(self) -> LeaderElector | None:
        """The election, once entered."""
        return self._elector

    @property
    def port(self) -> int:
        """The port of the probes; RuntimeError if they are not served."""
        if self._server is None:
            raise RuntimeError("this manager has no `listen`, so there is no port")
        return self._server.port

    def add(self, what: A, *, needs_leadership: bool = True) -> A:
        """Have a controller, or a coroutine function, run while the manager runs; or a collection or fleet entered.

        A coroutine function may return, and then is done; an error that it raises ends `run`. Stopping the manager
        cancels it, and it should end soon. A derived collection or a `Fleet` is entered after the informers, or at
        once, and left before them. Those that read one another are added in that order, the one that is read first.

        Args:
            what: A Controller, another `ManagedController`, a coroutine function without arguments, a derived
                collection, or a `Fleet`.
            needs_leadership: With an elector it runs only while this process leads. False for tasks of every replica,
                such as serving webhooks. Without effect for a controller with `runs_in_every_replica`, and for
                collections and fleets, which every replica has.

        Returns:
            What was passed.

        Raises:
            RuntimeError: The manager is running, or has been left.
            ValueError: There is a controller of this name: their metrics could not be told apart.
            TypeError: It is none of them.
        """
        if self._running:
            raise RuntimeError("the manager is running; add controllers before run()")
        added = what
        if isinstance(what, ManagedController):
            if any(one.name == what.name for one in self._controllers):
                raise ValueError(f"there is a controller {what.name!r} already; give one of them another name=")
            self._controllers.append(what)
            needs_leadership = needs_leadership and not what.runs_in_every_replica
            self._runnables.append((what.run, needs_leadership, f"controller {what.name}"))
        elif core_of(what) is not None:
            self._health.parts.append(core_of(self._factory.add(what)))
        elif callable(what):
            check_callback(what, "add", "", "Manager")
            self._runnables.append(
                (cast("Runnable", what), needs_leadership, getattr(what, "__qualname__", repr(what)))
            )
        else:
            raise TypeError(
                f"invalid add({what!r}): expected a controller, a coroutine function, a collection or a fleet"
            )
        return added

    def add_check(self, name: str, check: Check, *, live: bool = False) -> None:
        """Have `/readyz` also call a plain function, which returns None, or a text that says what is wrong.

        Args:
            name: The name of the check in the answer.
            check: Must not block. An error that it raises counts as such a text.
            live: Have `/livez` call it as well: the process is restarted when it fails.

        Raises:
            ValueError: There is a check of this name.
        """
        check_callback(check, "check", "", f"Manager check {name!r}", plain=True)
        self._health.add_check(name, check, live=live)

    def stop(self) -> None:
        """Have `run` end as by a first signal: reconciles under way are finished. Idempotent."""
        self._stopping.requested.set()

    # --- running ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run everything that was added until a signal, `stop()`, a failure, or a cancellation; then stop it in order.

        Raises:
            RuntimeError: The manager has not been entered, or has run.
            LeadershipLostError: Another process leads, or may lead: this one should end, and be started again.
            Exception: The error of a controller or a coroutine function.
        """
        if not self._entered or self._left:
            raise RuntimeError("call run() within `async with` on the manager")
        if self._running:
            raise RuntimeError("a Manager can run once; make another one")
        self._running = True
        stops = [asyncio.ensure_future(event.wait()) for event in (self._stopping.requested, self._stopping.failed)]
        tasks = [asyncio.create_task(self._run_added(leading=False), name="kinformer manager: all replicas")]
        leading = self._run_while_leading() if self._elector is not None else self._run_added(leading=True)
        tasks.append(asyncio.create_task(leading, name="kinformer manager: leader"))
        with handled_signals(self._signals, self._stopping.take_signal):
            try:
                pending: set[asyncio.Task[object]] = {*stops, *tasks}
                done: set[asyncio.Task[object]] = set()
                # Coroutine functions may return by themselves; the manager goes on, and answers its probes.
                while done.isdisjoint(stops) and not any(map(_failure_of, done)):
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._health.stopping = True
                for stop in stops:
                    stop.cancel()
                await self._end_tasks(tasks)
        for error in (*map(_failure_of, tasks), *self._stopping.failures.values()):
            if error is not None:
                raise error

    async def _run_while_leading(self) -> None:
        assert self._elector is not None
        async with self._elector.leading():
            await self._run_added(leading=True)
            await asyncio.Event().wait()  # everything has returned; the lead is kept until the end

    async def _run_added(self, *, leading: bool) -> None:
        """Run the parts that need the lead, or those that do not; the first failure ends the others, and is raised."""
        tasks = {
            asyncio.create_task(_called(run), name=f"kinformer manager: {name}")
            for run, needs_leadership, name in self._runnables
            if needs_leadership == leading
        }
        if not tasks:
            return
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                tasks.discard(task)
                task.result()
        except BaseException as error:
            self._stopping.take_failure(error)
            await _cancel_and_wait(tasks)
            raise

    @shielded_from_scopes
    async def _end_tasks(self, tasks: list[asyncio.Task[None]]) -> None:
        """Cancel the tasks that are not ending already, and wait; again after the timeout, or at a second signal."""
        for task in tasks:
            if task not in self._stopping.failures:
                task.cancel()
        forced = asyncio.ensure_future(self._stopping.forced.wait())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._shutdown_timeout
        try:
            while (pending := [task for task in tasks if not task.done()]) and not forced.done():
                left = deadline - loop.time()
                if left <= 0:
                    text = "after %g s not everything has ended; it is cancelled again"
                    log.warning(text, self._shutdown_timeout, reason="slow_shutdown")
                    break
                await asyncio.wait({forced, *pending}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            forced.cancel()
            pending = [task for task in tasks if not task.done()]
            for task in pending:
                task.cancel()
            if pending:
                _, stuck = await asyncio.wait(pending, timeout=_FORCED)
                for task in stuck:
                    log.error("%s did not end and is abandoned", task.get_name(), reason="abandoned")


def _failure_of(task: asyncio.Task[object]) -> BaseException | None:
    return None if not task.done() or task.cancelled() else task.exception()


async def _called(run: Runnable) -> None:
    try:
        await run()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # It was not stopped: it awaited something that was cancelled. Ending without an error it would not be missed.
        raise RuntimeError(f"{getattr(run, '__qualname__', run)} ended by a CancelledError of its own") from error


@shielded_from_scopes
async def _cancel_and_wait(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for them; if it is cancelled while it waits, cancel them again, and wait on."""
    pending = {task for task in tasks if not task.done()}
    for task in pending:
        task.cancel()
    while pending:
        try:
            _, pending = await asyncio.wait(pending)
        except asyncio.CancelledError:
            pending = {task for task in pending if not task.done()}
            for task in pending:
                task.cancel()
    for task in tasks:
        if (error := _failure_of(task)) is not None:
            log.error("%s ended by %s: %s", task.get_name(), type(error).__name__, error, exc_info=error, reason=error)
