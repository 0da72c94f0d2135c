"""Slots: the 256 fixed parts of a sharded resource, and their assignment to replicas.

An object's slot is the first byte of the 64-bit FNV-1a hash of its uid, which is also the hash of the API server's
`shardSelector` (KEP-5866, apimachinery's pkg/sharding/hash.go). So a set of slots is a few ranges of that hash, and a
server that can filter by it sends an informer only its share.
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
    """Return the 64-bit FNV-1a hash, which the API server computes of a uid, in 2 us."""
    value = _OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value


def slot_of(uid: str) -> int:
    """Return the slot of the object with this uid, 0 to 255."""
    return shard_hash(uid) >> 56


def shard_selector(slots: Iterable[int]) -> str | None:
    """Return the `shardSelector` for some slots, or None for all slots, which need none.

    Raises:
        ValueError: There are no slots. A selector cannot match nothing.
    """
    chosen = sorted(set(slots))
    if not chosen:
        raise ValueError("no slots: expected one or more, because a shard selector cannot be empty")
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
    """Format slots for an annotation: 64 hexadecimal digits with one bit per slot, and slot 0 as the last bit."""
    return f"{sum(1 << slot for slot in set(slots)):064x}"


@lru_cache(maxsize=256)
def slots_of_text(text: str) -> frozenset[int]:
    """Parse the result of `slots_text`. An invalid string means all slots, because its replica might hold any."""
    if _SLOTS_TEXT.fullmatch(text) is None:
        return ALL_SLOTS
    bits = int(text, 16)
    return frozenset(slot for slot in range(SLOTS) if bits >> slot & 1)


def assigned_slots(replica: str, replicas: Iterable[str]) -> frozenset[int]:
    """Return the slots of one replica. Rendezvous hashing assigns each slot to the replica with the highest weight.

    A replica that leaves or joins moves only the slots that were, or become, its own. All replicas that know the same
    replicas compute the same assignment, without asking each other.
    """
    return _assigned(replica, frozenset(replicas) - {replica})


@lru_cache(maxsize=256)
def _assigned(replica: str, rivals: frozenset[str]) -> frozenset[int]:
    mine = _weights(replica)
    others = [_weights(other) for other in rivals]
    return frozenset(slot for slot in range(SLOTS) if all(mine[slot] > weights[slot] for weights in others))


@lru_cache(maxsize=1024)
def _weights(replica: str) -> tuple[tuple[bytes, str], ...]:
    # With the name, so that equal hashes do not tie. Not FNV, because names that differ in one digit must differ in all
    # slots.
    return tuple((blake2b(f"{slot}/{replica}".encode(), digest_size=8).digest(), replica) for slot in range(SLOTS))


class SlotClaims:
    """The slots that one replica claims in its Lease and then holds.

    Attributes:
        held: The slots that the replica holds.
        claimed: Slots that it claims, but does not hold until a later list shows them nowhere else.
        written: The slots that its Lease shows.
    """

    def __init__(self) -> None:
        self.held: frozenset[int] = frozenset()
        self.claimed: frozenset[int] = frozenset()
        self.written: frozenset[int] = frozenset()
        self._claimed_at = 0.0

    @property
    def shown(self) -> frozenset[int]:
        """The slots that the Lease must show."""
        return self.held | self.claimed

    def note_written(self, slots: frozenset[int], now: float) -> None:
        """Record that the Lease shows these slots, since `now` on the boot clock."""
        if slots - self.written:
            self._claimed_at = now
        self.written = slots

    def decide(self, wanted: frozenset[int], elsewhere: frozenset[int], asked: float) -> frozenset[int]:
        """Claim slots, take the slots whose claim is valid, and return the slots taken.

        Args:
            wanted: The slots that are assigned to the replica.
            elsewhere: The slots that the Leases of others show.
            asked: The time when the list of these Leases was requested, on the boot clock.
        """
        good = frozenset[int]()
        if asked > self._claimed_at:
            good = (self.claimed & self.written & wanted) - elsewhere
        claims = wanted - self.held - elsewhere
        self.held |= good
        # If another Lease shows a slot too, only the replica that it is assigned to keeps its claim.
        kept = self.claimed & self.written & wanted & elsewhere
        self.claimed = (claims | kept) - self.held
        return good
