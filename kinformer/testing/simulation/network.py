"""The simulated network: connections between processes that deliver bytes in order, in virtual time."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Network", "Pipe", "SimulatedListener"]

LATENCY = 0.0005  # seconds one way, as in a cluster's network
Address = tuple[str, int]
_LOCAL: dict[Any, str] = dict.fromkeys(("", "localhost", "0.0.0.0", "::", "::1"), "127.0.0.1")


class Timeline(Protocol):
    """The time shared by all processes."""

    now: float

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function after this many seconds."""
        ...


class Network:
    """All connections of one simulation.

    An address refers to a listener in the same process. Addresses in `shared` refer to a listener in any process.

    Args:
        simulation: The simulation whose time the network uses.
        shared: The addresses that every process can reach, such as the API server's.
    """

    def __init__(self, simulation: Timeline, shared: frozenset[str] = frozenset()) -> None:
        self._simulation = simulation
        self._shared = shared
        self._listeners: dict[tuple[str, str, int], SimulatedListener] = {}
        self._pipes: dict[Pipe, None] = {}
        self._port = 40000

    def resolve(self, host: Any, port: Any, kind: int, protocol: int) -> list[tuple[Any, ...]]:
        """Return the address of a host, as getaddrinfo does. Names other than localhost are unknown.

        Raises:
            socket.gaierror: The host is unknown.
        """
        name: Any = _LOCAL.get(host or "", host)
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            raise socket.gaierror(socket.EAI_NONAME, f"the simulated network has no host {name!r}") from None
        place = (str(address), int(port or 0))
        if address.version == 4:
            return [(socket.AF_INET, kind or socket.SOCK_STREAM, protocol or socket.IPPROTO_TCP, "", place)]
        return [(socket.AF_INET6, kind or socket.SOCK_STREAM, protocol or socket.IPPROTO_TCP, "", (*place, 0, 0))]

    def check(self, owner: str, address: Any) -> SimulatedListener:
        """Return the listener at an address.

        Raises:
            ConnectionRefusedError: Nothing listens there.
        """
        listener = self._listeners.get(self._place(owner, address))
        if listener is None or not listener.is_serving():
            raise ConnectionRefusedError(111, f"nothing listens at {address[0]}:{address[1]} in the simulation")
        return listener

    def listen(
        self, loop: asyncio.AbstractEventLoop, owner: str, address: Any, factory: Callable[[], Any]
    ) -> SimulatedListener:
        """Create a listener. Port 0 uses a free port."""
        host, port = address[0] or "127.0.0.1", address[1]
        if not port:
            self._port += 1
            port = self._port
        listener = SimulatedListener(loop, (host, port), factory)
        self._listeners[self._place(owner, (host, port))] = listener
        return listener

    def connect(self, loop: asyncio.AbstractEventLoop, owner: str, address: Any, protocol: Any) -> tuple[Pipe, Any]:
        """Connect a process to the listener at an address."""
        listener = self.check(owner, address)
        near = Pipe(self, loop, protocol, {"peername": listener.address, "process": owner})
        far = Pipe(self, listener.loop, listener.factory(), {"peername": ("10.1.0.1", 1), "process": owner})
        near.peer, far.peer = far, near
        for pipe in (near, far):
            self._pipes[pipe] = None
        protocol.connection_made(near)
        # The server accepts the connection just before its first bytes arrive.
        self._simulation.later(LATENCY, far.arrive_open)
        return near, protocol

    def cut(self, owner: str) -> None:
        """Reset all connections of a process, as the kernel does when it is killed. The process is not notified."""
        for pipe in [end for end in self._pipes if end.get_extra_info("process") == owner]:
            if pipe.peer is not None and not pipe.closed:
                pipe.lose(ConnectionResetError(104, "Connection reset by peer"))

    def later(self, at: float, call: Callable[[], None]) -> None:
        """Call a function at a given time."""
        self._simulation.later(max(0.0, at - self._simulation.now), call)

    @property
    def now(self) -> float:
        """The simulation's time."""
        return self._simulation.now

    def forget(self, pipe: Pipe) -> None:
        """Drop a pipe that has ended."""
        self._pipes.pop(pipe, None)

    def _place(self, owner: str, address: Any) -> tuple[str, str, int]:
        host: Any = _LOCAL.get(address[0] or "", address[0])
        port: int = address[1]
        return ("" if host in self._shared else owner, host, port)


