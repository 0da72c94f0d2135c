"""The manager: everything that an operator's process consists of, started and stopped in the right order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.fence import check_fences
from kinformer._runtime.logs import get_logger
from kinformer.client.client import Client
from kinformer.controller.controller import Controller
from kinformer.exceptions import ConfigError, LeadershipLostError
from kinformer.informer.factory import SharedInformerFactory
from kinformer.leaderelection.leader_election import LeaderElector
from kinformer.manager.health import Check, ManagerHealth
from kinformer.manager.http_server import HealthServer
from kinformer.manager.signals import handled_signals
from kinformer.metrics import Metrics
from kinformer.sharding.sharded_controller import ShardedController

__all__ = ["Manager"]

log = get_logger("kinformer.manager")

_FORCED = 3.0  # seconds that what was cancelled a second time has; its own grace is one
_LEAVING = 1.0  # seconds for the rest, after a second signal

Runnable = Callable[[], Awaitable[Any]]


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

    Entering connects, starts to serve probes, and starts the informers that are asked for. `run` does the work until
    it is to stop: by SIGTERM or SIGINT, by `stop()`, or because something has failed, which it raises. Then the
    controllers take nothing new and finish what they have, the lease is given back, and leaving ends the informers,
    the client and at last the probes. Informers run before the lead is won, so that a new leader has warm caches.
    (controller-runtime, pkg/manager/internal.go)

    Args:
        client: An entered one, which is not closed here; None makes and closes a `Client()`.
        elector: A LeaderElector, or a function that makes one on the manager's client; None: no election.
        listen: Where `/livez`, `/healthz`, `/readyz`, `/statusz` and, with a sink that can be read, `/metrics` are
            served: `":8080"`, `"127.0.0.1:8080"`. None, the default: nowhere.
        metrics: A sink for the informers and `/metrics`. Controllers and electors are given theirs by who makes them.
        shutdown_timeout: Seconds from the wish to stop, or from a failure, until what has not ended is cancelled a
            second time. 30, as in controller-runtime, and as long as Kubernetes waits before it kills.
        signals: Those that stop `run`; handled only while it runs, and put back after. The second one cancels all that
            is left, at once; a third does what it would have done without us.
        **defaults: Options of the `SharedInformerFactory`.

    Raises:
        ConfigError: `listen` is no address, or an option does not exist.
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
            raise ConfigError(f"Manager(shutdown_timeout={shutdown_timeout!r}): seconds, 0 at least")
        self._own_client = client is None
        self._client = Client() if client is None else client
        self._elector_or_maker = elector
        self._elector: LeaderElector | None = None
        self._shutdown_timeout = shutdown_timeout
        self._signals = tuple(signals)
        if metrics is not None:
            defaults.setdefault("metrics", metrics)
        self._factory = SharedInformerFactory(self._client, **defaults)
        self._entered = False
        self._left = False
        self._controllers: list[Controller | ShardedController] = []
        self._runnables: list[tuple[Runnable, bool, str]] = []
        self._running = False
        self._stop = asyncio.Event()
        self._force = asyncio.Event()
        self._broken = asyncio.Event()
        self._broken_by: dict[asyncio.Task[Any] | None, BaseException] = {}  # what ends by itself, and why
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
            raise RuntimeError("a Manager is entered once; make another one")
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
        if not self._force.is_set():
            return await self._stack.__aexit__(kind, error, traceback)
        try:
            async with asyncio.timeout(_LEAVING):
                return await self._stack.__aexit__(kind, error, traceback)
        except TimeoutError:
            text = "leaving took longer than %g s after the second signal; what is left is abandoned"
            log.warning(text, _LEAVING, reason="abandoned")
            return None

    # --- what there is ----------------------------------------------------------------------------------------

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
        """Where probes are served; RuntimeError if they are not."""
        if self._server is None:
            raise RuntimeError("this manager has no `listen`")
        return self._server.port

    def add(self, what: Controller | ShardedController | Runnable, *, needs_leadership: bool = True) -> None:
        """Have a controller, or any coroutine function, run while the manager runs.

        A coroutine function may return, and then is done; what it raises ends `run`. When the manager stops it is
        cancelled, and should end soon.

        Args:
            what: A Controller, a ShardedController, or a coroutine function without arguments.
            needs_leadership: With an elector it runs only while this process leads. False for what every replica
                does, such as serving webhooks. A ShardedController runs in every replica, whatever is said here.

        Raises:
            RuntimeError: The manager is running.
            ValueError: There is a controller of this name: their metrics could not be told apart.
        """
        if self._running:
            raise RuntimeError("add controllers before run()")
        if isinstance(what, Controller | ShardedController):
            if any(one.name == what.name for one in self._controllers):
                raise ValueError(f"there is a controller {what.name!r} already; give one of them another name=")
            self._controllers.append(what)
            alone = needs_leadership and isinstance(what, Controller)
            self._runnables.append((what.run, alone, f"controller {what.name}"))
        elif callable(what):
            self._runnables.append((what, needs_leadership, getattr(what, "__qualname__", repr(what))))
        else:
            raise TypeError(f"add({what!r}): a Controller or a coroutine function is needed")

    def add_check(self, name: str, check: Check, *, live: bool = False) -> None:
        """Have `/readyz` ask a plain function too, which returns None, or what is wrong.

        Args:
            name: What the answer calls it.
            check: Must not block; what it raises counts as what is wrong.
            live: Have `/livez` ask it as well: the process is restarted when it fails.

        Raises:
            ValueError: There is a check of this name.
        """
        self._health.add_check(name, check, live=live)

    def stop(self) -> None:
        """Have `run` end as by a first signal: what is under way is finished. Idempotent."""
        self._stop.set()

    # --- running ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run everything that was added until a signal, `stop()`, a failure, or a cancellation; stop it in order.

        Raises:
            RuntimeError: The manager has not been entered, or has run.
            LeadershipLostError: Another one leads, or may: the process should end, and be started again.
            Exception: What a controller or a runnable raised.
        """
        if not self._entered or self._left:
            raise RuntimeError("run() is for within `async with`")
        if self._running:
            raise RuntimeError("a Manager runs once; make another one")
        self._running = True
        wishes = [asyncio.ensure_future(event.wait()) for event in (self._stop, self._broken)]
        tasks = [asyncio.create_task(self._together(False), name="kinformer manager: all replicas")]
        leading = self._lead() if self._elector is not None else self._together(True)
        tasks.append(asyncio.create_task(leading, name="kinformer manager: leader"))
        with handled_signals(self._signals, self._signalled):
            try:
                pending: set[asyncio.Future[Any]] = {*wishes, *tasks}
                done: set[asyncio.Future[Any]] = set()
                # What was added may return by itself; a manager stays, and answers its probes.
                while done.isdisjoint(wishes) and not any(map(_failure, done)):
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._health.stopping = True
                for wish in wishes:
                    wish.cancel()
                await self._end(tasks)
        for error in (*map(_failure, tasks), *self._broken_by.values()):
            if error is not None:
                raise error

    def _signalled(self, number: signal.Signals) -> bool:
        if not self._stop.is_set():
            log.info("%s: stopping; a second signal ends it at once", number.name, reason="signal")
            self._stop.set()
            return True
        log.warning("%s again: everything is cancelled", number.name, reason="signal")
        self._force.set()
        return False

    async def _lead(self) -> None:
        assert self._elector is not None
        async with self._elector.leading():
            await self._together(True)
            await asyncio.Event().wait()  # what there was to do is done; the lead is kept until the end

    async def _together(self, leading: bool) -> None:
        """Run those that need, or do not need, the lead; the first failure ends the others, and is what is raised."""
        tasks = {
            asyncio.create_task(_awaited(run), name=f"kinformer manager: {name}")
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
            self._tell(error)
            await _cancelled(tasks)
            raise

    def _tell(self, error: BaseException) -> None:
        """Of a failure, or a lost lead, at once: ending may take for ever, and only `run` has a limit for it."""
        if isinstance(error, asyncio.CancelledError):
            try:
                check_fences()
            except LeadershipLostError as lost:
                error = lost
            else:
                return  # it was told to end
        self._broken_by[asyncio.current_task()] = error
        self._broken.set()

    @shielded_from_scopes
    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        """Cancel what does not end already, and wait; again when the time is over, or by a second signal."""
        for task in tasks:
            if task not in self._broken_by:
                task.cancel()
        forced = asyncio.ensure_future(self._force.wait())
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


def _failure(task: asyncio.Future[Any]) -> BaseException | None:
    return None if not task.done() or task.cancelled() else task.exception()


async def _awaited(run: Runnable) -> None:
    try:
        await run()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody stopped it: it awaited something that was cancelled. Gone without a word it would not be missed.
        raise RuntimeError(f"{getattr(run, '__qualname__', run)} ended by a CancelledError of its own") from error


@shielded_from_scopes
async def _cancelled(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for them; cancelled while it waits, it cancels them again, and waits on."""
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
        if (error := _failure(task)) is not None:
            text = "%s ended by %s: %s"
            log.error(text, task.get_name(), type(error).__name__, error, exc_info=error, reason=error)
