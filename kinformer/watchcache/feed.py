"""The feed of a watch cache: takes the changes of an informer, in the step that applies them, into a history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.waiters import WaiterQueue
from kinformer.apiserver.storage import Limits, RevisionSnapshot, Storage, Stored
from kinformer.exceptions import StoppedError
from kinformer.objects.object import KubeObject
from kinformer.processor.mailbox import DELETE, SYNC, Notification
from kinformer.watchcache.rebuild import Old, Rebuild

if TYPE_CHECKING:
    from kinformer.informer.informer_core import InformerCore

__all__ = ["Feed", "Held"]


class Held(Stored, gc=False):
    """An object of the informer's cache, whose bytes stay there, compressed or not. `raw` is empty."""

    obj: KubeObject | None = None

    @property
    def size(self) -> int:
        """The bytes that the informer holds."""
        return 0 if self.obj is None else len(self.obj._data)

    @property
    def held(self) -> KubeObject:
        """The object."""
        assert self.obj is not None
        return self.obj

    @classmethod
    def of(cls, obj: KubeObject, revision: int) -> Held:
        """Wrap an object of the informer."""
        return cls(obj.key, obj.namespace, obj.name, obj.uid, revision, obj._labels, b"", None, obj)


class _NoneKept(dict[tuple[object, str], object]):
    """The encoded lines of a change that its watchers have: none, as they are a second copy of the object."""

    def __setitem__(self, key: tuple[object, str], value: object) -> None:
        pass


_NONE_KEPT = _NoneKept()


class _Storage(Storage):
    """The storage of one resource, whose revision also advances by bookmarks and proofs."""

    def __init__(self, core: InformerCore, limits: Limits) -> None:
        self._applied = core.parts.processor.applied
        self._last = 0
        self.is_frozen = True  # the informer is ahead, after a list
        super().__init__(limits)

    @property
    def revision(self) -> int:
        """The newest version that the objects have reached."""
        if self.is_frozen:
            return self._last
        proved: int = self._applied.proved.get(None, 0)
        return max(self._last, _number(self._applied.current[None]), proved)

    @revision.setter
    def revision(self, value: int) -> None:
        self._last = value


class Feed:
    """Receives the changes of an informer.

    Args:
        core: The core of the informer.
        limits: The limits of the history.

    Attributes:
        storage: The objects with their history.
        error: The error by which the informer has ended, or None.
    """

    filters = False

    def __init__(self, core: InformerCore, limits: Limits) -> None:
        self._core = core
        self._publisher = core.publisher
        self.storage = _Storage(core, limits)
        self.objects = self.storage.collection("objects")
        self.error: BaseException | None = None
        self._settled = WaiterQueue()
        # `put` changes the storage, and so does a rebuild, which goes on in slices of the event loop.
        self._rebuild: Rebuild | None = None
        self._rebuilds = 0  # how many have begun
        self._behind: list[Sequence[Notification]] = []  # changes that came during a rebuild

    def start(self) -> None:
        """Begin to receive."""
        self._publisher.on_settled.append(self._relisted)
        self._publisher.attach(self)

    def stop(self) -> None:
        """End the watches, and receive no more."""
        self._publisher.detach(self)
        if self._relisted in self._publisher.on_settled:
            self._publisher.on_settled.remove(self._relisted)
        if self.error is None:
            self.fail(StoppedError("the watch cache was exited"))

    async def settled(self) -> None:
        """Wait until the objects are those of the informer. Raises its error if it has ended."""
        while self.storage.is_frozen or self.error is not None:
            if self.error is not None:
                raise self.error
            await self._settled.wait()

    # --- the publisher's side ------------------------------------------------------------------------------

    def put(self, batch: Sequence[Notification], initial: int = 0) -> None:
        """Take changes."""
        if not batch:
            return
        if self._publisher.is_settling:  # the differences that a list has found
            self.storage.is_frozen = True
            self._discard_rebuild()
            return
        if self._rebuild is not None:
            self._behind.append(tuple(batch))
            return
        if not self.storage.is_frozen:
            self._take(batch)

    def _take(self, batch: Sequence[Notification]) -> None:
        objects = self.objects
        objects.is_bulk = len(batch) > 1
        try:
            for kind, _, _, obj, flag in batch:
                if kind == SYNC:
                    continue
                revision = _number(obj.resource_version)
                if (kind == DELETE and flag) or revision <= objects.revision:
                    self._take_all(max(_number(new.resource_version) for _, _, _, new, _ in batch))
                    return
                held = Held.of(obj, revision)
                change = objects.remove(held) if kind == DELETE else objects.put(held)
                change.lines = _NONE_KEPT
        finally:
            objects.is_bulk = False

    def replay(self, objects: ChunkedList[KubeObject]) -> None:
        """Ignore the initial objects, which are read from the cache when they are complete."""

    def upstream_synced(self) -> None:
        """Take the first objects."""
        if not self._publisher.is_settling:
            self._take_all(0)

    def fail(self, error: BaseException) -> None:
        """End the watches, and refuse requests from now on."""
        self.error = error
        self._discard_rebuild()
        self._settled.fail(error)
        self.objects.end_watches()

    def _relisted(self) -> None:
        """Start a new history, as an API server does whose own watch broke.

        Even if the list has no differences, an object may have come and gone since the version before. A reader that
        has seen it at the server would keep it.
        """
        if not self._publisher.synced.is_open:
            return
        applied = self._core.parts.processor.applied
        if self.storage.is_frozen or _number(applied.current[None]) != applied.before_list.get(None, 0):
            self._take_all(0)

    def _take_all(self, least: int) -> None:
        """Take the objects of the informer without the events that lead to them. Later changes wait meanwhile."""
        self.storage.is_frozen = True
        self._discard_rebuild()
        revision = max(least, _number(self._core.parts.processor.applied.current[None]))

        def commit(objects: dict[str, Stored], sorted_: RevisionSnapshot) -> Old:
            self._rebuild = None
            behind, self._behind = self._behind, []
            old = self.objects.restart(objects, sorted_, revision)
            self.storage.is_frozen = False
            rebuilds = self._rebuilds
            for batch in behind:
                self._take(batch)
                if self._rebuilds != rebuilds:
                    return old  # another rebuild has begun, which takes the changes of the other batches too
            self._settled.wake_all()
            return old

        cached = [obj for table in self._publisher.cache.tables() for obj in table.values()]
        self._rebuild = Rebuild(cached, _hold, commit)
        self._rebuilds += 1
        self._rebuild.start()

    def _discard_rebuild(self) -> None:
        if self._rebuild is not None:
            self._rebuild.cancel()
            self._rebuild = None
        self._behind.clear()


def _hold(obj: KubeObject) -> Held:
    return Held.of(obj, _number(obj.resource_version))


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
