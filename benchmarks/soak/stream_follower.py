"""A follower without a cache: a stream of `watch`, which is read slowly, left, and resumed from the version it kept."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from benchmarks.harness import until
from benchmarks.soak.chaos import whole
from benchmarks.soak.followers import QUICK, Replica, Shape
from benchmarks.soak.truth import Mark, Truth
from benchmarks.soak.writers import NAMESPACES
from kinformer import Client, ListWatch, watch
from kinformer.exceptions import ExpiredError, ResourceVersionTooLargeError
from kinformer.watching import StreamEvent, WatchStream

__all__ = ["StreamFollower"]


class StreamReplica(Replica):
    """What the events of a stream tell; it has no old states to compare with, and the uid of a delete."""

    def __init__(self, shape: Shape, choice: random.Random) -> None:
        super().__init__(shape.shows, 0.0, choice)
        self.contents: dict[str, Any] = {}

    def tell(self, event: StreamEvent) -> None:
        had = self.objects.get(event.key)
        if (event.type == "ADDED") != (had is None):
            self.wrong.append(f"{event.type} of {event.key}, which had been {had}")
        elif had is not None and had[0] != event.uid:
            self.wrong.append(f"{event.type} of {event.key} with uid {event.uid}, which had been {had}")
        if event.type == "DELETED":
            self.contents.pop(event.key, None)
            self._tell(event.key, None)
        else:
            self.contents[event.key] = event.object
            self._tell(event.key, (event.object.uid, event.object.resource_version))

    def go_back(self, objects: dict[str, Mark]) -> None:
        """What was told after a version is told again."""
        self.objects = dict(objects)
        self.forget()


class StreamFollower:
    """A stream of some shape, read for as long as the soak lasts.

    Args:
        client: Shared with the others.
        shape: Its options are those of a `ListWatch` and of `watch`.
        seed: Of how it is read.
        rewinds: Returns how often the server went back in time. A version of a past that is gone says nothing, so
            none is kept from then on, until all agree again.
    """

    def __init__(self, client: Client, shape: Shape, seed: int, rewinds: Callable[[], int]) -> None:
        self.shape = shape
        self.relists = 0
        self.resumed = 0
        self._choice = random.Random(seed)
        self._rewinds = rewinds
        source = {name: shape.options[name] for name in ("namespace", "label_selector") if name in shape.options}
        self._options: dict[str, Any] = {k: v for k, v in shape.options.items() if k not in source} | dict(QUICK)
        self._source = ListWatch(client, shape.kind.resource, **source)
        self._replica = StreamReplica(shape, self._choice)
        self._kept: tuple[str, dict[str, Mark]] = ("", {})
        self._agreed = 0  # rewinds at the last checkpoint
        self._stalled = 0.0
        self._events: WatchStream | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        assert self._reading is not None
        self._reading.cancel()
        await asyncio.wait({self._reading})
        self._events = None
        if not self._reading.cancelled() and (error := self._reading.exception()) is not None:
            raise error

    async def _read(self) -> None:
        while True:
            since, objects = self._kept if self._rewinds() == self._agreed else ("", {})
            if since:
                self._replica.go_back(objects)
                self.resumed += 1
            else:
                if self._replica.wrong:
                    raise AssertionError(f"{self.shape.name}: it was told {self._replica.wrong[0]}")
                self._replica = StreamReplica(self.shape, self._choice)
            try:
                await self._read_one(since or None)
            except (ExpiredError, ResourceVersionTooLargeError):
                assert since, "a stream that began without a version has expired"
            self._kept = ("", {})

    async def _read_one(self, since: str | None) -> None:
        """Read a stream to its end; return if the version that it was resumed from is of another past."""
        size, sure, relists = self._choice.choice((1, 16, 1024)), since is None, 0
        async with watch(self._source, resource_version=since, queue_size=size, **self._options) as self._events:
            while sure or self._rewinds() == self._agreed:
                sure = sure or self._events.has_synced
                try:
                    async with asyncio.timeout(0.5):
                        event = await anext(self._events)
                except TimeoutError:
                    self._keep_if_read()
                    continue
                if event.object is None or event.object.namespace in NAMESPACES:
                    self._replica.tell(event)
                if event.object is not None and event.object.resource_version == self._events.resource_version:
                    self._keep()
                found = self._events.health().relists
                self.relists, relists = self.relists + found - relists, found
                if self._stalled:
                    await self._stall()

    async def _stall(self) -> None:
        """Do not read, until the server goes back in time: a stream that asks nothing then cannot notice it."""
        seconds, self._stalled = self._stalled, 0.0
        with suppress(TimeoutError):
            await until(lambda: self._rewinds() != self._agreed, seconds)

    def _keep(self) -> None:
        """Keep the version together with what was told up to it."""
        assert self._events is not None
        if self._rewinds() == self._agreed:
            self._kept = (self._events.resource_version, dict(self._replica.objects))
        else:
            self._kept = ("", {})

    def _keep_if_read(self) -> None:
        """Keep them unless a part of a list's difference was told, which is newer than the version until its end."""
        if self._events is not None and not self._events.pending:
            self._keep()

    async def come_and_go(self) -> None:
        """Until cancelled: the reader stalls, or the stream is left and resumed."""
        while True:
            await asyncio.sleep(self._choice.uniform(0.5, 4))
            if self._choice.random() < 0.5:
                self._stalled = self._choice.uniform(0.1, 5)
                continue
            await whole(self._restart())

    async def _restart(self) -> None:
        await self._stop()
        self._reading = asyncio.create_task(self._read())

    def behind(self, truth: Truth) -> bool:
        """The reader has not been told the truth (yet)."""
        return self._replica.objects != truth.present(self.shape.shows)

    async def handlers_synced(self) -> None:
        """Until the reader has the objects that it began with, or the reading has failed."""
        await until(lambda: self._is_synced, 60)

    @property
    def _is_synced(self) -> bool:
        assert self._reading is not None
        return self._reading.done() or (self._events is not None and self._events.has_synced)

    def faults(self, truth: Truth, contents: dict[str, Any]) -> list[str]:
        """What is wrong with what was told, now that all should agree."""
        assert self._reading is not None
        replica = self._replica
        wrong = replica.faults(truth)
        if self._reading.done():
            ended = "cancelled" if self._reading.cancelled() else repr(self._reading.exception())
            wrong.append(f"the reading has ended: {ended}")
        if not wrong:
            told = {key: obj for key, obj in replica.contents.items() if key in replica.objects}
            different = [key for key, obj in told.items() if obj.to_dict() != contents[key]]
            if different:
                wrong.append(f"the content of {different[:3]} differs from the server's")
            if self._events is not None and self._events.objects < len(replica.objects):
                wrong.append(f"it knows of {self._events.objects} objects, and has told {len(replica.objects)}")
        return [f"{self.shape.name}: {fault}" for fault in wrong]

    def forget(self) -> None:
        """All was well up to here. What was kept before lies before the truth that is compared with from now on."""
        self._replica.forget()
        self._agreed = self._rewinds()
        self._kept = ("", {})
        self._keep_if_read()
