"""The keys of a union by name: any two keys of its members stay different, and lead back to their values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import Collection, SharedInformer, derive, union
from tests.support.memory_source import MemorySource
from tests.support.virtual_time import VirtualTimeLoop
from tests.support.waiting import settle, until

# Any text, and often one whose slashes are where a union puts its own.
KEYS = st.one_of(st.text(min_size=1), st.text(alphabet="/a", min_size=1, max_size=5))
NAMES = st.text(min_size=1).filter(lambda name: "/" not in name)


def run(program: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(program())


def has_keys(collection: Collection[Any], keys: list[str]) -> bool:
    return set(collection.by_key) == set(keys)


async def live_through(names: list[str], before: list[str], after: list[str]) -> None:
    source = MemorySource()
    source.set("keys", data={"of": before})
    async with (
        SharedInformer(source, name="maps") as maps,
        derive(maps, lambda one, _: {key: key for key in one["data"]["of"]}, name="own", many=True) as own,
        union(dict.fromkeys(names, own)) as together,
    ):
        await together.wait_synced(60)
        told: dict[str, str] = {}
        together.add_event_handler(
            on_add=lambda value, *, key: told.update({key: value}),
            on_delete=lambda value, *, key: told.pop(key),
            queue_size=None,
        )
        for keys in (before, after):
            source.set("keys", data={"of": keys})
            await until(partial(has_keys, own, keys))
            await settle()
            wanted = sorted((name, key) for name in names for key in set(keys))
            assert sorted((key.partition("/")[0], value) for key, value in together.by_key.items()) == wanted
            assert told == dict(together.by_key)
        together.remove(names[0])
        await settle()
        assert {key.partition("/")[0] for key in told} == (set(names[1:]) if after else set())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=3, unique=True), st.lists(KEYS, max_size=8), st.lists(KEYS, max_size=8))
def test_a_union_by_name_has_every_value_of_its_members(names: list[str], before: list[str], after: list[str]) -> None:
    run(lambda: live_through(names, before, after))


def test_keys_that_begin_with_a_slash_are_kept_apart_from_those_that_do_not() -> None:
    run(lambda: live_through(["east", "west"], ["x", "/x", "//x", "a/x", "/", "a//x", "/a/x"], ["/x"]))


@pytest.mark.virtual_time
async def test_the_keys_of_objects_are_as_they_were() -> None:
    source = MemorySource()
    source.set("keys", data={"of": ["default/web-1", "node-1"]})
    async with (
        SharedInformer(source, name="maps") as maps,
        derive(maps, lambda one, _: {key: key for key in one["data"]["of"]}, name="own", many=True) as own,
        union({"east": own}) as inner,
        union({"hub": inner}) as outer,
    ):
        await outer.wait_synced(60)
        assert set(inner.by_key) == {"east/default/web-1", "east//node-1"}
        assert set(outer.by_key) == {"hub/east/default/web-1", "hub/east//node-1"}
