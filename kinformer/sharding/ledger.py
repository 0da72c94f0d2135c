"""The ledger: the uid behind every key of a sharded resource, and the keys that another replica may still work on.

A key belongs to the replica that holds the slot of its object's uid. An object that is deleted and created again under
the same name has a new uid, which may belong to another replica; and the owner of the old uid may not know of it
yet. So such a key is in doubt until every living replica has confirmed that it has seen the new object, and has no
reconcile of the key under way.
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
"""Keys that one step of a replace handles at most: 0.1 ms."""


class LedgerObject(Protocol):
    """The parts of an object that a ledger reads."""

    @property
    def key(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...


class OnChange(Protocol):
    """A function that a ledger calls."""

    def __call__(self, key: str, version: int, *, gone: bool) -> None: ...


class Doubt(Struct, frozen=True, gc=False):
    """A key whose object came after another one, until answers to a question asked after `since` confirm `version`."""

    version: int
    since: float


class Tombstone(Struct, gc=False):
    """A key without an object: its last uid was `uid`, deleted at `version`, which we saw at `since`.

    `uid` is "" if the end fell into a gap of the watch: then other objects may have come after the one that we knew.
    `confirmed` is when every living replica was known to have seen the end too.
    """

    uid: str
    version: int
    since: float
    confirmed: float | None = None


class ShardLedger:
    """A store for a Reflector that follows a whole resource, metadata only; 150 bytes an object.

    Events come without folding, in the order of the server, so a uid is missed only in a gap of the watch; after a gap,
    new keys are in doubt too.

    A full list is read in beside the state before it, and replaces that in one step. Until then `uid` returns the old
    state, and `is_changing` tells which keys differ in the new one; no replica may start work on these.

    Args:
        now: The clock of `since`: the boot clock.
        on_change: Called for each key that has another uid than before, or may have had one, or (`gone`) has none any
            more, with the version, before the ledger shows it.

    Attributes:
        applied: The resourceVersion up to which everything has been seen, as a number; 0 before the first list.
        initial_doubt: The newest object of the first list, which the others must have seen before any work may start;
            None once they have.
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
        # For objects that were deleted before a list and left no tombstone: meanwhile every new key is in doubt.
        self._gap: Tombstone | None = None

    def __len__(self) -> int:
        return len(self._uids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._uids)

    def uid(self, key: str) -> str | None:
        """Return the uid of the object under a key, as far as it is known here."""
        return self._uids.get(key)

    def is_changing(self, key: str) -> bool:
        """Return True if a list that is being read in has another uid under this key, or none."""
        return key in self._changing

    # --- the methods of a reflector's store -----------------------------------------------------------------

    def add(self, obj: LedgerObject) -> None:
        """Record an object that was created, or has changed."""
        version = _number(obj.resource_version)
        self._set_uid(obj.key, obj.uid, version)
        self.applied = max(self.applied, version)

    update = add

    def delete(self, obj: LedgerObject | DeletedFinalStateUnknown) -> None:
        """Record the end of an object; takes a reflector's tombstones too."""
        last: LedgerObject = obj.object if isinstance(obj, DeletedFinalStateUnknown) else obj
        version = _number(last.resource_version)
        uid = self._uids.get(last.key)
        if uid is not None:
            self._bury(last.key, uid, version)
            del self._uids[last.key]
        self.applied = max(self.applied, version)

    def replace(self, items: Iterable[LedgerObject], resource_version: str) -> None:
        """Replace all objects in one go; 3 us an object."""
        for _ in self.replace_in_steps(items, resource_version):
            pass

    def replace_in_steps(self, items: Iterable[LedgerObject], resource_version: str) -> Iterator[None]:
        """Replace all objects in steps of at most `STEP` keys.

        Call nothing else of the ledger between the steps. If the iteration is given up before its end, the ledger is as
        before, except for keys in doubt.
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
        """Record that nothing has happened up to this version."""
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
        if key in self.doubts:  # the holder of this uid's slot may clean up, but not before the key is its own alone
            self.doubts[key] = Doubt(version, self._now())
        self.tombstones[key] = Tombstone(uid, version, self._now())

    # --- confirmations of the other replicas ------------------------------------------------------------------

    def confirm(self, seen: int | None, asked: float, forget_after: float = math.inf) -> None:
        """End the doubts about everything that all other replicas have seen.

        Args:
            seen: The version that all of them have seen, as they answered; None: there are no others.
            asked: The time when they were asked. Answers to earlier questions do not count, because a replica that has
                joined since may have seen less.
            forget_after: Seconds after their confirmation after which tombstones are forgotten.
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
        """Do the rest of `confirm` in steps; call nothing else of the ledger between them."""
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
    """Note a confirmation of a tombstone; return True if it may be forgotten."""
    if stone.confirmed is None:
        if _covers(stone.version, stone.since, seen, asked):
            stone.confirmed = now
        return False
    return now - stone.confirmed > forget_after


def _covers(version: int, since: float, seen: int | None, asked: float) -> bool:
    return asked > since and (seen is None or seen >= version)


def _number(resource_version: str) -> int:
    return version_number(resource_version) if resource_version not in ("", "0") else 0
