"""The manager: starts and stops all parts of an operator process in the right order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from kinformer._runtime.cancellation import guarded, shielded_from_scopes
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

_FORCED = 3.0  # seconds for tasks that were cancelled a second time. A task itself has a grace period of one
_LEAVING = 1.0  # seconds for the exit after a second signal

Runnable = Callable[[], Awaitable[object]]
A = TypeVar("A")


class _Stopping:
    """The reasons to stop a manager (a request or failures), and whether to stop it at once.

    Attributes:
        requested: Set by a first signal or `Manager.stop`.
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
        """Request a stop at the first signal and return True, or force it at the second one and return False."""
        if not self.requested.is_set():
            log.info("%s: stopping; a second signal cancels everything immediately", number.name, reason="signal")
            self.requested.set()
            return True
        log.warning("%s again: cancelling everything", number.name, reason="signal")
        self.forced.set()
        return False

    def take_failure(self, error: BaseException) -> None:
        """Report a failure or a lost lead to `run` at once: stopping may take forever, and only `run` has a limit."""
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

    Entering serves the probes, connects, and starts informers as they are requested. `run` returns after SIGTERM,
    SIGINT or `stop()`, and raises the error of a failure. First the controllers take no new keys and finish those in
    process, and the Lease is released. Exiting then stops the informers, the client, and finally the probes. Informers
    run before the lead is won, so that a new leader has warm caches. (controller-runtime, pkg/manager/internal.go)

    Args:
        client: An entered client, which is not closed here. None creates and closes a `Client()` with this sink.
        elector: A LeaderElector, or a function that creates one for the manager's client. None runs without election.
        listen: The address, such as `":8080"` or `"127.0.0.1:8080"`, for `/livez`, `/healthz`, `/readyz`, `/statusz`
            and, if the sink can be read, `/metrics`. None (the default) serves nothing.
        allowed_hosts: The host names under which these pages are read, besides IP addresses, which kubelet and
            Prometheus use, and `localhost`: `"operator.monitoring.svc"`. `"*.example.com"` is each name below
            `example.com`, and `"*"` is any name. Others get a 421, because web pages of other sites could read them.
        details: Show the messages of errors on `/statusz`. By default only their class is shown, because a message may
            quote a server's response, a credential plugin or a file, and everyone who reaches the port can read it.
        metrics: A sink for the informers and `/metrics`. Controllers and electors have their own `metrics` argument.
        shutdown_timeout: Seconds from a request to stop, or a failure, until unfinished tasks are cancelled a second
            time. 30 by default, as in controller-runtime, and as long as Kubernetes waits before it kills.
        signals: The signals that stop `run`. They are handled only while it runs, and restored afterwards. A second one
            cancels all remaining tasks at once. A third one has its usual effect, as without a manager.
        **defaults: Options of the `SharedInformerFactory`.

    Raises:
        ConfigError: `listen` is not a valid address, a host name is invalid, or an option is invalid or unknown.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        elector: LeaderElector | Callable[[Client], LeaderElector] | None = None,
        listen: str | None = None,
        allowed_hosts: Iterable[str] = (),
        details: bool = False,
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
        self._runnables: list[tuple[Runnable, bool, str]] = []  # function, whether it needs the lead, and name
        self._running = False
        self._stopping = _Stopping()
        self._health = ManagerHealth(
            lambda: self._factory if self._entered and not self._left else None,
            lambda: self._controllers,
            lambda: self._elector,
            metrics,
            details=details,
        )
        self._server = None if listen is None else HealthServer(listen, self._health.pages(), allowed_hosts)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._entered:
            raise RuntimeError("a Manager can be entered only once; create a new one")
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
            message = "exit took longer than %g s after the second signal; the rest is abandoned"
            log.warning(message, _LEAVING, reason="abandoned")
            return None

    # --- parts ------------------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """The client of the API server."""
        return self._client

    @property
    def factory(self) -> SharedInformerFactory:
        """The factory that creates the informers for the controllers."""
        return self._factory

    @property
    def elector(self) -> LeaderElector | None:
        """The elector, or None before entering and without election."""
        return self._elector

    @property
    def port(self) -> int:
        """The port of the probes. Raises RuntimeError if they are not served."""
        if self._server is None:
            raise RuntimeError("this manager has no port; pass listen= to serve the probes")
        return self._server.port

    def add(self, what: A, *, needs_leadership: bool = True) -> A:
        """Run a controller or a coroutine function while the manager runs, or enter a collection or a fleet.

        A coroutine function may return. If it raises, `run` stops with that error. When the manager stops, it cancels
        the function, which should then end soon. A derived collection or a `Fleet` is entered after the informers (at
        once if the manager is entered), and exited before them. If one reads another, add the other one first.

        Args:
            what: A Controller, another `ManagedController`, a coroutine function without arguments, a derived
                collection, or a `Fleet`.
            needs_leadership: Run it only while this process leads (if there is an elector). Pass False for tasks of
                every replica, such as serving webhooks. Has no effect on a controller with `runs_in_every_replica`, or
                on collections and fleets, which every replica has.

        Returns:
            The object that was passed.

        Raises:
            RuntimeError: `run` has been called, or a collection or fleet is added after the manager was exited.
            ValueError: Another controller has the same name, so their metrics could not be distinguished.
            TypeError: `what` is none of the above.
        """
        if self._running:
            raise RuntimeError("the manager is running; add controllers before run()")
        added = what
        if isinstance(what, ManagedController):
            if any(other.name == what.name for other in self._controllers):
                raise ValueError(f"a controller {what.name!r} already exists; give one of them another name=")
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
        """Add a check to `/readyz`: a plain function that returns None, or a message that describes the problem.

        Args:
            name: The name of the check in the response.
            check: The function, which must not block. Its message is shown to everyone who reaches the port. If it
                raises, the check fails with the class of the error as the message, and the error is logged.
            live: Add it to `/livez` too, so that the process is restarted when the check fails.

        Raises:
            ValueError: Another check has the same name.
        """
        check_callback(check, "check", "", f"Manager check {name!r}", plain=True)
        self._health.add_check(name, check, live=live)

    def stop(self) -> None:
        """Stop `run` as a first signal does: running reconciles may finish. Idempotent."""
        self._stopping.requested.set()

    # --- running ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run everything that was added until a signal, `stop()`, a failure or a cancellation. Then stop it in order.

        Raises:
            RuntimeError: The manager is not entered, or has run before.
            APIError: The server keeps refusing a resource that is followed, or the Lease. See
                `SharedInformerFactory.wait_for_cache_sync` and `LeaderElector.leading`.
            LeadershipLostError: Another process leads, or may lead. This process should exit and be restarted.
            Exception: A controller or a coroutine function raised this error.
        """
        if not self._entered or self._left:
            raise RuntimeError("call run() inside `async with` on the manager")
        if self._running:
            raise RuntimeError("a Manager can run only once; create a new one")
        self._running = True
        stops = [asyncio.ensure_future(event.wait()) for event in (self._stopping.requested, self._stopping.failed)]
        tasks = [
            asyncio.create_task(core_of(self._factory).sync.unless_refused(None), name="kinformer manager: first sync"),
            asyncio.create_task(self._run_added(leading=False), name="kinformer manager: all replicas"),
        ]
        leading = self._run_while_leading() if self._elector is not None else self._run_added(leading=True)
        tasks.append(asyncio.create_task(leading, name="kinformer manager: leader"))
        with handled_signals(self._signals, self._stopping.take_signal):
            try:
                pending: set[asyncio.Task[object]] = {*stops, *tasks}
                done: set[asyncio.Task[object]] = set()
                # Coroutine functions may return. The manager then continues, and answers its probes.
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
            await asyncio.Event().wait()  # all have returned, but keep the lead until the end

    async def _run_added(self, *, leading: bool) -> None:
        """Run the parts that need the lead, or the others. The first failure stops the rest, and is raised."""
        this_task, stopping = asyncio.current_task(), False

        def is_ending() -> bool:
            return stopping or this_task is None or this_task.cancelling() > 0

        tasks = {
            asyncio.create_task(_called(run, is_ending), name=f"kinformer manager: {name}")
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
            stopping = True
            self._stopping.take_failure(error)
            await _cancel_and_wait(tasks)
            raise

    @shielded_from_scopes
    async def _end_tasks(self, tasks: list[asyncio.Task[None]]) -> None:
        """Cancel the tasks that are not ending yet, and wait. Cancel again after the timeout or a second signal."""
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
                    message = "some tasks have not ended after %g s; cancelling them again"
                    log.warning(message, self._shutdown_timeout, reason="slow_shutdown")
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


async def _called(run: Runnable, is_ending: Callable[[], bool]) -> None:
    await guarded(run(), is_ending, getattr(run, "__qualname__", str(run)))


@shielded_from_scopes
async def _cancel_and_wait(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for them. If cancelled while waiting, cancel them again and keep waiting."""
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
            message = "%s ended with %s: %s"
            log.error(message, task.get_name(), type(error).__name__, error, exc_info=error, reason=error)
