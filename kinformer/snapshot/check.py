"""Checks, before a snapshot is used, that the server can still continue from it.

A watch at an old resourceVersion proves little. A server whose etcd was restored from a backup, and has since passed
that version, accepts the watch but has other contents. So the check requests the server's current version and its
cluster, and reads back the objects with the highest versions, which a restored server is the least likely to have. An
object that no longer exists must appear as deleted in the resumed watch. docs/snapshots.md lists the cases that this
cannot detect.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack

from kinformer.exceptions import APIError, ConfigError, ExpiredError, ResourceVersionTooLargeError
from kinformer.list_watcher import Identified, ListerWatcher, ListOptions, ReadBack, WatchEvent, source_of
from kinformer.listwatch.head_limit import HEAD_TIMEOUT, answered
from kinformer.objects.accessors import key_of, resource_version_of, uid_of
from kinformer.objects.meta import compare_resource_versions
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.reflector.continuity import NO_ANSWER, ContinuityCheck
from kinformer.reflector.errors import ClusterReplacedError, RewindError
from kinformer.reflector.options import Resumption
from kinformer.snapshot.format import SnapshotRefusedError

__all__ = ["READ_BACK", "SnapshotCheck"]

READ_BACK = 32
"""The number of objects, with the highest resourceVersions, to read back."""

_AT_ONCE = 8  # concurrent reads, so that starting many informers does not exhaust the server's limits for a client
# Seconds for a 410 to arrive after the head of a quiet watch. A server without that version sends it immediately.
_QUIET = 0.05
_DELETED = 2.0  # seconds for the deletes, which a server sends immediately


class SnapshotCheck:
    """Verifies a snapshot against one source.

    Args:
        source: A source with `read_back`, and optionally `tip`.
        name: The name for the log.
        timeout: Seconds for each response.
    """

    def __init__(self, source: ListerWatcher, *, name: str, timeout: float = HEAD_TIMEOUT) -> None:
        self._source = source_of(source)
        self._tip = ContinuityCheck(source, name=name, timeout=timeout)
        self._timeout = timeout

    async def verify(self, snapshot: Resumption) -> str | None:
        """Return the identity of the cluster, or None if unknown, if the watch may continue from the snapshot.

        Raises:
            SnapshotRefusedError: It may not continue (`rewind`, `other_cluster`, `expired`, `changed` or `torn`), or a
                request was refused and would be refused again (`unanswered`).
            KinformerError, OSError: A request failed, which proves nothing.
        """
        await self._where(snapshot)
        options = ListOptions(resource_version=snapshot.resource_version, allow_watch_bookmarks=True)
        async with AsyncExitStack() as stack:
            opening = stack.enter_async_context(self._source.watch(options))
            try:
                stream = await answered(opening, self._timeout, "watch")
                missing, newest = await self._read_back(snapshot)
                await self._look(stream, missing, newest)
            except ExpiredError as error:
                raise SnapshotRefusedError("expired", f"the server has forgotten its version: {error}") from error
            except ConfigError as error:  # an object of the snapshot has a name that cannot be requested
                raise SnapshotRefusedError("torn", f"an object in it is invalid: {error}") from error
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
        """Read objects back. Returns the uids of deleted objects, by key, and the newest version in the responses."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def read(obj: KubeObject) -> ReadBack | None:
            async with limit:
                reading = self._source.read_back(obj.namespace, obj.name)
                return await self._tip.head_limit.answered(reading, "read back", first=self._timeout)

        try:
            async with asyncio.TaskGroup() as group:
                questions = {obj.key: (obj, group.create_task(read(obj))) for obj in snapshot.newest[:READ_BACK]}
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        missing: dict[str, str] = {}
        newest = snapshot.resource_version
        for key, (obj, task) in questions.items():
            answer = task.result()
            if answer is None:
                raise SnapshotRefusedError("unanswered", f"{self._source.name} has no `read_back`")
            current, version = answer
            if current is None or _changed(obj, current, snapshot.resource_version):
                missing[key] = obj.uid
            if _newer(version, newest):
                newest = version
        return missing, newest

    async def _look(self, stream: AsyncIterator[Sequence[WatchEvent]], missing: Mapping[str, str], newest: str) -> None:
        """Check that the resumed watch opens, and that it deletes the missing objects."""
        left = dict(missing)
        try:
            async with asyncio.timeout(_DELETED if left else _QUIET):
                async for events in stream:
                    if _gone(events, left, newest):
                        return
        except TimeoutError:
            pass  # only from here, because reading from a network raises ConnectError
        if left:
            raise SnapshotRefusedError(
                "changed", f"{_first(left)} is missing, and the watch has not reported its delete"
            )


def _gone(events: Sequence[WatchEvent], left: dict[str, str], newest: str) -> bool:
    """Remove deleted objects from `left`. Returns True if none is left, so that the events have decided."""
    for kind, obj in events:
        if kind == "DELETED" and left.get(key := key_of(obj)) in (uid_of(obj), *_any_uid(left, key, obj)):
            del left[key]
        elif left and kind != "DELETED" and _newer(resource_version_of(obj), newest):
            break  # later than the responses that lacked the objects
    else:
        return bool(events) and not left
    raise SnapshotRefusedError("changed", f"{_first(left)} is missing, and the watch has not reported its delete")


def _any_uid(left: Mapping[str, str], key: str, obj: object) -> tuple[str, ...]:
    # Only the key of an undecodable object is known.
    return (left[key],) if type(obj) is UndecodableObject and key in left else ()


def _changed(obj: KubeObject, current: Identified, version: str) -> bool:
    """Return True if `current` is a newer object than `obj`. Raises SnapshotRefusedError for an impossible state."""
    try:
        same = current.uid == obj.uid
        if same and current.resource_version == obj.resource_version:
            return False
        if compare_resource_versions(current.resource_version, version) > 0:
            return not same
    except ValueError as error:
        raise SnapshotRefusedError("changed", f"{obj!r} cannot be compared: {error}") from error
    there = f"the server has it at {current.resource_version}" if same else f"the server has another, {current!r}"
    raise SnapshotRefusedError("changed", f"{obj!r} has another history: {there}")


def _newer(version: str, than: str) -> bool:
    try:
        return compare_resource_versions(version, than) > 0
    except ValueError:
        return False


def _first(left: Mapping[str, str]) -> str:
    key = next(iter(left))
    return key if len(left) == 1 else f"{key} (of {len(left)})"
