"""Slots: the 256 fixed parts of a sharded resource, and their assignment to replicas.

An object's slot is the first byte of the 64-bit FNV-1a hash of its uid, which is the hash of the API server's
`shardSelector` (apimachinery, pkg/sharding/hash.go; KEP-5866). So a set of slots is a few ranges of that hash, and a
server that can filter by it sends an informer its share alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

__all__ = [
    "ALL_SLOTS",
    "SLOTS",
    "SlotClaims",
    "assigned_slots",
    "shard_hash",
    "shard_selector",
    "slot_of",
    "slots_of_text",
    "slots_text",
]

SLOTS = 256
ALL_SLOTS = frozenset(range(SLOTS))

_SLOTS_TEXT = re.compile("[0-9a-f]{64}")

_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def shard_hash(text: str) -> int:
    """Return the 64-bit FNV-1a hash, which the API server takes of a uid; 2 us."""
    value = _OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value


def slot_of(uid: str) -> int:
    """Return the slot of the object with this uid, 0 to 255."""
    return shard_hash(uid) >> 56


def shard_selector(slots: Iterable[int]) -> str | None:
    """Return the `shardSelector` for some slots; None for all of them, which need none.

    Raises:
        ValueError: There are no slots, and no selector matches nothing.
    """
    chosen = sorted(set(slots))
    if not chosen:
        raise ValueError("no slots: expected one or more, because no shard selector matches nothing")
    if len(chosen) == SLOTS:
        return None
    ranges: list[list[int]] = []
    for slot in chosen:
        if ranges and ranges[-1][1] == slot:
            ranges[-1][1] = slot + 1
        else:
            ranges.append([slot, slot + 1])
    return "||".join(f"shardRange(object.metadata.uid,'{_bound(start)}','{_bound(end)}')" for start, end in ranges)


def _bound(slot: int) -> str:
    return f"0x{slot << 56:016x}"


def slots_text(slots: Iterable[int]) -> str:
    """Return the text of slots for an annotation: 64 hexadecimal digits, a bit for each slot, slot 0 the last."""
    return f"{sum(1 << slot for slot in set(slots)):064x}"


@lru_cache(maxsize=256)
def slots_of_text(text: str) -> frozenset[int]:
    """Read the text of `slots_text`; an unreadable text means all slots, because its replica might hold any."""
    if _SLOTS_TEXT.fullmatch(text) is None:
        return ALL_SLOTS
    bits = int(text, 16)
    return frozenset(slot for slot in range(SLOTS) if bits >> slot & 1)


def assigned_slots(replica: str, replicas: Iterable[str]) -> frozenset[int]:
    """Return the slots of a replica among others: rendezvous hashing gives each slot to the one of highest weight.

    A replica that leaves or joins moves only the slots that were, or become, its own. All that know the same replicas
    come to the same assignment, without asking each other.
    """
    return _assigned(replica, frozenset(replicas) - {replica})


@lru_cache(maxsize=256)
def _assigned(replica: str, rivals: frozenset[str]) -> frozenset[int]:
    mine = _weights(replica)
    others = [_weights(other) for other in rivals]
    return frozenset(slot for slot in range(SLOTS) if all(mine[slot] > weights[slot] for weights in others))


@lru_cache(maxsize=1024)
def _weights(replica: str) -> tuple[tuple[bytes, str], ...]:
    # With the name, so that equal hashes do not tie. Not FNV: names that differ in one digit must differ in all slots.
    return tuple((blake2b(f"{slot}/{replica}".encode(), digest_size=8).digest(), replica) for slot in range(SLOTS))


class SlotClaims:
    """The slots of one replica, on their way from a claim in its Lease to work.

    Attributes:
        held: The slots that are the replica's.
        claimed: Slots in its Lease that are not yet its own: a later list has to show them nowhere else.
        written: The slots that its Lease shows.
    """

    def __init__(self) -> None:
        self.held: frozenset[int] = frozenset()
        self.claimed: frozenset[int] = frozenset()
        self.written: frozenset[int] = frozenset()
        self._claimed_at = 0.0

    @property
    def shown(self) -> frozenset[int]:
        """The slots that the Lease has to show."""
        return self.held | self.claimed

    def note_written(self, slots: frozenset[int], now: float) -> None:
        """Record that the Lease shows these slots, on the boot clock."""
        if slots - self.written:
            self._claimed_at = now
        self.written = slots

    def decide(self, wanted: frozenset[int], elsewhere: frozenset[int], asked: float) -> frozenset[int]:
        """Claim slots, and take those whose claim is good; return the slots taken.

        Args:
            wanted: The slots that are assigned to the replica.
            elsewhere: The slots that the Leases of others show.
            asked: When the list of those Leases was asked for, on the boot clock.
        """
        good = frozenset[int]()
        if asked > self._claimed_at:
            good = (self.claimed & self.written & wanted) - elsewhere
        claims = wanted - self.held - elsewhere
        self.held |= good
        # A claim that is seen elsewhere too is kept only by the replica that the slot is assigned to.
        kept = self.claimed & self.written & wanted & elsewhere
        self.claimed = (claims | kept) - self.held
        return good
