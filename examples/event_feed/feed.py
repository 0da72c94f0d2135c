"""A dashboard's feed of Events "from now on": one watch without a cache, any number of browsers.

    uvicorn --app-dir examples/event_feed feed:app --timeout-graceful-shutdown 5

A browser reads it with `new EventSource("/events")`; see docs/recipes/event-feed.md.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

from kinformer import Client, KubeObject, ListWatch, watch
from kinformer.watching import WatchStream

NAMESPACE = os.environ.get("NAMESPACE")  # all, if it is not set
WAITING = 1000  # Events that may wait for a browser; one that is slower is let go, and comes again


def line_of(event: KubeObject) -> dict[str, Any]:
    """Return what a page shows of an Event."""
    about = event.get("regarding") or {}
    return {
        "type": event.get("type"),
        "reason": event.get("reason"),
        "object": f"{about.get('kind')}/{about.get('name')}",
        "note": event.get("note"),
    }


class Feed:
    """Passes each Event on to every browser that reads at this moment, and keeps none."""

    def __init__(self) -> None:
        self._readers: set[asyncio.Queue[str | None]] = set()
        self._stream: WatchStream | None = None

    @property
    def live(self) -> bool:
        """True if what happens now is passed on."""
        return self._stream is not None and self._stream.health().live

    @property
    def readers(self) -> int:
        """The number of browsers that read."""
        return len(self._readers)

    async def run(self, client: Client) -> None:
        """Follow the Events of a cluster until cancelled."""
        source = ListWatch(client, "events.k8s.io/v1/events", namespace=NAMESPACE)
        try:
            async with watch(source, initial=False) as events:
                self._stream = events
                async for event in events:
                    if event.object is not None and event.type != "DELETED":  # Events expire after an hour: no news
                        self.tell(json.dumps(line_of(event.object)))
        finally:
            for reader in tuple(self._readers):
                self._end(reader)

    @contextmanager
    def reading(self) -> Iterator[asyncio.Queue[str | None]]:
        """Give a queue of what comes from now on; None is its end."""
        reader: asyncio.Queue[str | None] = asyncio.Queue(WAITING)
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    def tell(self, line: str) -> None:
        """Pass a line on to all readers; one that is behind by too much is let go."""
        for reader in tuple(self._readers):
            if reader.full():
                self._end(reader)
            else:
                reader.put_nowait(line)

    def _end(self, reader: asyncio.Queue[str | None]) -> None:
        self._readers.discard(reader)
        if reader.full():
            reader.get_nowait()
        reader.put_nowait(None)


async def server_sent(feed: Feed) -> AsyncIterator[str]:
    """Yield the feed as a browser's EventSource reads it, with a sign of life every 15 s."""
    with feed.reading() as lines:
        yield ": from now on\n\n"
        while True:
            try:
                line = await asyncio.wait_for(lines.get(), 15)
            except TimeoutError:
                yield ": still there\n\n"
                continue
            if line is None:
                return
            yield f"data: {line}\n\n"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.feed = feed = Feed()
    async with Client() as client:
        following = asyncio.create_task(feed.run(client))
        try:
            yield
        finally:
            following.cancel()
            await asyncio.wait([following])


app = FastAPI(lifespan=lifespan)


@app.get("/events")
async def events() -> StreamingResponse:
    return StreamingResponse(server_sent(app.state.feed), media_type="text/event-stream")


@app.get("/readyz")
async def readyz() -> str:
    if not app.state.feed.live:
        raise HTTPException(503, "the Events of the cluster are not followed")
    return "ok"
