"""Slots: the server's hash, ranges of it, and who gets which.

Internals: the slots themselves, for any uid and any number of replicas.
"""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer.sharding.slots import (
    ALL_SLOTS,
    SLOTS,
    assigned_slots,
    shard_hash,
    shard_selector,
    slot_of,
    slots_of_text,
    slots_text,
)
from tests.sharding.widget_server import matches

SETS = st.frozensets(st.integers(0, SLOTS - 1))
NAMES = st.frozensets(st.text("abc-0123", min_size=1, max_size=8), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("text", "value"),
    [  # of the authors of FNV (draft-eastlake-fnv, test values of FNV-1a, 64 bits)
        ("", 0xCBF29CE484222325),
        ("a", 0xAF63DC4C8601EC8C),
        ("foobar", 0x85944171F73967E8),
    ],
)
def test_the_hash_is_fnv_1a_of_64_bits(text: str, value: int) -> None:
    assert shard_hash(text) == value


def test_uids_spread_evenly_over_the_slots() -> None:
    counts = Counter(
        slot_of(str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128))) for number in range(25_600)
    )
    assert len(counts) == SLOTS
    assert 50 < min(counts.values()) < 100 < max(counts.values()) < 160


@given(SETS.filter(bool), st.uuids())
def test_a_selector_chooses_exactly_the_objects_of_its_slots(slots: frozenset[int], uid: uuid.UUID) -> None:
    assert matches(shard_selector(slots), str(uid)) == (slot_of(str(uid)) in slots)


def test_ranges_that_meet_are_one_and_the_last_ends_at_two_to_the_64th() -> None:
    assert shard_selector([254, 0, 255, 1]) == (
        "shardRange(object.metadata.uid,'0x0000000000000000','0x0200000000000000')||"
        "shardRange(object.metadata.uid,'0xfe00000000000000','0x10000000000000000')"
    )
    assert shard_selector(ALL_SLOTS) is None
    with pytest.raises(ValueError, match="no slots"):
        shard_selector([])


@given(SETS)
def test_the_text_of_slots_reads_back(slots: frozenset[int]) -> None:
    assert slots_of_text(slots_text(slots)) == slots


def test_a_text_that_cannot_be_read_may_mean_any_slot() -> None:
    assert slots_of_text("from the future") == ALL_SLOTS
    assert slots_of_text("") == ALL_SLOTS


@given(NAMES)
def test_every_slot_goes_to_one_replica_whoever_asks(names: frozenset[str]) -> None:
    shares = [assigned_slots(name, names) for name in names]
    assert sum(map(len, shares)) == SLOTS
    assert frozenset().union(*shares) == ALL_SLOTS


@given(NAMES, st.text("xyz", min_size=1, max_size=5))
def test_who_joins_takes_slots_and_nothing_else_moves(names: frozenset[str], joining: str) -> None:
    after = names | {joining}
    taken = assigned_slots(joining, after)
    for name in names:
        assert assigned_slots(name, names) - taken == assigned_slots(name, after)


def test_shares_are_of_about_the_same_size() -> None:
    for number in (2, 4, 8):
        names = [f"replica-{index}" for index in range(number)]
        sizes = [len(assigned_slots(name, names)) for name in names]
        assert max(sizes) < 1.6 * SLOTS / number
        assert min(sizes) > 0.5 * SLOTS / number
