"""An event loop without sockets. The simulation supplies its time, and decides when it runs its ready callbacks."""

from __future__ import annotations

import asyncio
import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from kinformer._runtime.clock import Clock, ClockedLoop
from kinformer.testing.simulation.network import Network
from kinformer.testing.simulation.refusals import IN_REAL_TIME, Caller, NotSimulatedError, caller_in_program

__all__ = ["SimulatedLoop", "running_simulated_loop"]

_MOST_READS = 1_000_000  # of clocks in one step. Computations that read them less often are not waiting for them
_CONNECT = "connect with asyncio.open_connection or aiohttp, to a server in the same program"


def running_simulated_loop() -> SimulatedLoop | None:
    """Return the simulated loop that runs in this thread, or None."""
    loop = asyncio._get_running_loop()
    return loop if isinstance(loop, SimulatedLoop) else None


def _refusing(name: str, instead: str) -> Any:
    """Return a method of the loop that refuses its call."""

    def refuse(self: SimulatedLoop, *_: Any, **__: Any) -> Any:
        raise self.refuse(f"loop.{name}", instead)

    refuse.__name__ = name
    return refuse


class _NoSelector:
    def select(self, timeout: float | None) -> list[Any]:
        return []

    def close(self) -> None:
        return


class SimulatedLoop(ClockedLoop, asyncio.BaseEventLoop):
    """The event loop of one simulated process.

    Connections use the simulated network. Calls that would run in an executor's thread run immediately. It refuses
    calls that need a file descriptor, another thread or another process.

    Args:
        now: The loop's clock.
        network: The network to the other processes. None: no connections.
        owner: Its name in the network.
        refused: Called with each refusal, because the program may swallow the error.

    Attributes:
        clock: The clocks that kinformer uses while this loop runs.
        errors: The contexts passed to its exception handler.
        signals: The signal handlers that the program has installed.
    """

    def __init__(
        self,
        now: Callable[[], float],
        network: Network | None = None,
        owner: str = "",
        refused: Callable[[NotSimulatedError], None] = lambda error: None,
    ) -> None:
        super().__init__()
        self._now = now
        self._refused = refused
        self._reads = 0  # of clocks, in this step
        self._home = threading.get_ident()
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
                self._reads = 0
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

    def note_read(self, call: str) -> None:
        """Record that the program reads a clock. Raises NotSimulatedError if it seems to wait for it in a loop."""
        self._reads += 1
        if self._reads > _MOST_READS:
            self._reads = 0
            raise self.refuse(f"waiting for {call} in a loop", "a computation takes no time, so await asyncio.sleep")

    def refuse(self, call: str, instead: str, caller: Caller | None = None) -> NotSimulatedError:
        """Return the error that refuses a call, after it was reported. `instead` completes the sentence "use ..."."""
        place, function = caller or caller_in_program() or Caller("", "")
        through = f"{function} ({call})" if function and not function.endswith(call) else call
        where = f" at {place}" if place else ""
        error = NotSimulatedError(f"{through}{where} is not simulated: {instead}")
        self._refused(error)
        return error

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

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        if threading.get_ident() != self._home:
            raise self.refuse("loop.call_soon_threadsafe from another thread", IN_REAL_TIME)
        return self.call_soon(callback, *args, context=context)

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
        if not isinstance(address, tuple):
            raise self.refuse("loop.sock_connect to a Unix socket", _CONNECT)
        self._networked().check(self._owner, address)
        self._connecting[sock.fileno()] = address

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        sock = options.get("sock")
        address = (host, port)
        if sock is not None:
            if sock.fileno() not in self._connecting:
                raise self.refuse("loop.create_connection with a connected socket", _CONNECT)
            address = self._connecting.pop(sock.fileno())
            sock.close()
        return self._networked().connect(self, self._owner, address, protocol_factory())

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if options.get("sock") is not None:
            raise self.refuse("loop.create_server with a socket", "give it a host and a port")
        return self._networked().listen(self, self._owner, (host, port), protocol_factory)

    async def getaddrinfo(self, host: Any, port: Any, *, type: int = 0, proto: int = 0, **_: Any) -> Any:  # noqa: A002
        return self._networked().resolve(host, port, type, proto)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        return str(sockaddr[0]), str(sockaddr[1])

    def remove_reader(self, fd: Any) -> bool:
        return False

    def remove_writer(self, fd: Any) -> bool:
        return False

    add_reader = _refusing("add_reader", _CONNECT)
    add_writer = _refusing("add_writer", _CONNECT)
    sock_accept = _refusing("sock_accept", "use asyncio.start_server")
    sock_recv = _refusing("sock_recv", _CONNECT)
    sock_recv_into = _refusing("sock_recv_into", _CONNECT)
    sock_recvfrom = _refusing("sock_recvfrom", _CONNECT)
    sock_recvfrom_into = _refusing("sock_recvfrom_into", _CONNECT)
    sock_sendall = _refusing("sock_sendall", _CONNECT)
    sock_sendto = _refusing("sock_sendto", _CONNECT)
    sock_sendfile = _refusing("sock_sendfile", _CONNECT)
    sendfile = _refusing("sendfile", "read the file, and write it to the transport")
    start_tls = _refusing("start_tls", "connect without TLS in the test")
    connect_accepted_socket = _refusing("connect_accepted_socket", "use asyncio.start_server")
    create_datagram_endpoint = _refusing("create_datagram_endpoint", _CONNECT)
    create_unix_connection = _refusing("create_unix_connection", _CONNECT)
    create_unix_server = _refusing("create_unix_server", "listen at an address of 127.0.0.1")
    connect_read_pipe = _refusing("connect_read_pipe", "use an asyncio.Queue")
    connect_write_pipe = _refusing("connect_write_pipe", "use an asyncio.Queue")
    subprocess_exec = _refusing("subprocess_exec", "replace the other program by a double in the test")
    subprocess_shell = _refusing("subprocess_shell", "replace the other program by a double in the test")

    def _networked(self) -> Network:
        if self._network is None:
            raise OSError("this simulated process has no network")
        return self._network
