"""The ledger of a whole sharded resource: key by key, whole or not at all, and a little at a time.

Internals: the ledger, since a controller does not show its steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM
from kinformer.sharding.feed import ShardFeed
from kinformer.sharding.ledger import STEP, ShardLedger


class Obj(NamedTuple):
    """What a ledger reads of an object."""

    key: str
    uid: str
    resource_version: str


class Heard:
    """What a ledger says has changed."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, int, bool]] = []

    def __call__(self, key: str, version: int, *, gone: bool) -> None:
        self.keys.append((key, version, gone))


def ledger_of(objects: dict[str, str], version: int = 10) -> tuple[ShardLedger, Heard]:
    """A ledger with these uids by key, whose first list everybody has confirmed."""
    heard = Heard()
    ledger = ShardLedger(lambda: 1.0, heard)
    ledger.replace([Obj(key, uid, str(version)) for key, uid in objects.items()], str(version))
    ledger.confirm(None, 2.0)
    return ledger, heard


def shown(ledger: ShardLedger) -> dict[str, str | None]:
    return {key: ledger.uid(key) for key in ledger}


MANY = 40 * STEP


class Counting:
    """Objects one by one; how many have been taken."""

    def __init__(self, objects: list[Obj]) -> None:
        self._objects = objects
        self.taken = 0

    def __iter__(self) -> Iterator[Obj]:
        for obj in self._objects:
            self.taken += 1
            yield obj


def test_no_step_of_a_replace_looks_at_more_than_a_few_objects_whether_they_stay_come_change_or_go() -> None:
    ledger, heard = ledger_of({f"k{number}": f"u{number}" for number in range(MANY)})
    half = MANY // 2
    stays = [Obj(f"k{number}", f"u{number}", "10") for number in range(half)]
    changes = [Obj(f"k{number}", f"other{number}", "19") for number in range(half, half + 5 * STEP)]
    comes = [Obj(f"new{number}", f"n{number}", "18") for number in range(5 * STEP)]
    counting = Counting([*stays, *changes, *comes])
    steps, taken, told = 0, 0, 0
    for _ in ledger.replace_in_steps(counting, "20"):
        steps += 1
        assert counting.taken - taken <= STEP
        assert len(heard.keys) - told <= STEP
        taken, told = counting.taken, len(heard.keys)
    assert taken == half + 10 * STEP
    assert len([key for key, _, gone in heard.keys if gone]) == MANY - half - 5 * STEP
    assert steps >= (taken + MANY) // STEP
    assert len(ledger) == taken


def test_letting_go_of_what_was_before_takes_many_steps_too() -> None:
    ledger, _ = ledger_of({f"k{number}": f"u{number}" for number in range(MANY)})
    before = ledger._uids  # the table itself, which nothing shows once another has its place
    left = [MANY]
    for _ in ledger.replace_in_steps([], "20"):
        left.append(len(before))
    assert max(one - other for one, other in pairwise(left)) < MANY / 8
    assert len(ledger) == 0


def test_until_a_replace_has_ended_the_state_before_it_is_shown_and_what_changes_may_not_be_begun() -> None:
    old = {f"k{number}": f"u{number}" for number in range(4 * STEP)}
    new = {f"k{number}": f"v{number}" for number in range(2 * STEP)}
    ledger, heard = ledger_of(old)
    states = []
    for _ in ledger.replace_in_steps([Obj(key, uid, "15") for key, uid in new.items()], "20"):
        states.append((shown(ledger), ledger.applied))
        for key, _, _ in heard.keys if ledger.applied == 10 else ():
            assert ledger.is_changing(key)
    assert all(state in ((old, 10), (new, 20)) for state in states)
    assert states[0] == (old, 10)
    assert states[-1] == (new, 20)
    assert not any(ledger.is_changing(key) for key in (*old, *new))


def test_a_first_list_is_shown_whole_or_not_at_all_and_nothing_in_it_is_in_doubt() -> None:
    ledger = ShardLedger(lambda: 1.0, Heard())
    objects = [Obj(f"k{number}", f"u{number}", str(11 + number)) for number in range(3 * STEP)]
    sizes = set()
    for _ in ledger.replace_in_steps(objects, "500"):
        sizes.add((len(ledger), ledger.applied, ledger.initial_doubt is None))
    assert sizes == {(0, 0, True), (3 * STEP, 500, False)}
    assert ledger.initial_doubt is not None
    assert ledger.initial_doubt.version == 10 + 3 * STEP
    assert not ledger.doubts


KEYS = st.sampled_from(["a", "b", "c", "d"])
WORLD = st.dictionaries(KEYS, st.sampled_from(["1", "2", "3"]))