class SimulatedListener:
    """The server object that `create_server` returns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: Address, factory: Callable[[], Any]) -> None:
        self.loop = loop
        self.address = address
        self.factory = factory
        self.sockets = [self]  # only used for `getsockname`
        self._serving = True

    def getsockname(self) -> Address:
        """Return the address."""
        return self.address

    def is_serving(self) -> bool:
        """True until it is closed."""
        return self._serving

    async def start_serving(self) -> None:
        """Do nothing: the listener always serves."""

    def close(self) -> None:
        """Refuse new connections."""
        self._serving = False

    async def wait_closed(self) -> None:
        """Return immediately."""


class Pipe(asyncio.Transport):
    """One end of a connection.

    `Network.connect` sets `peer`. `closed` is set once the connection has ended on this side, or was cut.
    """

    def __init__(self, network: Network, loop: asyncio.AbstractEventLoop, protocol: Any, extra: dict[str, Any]) -> None:
        super().__init__(extra)
        self.loop = loop
        self.peer: Pipe | None = None
        self.closed = False  # no more data in either direction
        self._network = network
        self._protocol = protocol
        self._opened = False
        self._sending: list[bytes] = []  # in transit to the peer
        self._arrived: list[bytes] = []  # not yet given to the protocol
        self._paused = False
        self._ending = False  # closed by the protocol, although `connection_lost` is still to come

    # -- sending --------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self.closed or self._ending or not data:
            return
        self._sending.append(bytes(data))
        if len(self._sending) == 1:
            self._network.later(self._network.now + LATENCY, self._arrive)

    def _arrive(self) -> None:
        sent, self._sending = self._sending, []
        peer = self.peer
        if peer is not None and sent and not peer.closed:
            peer._arrived += sent
            peer.loop.call_soon(peer._deliver)

    def write_eof(self) -> None:
        self.close()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return

    def is_closing(self) -> bool:
        return self.closed or self._ending

    def close(self) -> None:
        """Send the buffered data, then the end of the stream."""
        if self.closed or self._ending:
            return
        self._ending = True
        self._network.later(self._network.now + LATENCY, lambda: self._end_peer(None))
        self.loop.call_soon(self._lost, None)

    def abort(self) -> None:
        """Close both sides immediately."""
        if not self.closed:
            self._sending.clear()
            self._ending = True
            self._network.later(self._network.now + LATENCY, lambda: self._end_peer(ConnectionResetError(104, "reset")))
            self.loop.call_soon(self._lost, None)

    def lose(self, error: Exception) -> None:
        """Reset the peer's end of the connection. This end gets no further callbacks."""
        self.closed = True
        self._network.forget(self)
        self._network.later(self._network.now + LATENCY, lambda: self._end_peer(error))

    def _end_peer(self, error: Exception | None) -> None:
        self._arrive()
        if self.peer is not None:
            self.peer.loop.call_soon(self.peer._lost, error)

    # -- receiving ------------------------------------------------------------------------------------------------

    def arrive_open(self) -> None:
        """Schedule `open` on the loop of this end."""
        self.loop.call_soon(self.open)

    def open(self) -> None:
        """Call `connection_made` of the listener's protocol."""
        if not self._opened and not self.closed:
            self._opened = True
            self._protocol.connection_made(self)

    def _deliver(self) -> None:
        if self._paused or self.closed:
            return
        arrived, self._arrived = self._arrived, []
        if arrived:
            self._protocol.data_received(b"".join(arrived))

    def _lost(self, error: Exception | None) -> None:
        if self.closed:
            return
        self._deliver()
        self.closed = True
        self._network.forget(self)
        self._protocol.connection_lost(error)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        if self._arrived:
            self.loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return not self._paused

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol
