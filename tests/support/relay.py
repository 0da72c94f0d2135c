"""A way to a server that can be paused and cut."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

__all__ = ["Relay"]


class Relay:
    """Passes connections on to a server.

    Args:
        server: Its URL, with a port.
    """

    def __init__(self, server: str) -> None:
        self._port = int(server.rpartition(":")[2])
        self._writers: set[asyncio.StreamWriter] = set()
        self._copying: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_closed = False
        self.url = ""

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listening.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        self.resume()
        self.close()
        if self._copying:
            await asyncio.wait(self._copying)

    def pause(self) -> None:
        """Let nothing through until `resume`."""
        self._flows.clear()

    def resume(self) -> None:
        """Let everything through again."""
        self._flows.set()

    def cut(self) -> None:
        """End all connections. New ones are accepted."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def close(self) -> None:
        """End all connections, and each new one."""
        self._is_closed = True
        self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closed:
            writer.transport.abort()
            return
        theirs, ours = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, ours}
        for source, target in ((reader, ours), (theirs, writer)):
            self._copying.add(asyncio.create_task(self._copy(source, target)))

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                await self._flows.wait()
                target.write(data)
        target.transport.abort()
