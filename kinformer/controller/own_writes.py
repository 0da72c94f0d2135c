"""Own writes: a key waits until the caches have seen its own writes, so that it does not read an older state.

A cache is behind the server. A reconcile that creates an object, and is triggered by another change before the cache
has that object, would create it a second time. So a key is not reconciled until the informers have passed its pending
writes, or 10 s have passed. (Kubernetes' own controllers do the same since 1.36, KEP-5647, but skip the reconcile
instead of waiting.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple
from weakref import WeakKeyDictionary

from kinformer._runtime.logs import get_logger
from kinformer._runtime.request_context import Write
from kinformer._runtime.waiters import within
from kinformer.controller.references import Deletion, status_version, type_of, uid_in_details, version_or_zero
from kinformer.exceptions import ConfigError, DecodeError, KeyFuncError, StoppedError, WatchError
from kinformer.informer.collection import core_of
from kinformer.informer.informer import SharedInformer
from kinformer.informer.object_wait import wait_for
from kinformer.objects.accessors import has_ended, key_of, resource_version_of, uid_of
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject
from kinformer.objects.requests.path import RequestPath
from kinformer.objects.spellings import plural_of
from kinformer.objects.types import ApiObject

__all__ = ["WAIT_LIMIT", "OwnWrites", "object_in"]

log = get_logger("kinformer.controller")

WAIT_LIMIT = 10.0  # seconds that a key waits at most

_SWEEP_ABOVE = 64  # above this many keys, those without unseen writes are removed now and then, as they may never run


class _PendingWrite(NamedTuple):
    """A change that an informer should receive: the object at `version` or later, or its deletion.

    Attributes:
        informer: The informer that should receive it.
        key, uid: The key and uid of the object.
        version: The resourceVersion of the write, or 0 if the response had none (a delete before Kubernetes 1.38).
        outside: True if the written object does not match the informer's selector. If the cache does not have it, no
            event will follow, so the write counts as seen. Otherwise a delete event will follow.
        ends: True if the write removed the last finalizer of an object being deleted. The response has the version
            before the deletion, and the cache is behind until the object is gone.
        deletes: True for a delete, which is seen once the object is gone or marked, or its version has passed.
        unheard: True for a delete of an object that the cache did not have and may still receive. Only the version
            counts.
    """

    informer: SharedInformer
    key: str
    uid: str
    version: int
    outside: bool = False
    ends: bool = False
    deletes: bool = False
    unheard: bool = False

    @property
    def target(self) -> tuple[SharedInformer, str]:
        return self.informer, self.key

    @property
    def seen(self) -> bool:
        cached: KubeObject | None = self.informer.indexer.get_by_key(self.key)
        is_another = cached is None or cached.uid != self.uid
        if self.ends:
            return cached is None or (bool(self.uid) and is_another)
        if self.deletes and not self.unheard and (cached is None or is_another or cached.deletion_timestamp):
            return True
        if not self.version:
            return False
        if self.outside and (cached is None or (self.uid and is_another)):
            return True
        reached = (cached.resource_version if cached is not None else "", self.informer.last_sync_resource_version)
        return any(version_or_zero(version) >= self.version for version in reached)

    async def wait(self) -> None:
        if self.version and not self.outside and not self.ends:
            namespace = self.key.rpartition("/")[0]
            await core_of(self.informer).reached(str(self.version), namespace)
        else:
            await wait_for(self.informer, self.key, lambda _: self.seen)


def object_in(write: Write) -> tuple[str, str, str] | None:
    """Return the group, resource and name of an object that was changed, as the details of a conflict name it."""
    path = RequestPath.of(write.path)
    return (path.group, path.resource, path.name) if path is not None and path.name else None  # a create has none


class OwnWrites:
    """The pending writes of one run of a controller, by the key of the request that made them.

    A write is expected in the informers that use the client that made it. If there are none, it is expected in the
    informers of the request's cluster with the same server URL. If there are none either, it is expected in all
    informers of that cluster or, if keys have clusters, in those without a client.

    Args:
        informers: Returns the controller's informers of a cluster, or of all clusters for "". Writes to other resources
            do not count.
        clusters: True if keys may begin with the name of a cluster.
    """

    def __init__(self, informers: Callable[[str], Iterable[SharedInformer]], *, clusters: bool = False) -> None:
        self._informers = informers
        self._clusters = clusters
        # Weak, because clusters come and go, and an informer keeps its whole cache alive.
        self._kinds: WeakKeyDictionary[SharedInformer, tuple[str, str]] = WeakKeyDictionary()
        self._pending: dict[str, list[_PendingWrite]] = {}
        self._sweep_above = _SWEEP_ABOVE

    def note_request(self, key: str, write: Write) -> None:
        """Note a request that `Client` made in a reconcile of `key`."""
        path = RequestPath.of(write.path)
        if path is None:
            return
        resource, namespace, name = (path.group, path.resource), path.namespace, path.name
        answer = write.answer
        is_marked = isinstance(answer, KubeObject) and answer.deletion_timestamp is not None
        target = f"{namespace}/{name}" if namespace else name
        version = status_version(answer)
        for informer in self._showing(key, write.client, resource):
            if write.method == "DELETE" and name and not is_marked:
                self._note_delete(key, informer, target, uid_in_details(answer) or uid_of(answer), version)
            elif write.method == "DELETE" and not name:
                for deleted, uid in _objects_in(answer):
                    self._note_delete(key, informer, deleted, uid, 0)
            elif name and version:  # an eviction, a binding
                outside = informer.indexer.get_by_key(target) is None and not core_of(informer).parts.selects_all
                self._add_pending(key, _PendingWrite(informer, target, uid_in_details(answer), version, outside))
            elif isinstance(answer, KubeObject) and (version := version_or_zero(answer.resource_version)):
                outside = not core_of(informer).parts.selects(answer)
                ends = has_ended(answer)
                self._add_pending(key, _PendingWrite(informer, answer.key, answer.uid, version, outside, ends))

    def note_object(self, key: str, obj: ApiObject) -> None:
        """Note an object that was reported as written in a reconcile of `key`, or the Status of a delete.

        Raises:
            TypeError: `obj` is neither.
        """
        deletion = Deletion.of(obj)
        if deletion is not None:
            for informer in self._showing(key, None, deletion.resource):
                target = deletion.key_in(informer, key.rpartition("/")[0].rpartition("/")[2])
                if target is not None:
                    self._note_delete(key, informer, target, deletion.uid, deletion.version)
            return
        try:
            target = key_of(obj)
        except KeyFuncError as error:
            raise TypeError(f"invalid wrote({obj!r}): expected the API object that the server returned") from error
        version = version_or_zero(resource_version_of(obj))
        if version:
            written = _selectable(obj, target)
            ends = has_ended(obj)
            for informer in self._informers_of(key, obj):
                outside = written is not None and not core_of(informer).parts.selects(written)
                self._add_pending(key, _PendingWrite(informer, target, uid_of(obj), version, outside, ends))

    def _note_delete(self, key: str, informer: SharedInformer, target: str, uid: str, version: int) -> None:
        cached = informer.indexer.get_by_key(target)
        uid = uid or (cached.uid if cached is not None else "")
        unheard = cached is None and bool(version) and core_of(informer).parts.selects_all
        self._add_pending(key, _PendingWrite(informer, target, uid, version, deletes=True, unheard=unheard))

    def _of_cluster(self, key: str) -> list[SharedInformer]:
        """Return the informers of the cluster of `key`, and those without a cluster."""
        cluster = key.partition("/")[0] if self._clusters and key.count("/") == 2 else ""
        return list(dict.fromkeys(self._informers(cluster)))

    def _showing(self, key: str, client: object, resource: tuple[str, str]) -> list[SharedInformer]:
        """Return the informers of a resource that should receive a write of `key`. None is an unknown client."""
        reached = self._of_cluster(key) if client is None else self._reached_by(key, client)
        return [informer for informer in reached if _group_resource_of(informer) == resource]

    def _reached_by(self, key: str, client: object) -> list[SharedInformer]:
        """Return the informers of all resources on the server that a client writes to."""
        through = [
            informer for informer in dict.fromkeys(self._informers("")) if core_of(informer).source.client is client
        ]
        if through:
            return through
        own = self._of_cluster(key)
        server = _server_of(client)
        same = [informer for informer in own if server and _server_of(_client_of(informer)) == server]
        if same or not self._clusters:
            return same or own
        return [informer for informer in own if _client_of(informer) is None]

    def _add_pending(self, key: str, write: _PendingWrite) -> None:
        followed = write.informer.namespaces
        namespace = write.key.rpartition("/")[0]
        if followed is not None and namespace not in followed:
            return
        before = self._pending.get(key, ())
        if not write.seen or any(earlier.target == write.target for earlier in before):
            self._pending.setdefault(key, []).append(write)
            if len(self._pending) > self._sweep_above:
                for other_key in list(self._pending):
                    self.is_behind(other_key)
                self._sweep_above = max(_SWEEP_ABOVE, 2 * len(self._pending))

    def is_behind(self, key: str) -> bool:
        """Return True if a cache has not seen a write of `key`. Forgets the writes that have been seen."""
        pending = self._pending.get(key)
        if pending is None:
            return False
        left = _unseen(pending)
        if left:
            self._pending[key] = left
        else:
            del self._pending[key]
        return bool(left)

    async def wait(self, key: str) -> bool:
        """Wait until all writes of `key` are seen, or give up after 10 s in total. Return False if given up."""
        is_seen = True
        try:
            async with asyncio.timeout(WAIT_LIMIT):
                for write in self._pending.get(key, ()):
                    await self._wait_for_write(key, write)
        except TimeoutError:
            is_seen = False
        except StoppedError:
            log.debug("%s: not waiting for its writes: the informer was exited", key, key=key, reason="stopped")
        self._pending.pop(key, None)
        return is_seen

    async def catch_up(self, key: str, timeout: float) -> None:
        """Wait within a reconcile of `key` until its writes so far have been seen.

        Raises:
            TimeoutError: `timeout` seconds have passed. The message names the first unseen write. Writes stay pending.
            WatchError: The server went back in time, and does not know a write.
            StoppedError: An informer was exited. If it crashed, its error is raised instead.
        """
        current = ""

        def late() -> TimeoutError:
            return TimeoutError(f"{key}: its own write to {current} was not seen within {timeout:g} s")

        async with within(timeout, late):
            for write in tuple(self._pending.get(key, ())):
                current = f"{write.informer.name} {write.key}"
                await write.wait()

    async def _wait_for_write(self, key: str, write: _PendingWrite) -> None:
        try:
            await write.wait()
        except WatchError as error:  # the server went back in time, and does not know the write
            log.info("%s: not waiting for a write to %s: %s", key, write.key, error, key=key, reason=error)
        except ValueError:
            message = "%s: the informer does not follow the namespace of %s"
            log.debug(message, key, write.key, key=key, reason="not_followed")

    def _informers_of(self, key: str, obj: ApiObject) -> list[SharedInformer]:
        """Return the informers that follow objects of this kind.

        An informer has a resource, and an object has a kind. The objects in a cache connect the two. For empty caches,
        the informers whose resource looks like the kind's plural are returned, or else all others of the group.
        """
        api_version, kind = type_of(obj)
        group = api_version.rpartition("/")[0]
        certain: list[SharedInformer] = []
        guessed: list[SharedInformer] = []
        possible: list[SharedInformer] = []
        for informer in self._of_cluster(key):
            resource = _group_resource_of(informer)
            held = self._kind_held_by(informer)
            if held is not None:
                certain += [informer] if held == (group, kind) else []
            elif resource is not None and resource[0] == group:
                (guessed if resource[1] in _plurals(kind) else possible).append(informer)
        return certain or guessed or possible

    def _kind_held_by(self, informer: SharedInformer) -> tuple[str, str] | None:
        """Return the group and kind of the objects that the informer holds or has held, or None if unknown."""
        group_kind = self._kinds.get(informer)
        if group_kind is None:
            key = informer.indexer.any_key()
            sample = informer.indexer.get_by_key(key) if key is not None else None
            if sample is not None and sample.kind:
                group_kind = self._kinds[informer] = (sample.api_version.rpartition("/")[0], sample.kind)
        return group_kind


def _client_of(informer: SharedInformer) -> object:
    """Return the client of an informer, or None if its source has none."""
    client: object = core_of(informer).source.client
    return client


def _server_of(client: object) -> str:
    """Return the URL of a client's server, or "" if there is none or it is not known yet."""
    try:
        return str(getattr(client, "server", ""))
    except RuntimeError:  # the client is not entered, so it has no server yet
        return ""


