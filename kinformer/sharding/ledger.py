"""The ledger: the uid behind every key of a sharded resource, and which keys somebody else may still be busy with.

A key is worked on by whoever has the slot of its object's uid. When an object is deleted and made again under the same
name it has a new uid, which may belong to somebody else; and who had the old one may not have heard of it yet. So
such a key is in doubt until every living replica has confirmed that it has seen the new object, and has nothing to do
with the key under way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from msgspec import Struct

from kinformer._runtime.partitioned_dict import PartitionedDict
from kinformer.objects.meta import version_number

__all__ = ["STEP", "Doubt", "ShardLedger", "Tombstone"]

STEP = 64
"""Keys that one step of a replace looks at, at most: 0.1 ms."""


class Changed(Protocol):
    """What a ledger calls."""

    def __call__(self, key: str, version: int, *, gone: bool) -> None: ...


class Doubt(Struct, frozen=True, gc=False):
    """A key whose object came after another one. `version` is to be confirmed by replies asked for after `since`."""

    version: int
    since: float


class Tombstone(Struct, gc=False):
    """A key without an object: its last uid was `uid`, deleted at `version`, which we heard of at `since`.

    `uid` is "" where the end fell into a gap of the watch: then others may have come after the one that we knew.
    `confirmed` is when every living replica was known to have heard of it too.
    """

    uid: str
    version: int
    since: float
    confirmed: float | None = None


class ShardLedger:
    """A store for a Reflector that follows all of a resource, metadata only; 150 bytes an object.

    Fed without folding, in the order of the server, so that no uid is missed but in a gap of the watch; after a gap the
    keys that are new are in doubt too.

    A list of everything is taken in beside what is there, and takes its place at once: whoever asks for a key meanwhile
    hears of the old state, and by `changing` which keys the new one has otherwise; those are nobody's for now.

    Args:
        now: The clock of `since`: the boot clock.
        changed: Told of each key that has another uid than before, may have had one, or (`gone`) has none any more,
            with the version, before the ledger says so.

    Attributes:
        applied: The resourceVersion up to which everything has been seen, as a number; 0 before the first list.
        begin: What the others must have seen before anything is begun: the newest object of the first list; None once
            they have.
        doubts, tombstones: By key.
    """

    def __init__(self, now: Callable[[], float], changed: Changed) -> None:
        self._now = now
        self._changed = changed
        self._uids: PartitionedDict[str, str] = PartitionedDict()
        self._changing: PartitionedDict[str, bool] = PartitionedDict()
        self.applied = 0
        self.begin: Doubt | None = None
        self.doubts: PartitionedDict[str, Doubt] = PartitionedDict()
        self.tombstones: PartitionedDict[str, Tombstone] = PartitionedDict()
        # For all that was deleted before a list and left no tombstone here: meanwhile every new key is in doubt.
        self._gap: Tombstone | None = None

    def __len__(self) -> int:
        return len(self._uids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._uids)

    def uid(self, key: str) -> str | None:
        """Of the object under a key, as far as is known here."""
        return self._uids.get(key)

    def changing(self, key: str) -> bool:
        """A list that is being taken in has another uid under this key, or none: nothing may be begun with it."""
        return key in self._changing

    # --- what a reflector calls -------------------------------------------------------------------------------

    def add(self, obj: Any) -> None:
        """An object was made, or has changed."""
        version = _number(obj.resource_version)
        self._put(obj.key, obj.uid, version)
        self.applied = max(self.applied, version)

    update = add

    def delete(self, obj: Any) -> None:
        """An object has gone; takes tombstones of the kind that reflectors give."""
        obj = getattr(obj, "object", obj)
        version = _number(obj.resource_version)
        uid = self._uids.get(obj.key)
        if uid is not None:
            self._bury(obj.key, uid, version)
            del self._uids[obj.key]
        self.applied = max(self.applied, version)

    def replace(self, items: Iterable[Any], resource_version: str) -> None:
        """Everything that there is now, in one go; 3 us an object."""
        for _ in self.replacing(items, resource_version):
            pass

    def replacing(self, items: Iterable[Any], resource_version: str) -> Iterator[None]:
        """`replace` in steps, each of which looks at `STEP` keys at most; nothing else may be told in between.

        Who stops before the end leaves the ledger as it was, but for keys in doubt.
        """
        version, first = _number(resource_version), not self.applied
        found: PartitionedDict[str, str] = PartitionedDict()
        newest = 0
        for number, obj in enumerate(items, 1):
            key, uid, own = obj.key, obj.uid, _number(obj.resource_version)
            newest = max(newest, own)
            found[key] = uid
            before = self._uids.get(key)
            if before != uid and (not first or before is not None or key in self.tombstones):
                self._changing[key] = True
                self._doubt(key, own)
                self.tombstones.pop(key)
            if number % STEP == 0:
                yield
        for number, (key, uid) in enumerate(self._uids.items(), 1):
            if found.get(key) is None:
                self._changing[key] = True
                self._bury(key, uid, version)
                self.tombstones[key].uid = ""
            if number % STEP == 0:
                yield
        old, self._uids = self._uids, found
        self._changing = PartitionedDict()
        if first:
            self.begin = Doubt(newest, self._now())
        self._gap = Tombstone("", version, self._now())
        self.applied = max(self.applied, version)
        for part in old.partitions:
            yield
            part.clear()  # to let go of 100,000 keys takes its time too

    def resync(self) -> None:
        """Nothing to do: nobody listens here."""

    def bookmark(self, resource_version: str) -> None:
        """Nothing happened up to here."""
        self.applied = max(self.applied, _number(resource_version))

    def _put(self, key: str, uid: str, version: int) -> None:
        before = self._uids.get(key)
        if before == uid:
            return
        if before is not None or key in self.tombstones or self._gap is not None:
            self._doubt(key, version)
        self.tombstones.pop(key)
        self._uids[key] = uid

    def _doubt(self, key: str, version: int) -> None:
        self._changed(key, version, gone=False)
        self.doubts[key] = Doubt(version, self._now())

    def _bury(self, key: str, uid: str, version: int) -> None:
        self._changed(key, version, gone=True)
        if key in self.doubts:  # who has the slot of this uid may clean up behind it, but not before it is ours alone
            self.doubts[key] = Doubt(version, self._now())
        self.tombstones[key] = Tombstone(uid, version, self._now())

    # --- what the others have confirmed -----------------------------------------------------------------------

    def confirmed(self, seen: int | None, asked: float, forget_after: float = math.inf) -> None:
        """What everybody else has seen, as they answered a question that was asked then; None: there is nobody else.

        Answers to earlier questions do not count, for whoever joined since may have seen less. Tombstones that were
        confirmed more than `forget_after` seconds ago are forgotten.
        """
        self.begin_confirmed(seen, asked)
        for _ in self.confirming(seen, asked, forget_after):
            pass

    def begin_confirmed(self, seen: int | None, asked: float) -> None:
        """`confirmed`, as far as `begin` is concerned."""
        if self.begin is not None and _covers(self.begin.version, self.begin.since, seen, asked):
            self.begin = None

    def confirming(self, seen: int | None, asked: float, forget_after: float = math.inf) -> Iterator[None]:
        """`confirmed` in steps, for all but `begin`; nothing else may be told in between."""
        now = self._now()
        number = 0
        for part in self.doubts.partitions:
            for key, doubt in list(part.items()):
                if _covers(doubt.version, doubt.since, seen, asked):
                    del part[key]
                number += 1
                if number % STEP == 0:
                    yield
        for stones in self.tombstones.partitions:
            for key, stone in list(stones.items()):
                if stone.confirmed is None and _covers(stone.version, stone.since, seen, asked):
                    stone.confirmed = now
                elif stone.confirmed is not None and now - stone.confirmed > forget_after:
                    del stones[key]
                number += 1
                if number % STEP == 0:
                    yield
        gap = self._gap
        if gap is not None and gap.confirmed is None and _covers(gap.version, gap.since, seen, asked):
            gap.confirmed = now
        elif gap is not None and gap.confirmed is not None and now - gap.confirmed > forget_after:
            self._gap = None


def _covers(version: int, since: float, seen: int | None, asked: float) -> bool:
    return asked > since and (seen is None or seen >= version)


def _number(resource_version: str) -> int:
    return version_number(resource_version) if resource_version not in ("", "0") else 0
