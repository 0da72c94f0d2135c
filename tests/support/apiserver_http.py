"""A bare HTTP client for the tests of the embedded API server: it sees heads, chunks and how a connection ends."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from ssl import SSLContext, SSLError
from typing import Any
from urllib.parse import urlsplit

from kinformer.testing import ClusterServer


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes = b""
    chunked: bool = False
    clean: bool = False  # the body ended as announced
    chunks: list[int] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines() if line]


class Exchange:
    """One request on a connection of its own, read bit by bit."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pending = b""
        self.reply = Reply(0, {})

    @classmethod
    async def open(
        cls,
        url: str,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        body: bytes | str | None = None,
        ssl: SSLContext | None = None,
    ) -> Exchange:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        reader, writer = await asyncio.open_connection(host, port, ssl=ssl)
        raw = body.encode() if isinstance(body, str) else body or b""
        head = {"Host": f"{host}:{port}", "User-Agent": "kinf/1", **(headers or {})}
        if raw:
            head["Content-Length"] = str(len(raw))
            head.setdefault("Content-Type", "application/json")
        text = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in head.items())
        writer.write(text.encode() + b"\r\n" + raw)
        return cls(reader, writer)

    async def head(self) -> Reply:
        text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *rest = text.strip().split("\r\n")
        self.reply.status = int(first.split()[1])
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in rest)]
        self.reply.headers = dict(fields)
        self.reply.warnings = [value for name, value in fields if name == "warning"]
        self.reply.chunked = self.reply.headers.get("transfer-encoding") == "chunked"
        return self.reply

    async def byte(self) -> bytes:
        """The next byte, or what the connection raises."""
        return await self._reader.readexactly(1)

    async def chunk(self) -> bytes:
        """The next chunk; b"" at the end, clean or not (see `reply.clean`)."""
        try:
            size = int((await self._reader.readuntil(b"\r\n")).strip(), 16)
            data = (await self._reader.readexactly(size + 2))[:-2]
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        self.reply.chunks.append(size)
        self.reply.body += data
        self.reply.clean = size == 0
        return data

    async def line(self) -> bytes:
        """The next line of a watch, without its newline; b"" at the end."""
        while b"\n" not in self._pending:
            data = await self.chunk()
            if not data:
                rest, self._pending = self._pending, b""
                return rest
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    async def event(self) -> tuple[str, dict[str, Any]]:
        event = json.loads(await self.line())
        return event["type"], event["object"]

    async def rest(self) -> Reply:
        """The whole body."""
        if self.reply.chunked:
            while await self.chunk():
                pass
        else:
            length = int(self.reply.headers.get("content-length", 0))
            try:
                self.reply.body = await self._reader.readexactly(length)
                self.reply.clean = True
            except asyncio.IncompleteReadError as error:
                self.reply.body = error.partial
        return self.reply

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (ConnectionError, SSLError):
            return  # reset by the server, or still sending (TLS complains of it): it is closed all the more


async def ask(url: str, method: str, path: str, **more: Any) -> Reply:
    """A request and its whole answer."""
    exchange = await Exchange.open(url, method, path, **more)
    try:
        await exchange.head()
        return await exchange.rest()
    finally:
        await exchange.close()


async def send(
    server: ClusterServer, method: str, path: str, body: Any = None, kind: str = "application/json"
) -> Reply:
    """A request with a document, or a text, as its body."""
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    return await ask(server.url, method, path, body=text, headers={"Content-Type": kind})


async def watch(url: str, path: str, **more: Any) -> Exchange:
    """An open watch, behind its head."""
    exchange = await Exchange.open(url, "GET", path, **more)
    await exchange.head()
    return exchange
