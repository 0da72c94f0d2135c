"""A TCP forwarder that can be cut or paused, as a network between an informer and its server."""

from __future__ import annotations

import asyncio
from typing import Self
from urllib.parse import urlsplit


class Forwarder:
    """`async with Forwarder(url) as forwarder`: the server at `url`, reached through `forwarder.url`.

    TLS passes through untouched; the certificate holds, for it is made for the address and not for the port.

    Attributes:
        accepted: The number of connections that were accepted.
    """

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        assert target.hostname
        assert target.port
        self._scheme, self._host, self._target_port = target.scheme, target.hostname, target.port
        self._port = 0
        self._is_cut = False
        self.accepted = 0
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self._host}:{self._port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await self.cut()
        self._server.close()

    async def cut(self) -> None:
        """Reset every connection, and every new one.

        The listener stays: asyncio would lose, unclosed, a connection that is half accepted when its server closes.
        """
        self._is_cut = True
        connections = dict(self._connections)
        for task, writer in connections.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def restore(self) -> None:
        """Let connections through again."""
        self._is_cut = False

    def pause(self) -> None:
        """Hold back what is sent from now on, in both directions, until `resume`."""
        self._flows.clear()

    def resume(self) -> None:
        """Send what was held back."""
        self._flows.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        self.accepted += 1
        task = asyncio.create_task(self._forward(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._target_port)
        except ConnectionError:  # the server is away: so is what stands for it
            writer.transport.abort()
            return
        pumps = [
            asyncio.create_task(self._pump(reader, far_writer)),
            asyncio.create_task(self._pump(far_reader, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            writer.transport.abort()
            far_writer.transport.abort()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return  # one side is gone; the other is closed by who started this
