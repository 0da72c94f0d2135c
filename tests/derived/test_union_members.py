"""The members of a union by name: those that are away, those that take the place of others, and circles."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from kinformer import ConfigError, ConnectError, NotSyncedError, SharedInformer, group_by, union
from kinformer.derived import filtered
from tests.derived.test_derived_properties import Told
from tests.support.log_records import Said, said
from tests.support.memory_source import MemorySource
from tests.support.waiting import settle, until

pytestmark = pytest.mark.virtual_time


def informer(source: MemorySource, name: str = "pods", **options: Any) -> SharedInformer[Any]:
    return SharedInformer(source, name=name, **options)


def sources(*names: str) -> list[MemorySource]:
    found = []
    for name in names:
        source = MemorySource()
        source.set(name)
        found.append(source)
    return found


async def test_a_member_that_is_away_at_the_start_holds_up_no_other() -> None:
    near, far = sources("a", "b")
    far.fail_with = ConnectError("connection refused")
    east, west = informer(near, "east"), informer(far, "west")
    loop = asyncio.get_running_loop()
    start = loop.time()
    async with east, west, union({"east": east, "west": west}, away_after=5) as pods:
        await pods.wait_synced(60)
        assert 5 <= loop.time() - start < 7
        assert list(pods.by_key) == ["east/default/a"]
        health = pods.member_health()
        assert health["east"].live
        assert not health["west"].live
        assert isinstance(health["west"].last_error, ConnectError)
        assert pods.health().synced
        assert not pods.health().live
        told = Told()
        pods.add_event_handler(told)
        far.fail_with = None
        await until(lambda: pods.health().live)
        await settle()
        assert set(told.values) == set(pods.by_key) == {"east/default/a", "west/default/b"}
        assert told.wrong == []


async def test_a_member_that_is_slow_and_does_not_fail_is_waited_for() -> None:
    near, far = sources("a", "b")
    far.hang = True
    east, west = informer(near, "east"), informer(far, "west", idle_timeout=1000)
    async with east, west, union({"east": east, "west": west}) as pods:
        with pytest.raises(NotSyncedError, match="west: no response yet") as caught:
            await pods.wait_synced(25)
        assert caught.value.unsynced == {"west": None}
        await pods.wait_synced(60)  # a request without an answer has failed after 30 s
        assert list(pods.by_key) == ["east/default/a"]


async def test_a_member_that_goes_away_later_keeps_its_last_state() -> None:
    near, far = sources("a", "b")
    east, west = informer(near, "east"), informer(far, "west")
    async with east, west, union({"east": east, "west": west}) as pods:
        await pods.wait_synced(60)
        far.fail_with = ConnectError("connection refused")
        far.cut()
        await asyncio.sleep(60)
        near.set("a", data={"v": "2"})
        await settle()
        assert set(pods.by_key) == {"east/default/a", "west/default/b"}
        assert pods.by_key["east/default/a"]["data"] == {"v": "2"}
        assert [name for name, health in pods.member_health().items() if not health.live] == ["west"]


async def test_a_member_that_crashes_keeps_its_last_state_and_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: Any, error: BaseException) -> None:
        raise ZeroDivisionError("a bug of the program")

    near, far = sources("a", "b")
    east, west = informer(near, "east"), informer(far, "west", on_error=refuse)
    with suppress(ZeroDivisionError):  # what leaving `west` raises
        async with east, west, union({"east": east, "west": west}) as pods:
            await pods.wait_synced(60)
            far.expire()
            await until(lambda: pods.member_health()["west"].state == "stopped")
            near.set("c")
            await settle()
            shown = set(pods.by_key)
            health = pods.health()
            pods.remove("west")
            await settle()
            left = set(pods.by_key)
    assert shown == {"east/default/a", "east/default/c", "west/default/b"}
    assert (health.state, health.live) == ("backing_off", False)
    assert isinstance(health.last_error, ZeroDivisionError)
    assert left == {"east/default/a", "east/default/c"}
    assert Said("ERROR", "kinformer.derived", "union of east, west") in said(caplog, "zero_division")


async def test_a_member_that_takes_the_place_of_another_is_told_by_differences() -> None:
    source, other = sources("a", "b")
    source.set("b", uid="kept")
    source.set("c")
    other.objects = {key: source.objects[key] for key in ("default/b", "default/c")}
    other.version = source.version
    other.set("c", data={"v": "2"})
    other.set("d")
    other.hang = True
    told = Told()
    calls: list[str] = []
    async with informer(source, "old") as old, union({"east": old}) as pods, informer(other, "new") as new:
        await pods.wait_synced(60)
        pods.add_event_handler(told)
        await settle()
        pods.add_event_handler(
            on_add=lambda pod, *, key, is_in_initial_list: is_in_initial_list or calls.append(f"ADDED {key}"),
            on_update=lambda old, new, *, key: calls.append(f"UPDATED {key}"),
            on_delete=lambda pod, *, key: calls.append(f"DELETED {key}"),
        )
        pods.replace("east", new)
        source.set("z")  # nothing reads this any more
        await settle()
        await asyncio.sleep(20)
        before = set(pods.by_key)
        other.hang = False
        await until(lambda: len(told.values) == 3 and "east/default/d" in told.values, 100)
        after = set(pods.by_key)
    assert before == {"east/default/a", "east/default/b", "east/default/c"}
    assert after == set(told.values) == {"east/default/b", "east/default/c", "east/default/d"}
    assert told.wrong == []
    assert sorted(calls) == ["ADDED east/default/d", "DELETED east/default/a", "UPDATED east/default/c"]


async def test_a_member_whose_place_is_taken_may_be_left_at_once() -> None:
    first, second = sources("a", "b")
    second.fail_with = ConnectError("connection refused")
    async with union({}) as pods, informer(second, "new") as new:
        async with informer(first, "old") as old:
            pods.add("east", old)
            await until(lambda: len(pods.lister) == 1)
            pods.replace("east", new)
        await asyncio.sleep(100)
        assert list(pods.by_key) == ["east/default/a"]
        assert not pods.health().live
        second.fail_with = None
        await until(lambda: list(pods.by_key) == ["east/default/b"], 100)
        pods.remove("east")
        await settle()
        assert list(pods.by_key) == []


async def test_a_union_without_members_is_synced_and_well() -> None:
    pods = union({})
    assert pods.health().state == "starting"
    async with pods:
        await pods.wait_synced(1)
        assert (pods.health().state, pods.health().synced, pods.health().live) == ("watching", True, True)


async def test_a_member_that_reads_the_union_is_refused_and_the_union_goes_on() -> None:
    (source,) = sources("a")
    async with informer(source) as pods, union({"east": pods}, name="all") as everything:
        await everything.wait_synced(10)
        groups: Any = group_by(filtered(everything, lambda pod: True, name="filtered"), "metadata.name", name="groups")
        with pytest.raises(ConfigError, match="all would read itself: all reads groups reads filtered reads all"):
            everything.add("west", groups)
        with pytest.raises(ConfigError, match="all would read itself"):
            everything.replace("east", filtered(everything, bool))
        source.set("b")
        await settle()
        assert everything.members == ("east",)
        assert set(everything.by_key) == {"east/default/a", "east/default/b"}
