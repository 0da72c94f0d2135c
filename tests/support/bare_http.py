"""Connections on which a test writes bytes itself, and sees when and how the server ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Bare:
    """A connection to a server on loopback."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes | str) -> None:
        """Write bytes, in which a line may end with a single newline if they are a string."""
        self.writer.write(data.replace("\n", "\r\n").encode("latin-1") if isinstance(data, str) else data)

    async def status(self) -> int:
        """Return the status of the next response, whose body is read too."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = head.partition("content-length: ")[2].partition("\r\n")[0]
        await self.reader.readexactly(int(length or 0))
        return int(head.split()[1])

    async def ended_after(self) -> float:
        """Wait until the server ends the connection, and return how many seconds it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        with suppress(ConnectionError):
            await self.reader.read()
        return loop.time() - began

    @property
    def is_open(self) -> bool:
        """True if the server has not ended the connection."""
        return not (self.reader.at_eof() or self.reader.exception())


@asynccontextmanager
async def connected(port: int, number: int = 1) -> AsyncIterator[list[Bare]]:
    """Yield so many connections, opened one after the other."""
    opened: list[Bare] = []
    try:
        for _ in range(number):
            opened.append(Bare(*await asyncio.open_connection("127.0.0.1", port)))
        yield opened
    finally:
        for one in opened:
            one.writer.transport.abort()


async def ask(port: int, head: str) -> int:
    """Return the status of the response to a request, whose lines end with a single newline."""
    async with connected(port) as [one]:
        one.send(f"{head}\n\n")
        async with asyncio.timeout(20):
            return await one.status()