@given(WORLD, WORLD, st.booleans())
def test_after_a_replace_what_has_another_uid_is_in_doubt_and_what_has_gone_is_known_to_have_gone(
    old: dict[str, str], new: dict[str, str], deleted_before: bool
) -> None:
    ledger, heard = ledger_of({key: f"{key}{uid}" for key, uid in old.items()})
    if deleted_before:
        for key, uid in old.items():
            ledger.delete(Obj(key, f"{key}{uid}", "12"))
        heard.keys.clear()
        known = {}
    else:
        known = old
    ledger.replace([Obj(key, f"{key}{uid}", "15") for key, uid in new.items()], "20")
    assert shown(ledger) == {key: f"{key}{uid}" for key, uid in new.items()}
    differs = {key for key in new if known.get(key) != new[key]}
    assert set(ledger.doubts) == differs
    assert {key: stone.uid for key, stone in ledger.tombstones.items() if key in known} == {
        key: "" for key in known if key not in new
    }
    assert {(key, gone) for key, _, gone in heard.keys} == {(key, False) for key in differs} | {
        (key, True) for key in known if key not in new
    }
    ledger.add(Obj("later", "later1", "21"))
    assert "later" in ledger.doubts  # after a list a key's past is not known until everybody has read that far


class Ticks:
    """A clock that says after each look that the time for work is over: a pause after every step."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


async def test_what_comes_while_a_list_is_taken_in_waits_behind_it_in_its_order() -> None:
    ledger, _ = ledger_of({})
    feed = ShardFeed(ledger, clock=replace(SYSTEM, perf=Ticks()))
    running = asyncio.create_task(feed.run())
    objects: ChunkedList[Any] = ChunkedList()
    objects.add(Obj(f"k{number}", f"u{number}", "15") for number in range(3 * STEP))
    feed.replace(objects, "20")
    feed.add(Obj("k1", "other", "21"))
    feed.delete(Obj("k2", "u2", "22"))
    feed.bookmark("30")
    seen = set()
    for _ in range(200):
        await asyncio.sleep(0)
        seen.add((ledger.applied, len(ledger), ledger.uid("k1")))
    size = 3 * STEP
    assert seen == {
        (10, 0, None), (20, size, "u1"), (21, size, "other"), (22, size - 1, "other"), (30, size - 1, "other")
    }  # fmt: skip
    feed.update(Obj("k1", "third", "31"))
    assert ledger.uid("k1") == "third"  # nothing waits, so it is told at once
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_between_two_steps_everything_else_that_is_ready_runs() -> None:
    ledger, _ = ledger_of({f"k{number}": f"u{number}" for number in range(MANY)})
    feed = ShardFeed(ledger, clock=replace(SYSTEM, perf=Ticks()))
    running = asyncio.create_task(feed.run())
    counting = Counting([Obj(f"k{number}", f"other{number}", "15") for number in range(MANY)])
    feed.replace(list(counting), "20")
    turns = 0
    while ledger.applied < 20:
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 2 * MANY // STEP
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def test_no_step_of_a_confirmation_looks_at_more_than_a_few_keys() -> None:
    ledger, _ = ledger_of({f"k{number}": f"u{number}" for number in range(2 * MANY)})
    ledger.replace([Obj(f"k{number}", f"other{number}", "15") for number in range(MANY)], "20")
    assert (len(ledger.doubts), len(ledger.tombstones)) == (MANY, MANY)
    doubts, confirmed, steps = MANY, 0, 0
    for _ in ledger.confirm_in_steps(None, 2.0):
        steps += 1
        now = sum(stone.confirmed is not None for stone in ledger.tombstones.values())
        assert doubts - len(ledger.doubts) + now - confirmed <= STEP
        doubts, confirmed = len(ledger.doubts), now
    assert steps >= 2 * MANY // STEP - 1
    assert not ledger.doubts
    assert all(stone.confirmed is not None for stone in ledger.tombstones.values())


def test_who_has_not_read_that_far_or_was_asked_before_confirms_nothing() -> None:
    ledger, _ = ledger_of({"a": "1", "b": "2"})
    ledger.replace([Obj("a", "other", "15")], "20")
    for seen, asked in ((14, 2.0), (None, 1.0), (-1, 2.0)):
        ledger.confirm(seen, asked)
        assert set(ledger.doubts) == {"a"}
    ledger.confirm(15, 2.0)  # enough for the object, and not for the end of the other one
    assert not ledger.doubts
    confirmed = [ledger.tombstones["b"].confirmed]
    ledger.confirm(20, 2.0, forget_after=-1.0)
    confirmed.append(ledger.tombstones["b"].confirmed)
    assert confirmed == [None, 1.0]
    ledger.confirm(20, 2.0, forget_after=-1.0)
    assert not ledger.tombstones


async def test_what_is_confirmed_is_told_behind_what_waits_and_only_the_newest() -> None:
    ledger, _ = ledger_of({"a": "1"})
    feed = ShardFeed(ledger, clock=replace(SYSTEM, perf=Ticks()))
    running = asyncio.create_task(feed.run())
    feed.replace([Obj("a", "other", "15")], "20")
    feed.confirm(14, 2.0, 60.0)
    feed.confirm(15, 2.0, 60.0)
    feed.add(Obj("b", "2", "21"))
    for _ in range(200):
        await asyncio.sleep(0)
    assert set(ledger.doubts) == {"b"}
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_a_list_whose_version_is_no_number_ends_the_feed_with_that() -> None:
    feed = ShardFeed(ShardLedger(lambda: 1.0, Heard()))
    feed.replace([], "a")
    with pytest.raises(ValueError, match="resourceVersion 'a' is not a number"):
        await feed.run()
