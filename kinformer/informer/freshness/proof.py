"""Proofs that the cache of one scope lacks nothing, by comparison with reads from the server itself.

Neither a live watch nor its bookmarks prove that: events may wait in a buffer, and a stale replica of an API server
sends bookmarks too. A proof is the version of a consistent read, and then every change up to that version. On a busy
resource, the informer's own watch passes it soon. On a quiet one, there is a second watch for 3 s from the cache's
version: a server sends a bookmark 2 s before the end of a watch (kube-apiserver, cache_watcher.go, nextBookmarkTime).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from kinformer._runtime.tasks import Coro, wait_for_end
from kinformer.exceptions import ExpiredError, ForbiddenError, describe
from kinformer.list_watcher import ListerWatcher, ListOptions, MetadataList, ServerTip, source_of
from kinformer.listwatch.head_limit import HEAD_TIMEOUT
from kinformer.objects.accessors import resource_version_of
from kinformer.objects.meta import compare_resource_versions, version_number
from kinformer.objects.object import KubeObject
from kinformer.processor.applied_versions import AppliedVersions
from kinformer.queue.atomic_delta_fifo import QueueWriter
from kinformer.reflector.continuity import ContinuityCheck
from kinformer.reflector.errors import RETRIED, ClusterReplacedError, RewindError
from kinformer.reflector.reflector import Reflector

__all__ = ["CacheSelection", "ScopeProof"]

_BUSY = 0.1  # seconds in which the own watch of a busy resource passes the version of a read
_QUIET = 1.0  # seconds without a write's event after which the resource is assumed to be quiet for this selector
_UNHEARD = 5.0  # ... after which it is listed, if its source may not be able to have two watches
_SECONDS = 3  # timeoutSeconds of the second watch. With 2, no bookmark comes
_MARGIN = 5.0  # seconds by which the second watch may take longer
_LATE = 2.0  # seconds after which changes that the server has, and the cache lacks, are listed


class _ShortWatch(NamedTuple):
    """The end of a short watch: its last event, and its last event or bookmark. 0 if there was none."""

    last_event: int
    last_version: int


class CacheComparison:
    """A list of identities that the server has, compared with the cache.

    Args:
        listed: The selected objects on the server.
        cached: Returns the cached object with a key.

    Attributes:
        lacking: The keys whose cached state is older than the list.
    """

    def __init__(self, listed: MetadataList, cached: Callable[[str], KubeObject | None]) -> None:
        self.version = listed.resource_version
        self._listed = {obj.key: obj for obj in listed.objects}
        self._cached = cached
        self.lacking: list[str] = []

    def compare(self, selected: Iterable[KubeObject]) -> bool:
        """Compare the list with all cached objects that are selected. Return True if none is older than the list."""
        keys = {*self._listed, *(obj.key for obj in selected)}
        self.lacking = [key for key in keys if self._is_older(key)]
        return not self.lacking

    def recheck(self) -> None:
        """Compare the lacking objects again."""
        self.lacking = [key for key in self.lacking if self._is_older(key)]

    def _is_older(self, key: str) -> bool:
        listed, cached = self._listed.get(key), self._cached(key)
        if cached is None:
            return listed is not None
        if listed is not None and listed.uid == cached.uid:
            return _is_older(cached.resource_version, listed.resource_version)
        return not _is_newer(cached.resource_version, self.version)  # the cached object was deleted before the list

    def __str__(self) -> str:
        shown = ", ".join(map(self._described, sorted(self.lacking)[:3]))
        more = len(self.lacking) - 3
        return f"{shown} and {more} more" if more > 0 else shown

    def _described(self, key: str) -> str:
        listed, cached = self._listed.get(key), self._cached(key)
        if listed is None:
            return f"{key}, which the server no longer has"
        held = "none" if cached is None else cached.resource_version
        return f"{key} (version {listed.resource_version} on the server, {held} in the cache)"


def _is_older(version: str, other: str) -> bool:
    """True if a version is certainly or, for versions that are no numbers, possibly older than another."""
    try:
        return compare_resource_versions(version, other) < 0
    except ValueError:
        return version != other


def _is_newer(version: str, other: str) -> bool:
    """True if a version is certainly newer than another. Of versions that are not numbers, none is certainly newer."""
    try:
        return compare_resource_versions(version, other) > 0
    except ValueError:
        return False


def _number(version: str) -> int | None:
    """Return a version as a number, or None if it is not one."""
    try:
        return version_number(version)
    except ValueError:
        return None


class CacheSelection(msgspec.Struct, frozen=True):
    """Some objects of a cache.

    Attributes:
        namespace, name, label_selector: The conditions, or "".
        cached: Returns the cached object with a key.
        objects: Returns the cached objects of a scope that meet the conditions.
        comparisons: The last comparison of each scope.
    """

    namespace: str
    name: str
    label_selector: str
    cached: Callable[[str], KubeObject | None]
    objects: Callable[[str | None], Iterable[KubeObject]]
    comparisons: dict[str | None, CacheComparison] = msgspec.field(default_factory=dict)

    @property
    def lacking(self) -> str:
        """The objects whose cached state is too old, or "" if that is not known."""
        return ", ".join(str(comparison) for comparison in self.comparisons.values() if comparison.lacking)


class ScopeProof:
    """Proves that the cache of one scope has reached a state of the server, or waits until it has.

    Args:
        name: The name of the informer.
        scope: A namespace among several, or None.
        source: The source of the scope, without wrappers.
        reflector: The reflector of the scope.
        applied: The versions that the cache has reached.
        writer: The writer of the reflector, which counts its lists.
    """

    def __init__(
        self,
        name: str,
        scope: str | None,
        source: ListerWatcher,
        reflector: Reflector,
        applied: AppliedVersions,
        writer: QueueWriter,
    ) -> None:
        self._writer = writer
        self._scope = scope
        self._source = source_of(source)
        self._reflector = reflector
        self._applied = applied
        self._check = ContinuityCheck(source, name=name, timeout=HEAD_TIMEOUT)
        self._name = name if scope is None else f"{name} in {scope}"
        self._wanted: str | None = None  # the version for the proof in progress, or "" until the server has answered

    @property
    def polled_age(self) -> float | None:
        """Seconds since the list in a cache that is polled was requested, or None."""
        return self._reflector.health().staleness

    async def prove(self) -> None:
        """Return once the cache has everything that the server had when this was called.

        A cache that is polled is listed for it, because nothing else says what a resource without versions has.

        Raises:
            WatchError: The server went back in time, or is another one. The cache is then verified and listed again.
            KinformerError, OSError: A request failed.
        """
        if self._reflector.polling.is_on:
            await self._reflector.polling.listed()
            lists = self._writer.lists
            while self._applied.taken[self._scope] < lists:
                await self._applied.moved(self._scope)
            return
        self._wanted = ""
        try:
            while not (before := self._applied.current.get(self._scope)):  # a namespace that has just joined
                await self._applied.moved(self._scope)
            tip = await self._verified_tip(before)
            self._wanted = tip.resource_version
            target = _number(tip.resource_version)
            if target is None:
                while self._applied.current[self._scope] != tip.resource_version:
                    await self._applied.moved(self._scope)
                return
            await self._reach(target, self._prove_quiet(target, _BUSY, _LATE))
        finally:
            self._wanted = None

    @property
    def waits_for(self) -> str:
        """What the proof in progress waits for, in words, or "" if there is none."""
        if self._wanted is None:
            return ""
        has = self._applied.current.get(self._scope) or "none"
        error = self._reflector.health().last_error
        about = f"{self._name} has version {has}, and the server {self._wanted or 'has not answered'}"
        return about if error is None else f"{about} ({describe(error)})"

    async def _verified_tip(self, before: str) -> ServerTip:
        self._check.cluster = self._reflector.cluster
        try:
            tip = await self._tip()
            self._check.compare(tip, before)
        except (RewindError, ClusterReplacedError):
            self._reflector.doubt()
            raise
        return tip

    async def _tip(self) -> ServerTip:
        try:
            return await self._check.tip()
        except ForbiddenError:  # the user may not list without the selectors of the source
            return await self._check.list_one()

    async def reached(self, wanted: int) -> None:
        """Return once the cache has everything up to `wanted`, the version of a response to a write.

        Raises:
            WatchError: The server went back in time.
        """
        if self._reflector.polling.is_on:
            await self.prove()
        else:
            await self._reach(wanted, self._prove_or_list(wanted))

    async def _reach(self, wanted: int, proving: Coro[None]) -> None:
        """Wait for a version. Meanwhile, `proving` proves it, or causes a list. Its errors are raised."""
        waiting = asyncio.ensure_future(self._applied.wait(self._scope, wanted))
        helping = asyncio.ensure_future(proving)
        try:
            await asyncio.wait((waiting, helping), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                helping.result()
            await waiting
        finally:
            waiting.cancel()
            helping.cancel()
            await wait_for_end((waiting, helping))

    async def _prove_or_list(self, wanted: int) -> None:
        try:
            await self._prove_quiet(wanted, _QUIET, _UNHEARD)
        except RETRIED:  # the reflector meets the same problem, and reports it
            self._reflector.refresh(str(wanted))

    async def _prove_quiet(self, wanted: int, after: float, late: float) -> None:
        """Prove that the cache lacks nothing up to `wanted`, `after` seconds, or cause a list after `late` seconds."""
        if not self._source.sends_bookmarks:
            await asyncio.sleep(late)
            self._reflector.refresh(str(wanted))
            return
        await asyncio.sleep(after)
        lists = self._applied.lists
        seen = await self._short_watch()
        if seen.last_version < wanted:
            self._reflector.refresh(str(wanted))  # the server sends no bookmarks, so a list must tell
            return
        if seen.last_event:
            try:
                async with asyncio.timeout(_LATE):
                    await self._applied.wait(self._scope, seen.last_event)
            except TimeoutError:
                self._reflector.refresh(str(seen.last_version))
                return
        if self._applied.lists != lists:  # a full list came meanwhile, perhaps from a server that went back
            await self._prove_quiet(wanted, after, late)
            return
        self._applied.prove(self._scope, seen.last_version)

    async def _short_watch(self) -> _ShortWatch:
        """Watch from the cache's version until a bookmark comes, or the server ends it."""
        options = ListOptions(
            resource_version=self._applied.current[self._scope],
            allow_watch_bookmarks=True,
            timeout_seconds=_SECONDS,
        )
        last_event = last_version = 0
        limit = asyncio.timeout(_SECONDS + _MARGIN)
        try:
            async with limit, self._source.watch(options) as stream:
                async for events in stream:
                    for kind, obj in events:
                        last_version = version_number(resource_version_of(obj))
                        if kind == "BOOKMARK":
                            return _ShortWatch(last_event, last_version)
                        last_event = last_version
        except ExpiredError:  # the cache's version is too old to watch from
            return _ShortWatch(0, 0)
        except TimeoutError:
            if not limit.expired():
                raise
        return _ShortWatch(last_event, last_version)

    # --- some objects ---------------------------------------------------------------------------------------

    async def holds(self, selection: CacheSelection) -> None:
        """Return once the selected objects in the cache are as new as on the server when this was called.

        Raises:
            KinformerError, OSError: A request failed.
        """
        while True:
            listed = None
            if not self._reflector.polling.is_on:
                listed = await self._source.list_metadata(
                    selection.namespace, name=selection.name, label_selector=selection.label_selector
                )
            if listed is None:
                await self.prove()
                return
            selection.comparisons[self._scope] = comparison = CacheComparison(listed, selection.cached)
            try:
                async with asyncio.timeout(_LATE):
                    while not comparison.compare(selection.objects(self._scope)):
                        while comparison.lacking:
                            await self._applied.moved(self._scope)
                            comparison.recheck()
                return
            except TimeoutError:
                # An object that was deleted since is not on the next list of identities. One that is on it again comes
                # with a full list, unless it cannot be decoded or a transform leaves it out. A version that is not a
                # number cannot be requested, so the watch has to bring the missing objects.
                if _number(listed.resource_version) is not None:
                    self._reflector.refresh(listed.resource_version)
