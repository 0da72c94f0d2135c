"""An application behind a real uvicorn on loopback, in the test's own loop; and a reader of event streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn


class _Server(uvicorn.Server):
    """Ends at once when it is told to, where uvicorn looks ten times a second, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.end = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.end.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield  # the test runner keeps its own handlers


@asynccontextmanager
async def serving(app: Any, *, graceful: int | None = 5, at: int = 0, **options: Any) -> AsyncIterator[str]:
    """The URL of `app`, its lifespan included; on a port of its own, or `at` one."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", at))
        config = uvicorn.Config(
            app, log_level="error", timeout_graceful_shutdown=graceful, lifespan="on", ws="none", **options
        )
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]), name="uvicorn")
        try:
            while not server.started:
                if task.done():
                    task.result()
                await asyncio.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            server.end.set()
            await task


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream; `id` is None where it has none of its own."""

    type: str
    data: Any
    id: str | None


class EventReader:
    """Reads an event stream as a browser does (WHATWG HTML, 9.2.6), but keeps apart which events have ids."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.last_id = ""
        self.comments = 0
        self._lines = answer.aiter_lines()

    async def next(self, timeout: float = 10.0) -> Event:
        """The next event; StopAsyncIteration where the stream has ended."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(timeout):
            while True:
                line = await anext(self._lines)
                if line.startswith(":"):
                    self.comments += 1
                elif line:
                    name, _, value = line.partition(":")
                    value = value.removeprefix(" ")
                    fields[name] = f"{fields['data']}\n{value}" if name == "data" and "data" in fields else value
                else:
                    self.last_id = fields.get("id", self.last_id)
                    if "data" in fields:
                        return Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id"))
                    fields = {}

    async def close(self) -> None:
        """Let go of the answer."""
        await self._lines.aclose()  # type: ignore[attr-defined]

    async def take(self, count: int, timeout: float = 10.0) -> list[Event]:
        """The next so many events."""
        return [await self.next(timeout) for _ in range(count)]


@asynccontextmanager
async def reading(url: str, *, last_id: str | None = None, **params: str) -> AsyncIterator[EventReader]:
    """An event stream of `url`."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    async with (
        httpx.AsyncClient(timeout=httpx.Timeout(10, read=None)) as client,
        client.stream("GET", url, headers=headers, params=params or None) as answer,
    ):
        answer.raise_for_status()
        reader = EventReader(answer)
        try:
            yield reader
        finally:
            await reader.close()
