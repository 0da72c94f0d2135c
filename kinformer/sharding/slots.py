"""Slots: the 256 fixed parts of a sharded resource, and who gets which.

An object's slot is the first byte of the 64-bit FNV-1a hash of its uid, which is the hash of the API server's
`shardSelector` (apimachinery, pkg/sharding/hash.go; KEP-5866). So a set of slots is a few ranges of that hash, and a
server that can filter by it sends an informer its share alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

__all__ = [
    "ALL_SLOTS",
    "SLOTS",
    "assigned_slots",
    "shard_hash",
    "shard_selector",
    "slot_of",
    "slots_of_text",
    "slots_text",
]

SLOTS = 256
ALL_SLOTS = frozenset(range(SLOTS))

_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def shard_hash(text: str) -> int:
    """The 64-bit FNV-1a hash, as the API server takes it of a uid; 2 us."""
    value = _OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value


def slot_of(uid: str) -> int:
    """The slot of the object with this uid, 0 to 255."""
    return shard_hash(uid) >> 56


def shard_selector(slots: Iterable[int]) -> str | None:
    """The `shardSelector` for some slots; None for all of them, which needs none.

    Raises:
        ValueError: No slots at all: there is no selector that matches nothing.
    """
    chosen = sorted(set(slots))
    if not chosen:
        raise ValueError("no slots: a shard selector cannot match nothing")
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
    """64 hexadecimal digits, a bit for each slot, slot 0 the last: what stands in an annotation."""
    return f"{sum(1 << slot for slot in set(slots)):064x}"


@lru_cache(maxsize=256)
def slots_of_text(text: str) -> frozenset[int]:
    """The slots of `slots_text`; of what is no such text, all of them: who cannot be understood might hold any."""
    try:
        bits = int(text, 16) if text else 0
    except ValueError:
        return ALL_SLOTS
    return frozenset(slot for slot in range(SLOTS) if bits >> slot & 1)


def assigned_slots(replica: str, replicas: Iterable[str]) -> frozenset[int]:
    """The slots that a replica gets among others: rendezvous hashing, so each slot goes to who weighs most in it.

    Who leaves or joins moves only the slots that were, or become, his; everyone who knows the same replicas comes to
    the same answer, without asking anyone.
    """
    return _assigned(replica, frozenset(replicas) - {replica})


@lru_cache(maxsize=256)
def _assigned(replica: str, rivals: frozenset[str]) -> frozenset[int]:
    mine = _weights(replica)
    others = [_weights(other) for other in rivals]
    return frozenset(slot for slot in range(SLOTS) if all(mine[slot] > weights[slot] for weights in others))


@lru_cache(maxsize=1024)
def _weights(replica: str) -> tuple[tuple[bytes, str], ...]:
    # With the name, so that equal hashes are no tie. Not FNV: names that differ in one digit must differ in all slots.
    return tuple((blake2b(f"{slot}/{replica}".encode(), digest_size=8).digest(), replica) for slot in range(SLOTS))
