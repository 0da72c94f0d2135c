"""An event loop without sockets. The simulation supplies its time, and decides when it runs its ready callbacks."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from kinformer._runtime.clock import Clock, ClockedLoop
from kinformer.testing.simulation.network import Network

__all__ = ["SimulatedLoop"]


class _NoSelector:
    def select(self, timeout: float | None) -> list[Any]:
        return []

    def close(self) -> None:
        return


class SimulatedLoop(ClockedLoop, asyncio.BaseEventLoop):
    """The event loop of one simulated process.

    Connections use the simulated network. Calls that would run in an executor's thread run immediately.

    Args:
        now: The loop's clock.
        network: The network to the other processes. None: no connections.
        owner: Its name in the network.

    Attributes:
        clock: The clocks that kinformer uses while this loop runs.
        errors: The contexts passed to its exception handler.
        signals: The signal handlers that the program has installed.
    """

    def __init__(self, now: Callable[[], float], network: Network | None = None, owner: str = "") -> None:
        super().__init__()
        self._now = now
        self._network = network
        self._owner = owner
        self._selector = _NoSelector()
        self._clock_resolution = 0.0
        self.clock = Clock()
        self.errors: list[dict[str, Any]] = []
        self._connecting: dict[int, Any] = {}  # the address that each socket would connect to, by file number
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()  # `asyncio.all_tasks` would search the tasks of all loops
        self.signals: dict[int, Callable[[], object]] = {}
        self.set_exception_handler(lambda _, context: self.errors.append(context))

    # -- time -----------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now()

    @property
    def next_due(self) -> float:
        """The time, on this loop's clock, of the next callback."""
        if self._ready:  # type: ignore[attr-defined]
            return -math.inf
        scheduled = self._scheduled  # type: ignore[attr-defined]
        return scheduled[0].when() if scheduled else math.inf

    def run_ready(self, round_up: Callable[[float], None]) -> None:
        """Run until nothing is ready. `round_up` moves the clock forward by this many seconds."""
        with self.as_running():
            while (due := self.next_due) <= self.time() + 1e-9:
                # Clocks of different speeds cause rounding errors, but no timer may fire even a picosecond early.
                while due >= self.time():  # asyncio runs callbacks due before now
                    round_up(1e-11)
                self._run_once()  # type: ignore[attr-defined]

    @contextmanager
    def as_running(self) -> Iterator[None]:
        """Make this the running loop inside the block, so that kinformer uses its clocks."""
        around = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(around)

    @property
    def has_unseen_errors(self) -> bool:
        """True if a task has failed with an exception that was never retrieved."""
        return any(task._log_traceback for task in self.tasks)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, **options)
        self.tasks.add(task)
        return task

    # -- asyncio's loop interface ---------------------------------------------------------------------------------

    def _process_events(self, event_list: Any) -> None:
        return

    def _write_to_self(self) -> None:
        return

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self.signals[int(sig)] = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self.signals.pop(int(sig), None) is not None

    def send_signal(self, sig: signal.Signals) -> bool:
        """Call a signal's handler in the next iteration. Return False if the program has not set one."""
        handler = self.signals.get(int(sig))
        if handler is None:
            return False
        self.call_soon(handler)
        return True

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - passed to the caller
            future.set_exception(error)
        return future

    # -- connections ----------------------------------------------------------------------------------------------

    async def sock_connect(self, sock: Any, address: Any) -> None:
        self._networked().check(self._owner, address)
        self._connecting[sock.fileno()] = address

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        sock = options.get("sock")
        address = (host, port)
        if sock is not None:
            address = self._connecting.pop(sock.fileno())
            sock.close()
        return self._networked().connect(self, self._owner, address, protocol_factory())

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return self._networked().listen(self, self._owner, (host, port), protocol_factory)

    def _networked(self) -> Network:
        if self._network is None:
            raise OSError("this simulated process has no network")
        return self._network
