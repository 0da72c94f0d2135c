"""Loads the snapshot when an informer starts, and writes it periodically and at the end."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.cache.indexer import Indexer
from kinformer.list_watcher import ListerWatcher, Source, source_of
from kinformer.listwatch.compact import CompactingListerWatcher
from kinformer.objects.object import KubeObject
from kinformer.queue.atomic_delta_fifo import AtomicDeltaFIFO
from kinformer.reflector.options import Resume
from kinformer.snapshot.contents import contents_of
from kinformer.snapshot.file import SnapshotWriter
from kinformer.snapshot.format import OBJECTS, ObjectWriter, SnapshotHeader, SnapshotRefusedError
from kinformer.snapshot.loader import Shrink, SnapshotLoader
from kinformer.snapshot.option import Snapshot

__all__ = ["SnapshotKeeper"]

log = get_logger("kinformer.snapshot")

Scope = str | None
Versions = Mapping[Scope, str]

_BLOCK = 64  # objects per block, which take 0.1 ms to write and 0.2 ms to read
_BYTES = 1024 * 1024  # bytes of JSON after which a block is full, and after which blocks are passed to the thread


class _Cut(NamedTuple):
    """The cache at one moment: all objects, and their versions."""

    objects: ChunkedList[KubeObject]
    versions: Versions


class SnapshotKeeper:
    """Keeps the snapshot of one informer, with two hooks: `resume` before a list, and `cut_if_wanted` between batches.

    A snapshot is a consistent cut: between two batches, the cache contains all changes up to known versions and
    nothing later. The consumer of the queue waits while the objects are gathered, which takes some milliseconds for
    100,000. They are then written in pieces of a megabyte. Everything that may wait for a disk runs in a worker
    thread.

    Args:
        option: The user's option.
        sources: The user's sources, by scope.
        stacked: The same sources, wrapped with transform and compression.
        transform: The user's transform, because a snapshot contains transformed objects.
        name: The name of the informer.
        indexer: The cache.
        versions: Returns the versions that the cache has reached, by scope. Called whenever a snapshot is cut.
        queue: The queue of the informer, whose consumer calls `cut_if_wanted` after each batch.
        cluster: Returns the cluster of the cache, or None while unknown.

    Raises:
        ConfigError: The source does not support snapshots, changes of the transform cannot be detected, or the objects
            are Secrets and these are not allowed.
    """

    def __init__(
        self,
        option: str | os.PathLike[str] | Snapshot,
        sources: Mapping[Scope, ListerWatcher],
        stacked: Mapping[Scope, ListerWatcher],
        *,
        transform: Callable[..., Any] | None,
        name: str,
        indexer: Indexer,
        versions: Versions,
        queue: AtomicDeltaFIFO,
        cluster: Callable[[], str | None],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._name = name
        self._indexer = indexer
        self._versions = versions
        self._queue = queue
        self._cluster = cluster
        self._saved: Versions = {}  # of the file that was written last
        self._requested: asyncio.Future[_Cut] | None = None  # set while a snapshot is due and not gathered
        self._snapshot = Snapshot.of(option)
        self._contents = contents_of(sources, transform)
        self._snapshot.check(self._contents.get("resource", ""))
        self.file: Path = self._snapshot.file(self._contents)
        self._loader = SnapshotLoader(
            self.file,
            self._contents,
            sources,
            shrink=_shrinks(sources, stacked, transformed=transform is not None),
            name=name,
            count=self._count,
        )

    def resume(self, scope: Scope) -> Resume:
        """Return the function that the reflector of a scope calls before its first list."""
        return self._loader.resume(scope)

    async def cut_if_wanted(self) -> None:
        """Gather the objects for a due snapshot. Called by the consumer of the queue, which waits for it."""
        request = self._requested
        if request is not None and not request.done():
            cut = await self._gathered()
            if not request.done():
                request.set_result(cut)

    async def save_last(self) -> None:
        """Write a last time, when the cache no longer changes."""
        if self._is_news(self._versions):
            await self._save(await self._gathered())

    # --- saving ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write periodically until cancelled."""
        interval = self._snapshot.interval
        await asyncio.sleep(interval * random.uniform(0.5, 1.0))  # spreads the writes of informers
        while True:
            cut = await self._next_cut()
            if self._is_news(cut.versions):
                await self._save(cut)
            del cut
            await asyncio.sleep(interval)

    async def _gathered(self) -> _Cut:
        # In slices, because referencing 100,000 objects outside of the CPU's cache takes 10 ms.
        objects: ChunkedList[KubeObject] = ChunkedList()
        budget = YieldBudget()
        for table in self._indexer.tables():
            objects.add_table(table)
            if budget.exhausted():
                await budget.pause()
        return _Cut(objects, dict(self._versions))

    async def _next_cut(self) -> _Cut:
        self._requested = asyncio.get_running_loop().create_future()
        self._queue.checkpoint()
        try:
            return await self._requested
        finally:
            self._requested = None

    def _is_news(self, versions: Versions) -> bool:
        """Return True if a start could resume from these versions, and the file does not have them yet."""
        numbered = versions and all(version.isdecimal() and version != "0" for version in versions.values())
        return bool(numbered) and versions not in (self._saved, self._loader.loaded)

    async def _save(self, cut: _Cut) -> None:
        began = time.perf_counter()
        count = len(cut.objects)
        try:
            await self._write(cut)
        except SnapshotRefusedError as error:
            self._count("refused")
            log.error("%s: no snapshot is written: %s", self._name, error, resource=self._name, reason="refused")
        except OSError as error:
            self._count("failed")
            message = "%s: the snapshot %s could not be written: %s"
            log.warning(message, self._name, self.file, error, resource=self._name, reason="failed")
        else:
            self._saved = cut.versions
            self._count("saved")
            message = "%s: wrote %d objects to %s in %.1f s"
            seconds = time.perf_counter() - began
            log.debug(message, self._name, count, self.file, seconds, resource=self._name, reason="saved")

    async def _write(self, cut: _Cut) -> None:
        header = SnapshotHeader(
            contents=self._contents,
            resource_versions={scope or "": version for scope, version in cut.versions.items()},
            cluster=self._cluster(),
            objects=len(cut.objects),
            taken_at=time.time(),
        )
        async with SnapshotWriter(self.file) as writer:
            await writer.header(header)
            encoder = ObjectWriter(secrets=self._snapshot.secrets)
            ready: list[tuple[int, bytes, list[bytes]]] = []
            size = 0
            for objects in _blocks(cut.objects.drain()):
                head, body = encoder.block(objects)
                ready.append((OBJECTS, head, body))
                size += sum(map(len, body))
                if size >= _BYTES:
                    await writer.blocks(ready)
                    ready, size = [], 0
            await writer.blocks(ready)
            await writer.commit()

    def _count(self, outcome: str) -> None:
        self.counts[outcome] += 1


def _blocks(objects: Iterable[KubeObject]) -> Iterator[list[KubeObject]]:
    block: list[KubeObject] = []
    size = 0
    for obj in objects:
        block.append(obj)
        size += len(obj._data)
        if len(block) == _BLOCK or size >= _BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _shrinks(
    sources: Mapping[Scope, ListerWatcher], stacked: Mapping[Scope, ListerWatcher], *, transformed: bool
) -> dict[Scope, Shrink]:
    """Return functions that convert objects of a file to the form of the sources, if that differs."""
    shrinks: dict[Scope, Shrink] = {}
    for scope, source in stacked.items():
        if isinstance(source, CompactingListerWatcher):
            shrinks[scope] = source.convert_objects
        elif not transformed:  # a transform creates its own objects
            shrinks[scope] = partial(_kept, source_of(sources[scope]))
    return shrinks


async def _kept(source: Source, objects: list[KubeObject]) -> list[KubeObject]:
    return [source.keep(obj) for obj in objects]
