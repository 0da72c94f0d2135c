from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kinformer import DeletedFinalStateUnknown, DeltaFIFO, Store
from kinformer.exceptions import KeyFuncError, StoppedError
from kinformer.queue import Delta

Thing = tuple[str, int]  # a name and a version


def name(thing: Thing) -> str:
    return thing[0]


def store(*things: Thing) -> Store:
    known = Store(name)
    known.replace(things)
    return known


def queue(known_objects: Store | None = None, **options: Any) -> DeltaFIFO:
    return DeltaFIFO(name, known_objects=known_objects, **options)


def tombstone(key: str, thing: Thing | None) -> DeletedFinalStateUnknown:
    return DeletedFinalStateUnknown(key, thing)


def take(fifo: DeltaFIFO) -> list[tuple[str, list[tuple[str, Any]]]]:
    """All that waits, by one `pop_batch`, without the flags."""
    items: list[Any] = []
    if len(fifo):
        run(fifo.pop_batch(items.extend))
    return [(key, [(delta.type.value, delta.object) for delta in deltas]) for key, deltas, _ in items]


def run(coroutine: Any) -> Any:
    """Steps a coroutine that has nothing to wait for."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits for something")


# --- deltas --------------------------------------------------------------------------------------


def test_the_deltas_of_a_key_stay_together_in_order_at_the_place_of_the_oldest() -> None:
    fifo = queue()
    fifo.add(("a", 1))
    fifo.add(("b", 1))
    fifo.update(("a", 2))
    fifo.delete(("a", 3))
    assert len(fifo) == 2
    assert take(fifo) == [
        ("a", [("Added", ("a", 1)), ("Updated", ("a", 2)), ("Deleted", ("a", 3))]),
        ("b", [("Added", ("b", 1))]),
    ]
    assert len(fifo) == 0


def test_updates_are_kept_one_by_one() -> None:
    fifo = queue()
    for version in range(4):
        fifo.update(("a", version))
    assert [delta for _, deltas in take(fifo) for delta in deltas] == [("Updated", ("a", v)) for v in range(4)]


def test_single_pops_and_batches_give_the_same_order_whatever_comes_between() -> None:
    fifo = queue()
    popped: list[Any] = []

    def process(deltas: list[Delta], _: bool) -> None:
        popped.append([delta.object for delta in deltas])

    for thing in "abc":
        fifo.add((thing, 1))
    run(fifo.pop(process))
    fifo.update(("c", 2))
    fifo.add(("a", 2))
    fifo.add(("d", 1))
    while len(fifo):
        run(fifo.pop(process))
    assert popped == [[("a", 1)], [("b", 1)], [("c", 1), ("c", 2)], [("a", 2)], [("d", 1)]]


def test_popping_one_by_one_stays_cheap_however_much_waits() -> None:
    """A walk over the keys that were taken already would make this a matter of minutes."""
    fifo = queue()
    fifo.replace([(str(number), 1) for number in range(30_000)])
    popped: list[Any] = []
    for number in range(30_000):
        fifo.add((f"n{number}", 1))
        run(fifo.pop(lambda deltas, _: popped.append(deltas[0].object[0])))
    assert popped == [str(number) for number in range(30_000)]
    assert len(fifo) == 30_000


def test_of_two_deletes_in_a_row_the_one_with_the_last_state_stays() -> None:
    known = store(("a", 1), ("b", 1), ("c", 1))
    fifo = queue(known)
    fifo.delete(tombstone("a", ("a", 1)))
    fifo.delete(("a", 2))
    fifo.delete(("b", 2))
    fifo.delete(tombstone("b", ("b", 1)))
    fifo.update(("c", 2))
    fifo.delete(("c", 3))
    fifo.delete(("c", 4))
    assert take(fifo) == [
        ("a", [("Deleted", ("a", 2))]),
        ("b", [("Deleted", ("b", 2))]),
        ("c", [("Updated", ("c", 2)), ("Deleted", ("c", 3))]),
    ]


def test_deletes_with_something_between_them_stay_two() -> None:
    fifo = queue(store(("a", 1)))
    fifo.delete(("a", 1))
    fifo.add(("a", 2))
    fifo.delete(("a", 2))
    assert [kind for _, deltas in take(fifo) for kind, _ in deltas] == ["Deleted", "Added", "Deleted"]


def test_a_delete_of_what_nobody_knows_is_dropped() -> None:
    for fifo in (queue(), queue(store(("a", 1)))):
        fifo.delete(("ghost", 1))
        assert len(fifo) == 0
        fifo.add(("b", 1))
        fifo.delete(("b", 1))
        assert len(fifo) == 1
    fifo = queue(store(("a", 1)))
    fifo.delete(tombstone("a", None))
    assert take(fifo) == [("a", [("Deleted", tombstone("a", None))])]


def test_an_object_without_a_key_is_an_error_and_nothing_is_queued() -> None:
    fifo = queue()
    for write in (fifo.add, fifo.update, fifo.delete):
        with pytest.raises(KeyFuncError):
            write(7)
    with pytest.raises(KeyFuncError):
        fifo.replace([("a", 1), 7], "1")
    assert len(fifo) == 0
    assert not fifo.has_synced


# --- replace and resync ----------------------------------------------------------------------------


def test_a_replace_queues_each_item_and_then_a_tombstone_for_each_key_that_is_gone() -> None:
    fifo = queue(store(("kept", 1), ("gone", 1)))
    fifo.replace([("new", 2), ("kept", 2)], "10")
    assert take(fifo) == [
        ("new", [("Replaced", ("new", 2))]),
        ("kept", [("Replaced", ("kept", 2))]),
        ("gone", [("Deleted", tombstone("gone", ("gone", 1)))]),
    ]


def test_what_waits_and_is_not_in_the_list_is_deleted_with_its_newest_object() -> None:
    fifo = queue(store(("known", 1)))
    fifo.add(("queued", 1))
    fifo.update(("queued", 2))
    fifo.update(("known", 2))
    fifo.replace([], "10")
    assert take(fifo) == [
        (
            "queued",
            [("Added", ("queued", 1)), ("Updated", ("queued", 2)), ("Deleted", tombstone("queued", ("queued", 2)))],
        ),
        ("known", [("Updated", ("known", 2)), ("Deleted", tombstone("known", ("known", 2)))]),
    ]


def test_a_second_replace_puts_no_tombstone_into_a_tombstone() -> None:
    fifo = queue(store(("a", 1)))
    fifo.replace([], "10")
    fifo.replace([], "11")
    assert take(fifo) == [("a", [("Deleted", tombstone("a", ("a", 1)))])]
    fifo.delete(tombstone("a", ("a", 1)))
    fifo.update(("a", 3))
    fifo.replace([], "12")
    assert take(fifo)[0][1][-1] == ("Deleted", tombstone("a", ("a", 3)))


def test_a_replaced_object_after_its_delete_stays_two_deltas() -> None:
    fifo = queue(store(("a", 1)))
    fifo.delete(("a", 1))
    fifo.replace([("a", 2)], "10")
    assert take(fifo) == [("a", [("Deleted", ("a", 1)), ("Replaced", ("a", 2))])]


def test_items_come_as_sync_for_those_who_asked_for_that() -> None:
    fifo = queue(store(), emit_replaced=False)
    fifo.replace([("a", 1)], "10")
    assert take(fifo) == [("a", [("Sync", ("a", 1))])]


def test_a_resync_tells_what_is_known_but_not_of_keys_that_have_something_waiting() -> None:
    fifo = queue(store(("a", 1), ("b", 1)))
    fifo.update(("a", 2))
    fifo.resync()
    fifo.resync()
    assert take(fifo) == [("a", [("Updated", ("a", 2))]), ("b", [("Sync", ("b", 1))])]
    nobody = queue()
    nobody.resync()
    assert len(nobody) == 0


def test_known_answers_for_the_cache_so_that_a_relist_holds_no_second_copy() -> None:
    assert queue(store(("a", 1))).known("a") == ("a", 1)
    assert queue(store(("a", 1))).known("b") is None
    assert queue().known("a") is None


# --- transform ---------------------------------------------------------------------------------------


def double(thing: Thing) -> Thing:
    if thing[1] < 0:
        raise ValueError("negative")
    return thing[0], thing[1] * 2


def test_a_transform_is_applied_to_what_is_queued_but_not_to_tombstones_and_resyncs() -> None:
    fifo = queue(store(("known", 1), ("gone", 1)), transform=double)
    fifo.add(("a", 1))
    fifo.update(("a", 2))
    fifo.delete(("a", 3))
    fifo.delete(tombstone("gone", ("gone", 1)))
    fifo.resync()
    assert take(fifo) == [
        ("a", [("Added", ("a", 2)), ("Updated", ("a", 4)), ("Deleted", ("a", 6))]),
        ("gone", [("Deleted", tombstone("gone", ("gone", 1)))]),
        ("known", [("Sync", ("known", 1))]),
    ]
    fifo.replace([("a", 5)], "10")
    assert take(fifo)[0] == ("a", [("Replaced", ("a", 10))])


def test_what_a_relist_found_unchanged_and_took_from_the_cache_is_not_transformed_again() -> None:
    known = store(("a", 2))
    fifo = queue(known, transform=double)
    fifo.replace([known.get_by_key("a"), ("b", 1)], "10")
    assert take(fifo) == [("a", [("Replaced", ("a", 2))]), ("b", [("Replaced", ("b", 2))])]


def test_a_transform_that_fails_comes_out_and_nothing_is_queued() -> None:
    fifo = queue(transform=double)
    writes: list[Callable[[], None]] = [
        lambda: fifo.add(("a", -1)),
        lambda: fifo.replace([("a", 1), ("b", -1)], "10"),
    ]
    for write in writes:
        with pytest.raises(ValueError, match="negative"):
            write()
    nothing = queue(transform=lambda _: None)
    with pytest.raises(TypeError, match="None for a"):
        nothing.add(("a", 1))
    assert len(fifo) == len(nothing) == 0
    assert not fifo.has_synced


# --- has_synced ----------------------------------------------------------------------------------------


def synced_within(fifo: DeltaFIFO, seen: list[tuple[bool, bool]]) -> Callable[[list[Delta], bool], None]:
    return lambda _, initial: seen.append((initial, fifo.has_synced))


def test_synced_is_when_the_last_initial_item_has_been_processed_not_when_it_was_taken() -> None:
    fifo, seen = queue(store(("gone", 1))), []
    assert not fifo.has_synced
    fifo.replace([("a", 1), ("b", 1), ("a", 2)], "10")
    fifo.add(("later", 1))
    while len(fifo):
        run(fifo.pop(synced_within(fifo, seen)))
    assert seen == [(True, False), (True, False), (True, False), (False, True)], "a, b, gone, later"
    assert fifo.has_synced
    fifo.replace([("c", 1)], "11")
    assert fifo.has_synced, "once and for all"


def test_an_empty_first_list_is_synced_at_once() -> None:
    fifo = queue()
    fifo.replace([], "10")
    assert fifo.has_synced


def test_what_came_before_the_first_list_has_to_be_processed_too() -> None:
    fifo, flags = queue(), []
    fifo.add(("early", 1))
    assert not fifo.has_synced
    fifo.replace([("early", 1), ("a", 1)], "10")
    run(fifo.pop(lambda _, initial: flags.append(initial)))
    assert not fifo.has_synced
    run(fifo.pop(lambda _, initial: flags.append(initial)))
    assert fifo.has_synced
    assert flags == [True, True]


async def test_what_is_being_processed_while_the_first_list_comes_has_to_be_done_with() -> None:
    fifo, go = queue(), asyncio.Event()
    fifo.add(("early", 1))
    running = asyncio.create_task(fifo.pop(lambda *_: go.wait()))
    await asyncio.sleep(0)
    fifo.replace([], "10")
    assert not fifo.has_synced
    go.set()
    await running
    assert fifo.has_synced


def test_a_batch_says_of_each_item_whether_it_is_of_the_initial_list() -> None:
    fifo, flags = queue(), []
    fifo.replace([("a", 1), ("b", 1)], "10")
    fifo.add(("c", 1))
    run(fifo.pop_batch(lambda batch: flags.extend((key, initial) for key, _, initial in batch)))
    assert flags == [("a", True), ("b", True), ("c", False)]
    assert fifo.has_synced


def test_an_item_whose_processing_failed_counts_as_processed_and_is_not_put_back() -> None:
    fifo = queue()
    fifo.replace([("a", 1)], "10")

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run(fifo.pop(fail))
    assert len(fifo) == 0
    assert fifo.has_synced
    fifo.add(("b", 1))
    with pytest.raises(OSError, match="disk full"):
        run(fifo.pop_batch(fail))
    assert len(fifo) == 0


# --- waiting -----------------------------------------------------------------------------------------------


async def test_pop_waits_for_a_key_and_returns_what_process_returned() -> None:
    fifo = queue()
    popping = asyncio.create_task(fifo.pop(lambda deltas, _: deltas[0].object))
    await asyncio.sleep(0)
    fifo.add(("a", 1))
    assert await popping == ("a", 1)


async def test_process_may_be_a_coroutine_function() -> None:
    fifo, seen = queue(), []

    async def process(deltas: list[Delta], is_in_initial_list: bool) -> str:
        await asyncio.sleep(0)
        seen.append((deltas[0].object, is_in_initial_list))
        return "done"

    fifo.replace([("a", 1)], "1")
    assert await fifo.pop(process) == "done"
    assert seen == [(("a", 1), True)]


async def test_one_batch_of_writes_wakes_a_waiter_once_and_gives_it_all() -> None:
    fifo, batches = queue(), []
    popping = asyncio.create_task(fifo.pop_batch(batches.append))
    await asyncio.sleep(0)
    for number in range(10):
        fifo.add((str(number), 1))
    await popping
    assert [[key for key, _, _ in batch] for batch in batches] == [[str(number) for number in range(10)]]


async def test_several_waiters_share_what_comes_and_one_processes_at_a_time() -> None:
    fifo, running, most, got = queue(), 0, 0, []

    async def process(deltas: list[Delta], _: bool) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        got.append(deltas[0].object[0])

    waiting = [asyncio.create_task(fifo.pop(process)) for _ in range(3)]
    await asyncio.sleep(0)
    fifo.replace([("a", 1), ("b", 1), ("c", 1)], "1")
    await asyncio.gather(*waiting)
    assert sorted(got) == ["a", "b", "c"]
    assert most == 1, "the deltas of a key are never in two hands"
    assert fifo.has_synced


async def test_a_pop_cancelled_while_it_waits_takes_nothing() -> None:
    fifo = queue()
    popping = asyncio.create_task(fifo.pop(lambda *_: None))
    await asyncio.sleep(0)
    popping.cancel()
    fifo.add(("a", 1))
    with pytest.raises(asyncio.CancelledError):
        await popping
    assert take(fifo) == [("a", [("Added", ("a", 1))])]


async def test_a_pop_cancelled_just_when_it_was_woken_wakes_the_next() -> None:
    fifo, got = queue(), []
    first = asyncio.create_task(fifo.pop(lambda *_: None))
    second = asyncio.create_task(fifo.pop(lambda deltas, _: got.append(deltas[0].object)))
    await asyncio.sleep(0)
    fifo.add(("a", 1))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert got == [("a", 1)]


async def test_a_pop_cancelled_while_it_processes_leaves_the_queue_usable() -> None:
    fifo = queue()
    fifo.replace([("a", 1)], "1")
    popping = asyncio.create_task(fifo.pop(lambda *_: asyncio.sleep(3600)))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(fifo.pop(lambda deltas, _: deltas[0].object))
    await asyncio.sleep(0)
    fifo.add(("b", 1))
    popping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await popping
    assert fifo.has_synced
    assert await waiting == ("b", 1)


async def test_a_closed_queue_gives_what_it_has_and_then_ends_every_pop() -> None:
    fifo, got = queue(), []
    fifo.add(("a", 1))
    assert not fifo.closed
    fifo.close()
    fifo.close()
    assert fifo.closed
    await fifo.pop(lambda deltas, _: got.append(deltas))
    assert len(got) == 1
    for pop in (fifo.pop, fifo.pop_batch):
        with pytest.raises(StoppedError):
            await pop(lambda *_: None)


async def test_closing_ends_all_who_wait_also_those_behind_somebody_who_processes() -> None:
    fifo, go = queue(), asyncio.Event()
    fifo.add(("a", 1))
    processing = asyncio.create_task(fifo.pop(lambda *_: go.wait()))
    waiting = [asyncio.create_task(fifo.pop(lambda *_: None)) for _ in range(2)]
    await asyncio.sleep(0)
    fifo.add(("b", 1))
    waiting.append(asyncio.create_task(fifo.pop_batch(lambda *_: None)))
    await asyncio.sleep(0)
    fifo.close()
    go.set()
    await processing
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["NoneType", "StoppedError", "StoppedError"]


async def test_process_may_write_to_the_queue_it_is_fed_by() -> None:
    fifo, got = queue(), []

    async def again(deltas: list[Delta], _: bool) -> None:
        thing, version = deltas[-1].object
        got.append(version)
        if version < 3:
            fifo.update((thing, version + 1))

    fifo.add(("a", 1))
    while len(fifo):
        await fifo.pop(again)
    assert got == [1, 2, 3]
