"""A resource in a simulation: lists that may be stale, watches that lag, streams that break.

Internals: the simulation, and the hash by which a server selects.
"""

from __future__ import annotations

import asyncio
import builtins
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from kinformer import KubeObject, ListOptions, ListPage, WatchEvent
from kinformer.exceptions import ConnectError, ExpiredError
from kinformer.sharding.slots import shard_hash
from kinformer.testing.simulation.processes import Process, Simulation

_RANGE = re.compile(r"shardRange\(object\.metadata\.uid,'(0x[0-9a-f]{16,17})','(0x[0-9a-f]{16,17})'\)")


def matches(selector: str | None, uid: str) -> bool:
    """As a server with the gate on reads a shard selector."""
    if not selector:
        return True
    ranges = [_RANGE.fullmatch(part) for part in selector.split("||")]
    assert all(ranges), selector
    value = shard_hash(uid)
    return any(int(part[1], 16) <= value < int(part[2], 16) for part in ranges if part is not None)


class WidgetServer:
    """Widgets by key, with the history of all of them.

    Args:
        filters: It knows `shardSelector`.
    """

    def __init__(self, simulation: Simulation, *, filters: bool) -> None:
        self.simulation = simulation
        self.filters = filters
        self.objects: dict[str, KubeObject] = {}
        self.history: list[tuple[float, WatchEvent]] = []
        self.streams: list[WidgetSource] = []
        self.version = 10
        self.made = 0

    def put(self, name: str) -> None:
        """Make it, or change it."""
        old = self.objects.get(f"ns/{name}")
        self.version += 1
        if old is None:
            self.made += 1
        uid = old.uid if old else f"{shard_hash(f'{name}{self.made}'):016x}-{self.made}"
        obj = _widget(name, uid, self.version)
        self.objects[obj.key] = obj
        self._tell(WatchEvent("MODIFIED" if old else "ADDED", obj))

    def remove(self, name: str) -> None:
        old = self.objects.pop(f"ns/{name}", None)
        if old is not None:
            self.version += 1
            self._tell(WatchEvent("DELETED", _widget(name, old.uid, self.version)))

    def _tell(self, event: WatchEvent) -> None:
        self.history.append((self.simulation.now, event))
        for stream in list(self.streams):
            stream.event(event)

    def as_of(self, when: float) -> tuple[list[KubeObject], int]:
        objects: dict[str, KubeObject] = {}
        version = 10
        for at, event in self.history:
            if at > when:
                break
            version = int(event.object.resource_version)
            if event.type == "DELETED":
                objects.pop(event.object.key, None)
            else:
                objects[event.object.key] = event.object
        return list(objects.values()), version


def _widget(name: str, uid: str, version: int) -> KubeObject:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return KubeObject.from_dict({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata})


class WidgetSource:
    """What one informer of one process lists and watches by."""

    name = "example.com/v1/widgets"

    def __init__(self, process: Process, server: WidgetServer, random: Random) -> None:
        self._process = process
        self._server = server
        self._random = random
        self._queue: asyncio.Queue[Any] | None = None
        self._selector: str | None = None
        self._last = 0.0
        self.cut_until = 0.0

    async def list(self, options: ListOptions) -> ListPage:
        simulation, future = self._process.simulation, self._process.loop.create_future()

        def arrive() -> None:
            if simulation.now < self.cut_until:
                return
            # A list at resourceVersion 0 comes from a cache of the server that may lag; others are the newest.
            stale = self._random.uniform(0, 5) if options.resource_version == "0" else 0.0
            objects, version = self._server.as_of(simulation.now - stale)
            if options.resource_version not in (None, "", "0") and version < int(options.resource_version or 0):
                objects, version = self._server.as_of(simulation.now)
            selector = options.shard_selector if self._server.filters else None
            objects = [obj for obj in objects if matches(selector, obj.uid)]
            simulation.later(self._delay(), lambda: self._process.answer(future, ListPage(objects, str(version))))

        simulation.later(self._delay(), arrive)
        try:
            async with asyncio.timeout(10):
                page: ListPage = await future
                return page
        except TimeoutError as error:
            raise ConnectError("the list took too long") from error

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[builtins.list[WatchEvent]]]:
        await asyncio.sleep(self._delay())
        if self._process.simulation.now < self.cut_until:
            raise ConnectError("cut off")
        self._selector = options.shard_selector if self._server.filters else None
        self._queue = asyncio.Queue()
        if options.send_initial_events:
            raise ExpiredError(410, "Expired", "no initial streams here")
        seen = int(options.resource_version or 0)
        for _, event in self._server.history:
            if int(event.object.resource_version) > seen:
                self.event(event)
        self._server.streams.append(self)
        try:
            yield self._events()
        finally:
            self._server.streams.remove(self)

    async def _events(self) -> AsyncIterator[builtins.list[WatchEvent]]:
        assert self._queue is not None
        while True:
            event = await self._queue.get()
            if event is None:
                return
            yield [event]

    def event(self, event: WatchEvent) -> None:
        """The server sends an event on this stream: in order, some time later, or the stream breaks."""
        if not matches(self._selector, event.object.uid):
            return
        simulation, queue = self._process.simulation, self._queue
        broken = simulation.now < self.cut_until or self._random.random() < 0.02
        self._last = max(self._last, simulation.now + self._delay())

        def arrive() -> None:
            assert queue is not None
            self._process.loop.call_soon(queue.put_nowait, None if broken else event)

        simulation.later(self._last - simulation.now, arrive)

    def _delay(self) -> float:
        return self._random.uniform(1.0, 8.0) if self._random.random() < 0.05 else self._random.uniform(0.001, 0.1)
