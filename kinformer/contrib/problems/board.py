"""The board: a source in memory of the inputs that no server sends: the time, and the kinds and health of informers.

A function of a derived collection runs again when something that it has read changes. So a grace time that ends becomes
a change of an object here, and so does an informer that ceases to follow, or that has the first object of its kind.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kinformer import KubeObject, ListOptions, ListPage, WatchEvent

_Batch = list[WatchEvent]

__all__ = ["API_VERSION", "INFORMER", "KIND", "MOMENTS", "ProblemBoard"]

API_VERSION = "kinformer/v1"
INFORMER = "Informer"
KIND = "Kind"
MOMENTS = "moments"  # the board as a member of the union of the informers
_MOMENT = "Moment"

_LOOK = 5.0  # seconds between two looks at the health of informers, which has no events


class ProblemBoard:
    """A `ListerWatcher` of moments that have come, of kinds that are followed, and of informers that do not follow.

    The rules and `look` change its objects. The one informer of it takes the changes, in their order.

    Args:
        clock: Returns the time in seconds since the epoch.
        look: Called every few seconds, and before the first list.
    """

    name = "problems"

    def __init__(self, clock: Callable[[], float], look: Callable[[], None]) -> None:
        self._clock = clock
        self._look = look
        self._version = 1
        self._objects: dict[str, KubeObject] = {}
        self._news: deque[WatchEvent] = deque()
        self._changed = asyncio.Event()
        self._due: dict[str, float] = {}
        self._queue: list[tuple[float, str]] = []  # a heap, also of requests that later ones have replaced

    # --- the side of the rules --------------------------------------------------------------------

    def call_at(self, name: str, due: float) -> str:
        """Change a moment at a time, instead of an earlier request for it. Return its key."""
        name = f"{_MOMENT}:{name}"
        if self._due.get(name) != due:
            self._due[name] = due
            heapq.heappush(self._queue, (due, name))
            self._changed.set()
        return name

    def forget(self, name: str) -> None:
        """Drop a moment, if it was requested."""
        name = f"{_MOMENT}:{name}"
        self._due.pop(name, None)
        self.drop(name)

    def put(self, name: str, kind: str = _MOMENT, **status: Any) -> None:
        """Add or change an object."""
        before = self._objects.get(name)
        if before is not None and kind != _MOMENT and before.get("status") == status:
            return
        self._version += 1
        metadata = {"name": name, "uid": name, "resourceVersion": str(self._version)}
        obj = KubeObject.from_dict(
            {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": status},
        )
        self._objects[name] = obj
        self._news.append(WatchEvent("ADDED" if before is None else "MODIFIED", obj))
        self._changed.set()

    def drop(self, name: str) -> None:
        """Remove an object, if it exists."""
        before = self._objects.pop(name, None)
        if before is not None:
            self._version += 1
            metadata = {**before["metadata"], "resourceVersion": str(self._version)}
            last = KubeObject.from_dict({**before.to_dict(), "metadata": metadata})
            self._news.append(WatchEvent("DELETED", last))
            self._changed.set()

    # --- the side of the informer -----------------------------------------------------------------

    async def list(self, options: ListOptions) -> ListPage:
        """List everything."""
        self._look()
        self._news.clear()
        return ListPage(self._objects.values(), str(self._version))

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[_Batch]]:
        """Open the stream. It has one reader, so changes between two streams wait for the next one."""
        yield self._stream()

    async def _stream(self) -> AsyncIterator[_Batch]:
        loop = asyncio.get_running_loop()
        next_look = loop.time() + _LOOK
        while True:
            self._changed.clear()
            if loop.time() >= next_look:
                self._look()
                next_look = loop.time() + _LOOK
            self._pass_moments()
            if self._news:
                batch = list(self._news)
                self._news.clear()
                yield batch
                continue
            wait = next_look - loop.time()
            if self._queue:
                wait = min(wait, self._queue[0][0] - self._clock())
            try:
                async with asyncio.timeout(max(0.001, wait)):
                    await self._changed.wait()
            except TimeoutError:
                # Without a bookmark, the informer would take quiet for a lost connection.
                yield [WatchEvent("BOOKMARK", self._bookmark())]

    def _pass_moments(self) -> None:
        now = self._clock()
        while self._queue and self._queue[0][0] <= now:
            due, name = heapq.heappop(self._queue)
            if self._due.get(name) == due:
                del self._due[name]
                self.put(name)

    def _bookmark(self) -> dict[str, Any]:
        return {"apiVersion": API_VERSION, "kind": _MOMENT, "metadata": {"resourceVersion": str(self._version)}}
