"""Functions of the program on the event loop: other tasks get their turn between any two changes, whatever is called.

Each function works for longer than a turn may take, and notes the turn in which it is called.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import (
    Client,
    Controller,
    KubeObject,
    Reflector,
    Request,
    SharedInformer,
    SharedInformerFactory,
    derive,
    watch,
)
from kinformer.derived import DerivedCollection, group_by, mapped, union
from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.turns import Turns
from tests.support.waiting import until

MANY = 40  # changes that arrive together
A = pytest.mark.parametrize

pytestmark = pytest.mark.virtual_time


def most_in_a_turn(turns: Turns, count: int) -> int:
    """Return the largest number of the last `count` calls that were made in one turn of the loop."""
    assert len(turns.seen) >= count
    return max(Counter(turns.seen[-count:]).values())


def filled(count: int = MANY) -> MemorySource:
    source = MemorySource()
    change(source, count)
    return source


def change(source: MemorySource, count: int = MANY) -> None:
    for number in range(count):
        source.set(f"c{number:02}")


@asynccontextmanager
async def following(source: MemorySource, **options: Any) -> AsyncIterator[SharedInformer[Any]]:
    async with SharedInformer(source, **options) as informer:
        await informer.wait_synced(10)
        await until(lambda: informer.health().state == "watching")
        yield informer


# --- handlers ---------------------------------------------------------------------------------------------------------


def plain(turns: Turns) -> Callable[..., object]:
    return lambda *objects: turns.seen_slowly(objects)


def coroutine(turns: Turns) -> Callable[..., Awaitable[None]]:
    async def handler(*objects: Any) -> None:
        turns.seen_slowly(objects)

    return handler


@A("made", [plain, coroutine])
async def test_a_handler_is_called_once_in_a_turn_also_after_a_run_of_quick_calls(
    made: Callable[[Turns], Any],
) -> None:
    turns, source, quick = Turns(), filled(2000), []
    slow = made(turns)
    async with following(source) as informer:
        registration = informer.add_event_handler(on_add=lambda obj: quick.append(obj), on_update=slow, queue_size=None)
        await registration.wait_synced(10)
        assert len(quick) == 2000
        change(source)
        await until(lambda: len(turns.seen) == MANY)
        assert most_in_a_turn(turns, MANY) == 1


@A("made", [plain, coroutine])
async def test_initial_adds_leave_the_loop_its_turns(made: Callable[[Turns], Any]) -> None:
    turns = Turns()
    async with following(filled()) as informer:
        await informer.add_event_handler(on_add=made(turns)).wait_synced(60)
    assert most_in_a_turn(turns, MANY) == 1


@A("thread", [False, True])
@A("visible", [True, False])
async def test_a_filter_leaves_the_loop_its_turns_in_a_replay(thread: bool, visible: bool) -> None:
    turns = Turns()

    def only(obj: KubeObject) -> bool:
        turns.seen_slowly(obj)
        return visible

    async with following(filled()) as informer:
        registration = informer.add_event_handler(on_add=lambda obj: None, filter=only, thread=thread)
        await registration.wait_synced(60)
    assert most_in_a_turn(turns, MANY) == 1


async def test_a_filter_leaves_the_loop_its_turns_between_two_changes() -> None:
    turns, source, heard = Turns(), filled(), []
    async with following(source) as informer:
        informer.add_event_handler(on_update=lambda old, new: heard.append(new.name), queue_size=None)
        filtered = informer.add_event_handler(
            on_update=lambda old, new: None, filter=lambda obj: not turns.seen_slowly(obj), queue_size=None
        )
        await filtered.wait_synced(60)
        turns.seen.clear()
        change(source)
        await until(lambda: len(turns.seen) == 2 * MANY)
        assert most_in_a_turn(turns, 2 * MANY) == 2  # the states before and after one change
        assert heard == [f"c{number:02}" for number in range(MANY)]


@pytest.mark.slow
async def test_a_filter_leaves_the_loop_its_turns_in_a_relist_and_in_a_resync() -> None:
    turns, source = Turns(), filled()
    async with following(source, resync_period=600) as informer:
        registration = informer.add_event_handler(
            on_update=lambda old, new: None, filter=lambda obj: not turns.seen_slowly(obj)
        )
        await registration.wait_synced(60)
        turns.seen.clear()
        change(source)
        source.expire()
        await until(lambda: len(turns.seen) == 2 * MANY)
        assert most_in_a_turn(turns, 2 * MANY) == 2
        turns.seen.clear()
        await until(lambda: len(turns.seen) == MANY, 700)
        assert most_in_a_turn(turns, MANY) == 1


# --- streams and their readers ----------------------------------------------------------------------------------------


async def test_a_reader_of_events_that_never_waits_gets_one_in_a_turn() -> None:
    turns, source = Turns(), filled()
    async with following(source) as informer, informer.events(queue_size=None) as events:
        async for event in events:
            turns.seen_slowly(event)
            if len(turns.seen) == MANY:
                change(source)
            if len(turns.seen) == 2 * MANY:
                break
    assert most_in_a_turn(turns, 2 * MANY) == 1


async def test_a_reader_of_a_watch_that_never_waits_gets_one_event_in_a_turn() -> None:
    turns, source = Turns(), filled()
    async with watch(source) as events:
        async for event in events:
            turns.seen_slowly(event)
            if len(turns.seen) == MANY:
                change(source)
            if len(turns.seen) == 2 * MANY:
                break
    assert most_in_a_turn(turns, 2 * MANY) == 1


async def test_a_store_of_ones_own_is_written_to_once_in_a_turn() -> None:
    turns, source = Turns(), filled()

    class SlowStore:
        def add(self, obj: Any) -> None: ...
        def delete(self, obj: Any) -> None: ...
        def replace(self, items: list[Any], resource_version: str) -> None: ...
        def resync(self) -> None: ...
        def update(self, obj: Any) -> None:
            turns.seen_slowly(obj)

    reflector = Reflector(source, SlowStore())
    running = asyncio.ensure_future(reflector.run())
    await until(lambda: reflector.health().live)
    change(source)
    await until(lambda: len(turns.seen) == MANY)
    running.cancel()
    await asyncio.wait({running})
    assert most_in_a_turn(turns, MANY) == 1


# --- the cache --------------------------------------------------------------------------------------------------------


async def test_an_index_function_leaves_the_loop_its_turns_in_lists_and_between_two_changes() -> None:
    turns, source = Turns(), filled()

    def slowly(obj: KubeObject) -> list[str]:
        turns.seen_slowly(obj)
        return [obj.name]

    async with following(source, indexers={"slow": slowly}) as informer:
        assert most_in_a_turn(turns, MANY) == 1
        change(source)
        await until(lambda: len(turns.seen) == 2 * MANY)
        assert most_in_a_turn(turns, MANY) == 1
        change(source)
        source.expire()
        await until(lambda: len(turns.seen) == 3 * MANY)
        assert most_in_a_turn(turns, MANY) == 1
        await informer.build_indexers({"slower": lambda obj: slowly(obj)})
        assert most_in_a_turn(turns, MANY) == 1


async def test_all_functions_of_one_change_run_in_one_turn() -> None:
    turns, source = Turns(), filled(3)

    def slowly(obj: KubeObject) -> list[str]:
        turns.seen_slowly(obj)
        return [obj.name]

    async with following(source) as informer:
        for _ in range(2):
            only = informer.add_event_handler(on_update=print, filter=lambda obj: bool(slowly(obj)))
            await only.wait_synced(10)
        await informer.build_indexers({"first": slowly, "second": lambda obj: slowly(obj)})
        turns.seen.clear()
        change(source, 3)
        await until(lambda: len(turns.seen) == 3 * 6)
        assert list(Counter(turns.seen).values()) == [6, 6, 6]  # two indexes, and two filters of two states


async def test_a_change_is_with_all_handlers_before_another_task_can_see_it_in_the_cache() -> None:
    source, told, early = filled(), [], []
    async with following(source) as informer:
        registration = informer.add_event_handler(
            on_update=lambda old, new: told.append(new.key), filter=lambda obj: not Turns().seen_slowly(obj)
        )
        await registration.wait_synced(10)
        late: list[str] = []
        change(source)
        while len(told) < MANY:
            await asyncio.sleep(0)
            changed = [obj.key for obj in informer.lister.list() if int(obj.resource_version) > MANY + 1]
            if len(changed) == MANY // 2 and not late:  # a handler that is added between two changes
                early = changed
                informer.add_event_handler(on_add=lambda obj: None, on_update=lambda old, new: late.append(new.key))
        await until(lambda: len(late) == MANY - len(early))
        assert not set(late) & set(early)


@A("options", [{"where": True}, {"sort": True}])
async def test_the_functions_of_a_page_leave_the_loop_its_turns(options: dict[str, bool]) -> None:
    turns = Turns()

    def slowly(obj: KubeObject) -> str:
        turns.seen_slowly(obj)
        return obj.name

    async with following(filled()) as informer:
        page = await informer.page(**dict.fromkeys(options, slowly), limit=5)
        assert len(page.items) == 5
    assert most_in_a_turn(turns, MANY) == 1


async def test_a_transform_leaves_the_loop_its_turns() -> None:
    turns, source = Turns(), filled()

    def slowly(document: dict[str, Any]) -> dict[str, Any]:
        turns.seen_slowly(document)
        return document

    async with following(source, transform=slowly):
        assert most_in_a_turn(turns, MANY) == 1
        change(source)
        await until(lambda: len(turns.seen) >= 2 * MANY)
        assert most_in_a_turn(turns, MANY) == 1


# --- derived collections ----------------------------------------------------------------------------------------------


def derived(informer: Any, slowly: Callable[[Any], Any]) -> DerivedCollection[Any]:
    return derive(informer, lambda obj, fetch: slowly(obj))


def grouped(informer: Any, slowly: Callable[[Any], Any]) -> DerivedCollection[Any]:
    return group_by(informer, slowly)


@A("made", [derived, mapped, grouped])
async def test_the_function_of_a_derived_collection_leaves_the_loop_its_turns(made: Callable[..., Any]) -> None:
    turns, source = Turns(), filled()

    def slowly(obj: KubeObject) -> str:
        turns.seen_slowly(obj)
        return obj.name

    async with following(source) as informer, made(informer, slowly) as collection:
        await collection.wait_synced(60)
        assert most_in_a_turn(turns, MANY) == 1
        change(source)
        await until(lambda: len(turns.seen) == 2 * MANY)
        assert most_in_a_turn(turns, MANY) == 1


async def test_filters_and_indexes_over_values_leave_the_loop_its_turns() -> None:
    turns, source = Turns(), filled()
    async with following(source) as informer, union(informer) as collection:
        registration = collection.add_event_handler(
            on_update=lambda old, new: None, filter=lambda obj: not turns.seen_slowly(obj), queue_size=None
        )
        await registration.wait_synced(60)
        assert most_in_a_turn(turns, MANY) == 1
        collection.add_indexers({"slow": lambda obj: [str(turns.seen_slowly(obj))]})
        turns.seen.clear()
        change(source)
        await until(lambda: len(turns.seen) == 3 * MANY)
        assert most_in_a_turn(turns, 3 * MANY) == 3  # the index, and the filter of two states


# --- controllers ------------------------------------------------------------------------------------------------------


async def reconcile(request: Request) -> None: ...


@A("awaits", [False, True])
async def test_a_mapper_is_called_for_one_change_in_a_turn(awaits: bool) -> None:
    turns = Turns()

    def slowly(obj: KubeObject) -> list[str]:
        turns.seen_slowly(obj)
        return []

    async def awaited(obj: KubeObject) -> list[str]:
        return slowly(obj)

    async with following(filled()) as informer:
        controller = Controller(reconcile).watches(informer, awaited if awaits else slowly)
        running = asyncio.ensure_future(controller.run())
        await until(lambda: len(turns.seen) == MANY)
        running.cancel()
        await asyncio.wait({running})
    assert most_in_a_turn(turns, MANY) == 1


async def test_a_predicate_is_called_for_one_change_in_a_turn() -> None:
    turns, source = Turns(), filled()
    async with following(source) as informer:
        controller = Controller(reconcile).for_(informer, lambda event: turns.seen_slowly(event))
        running = asyncio.ensure_future(controller.run())
        await until(lambda: len(turns.seen) == MANY)
        change(source)
        await until(lambda: len(turns.seen) == 2 * MANY)
        running.cancel()
        await asyncio.wait({running})
    assert most_in_a_turn(turns, 2 * MANY) == 1


# --- over HTTP --------------------------------------------------------------------------------------------------------


async def test_events_that_the_transport_brings_together_leave_the_loop_its_turns(
    server: APIServer, client: Client
) -> None:
    turns = Turns()
    for number in range(MANY):
        server.create(config_map(f"c{number:02}"))
    async with SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/configmaps", namespace="default")
        filtered = informer.add_event_handler(
            on_update=lambda old, new: None, filter=lambda obj: not turns.seen_slowly(obj), queue_size=None
        )
        await filtered.wait_synced(60)
        await until(lambda: informer.health().state == "watching")
        turns.seen.clear()
        for number in range(MANY):
            server.update(config_map(f"c{number:02}", data={"v": "2"}))
        await until(lambda: len(turns.seen) == 2 * MANY)
    assert most_in_a_turn(turns, 2 * MANY) <= 4  # a change in the callback of the transport, and one in the reader
