"""Events that come twice or late: a cache keeps the object that has the name now, and handlers hear of it in order.

Internals: the placeholder of an object that cannot be decoded, which only the decoder makes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer import KubeObject, SharedInformer, WatchEvent
from kinformer.objects.object import UndecodableObject
from kinformer.queue import DeltaFIFO
from kinformer.reflector import Reflector, namespace_keyed_indexer_and_reflector
from tests.support.mirror import Mirror
from tests.support.scripted_source import (
    HANG,
    RecordingStore,
    ScriptedSource,
    added,
    bookmark,
    deleted,
    end,
    modified,
    page,
    pod,
)
from tests.support.waiting import until

DONE = added("done", 99)

LATE, NEW = (WatchEvent("DELETED", UndecodableObject.of("default/a", version)) for version in ("8", "10"))

Scripts = dict[str, tuple[list[WatchEvent], tuple[str, str] | None]]

# What follows a list with the pod `a` of uid u2 at version 9, and what is cached then.
AFTER_U2: Scripts = {
    "a late delete": ([deleted("a", 8, "u1")], ("u2", "9")),
    "a late delete, twice": ([deleted("a", 8, "u1"), deleted("a", 8, "u1")], ("u2", "9")),
    "a late state": ([modified("a", 7, "u1")], ("u2", "9")),
    "a late add": ([added("a", 7, "u1")], ("u2", "9")),
    "a late object that cannot be decoded": ([LATE], ("u2", "9")),
    "an object that cannot be decoded": ([NEW], None),
    "its delete": ([deleted("a", 10, "u2")], None),
    "its delete with the version of its last state": ([deleted("a", 9, "u2")], None),
    "its delete with an older version": ([deleted("a", 8, "u2")], None),
    "the delete of a later one": ([deleted("a", 10, "u3")], None),
    "the delete of another, with no number": ([deleted("a", "x", "u3")], ("u2", "9")),
    "a later one": ([added("a", 10, "u3")], ("u3", "10")),
    "a later one, and a late delete": ([added("a", 10, "u3"), deleted("a", 9, "u2")], ("u3", "10")),
}
SCRIPTS = pytest.mark.parametrize(("events", "cached"), AFTER_U2.values(), ids=AFTER_U2)


def identity(obj: Any) -> tuple[str, str] | None:
    return None if obj is None else (obj.uid, obj.resource_version)


@pytest.mark.virtual_time
@SCRIPTS
async def test_an_informer_keeps_the_object_that_has_the_name(
    events: list[WatchEvent], cached: tuple[str, str] | None
) -> None:
    source = ScriptedSource([page(pod("a", 9, "u2"), rv=9)], [[events, [DONE], HANG]])
    mirror = Mirror()
    async with SharedInformer(source, watch_list=False) as informer:
        informer.add_event_handler(mirror)
        await until(lambda: "default/done" in mirror.objects)
        assert identity(informer.by_key.get("default/a")) == identity(mirror.objects.get("default/a")) == cached
        assert mirror.wrong == []


@pytest.mark.virtual_time
@SCRIPTS
async def test_an_initial_stream_keeps_the_object_that_has_the_name(
    events: list[WatchEvent], cached: tuple[str, str] | None
) -> None:
    initial = [added("a", 9, "u2"), bookmark(9), *events, end(12)]
    source = ScriptedSource([], [[initial, [DONE], HANG]])
    async with SharedInformer(source, watch_list=True) as informer:
        await until(lambda: "default/done" in informer.by_key)
        assert identity(informer.by_key.get("default/a")) == cached


@pytest.mark.virtual_time
async def test_a_reflector_deletes_no_later_object_from_a_store() -> None:
    events = [deleted("a", 8, "u1"), added("a", 10, "u3"), deleted("a", 9, "u2"), DONE]
    source = ScriptedSource([page(pod("a", 9, "u2"), rv=9)], [[events, HANG]])
    indexer, reflector = namespace_keyed_indexer_and_reflector(source, watch_list=False)
    running = asyncio.ensure_future(reflector.run())
    await until(lambda: indexer.get_by_key("default/done") is not None)
    assert identity(indexer.get_by_key("default/a")) == ("u3", "10")
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.virtual_time
async def test_a_store_of_a_program_gets_every_delete() -> None:
    source = ScriptedSource([page(pod("a", 9, "u2"), rv=9)], [[[deleted("a", 8, "u1"), DONE], HANG]])
    store = RecordingStore()
    running = asyncio.ensure_future(Reflector(source, store, watch_list=False).run())
    await until(lambda: "default/done" in store.objects)
    assert ("delete", "a") in store.calls
    running.cancel()
    await asyncio.wait([running])


def test_a_delta_fifo_drops_the_delete_of_an_object_whose_name_has_been_taken() -> None:
    first, second = pod("a", 3, "u1"), pod("a", 9, "u2")
    fifo = DeltaFIFO(lambda obj: obj.key, known_objects=None)
    fifo.add(first)
    fifo.delete(first)
    fifo.add(second)
    fifo.delete(pod("a", 8, "u1"))
    deltas: list[Any] = []

    async def take() -> None:
        await fifo.pop(lambda found, is_initial: deltas.extend(found))

    asyncio.run(take())
    assert [(str(delta.type), identity(delta.object)) for delta in deltas] == [
        ("Added", ("u1", "3")),
        ("Deleted", ("u1", "3")),
        ("Added", ("u2", "9")),
    ]


# --- any history -----------------------------------------------------------------------------------------------------

STEPS = st.lists(st.sampled_from(["write", "write", "delete"]), min_size=1, max_size=8)
ECHOES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=6)


def history(steps: list[str]) -> tuple[list[WatchEvent], tuple[str, str] | None]:
    """Return what happened to one name, and which object has it in the end."""
    events: list[WatchEvent] = []
    uid = number = 0
    is_there = False
    for number, step in enumerate(steps, 8):
        if step == "delete" and is_there:
            events.append(deleted("a", number, f"u{uid}"))
            is_there = False
        elif step == "write":
            uid += not is_there
            events.append((modified if is_there else added)("a", number, f"u{uid}"))
            is_there = True
    last = events[-1].object if events else None
    return events, identity(last) if is_there else None


@given(steps=STEPS, echoes=ECHOES)
def test_any_history_with_echoes_ends_in_the_truth(steps: list[str], echoes: list[tuple[int, int]]) -> None:
    events, truth = history(steps)
    heard = list(events)
    for which, delay in echoes:
        if events:
            event = events[which % len(events)]
            heard.insert(min(len(heard), heard.index(event) + 1 + delay), event)

    async def follow() -> None:
        mirror = Mirror()
        async with SharedInformer(ScriptedSource([page(rv=7)], [[heard, [DONE], HANG]]), watch_list=False) as informer:
            informer.add_event_handler(mirror)
            await until(lambda: "default/done" in mirror.objects)
            assert mirror.wrong == []
            assert identity(mirror.objects.get("default/a")) == identity(informer.by_key.get("default/a"))
            found: KubeObject | None = informer.by_key.get("default/a")
            # A state that comes after its own delete cannot be told from a new one, unless another object is cached.
            if truth is not None:
                assert identity(found) == truth

    asyncio.run(follow())
