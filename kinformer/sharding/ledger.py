"""The ledger: the uid of every key of a sharded resource, and the keys that another replica may still be working on.

A key belongs to the replica that holds the slot of its object's uid. An object that is deleted and created again with
the same name has a new uid, which may belong to another replica, and the owner of the old uid may not know of the new
one yet. So the key is in doubt until every living replica has confirmed that it has seen the new object and is not
running a reconcile of the key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from kinformer._runtime.partitioned_dict import PartitionedDict
from kinformer.objects.meta import DeletedFinalStateUnknown, version_number

__all__ = ["STEP", "Doubt", "LedgerObject", "OnChange", "ShardLedger", "Tombstone"]

STEP = 64
"""The most keys that one step of a replace handles, which takes 0.1 ms."""


class LedgerObject(Protocol):
    """The parts of an object that a ledger reads."""

    @property
    def key(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...


class OnChange(Protocol):
    """The callback of a ledger."""

    def __call__(self, key: str, version: int, *, gone: bool) -> None: ...


class Doubt(Struct, frozen=True, gc=False):
    """A key whose object replaced another one, in doubt until answers requested after `since` confirm `version`."""

    version: int
    since: float


class Tombstone(Struct, gc=False):
    """A key without an object: its last uid was `uid`, deleted at `version`, which was seen at `since`.

    `uid` is "" if the deletion fell into a gap of the watch, because unseen objects may have followed the known one.
    `confirmed` is the time when every living replica was known to have seen the deletion too.
    """

    uid: str
    version: int
    since: float
    confirmed: float | None = None


class ShardLedger:
    """A store for a Reflector that follows the metadata of a whole resource, at 150 bytes per object.

    Events arrive one by one in the server's order, so a uid is missed only in a gap of the watch. After a gap, new keys
    are in doubt too.

    A full list is applied next to the previous state, and replaces it in one step. Until then, `uid` returns the old
    state, and `is_changing` is true for keys that differ in the new one. No replica may start work on these keys.

    Args:
        now: Returns the time for `since`, on the boot clock.
        on_change: Called with the version, before the ledger shows a change, for each key that has a different uid, may
            have had one, or (`gone`) no longer has one.

    Attributes:
        applied: The resourceVersion up to which everything has been seen, as a number, or 0 before the first list.
        initial_doubt: The newest object of the first list, which the other replicas must have seen before any work may
            start, or None once they have.
        doubts, tombstones: By key.
    """

    def __init__(self, now: Callable[[], float], on_change: OnChange) -> None:
        self._now = now
        self._on_change = on_change
        self._uids: PartitionedDict[str, str] = PartitionedDict()
        self._changing: PartitionedDict[str, bool] = PartitionedDict()
        self.applied = 0
        self.initial_doubt: Doubt | None = None
        self.doubts: PartitionedDict[str, Doubt] = PartitionedDict()
        self.tombstones: PartitionedDict[str, Tombstone] = PartitionedDict()
        # For objects that were deleted before a list and left no tombstone. While it is set, new keys are in doubt.
        self._gap: Tombstone | None = None

    def __len__(self) -> int:
        return len(self._uids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._uids)

    def uid(self, key: str) -> str | None:
        """Return the uid of the object with this key, or None if none is known."""
        return self._uids.get(key)

    def is_changing(self, key: str) -> bool:
        """Return True if a list that is being applied has another uid for this key, or none."""
        return key in self._changing

    # --- the methods of a reflector's store -----------------------------------------------------------------

    def add(self, obj: LedgerObject) -> None:
        """Record an object that was created or changed."""
        version = _number(obj.resource_version)
        self._set_uid(obj.key, obj.uid, version)
        self.applied = max(self.applied, version)

    update = add

    def delete(self, obj: LedgerObject | DeletedFinalStateUnknown) -> None:
        """Record the deletion of an object. Accepts a reflector's tombstones too."""
        last: LedgerObject = obj.object if isinstance(obj, DeletedFinalStateUnknown) else obj
        version = _number(last.resource_version)
        uid = self._uids.get(last.key)
        if uid is not None:
            self._bury(last.key, uid, version)
            del self._uids[last.key]
        self.applied = max(self.applied, version)

    def replace(self, items: Iterable[LedgerObject], resource_version: str) -> None:
        """Replace all objects in one go, in 3 us per object."""
        for _ in self.replace_in_steps(items, resource_version):
            pass

    def replace_in_steps(self, items: Iterable[LedgerObject], resource_version: str) -> Iterator[None]:
        """Replace all objects in steps of at most `STEP` keys.

        Between the steps, the ledger may only be read. If the iteration is abandoned, the uids are as before, but
        doubts, tombstones and changing keys are not.
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
            self.initial_doubt = Doubt(newest, self._now())
        self._gap = Tombstone("", version, self._now())
        self.applied = max(self.applied, version)
        for part in old.partitions:
            yield
            part.clear()  # freeing 100,000 keys takes time too

    def resync(self) -> None:
        """Do nothing: a ledger has no handlers."""

    def bookmark(self, resource_version: str) -> None:
        """Record that there are no more events up to this version."""
        self.applied = max(self.applied, _number(resource_version))

    def _set_uid(self, key: str, uid: str, version: int) -> None:
        before = self._uids.get(key)
        if before == uid:
            return
        if before is not None or key in self.tombstones or self._gap is not None:
            self._doubt(key, version)
        self.tombstones.pop(key)
        self._uids[key] = uid

    def _doubt(self, key: str, version: int) -> None:
        self._on_change(key, version, gone=False)
        self.doubts[key] = Doubt(version, self._now())

    def _bury(self, key: str, uid: str, version: int) -> None:
        self._on_change(key, version, gone=True)
        if key in self.doubts:  # the holder of this uid's slot may clean up, but not before it alone has the key
            self.doubts[key] = Doubt(version, self._now())
        self.tombstones[key] = Tombstone(uid, version, self._now())

    # --- confirmations of the other replicas ------------------------------------------------------------------

    def confirm(self, seen: int | None, asked: float, forget_after: float = math.inf) -> None:
        """Remove the doubts about everything that all other replicas have seen.

        Args:
            seen: The version that all of them have seen, according to their answers, or None if there are no others.
            asked: The time when the answers were requested. They end only earlier doubts, because a replica that has
                joined since may have seen less.
            forget_after: Seconds from the confirmation of a tombstone to its removal.
        """
        self.confirm_initial(seen, asked)
        for _ in self.confirm_in_steps(seen, asked, forget_after):
            pass

    def confirm_initial(self, seen: int | None, asked: float) -> None:
        """Do the part of `confirm` that concerns `initial_doubt`."""
        doubt = self.initial_doubt
        if doubt is not None and _covers(doubt.version, doubt.since, seen, asked):
            self.initial_doubt = None

    def confirm_in_steps(self, seen: int | None, asked: float, forget_after: float = math.inf) -> Iterator[None]:
        """Do the rest of `confirm` in steps. Between them, the ledger may only be read."""
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
                if _confirm_tombstone(stone, seen, asked, now, forget_after):
                    del stones[key]
                number += 1
                if number % STEP == 0:
                    yield
        if self._gap is not None and _confirm_tombstone(self._gap, seen, asked, now, forget_after):
            self._gap = None


def _confirm_tombstone(stone: Tombstone, seen: int | None, asked: float, now: float, forget_after: float) -> bool:
    """Record a confirmation of a tombstone. Return True if the tombstone may be removed."""
    if stone.confirmed is None:
        if _covers(stone.version, stone.since, seen, asked):
            stone.confirmed = now
        return False
    return now - stone.confirmed > forget_after


def _covers(version: int, since: float, seen: int | None, asked: float) -> bool:
    return asked > since and (seen is None or seen >= version)


def _number(resource_version: str) -> int:
    return version_number(resource_version) if resource_version not in ("", "0") else 0