def _unseen(pending: Iterable[_PendingWrite]) -> list[_PendingWrite]:
    """Return the unseen writes of one key, in order.

    A write counts as unseen if an earlier write of the same object is unseen. Otherwise, if an object was created and
    deleted, a cache that has not received it yet would look like one that has seen the deletion.
    """
    left: list[_PendingWrite] = []
    targets: set[tuple[SharedInformer, str]] = set()
    for write in pending:
        if not write.seen or write.target in targets:
            left.append(write)
            targets.add(write.target)
    return left


def _selectable(obj: ApiObject, key: str) -> KubeObject | None:
    """Return an object to match selectors against. From a model, it has only identity, labels and owners."""
    if isinstance(obj, KubeObject):
        return obj
    if not isinstance(obj, Mapping):
        namespace, _, name = key.rpartition("/")
        identity = {"name": name, "namespace": namespace, "uid": uid_of(obj)}
        owners = [
            {"uid": getattr(owner, "uid", None) or "", "controller": getattr(owner, "controller", None)}
            for owner in getattr(obj.metadata, "owner_references", None) or ()
        ]
        labels = getattr(obj.metadata, "labels", None)
        obj = {"metadata": {**identity, "labels": labels, "ownerReferences": owners}}
    try:
        return KubeObject.from_dict(obj)
    except DecodeError:
        return None


def _group_resource_of(informer: SharedInformer) -> tuple[str, str] | None:
    """Return the group and resource of an informer, from its name if its source does not have them."""
    resource = informer.resource
    if not isinstance(resource, GroupVersionResource):
        try:
            resource = GroupVersionResource.parse(informer.name.partition(" in ")[0])
        except ConfigError:
            return None
    return resource.group, resource.resource


def _objects_in(answer: object) -> Iterator[tuple[str, str]]:
    """Yield the key and uid of each object in the response to a delete of a collection."""
    items = answer.get("items") if isinstance(answer, Mapping) else None
    for item in items if isinstance(items, list) else ():
        with suppress(KeyFuncError):
            yield key_of(item), uid_of(item)


def _plurals(kind: str) -> tuple[str, ...]:
    """Return the possible resource names of a kind: the usual plurals of English."""
    return (plural_of(kind), *(kind.lower() + ending for ending in ("", "s", "es")))
