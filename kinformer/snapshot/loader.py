"""Loads a snapshot: reads the file, checks it, and returns the state from which a reflector resumes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from heapq import nlargest
from pathlib import Path

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import DecodeError
from kinformer.list_watcher import ListerWatcher
from kinformer.objects.object import KubeObject
from kinformer.reflector.options import Resume, Resumption
from kinformer.snapshot.check import READ_BACK, SnapshotCheck
from kinformer.snapshot.file import SnapshotReader
from kinformer.snapshot.format import ObjectReader, SnapshotHeader, SnapshotRefusedError

__all__ = ["Shrink", "SnapshotLoader"]

log = get_logger("kinformer.snapshot")

Scope = str | None
Shrink = Callable[[list[KubeObject]], Awaitable[list[KubeObject]]]

_EXPECTED = ("missing", "expired")  # reasons that no program can avoid


class SnapshotLoader:
    """Reads one file for all sources of an informer, once, and verifies it with each server before use.

    Args:
        file: The path of the file.
        contents: The expected description of its objects.
        sources: The sources by scope, used to verify the objects of that scope.
        shrink: Functions that convert objects to the form of the cache, by scope.
        name: The name for the log.
        count: Called with the outcome for each source in one word: `loaded`, or the reason.

    Attributes:
        loaded: The version from which each source resumes. `resume` adds it when the snapshot is verified.
    """

    def __init__(
        self,
        file: Path,
        contents: Mapping[str, str],
        sources: Mapping[Scope, ListerWatcher],
        *,
        shrink: Mapping[Scope, Shrink],
        name: str,
        count: Callable[[str], None],
    ) -> None:
        self._file = file
        self._contents = contents
        self._sources = sources
        self._shrink = shrink
        self._name = name
        self._count = count
        self._lock = asyncio.Lock()
        self._parts: dict[Scope, Resumption] | None = None  # None until the file was read. Each is used once
        self.loaded: dict[Scope, str] = {}

    def resume(self, scope: Scope) -> Resume:
        """Return the function that the reflector of this scope calls before its first list."""

        async def resumption() -> Resumption | None:
            return await self._resumption(scope)

        return resumption

    async def _resumption(self, scope: Scope) -> Resumption | None:
        async with self._lock:
            if self._parts is None:
                self._parts = await self._load()
        part = self._parts.get(scope)
        if part is None:
            return None
        try:
            part.cluster = await SnapshotCheck(self._sources[scope], name=self._name).verify(part)
        except SnapshotRefusedError as error:
            self._refused(error)
            await _let_go(self._parts.pop(scope))
            return None
        self._count("loaded")
        self.loaded[scope] = part.resource_version
        message = "%s: resuming from %d objects at resourceVersion %s in %s"
        version = part.resource_version
        log.info(message, self._name, len(part.objects), version, self._file, resource=self._name, reason="loaded")
        return self._parts.pop(scope)

    def _refused(self, error: SnapshotRefusedError) -> None:
        self._count(error.reason)
        level = logging.INFO if error.reason in _EXPECTED else logging.WARNING
        message = "%s: the snapshot %s is not used; listing the objects: %s"
        log.log(level, message, self._name, self._file, error, resource=self._name, reason=error.reason)

    async def _load(self) -> dict[Scope, Resumption]:
        try:
            return await self._read()
        except SnapshotRefusedError as error:
            self._refused(error)
            return {}

    async def _read(self) -> dict[Scope, Resumption]:
        async with SnapshotReader(self._file) as reader:
            header = reader.header
            self._compare(header)
            versions = header.resource_versions
            parts = {scope: Resumption(ChunkedList(), versions[scope or ""], header.cluster) for scope in self._sources}
            try:
                await self._read_objects(reader, parts)
            except SnapshotRefusedError:
                for part in parts.values():
                    await _let_go(part)
                raise
        return parts

    async def _read_objects(self, reader: SnapshotReader, parts: Mapping[Scope, Resumption]) -> None:
        objects = ObjectReader()
        budget = YieldBudget()
        async with aclosing(reader.batches()) as batches:
            async for blocks in batches:
                for block in blocks:
                    try:
                        await self._take(parts, objects.read(block))
                    except DecodeError as error:  # a retry would read the same file
                        raise SnapshotRefusedError("torn", f"an object in it cannot be read: {error}") from error
                    if budget.exhausted():
                        await budget.pause()
        count = sum(len(part.objects) for part in parts.values())
        if count != reader.header.objects:
            raise SnapshotRefusedError("torn", f"expected {reader.header.objects} objects, found {count}")

    def _compare(self, header: SnapshotHeader) -> None:
        if dict(header.contents) != dict(self._contents):
            other = sorted(
                key
                for key in {*header.contents, *self._contents}
                if header.contents.get(key) != self._contents.get(key)
            )
            raise SnapshotRefusedError("other_contents", f"it has other contents: {', '.join(other)}")
        if set(header.resource_versions) != {scope or "" for scope in self._sources}:
            raise SnapshotRefusedError("torn", "its resourceVersions do not match its namespaces")

    async def _take(self, parts: Mapping[Scope, Resumption], decoded: list[KubeObject]) -> None:
        if None in parts:
            await self._add(parts[None], None, decoded)
            return
        by_namespace: dict[str, list[KubeObject]] = {}
        for obj in decoded:
            by_namespace.setdefault(obj.namespace, []).append(obj)
        for namespace, objects in by_namespace.items():
            if namespace not in parts:
                raise SnapshotRefusedError("torn", f"it has unexpected objects of namespace {namespace!r}")
            await self._add(parts[namespace], namespace, objects)

    async def _add(self, part: Resumption, scope: Scope, objects: list[KubeObject]) -> None:
        part.newest = _newest(part.newest, objects)
        shrink = self._shrink.get(scope)
        part.objects.add(objects if shrink is None else await shrink(objects))


async def _let_go(part: Resumption) -> None:
    """Free the objects in slices, because freeing them at once would block the loop."""
    budget = YieldBudget()
    part.newest.clear()
    for _ in part.objects.drain():
        if budget.exhausted():
            await budget.pause()


def _newest(so_far: list[KubeObject], objects: list[KubeObject]) -> list[KubeObject]:
    lowest = _version(so_far[-1]) if len(so_far) == READ_BACK else (-1, "")
    better = [obj for obj in objects if _version(obj) > lowest]
    return nlargest(READ_BACK, so_far + better, key=_version) if better else so_far


def _version(obj: KubeObject) -> tuple[int, str]:
    version = obj.resource_version
    return len(version), version
