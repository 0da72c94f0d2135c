"""Waiting for an object to be as it should be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kinformer import KubeObject, SharedInformer, StoppedError, wait_for
from kinformer.conditions import is_deleted
from tests.support.memory_source import MemorySource

pytestmark = pytest.mark.virtual_time


def has(value: str) -> Any:
    def condition(obj: KubeObject | None) -> bool:
        return obj is not None and obj["data"].get("x") == value

    return condition


async def test_what_is_so_already_is_returned_at_once_and_the_informer_has_no_listener_then() -> None:
    source = MemorySource()
    source.set("a", data={"x": "1"})
    async with SharedInformer(source) as informer:
        found = await wait_for(informer, "default/a", has("1"), timeout=1)
        assert found is not None
        assert found.name == "a"
        assert await wait_for(informer, "default/b", is_deleted(), timeout=1) is None
        assert informer.statistics().pending == {}


async def test_it_waits_for_the_change_even_if_that_is_over_soon() -> None:
    source = MemorySource()
    source.set("a", data={"x": "1"})
    source.set("b", data={"x": "2"})
    async with SharedInformer(source) as informer:
        await informer.wait_synced()
        waiting = asyncio.ensure_future(wait_for(informer, "default/a", has("2"), timeout=10))
        await asyncio.sleep(1)
        source.set("a", data={"x": "2"})
        source.set("a", data={"x": "3"})
        found = await waiting
        assert found is not None
        assert found["data"]["x"] == "2"
        assert informer.statistics().pending == {}


async def test_it_is_shown_each_state_however_many_come_at_once() -> None:
    source = MemorySource()
    source.set("a", data={"x": "0"})
    async with SharedInformer(source) as informer:
        await informer.wait_synced()
        waiting = asyncio.ensure_future(wait_for(informer, "default/a", has("2500"), timeout=10))
        await asyncio.sleep(1)
        for number in range(1, 5001):
            source.set("a", data={"x": str(number)})
        found = await waiting
        assert found is not None
        assert found["data"]["x"] == "2500"


async def test_it_waits_for_an_object_that_is_not_there_yet_also_before_the_sync() -> None:
    source = MemorySource()
    informer = SharedInformer(source)
    async with informer:
        waiting = asyncio.ensure_future(wait_for(informer, "default/new", has("1")))
        await asyncio.sleep(1)
        source.set("new", data={"x": "1"})
        assert (await waiting) is not None


async def test_it_waits_for_the_end_of_an_object_or_for_another_of_its_name() -> None:
    source = MemorySource()
    source.set("a", uid="first")
    source.set("b", uid="first")
    async with SharedInformer(source) as informer:
        gone = asyncio.ensure_future(wait_for(informer, "default/a", is_deleted()))
        replaced = asyncio.ensure_future(wait_for(informer, "default/b", is_deleted("first")))
        await asyncio.sleep(1)
        assert not gone.done()
        assert not replaced.done()
        source.delete("a")
        source.set("b", uid="second")
        assert await gone is None
        await replaced


async def test_a_timeout_says_how_the_object_is() -> None:
    source = MemorySource()
    source.set("a")
    async with SharedInformer(source) as informer:
        with pytest.raises(TimeoutError, match="v1/configmaps default/a: no condition within 5 s; it is at resourceV"):
            await wait_for(informer, "default/a", has("1"), timeout=5)
        with pytest.raises(TimeoutError, match=r"default/b.*it is absent"):
            await wait_for(informer, "default/b", has("1"), timeout=5)


async def test_an_informer_that_is_left_ends_the_wait() -> None:
    async with SharedInformer(MemorySource()) as informer:
        waiting = asyncio.ensure_future(wait_for(informer, "default/a", has("1")))
        await asyncio.sleep(1)
    with pytest.raises(StoppedError):
        await waiting


async def test_what_a_condition_raises_comes_out() -> None:
    source = MemorySource()
    source.set("a")
    async with SharedInformer(source) as informer:
        with pytest.raises(KeyError):
            await wait_for(informer, "default/a", lambda obj: obj["nothing"])  # type: ignore[index]


@pytest.mark.parametrize("timeout", [None, 60])
async def test_a_timeout_of_the_condition_itself_is_not_taken_for_ours(timeout: float | None) -> None:
    def condition(obj: KubeObject | None) -> bool:
        raise TimeoutError("of its own")

    async with SharedInformer(MemorySource()) as informer:
        with pytest.raises(TimeoutError, match=r"^of its own$"):
            await wait_for(informer, "default/a", condition, timeout)
