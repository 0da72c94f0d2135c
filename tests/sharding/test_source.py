"""ShardSource: the objects of some slots, and lists anew when these change.

Internals: the source of a share, without a controller that changes its slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import KubeObject, ListOptions, WatchEvent
from kinformer.exceptions import ExpiredError
from kinformer.objects.object import UndecodableObject
from kinformer.sharding.slots import ALL_SLOTS, shard_selector, slot_of
from kinformer.sharding.source import ShardSource, controller_uid
from tests.support.memory_source import MemorySource

pytestmark = pytest.mark.virtual_time


async def names(source: ShardSource, **options: Any) -> set[str]:
    page = await source.list(ListOptions(**options))
    return {obj.name async for items in page.items for obj in items}  # type: ignore[union-attr]


def filled() -> MemorySource:
    memory = MemorySource()
    for number in range(50):
        memory.set(f"m{number}")
    return memory


async def test_what_comes_is_checked_whether_the_server_filters_or_not() -> None:
    memory = filled()
    source = ShardSource(memory)
    slots = frozenset(range(0, 256, 2))
    source.set_slots(slots)
    mine = {obj.name for obj in memory.objects.values() if slot_of(obj.uid) in slots}
    assert await names(source) == mine
    assert memory.lists[-1].shard_selector == shard_selector(slots)
    assert source.dropped == 50 - len(mine)


async def test_without_slots_one_object_is_asked_for_and_dropped() -> None:
    memory = filled()
    source = ShardSource(memory)
    assert await names(source) == set()
    assert (memory.lists[-1].limit, memory.lists[-1].shard_selector) == (1, None)


async def test_with_all_slots_nothing_is_filtered() -> None:
    memory = filled()
    source = ShardSource(memory)
    source.set_slots(ALL_SLOTS)
    assert len(await names(source)) == 50
    assert memory.lists[-1].shard_selector is None


def test_an_object_of_another_slot_is_not_waited_for() -> None:
    class Selecting(MemorySource):
        def selects(self, obj: KubeObject) -> bool:
            return obj.name != "m0"

    memory = Selecting()
    objects = [memory.set(f"m{number}") for number in range(50)]
    source = ShardSource(memory)
    source.set_slots(range(0, 256, 2))
    expected = {obj.name for obj in objects if slot_of(obj.uid) % 2 == 0} - {"m0"}
    assert {obj.name for obj in objects if source.selects(obj)} == expected
    assert source.dropped == 0


@pytest.mark.parametrize("slots", [frozenset(), frozenset({1, 2})], ids=["from none", "from some"])
async def test_a_watch_ends_as_expired_when_the_slots_change(slots: frozenset[int]) -> None:
    source = ShardSource(filled())
    source.set_slots(slots)
    await names(source)

    async def follow() -> None:
        async with source.watch(ListOptions(resource_version="51")) as events:
            async for _ in events:
                pass

    task = asyncio.create_task(follow())
    await asyncio.sleep(1)
    assert not task.done()
    source.set_slots({3})
    with pytest.raises(ExpiredError, match="the slots have changed"):
        await task


async def test_a_watch_goes_on_only_from_a_list_of_the_same_slots() -> None:
    source = ShardSource(filled())
    source.set_slots({1})
    await names(source)
    source.set_slots({2})
    await names(source, limit=1)  # asked to see where the server stands: no list to go on from
    with pytest.raises(ExpiredError):
        await source.watch(ListOptions(resource_version="51")).__aenter__()
    await names(source)
    async with source.watch(ListOptions(resource_version="51")):
        pass


async def test_the_first_list_of_other_slots_is_the_newest_until_it_has_been_handed_on() -> None:
    memory = filled()
    source = ShardSource(memory)
    source.set_slots({1})
    asked = ListOptions(resource_version="7", resource_version_match="NotOlderThan")

    async def versions() -> tuple[str | None, str | None]:
        await names(source, resource_version="7", resource_version_match="NotOlderThan")
        return memory.lists[-1].resource_version, memory.lists[-1].resource_version_match

    assert await versions() == (None, None)
    assert await versions() == (None, None)  # the one before may have failed
    settled = [source.settled]
    async with source.watch(ListOptions(resource_version="51")):
        settled.append(source.settled)
    assert settled == [False, True]
    assert await versions() == (asked.resource_version, asked.resource_version_match)
    source.set_slots({1, 2})
    assert not source.settled
    assert await versions() == (None, None)


async def test_an_initial_stream_of_other_slots_is_the_newest_and_is_handed_on_with_its_end() -> None:
    memory = filled()
    source = ShardSource(memory)
    source.set_slots({1})
    options = ListOptions(resource_version="7", resource_version_match="NotOlderThan", send_initial_events=True)
    async with source.watch(options) as stream:
        asked = memory.watches[-1]
        assert (asked.resource_version, asked.resource_version_match) == (None, "NotOlderThan")
        settled, ended = [source.settled], False
        while not ended:
            events = await anext(stream)
            settled.append(source.settled)
            ended = any(event.type == "BOOKMARK" for event in events)
        memory.set("more")
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.1)
        assert not any(settled)
        assert source.settled
        waiting.cancel()
        await asyncio.wait({waiting})
    async with source.watch(options):
        assert memory.watches[-1].resource_version == "7"


async def test_what_is_left_of_an_object_that_cannot_be_read_reaches_whoever_has_it_cached() -> None:
    left = WatchEvent("DELETED", UndecodableObject.of("default/m1", "60"))  # as a ListWatch gives it: without a uid

    class Unreadable(MemorySource):
        @asynccontextmanager
        async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
            async def events() -> AsyncIterator[list[WatchEvent]]:
                yield [left]

            yield events()

    source = ShardSource(Unreadable())
    source.set_slots({1})
    await names(source)
    async with source.watch(ListOptions(resource_version="51")) as stream:
        assert [events async for events in stream] == [[left]]


def test_the_controlling_owner_is_the_one_that_says_so() -> None:
    def owned(*references: dict[str, Any]) -> KubeObject:
        metadata = {"name": "a", "ownerReferences": list(references)}
        return KubeObject.from_dict({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})

    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs"}
    assert controller_uid(owned({**reference, "uid": "1"}, {**reference, "uid": "2", "controller": True})) == "2"
    assert controller_uid(owned({**reference, "uid": "1"})) is None
