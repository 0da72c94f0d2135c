"""The event stream of a page: a view, what changes in it, and reports on the informers.

A page opens another stream when it shows something else. Each begins with the whole view. Its events are

| event | data |
|---|---|
| `HEALTH` | the report, once a second |
| `TABLE` | the numbers of `shown` and `total` objects, the `rows` that changed, and the `keys` if their order changed |
| | with them `gone`: keys of objects that the filter no longer shows |
| `NODES` | squares and cards that changed, by name. null for one that has gone |
| `OPEN` | two marks that change with the open object, and with what is related to it |
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, TypeVar

import msgspec
from starlette.types import Scope

from kinformer.cli.dashboard.view.node_map import node_map
from kinformer.cli.dashboard.view.order import Orders, Query, pause_after
from kinformer.cli.dashboard.view.rows import AllRows, Rows
from kinformer.contrib.event_log import EventLog
from kinformer.contrib.shutdown import LiveResponse, Write

__all__ = ["PageView", "ViewStream"]

T = TypeVar("T")

_PAUSE = 0.25  # seconds between two looks at what has changed, which looks instantaneous
_BEAT = 1.0  # seconds between two reports, and between two looks at what is related to the open object
_PATIENCE = 60.0  # seconds that a page may take for a chunk
_SLICE = 0.001  # seconds of work before yielding to the event loop
_FILLING = 0.2  # seconds of making rows that no page shows, between two looks

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class PageView:
    """What a page shows.

    Attributes:
        name: `table`, `nodes`, or "" for a page without objects.
        query: What the table shows. The nodes have only its filter.
        first, limit: The place of the first row that the page needs, and the number of rows.
        open: Resource and key of the open object, or None.
    """

    name: str
    query: Query
    first: int
    limit: int
    open: tuple[str, str] | None


class ViewSource(Protocol):
    """The data of all pages."""

    log: EventLog
    rows: AllRows
    orders: Orders

    def columns(self, name: str) -> list[str]:
        """Return the columns of a resource."""
        ...

    def report(self) -> dict[str, Any]:
        """Return the report."""
        ...

    async def marks_of(self, resource: str, key: str) -> tuple[str, int]:
        """Return two marks, which change with an object, and with what is related to it."""
        ...

    def note_reader(self, change: int) -> None:
        """Count the readers: 1 for one that has come, -1 for one that has gone."""
        ...


class ViewStream(LiveResponse):
    """A response that continues until the page closes it, the informers stop, or the server ends."""

    media_type = "text/event-stream"

    def __init__(self, source: ViewSource, view: PageView) -> None:
        super().__init__("dashboard: view", _PATIENCE)
        self._source = source
        self._view = view
        # What the page was sent: rows or cards, the order of the keys, numbers and marks. A message replaces its own.
        self._sent: dict[str, bytes] = {}
        self._keys: list[str] | None = None
        self._counts = (-1, -1)
        self._mapped = (0, 0, -1)  # the changes that the map includes
        self._map_due = 0.0
        self._marks: tuple[str, int] | None = None
        self._marks_due = 0.0
        self._beat_due = 0.0
        self._until = 0.0  # when the present work yields to the event loop

    async def write_content(self, scope: Scope, write: Write) -> None:
        """Write the view and what changes in it."""
        self._source.note_reader(1)
        try:
            await self._run(write)
        finally:
            self._source.note_reader(-1)

    async def _run(self, write: Write) -> None:
        log, rows = self._source.log, self._source.rows
        filling: Iterator[None] | None = None
        while True:
            looked, number = perf_counter(), log.last
            rows.catch_up(log)
            for message in await self._beating(self._news(), write):
                await write(message)
            await self._beat(write)
            if log.ended and log.last == number:
                return
            if rows.is_whole:
                await log.wait(number, max(0.0, self._beat_due - perf_counter()))
            else:
                filling = filling or rows.fill()
                if await self._beating(self._advance(filling), write):
                    filling = None
            await asyncio.sleep(max(0.0, looked + _PAUSE - perf_counter()))

    async def _beat(self, write: Write) -> None:
        if perf_counter() >= self._beat_due:
            self._beat_due = perf_counter() + _BEAT
            for rows in self._source.rows.all():
                rows.age(time.time())
            await write(_event("HEALTH", self._source.report()))

    async def _beating(self, work: Coroutine[Any, Any, T], write: Write) -> T:
        """Do work that may take long, and report meanwhile."""
        await self._beat(write)
        task = asyncio.create_task(work, name="kinformer dashboard: work for a page")
        try:
            while not (await asyncio.wait({task}, timeout=max(0.0, self._beat_due - perf_counter())))[0]:
                await self._beat(write)
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def _breathe(self) -> None:
        if perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = perf_counter() + _SLICE

    async def _advance(self, filling: Iterator[None]) -> bool:
        """Make rows for a while. Returns True if none are left to make."""
        until = perf_counter() + _FILLING
        for _ in filling:
            await self._breathe()
            if perf_counter() >= until:
                return False
        return True

    # --- what has changed ---------------------------------------------------------------------------------

    async def _news(self) -> list[bytes]:
        view = self._view
        messages = []
        if view.name == "table" and (rows := self._source.rows.of(view.query.resource)) is not None:
            messages += await self._table(rows)
        if view.name == "nodes":
            messages += await self._nodes()
        if view.open is not None and (message := await self._open(*view.open)):
            messages.append(message)
        return messages

    async def _table(self, rows: Rows) -> list[bytes]:
        view = self._view
        result = await self._source.orders.get(
            view.query, rows, self._source.columns(view.query.resource), self._breathe
        )
        sent, shown = self._sent, dict[str, bytes]()
        for key in result.keys[view.first : view.first + view.limit]:
            row = rows.get(key)
            if row is None:
                result.keys.remove(key)  # the next order will come later
            else:
                shown[key] = row.shown()
        keys, counts = list(shown), (len(result.keys), len(rows.informer.by_key))
        changed = [msgspec.Raw(row) for key, row in shown.items() if sent.get(key) != row]
        if not changed and keys == self._keys and counts == self._counts:
            return []
        message: dict[str, Any] = {"shown": counts[0], "total": counts[1], "rows": changed}
        if keys != self._keys:
            message["keys"] = keys
            left = [key for key in sent if key not in shown]
            message["gone"] = [key for key in left if not self._is_shown(key, rows)]
        self._sent, self._keys, self._counts = shown, keys, counts
        return [_event("TABLE", message)]

    def _is_shown(self, key: str, rows: Rows) -> bool:
        obj = rows.informer.by_key.get(key)
        return obj is not None and self._view.query.filter.shows(obj, rows)

    async def _nodes(self) -> list[bytes]:
        pods, nodes = self._source.rows.of("v1/pods"), self._source.rows.of("v1/nodes")
        seen = (id(pods), pods.changes if pods else 0, nodes.changes if nodes else 0)
        if seen == self._mapped or perf_counter() < self._map_due:
            return []
        began = time.thread_time()
        shown = await node_map(pods, nodes, self._source.columns, self._view.query.filter, self._breathe)
        self._map_due = perf_counter() + pause_after(time.thread_time() - began)
        sent, first = self._sent, self._mapped[2] < 0
        self._sent, self._mapped = shown, seen
        changed: dict[str, msgspec.Raw | None] = {name: None for name in sent if name not in shown}
        changed |= {name: msgspec.Raw(encoded) for name, encoded in shown.items() if sent.get(name) != encoded}
        return [_event("NODES", changed)] if changed or first else []

    async def _open(self, resource: str, key: str) -> bytes | None:
        if perf_counter() < self._marks_due:
            return None
        self._marks_due = perf_counter() + _BEAT
        marks = await self._source.marks_of(resource, key)
        if marks == self._marks:
            return None
        self._marks = marks
        return _event("OPEN", {"resource": resource, "key": key, "own": marks[0], "around": marks[1]})


def _event(kind: str, data: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + _encode(data) + b"\n\n"
