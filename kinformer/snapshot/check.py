"""Checks, before the objects of a snapshot are used, that the server still continues from it.

A watch at an old resourceVersion proves little: a server whose etcd was restored from a backup, and has grown past that
version since, accepts it and has other contents. So the check asks the server for its current version and its cluster,
and reads back the objects with the highest versions, which a restored server is the least likely to have. An object
that no longer exists must appear as deleted in the watch that is going to be resumed. docs/snapshots.md lists the cases
that this cannot detect.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack

from kinformer.exceptions import APIError, ExpiredError, ResourceVersionTooLargeError
from kinformer.list_watcher import Identified, ListerWatcher, ListOptions, ReadBack, WatchEvent, capabilities_of
from kinformer.objects.accessors import key_of, resource_version_of, uid_of
from kinformer.objects.meta import compare_resource_versions
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.reflector.continuity import NO_ANSWER, ContinuityCheck
from kinformer.reflector.errors import ClusterReplacedError, RewindError
from kinformer.reflector.options import HEAD_TIMEOUT, Resumption
from kinformer.reflector.timeouts import answered
from kinformer.snapshot.format import SnapshotRefusedError

__all__ = ["READ_BACK", "SnapshotCheck"]

READ_BACK = 32
"""How many objects are read back: those with the highest resourceVersions."""

_AT_ONCE = 8  # of them, so that a start of many informers does not use up what a server grants one client
# Seconds for a 410 to arrive behind the head of a quiet watch: a server that has forgotten the version knows that at
# once.
_QUIET = 0.05
_DELETED = 2.0  # seconds for the deletes, which a server that has them sends at once


class SnapshotCheck:
    """Asks one source about a snapshot of its objects.

    Args:
        source: With `read_back`; also with `tip` (see `ServerProbe`), if it can.
        name: The name for the log.
        timeout: Seconds for each answer.
    """

    def __init__(self, source: ListerWatcher, *, name: str, timeout: float = HEAD_TIMEOUT) -> None:
        resumable = capabilities_of(source).resumable
        assert resumable is not None
        self._source = resumable
        self._lister_watcher = source
        self._tip = ContinuityCheck(source, name=name, timeout=timeout)
        self._timeout = timeout

    async def verify(self, snapshot: Resumption) -> str | None:
        """Return if the watch may go on from there: the cluster that answered, or None if it is not known.

        Raises:
            SnapshotRefusedError: It may not: `rewind`, `other_cluster`, `expired` or `changed`; or a question was
                refused and would be again: `unanswered`.
            KinformerError, OSError: A question failed, which proves nothing.
        """
        await self._where(snapshot)
        options = ListOptions(resource_version=snapshot.resource_version, allow_watch_bookmarks=True)
        async with AsyncExitStack() as stack:
            opening = stack.enter_async_context(self._lister_watcher.watch(options))
            try:
                stream = await answered(opening, self._timeout, "watch")
                missing, newest = await self._read_back(snapshot)
                await self._look(stream, missing, newest)
            except ExpiredError as error:
                raise SnapshotRefusedError("expired", f"the server has forgotten its version: {error}") from error
            except ResourceVersionTooLargeError as error:
                raise SnapshotRefusedError("rewind", f"the server is behind the snapshot: {error}") from error
            except APIError as error:
                if error.status not in NO_ANSWER:
                    raise
                raise SnapshotRefusedError("unanswered", f"the server refuses the check: {error}") from error
        return self._tip.cluster

    async def _where(self, snapshot: Resumption) -> None:
        self._tip.cluster = snapshot.cluster
        try:
            await self._tip.verify(snapshot.resource_version)
        except RewindError as error:
            raise SnapshotRefusedError("rewind", str(error)) from error
        except ClusterReplacedError as error:
            raise SnapshotRefusedError("other_cluster", str(error)) from error

    async def _read_back(self, snapshot: Resumption) -> tuple[dict[str, str], str]:
        """Read objects back: returns the uids of those that are gone, by key, and the newest version of the answers."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(obj: KubeObject) -> ReadBack:
            async with limit:
                return await answered(self._source.read_back(obj.namespace, obj.name), self._timeout, "read back")

        try:
            async with asyncio.TaskGroup() as group:
                questions = {obj.key: (obj, group.create_task(one(obj))) for obj in snapshot.newest[:READ_BACK]}
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        missing: dict[str, str] = {}
        newest = snapshot.resource_version
        for key, (obj, answer) in questions.items():
            found, version = answer.result()
            if found is None or _changed(obj, found, snapshot.resource_version):
                missing[key] = obj.uid
            if _newer(version, newest):
                newest = version
        return missing, newest

    async def _look(self, stream: AsyncIterator[Sequence[WatchEvent]], missing: Mapping[str, str], newest: str) -> None:
        """Look at the beginning of the resumed watch: that there is one, and that it deletes the missing objects."""
        left = dict(missing)
        try:
            async with asyncio.timeout(_DELETED if left else _QUIET):
                async for events in stream:
                    if _gone(events, left, newest):
                        return
        except TimeoutError:
            pass  # from here alone: reading from a network raises ConnectError
        if left:
            raise SnapshotRefusedError("changed", f"{_first(left)} is gone, and the watch has not reported its delete")


def _gone(events: Sequence[WatchEvent], left: dict[str, str], newest: str) -> bool:
    """Take the objects that these events delete out of `left`; True if it is empty and an event decides."""
    for kind, obj in events:
        if kind == "DELETED" and left.get(key := key_of(obj)) in (uid_of(obj), *_any_uid(left, key, obj)):
            del left[key]
        elif left and kind != "DELETED" and _newer(resource_version_of(obj), newest):
            break  # past the answers that did not have them
    else:
        return bool(events) and not left
    raise SnapshotRefusedError("changed", f"{_first(left)} is not there, and the watch has not deleted it")


def _any_uid(left: Mapping[str, str], key: str, obj: object) -> tuple[str, ...]:
    # Of an object that cannot be read only the key is left.
    return (left[key],) if type(obj) is UndecodableObject and key in left else ()


def _changed(obj: KubeObject, found: Identified, version: str) -> bool:
    """True if `found` is another object than `obj`, made since; an impossible state of it is refused."""
    try:
        same = found.uid == obj.uid
        if same and found.resource_version == obj.resource_version:
            return False
        if compare_resource_versions(found.resource_version, version) > 0:
            return not same
    except ValueError as error:
        raise SnapshotRefusedError("changed", f"{obj!r} cannot be compared: {error}") from error
    there = f"the server has it at {found.resource_version}" if same else f"the server has another, {found!r}"
    raise SnapshotRefusedError("changed", f"{obj!r} has another history: {there}")


def _newer(version: str, than: str) -> bool:
    try:
        return compare_resource_versions(version, than) > 0
    except ValueError:
        return False


def _first(left: Mapping[str, str]) -> str:
    key = next(iter(left))
    return key if len(left) == 1 else f"{key} (of {len(left)})"
