"""A machine whose processes are simulated: its sockets are addresses of the simulated network, its locks are in memory.

Internals: the socket, the lock and the simulation, none of which knows the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinformer.testing.simulation.loop import SimulatedLoop
from kinformer.testing.simulation.processes import API_SERVER, Process
from kinformer.watchcache.share import listener, share
from kinformer.watchcache.share.socket_path import UnreachableError

_ADDRESS = (API_SERVER, 2)  # the only host that all simulated processes can reach


class SimulatedMachine:
    """What the kernel keeps: who has the lock, and who listens. A killed process has neither.

    Attributes:
        locked: The loop of the process that has the lock, or None.
        dead: The loops of processes that were killed.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.locked: object = None
        self.dead: list[object] = []
        kill, machine = Process.kill, self

        def killed(process: Process) -> None:
            kill(process)
            machine._end(process)

        async def serve(loop: SimulatedLoop, factory: Any, *_: Any, **__: Any) -> Any:
            return await loop.create_server(lambda: _Accepted(factory(), loop), *_ADDRESS)

        async def connect(loop: SimulatedLoop, factory: Any, *_: Any, **__: Any) -> Any:
            return await loop.create_connection(factory, *_ADDRESS)

        patch.setattr(Process, "kill", killed)
        patch.setattr(SimulatedLoop, "create_unix_server", serve)
        patch.setattr(SimulatedLoop, "create_unix_connection", connect)
        patch.setattr(listener, "closed_in_children", lambda _: lambda: None)
        patch.setattr(share, "SocketPath", _Path)
        patch.setattr(share, "HolderLock", lambda _: _Lock(self))

    def forget(self) -> None:
        """Begin another history."""
        self.locked = None
        self.dead.clear()

    def _end(self, process: Process) -> None:
        self.dead.append(process.loop)
        if self.locked is process.loop:
            self.locked = None
        network = process.simulation.network
        for found in network._listeners.values():
            if found.loop is process.loop:
                found.close()
        for pipe in [one for one in network._pipes if one.loop is process.loop and not one.closed]:
            pipe.lose(ConnectionResetError(104, "Connection reset by peer"))


class _Accepted(asyncio.Protocol):
    """The protocol of a connection, which lasts longer than the step that accepts it, as aiohttp expects."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop
        self.connection_made = inner.connection_made
        self.data_received = inner.data_received
        self.eof_received = inner.eof_received

    def connection_lost(self, error: Exception | None) -> None:
        self._loop.call_soon(self._inner.connection_lost, error)


class _Lock:
    is_gone = False

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine

    @property
    def is_held(self) -> bool:
        return self._machine.locked is asyncio.get_running_loop()

    def acquire(self) -> bool:
        if self._machine.locked is None:
            self._machine.locked = asyncio.get_running_loop()
        return self.is_held

    def release(self) -> None:
        if self.is_held:
            self._machine.locked = None


class _Socket:
    close: Callable[[], None] = staticmethod(lambda: None)
    fileno: Callable[[], int] = staticmethod(lambda: -1)


class _Path:
    def __init__(self, path: Path) -> None:
        self.lock = self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def check(self) -> None:
        pass

    def bind(self) -> _Socket:
        return _Socket()

    def remove(self, bound: object = None) -> None:
        pass

    def inode(self) -> tuple[int, int]:
        return (0, 0)

    def probe(self) -> None:
        loop: Any = asyncio.get_running_loop()
        try:
            loop._network.check("", _ADDRESS)
        except ConnectionRefusedError as error:
            raise UnreachableError(str(error), may_appear=True) from None
