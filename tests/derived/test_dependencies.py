"""Dependencies of a collection, from the first read to the last, and the end of a collection that others read."""

from __future__ import annotations

import asyncio
import gc
from contextlib import AsyncExitStack, suppress
from typing import Any
from weakref import ref

import pytest

from kinformer import KubeObject, SharedInformer, StoppedError, derive, union
from kinformer.derived import DerivedCollection, mapped
from tests.derived.test_own_collection import OwnCollection
from tests.support.memory_source import MemorySource
from tests.support.virtual_time import VirtualTimeLoop
from tests.support.waiting import settle, until

pytestmark = pytest.mark.virtual_time


class Scene:
    """Pods, and values that read the settings while `data.reads` of their pod says so."""

    def __init__(self, *, own: bool = False, **options: Any) -> None:
        self.pod_source, self.setting_source = MemorySource(), MemorySource()
        self.setting_source.set("one", data={"v": "1"})
        self.pods: SharedInformer[Any] = SharedInformer(self.pod_source, name="pods")
        self.settings: SharedInformer[Any] = SharedInformer(self.setting_source, name="settings", **options)
        self.read: Any = OwnCollection(self.settings) if own else self.settings
        self.values: DerivedCollection[str] = derive(self.pods, self.value_of, name="values")

    def set(self, name: str, *, reads: bool) -> None:
        self.pod_source.set(name, data={"reads": "yes"} if reads else {})

    def value_of(self, pod: KubeObject, fetch: Any) -> str:
        if "reads" not in pod["data"]:
            return "alone"
        return "with " + ",".join(one["data"]["v"] for one in fetch(self.read))


OWN = pytest.mark.parametrize("own", [False, True], ids=["informer", "own collection"])


@OWN
async def test_a_collection_outlives_one_that_it_no_longer_depends_on(own: bool) -> None:
    scene = Scene(own=own)
    scene.set("a", reads=True)
    scene.set("b", reads=True)
    async with scene.pods, scene.values as values:
        async with scene.settings:
            await values.wait_synced(10)
            assert dict(values.by_key) == {"default/a": "with 1", "default/b": "with 1"}
            assert values.reads == ("pods", scene.read.name)
            scene.set("a", reads=False)
            scene.pod_source.delete("b")
            await settle()
            assert values.reads == ("pods",)
        scene.set("c", reads=False)
        await settle()
        assert dict(values.by_key) == {"default/a": "alone", "default/c": "alone"}
        assert values.health().live
        assert not [task for task in asyncio.all_tasks() if "mirror" in task.get_name()]


@OWN
async def test_a_dependency_that_comes_again_is_followed_again(own: bool) -> None:
    scene = Scene(own=own)
    async with scene.pods, scene.settings, scene.values as values:
        await values.wait_synced(10)
        for number in range(3):
            scene.set("a", reads=True)
            await settle()
            scene.setting_source.set("one", data={"v": f"{number}"})
            await settle()
            assert dict(values.by_key) == {"default/a": f"with {number}"}
            scene.set("a", reads=False)
            scene.setting_source.set("one", data={"v": "unread"})
            await settle()
            assert dict(values.by_key) == {"default/a": "alone"}
        assert values.statistics().dependencies == 0


@OWN
async def test_a_dependency_that_ends_with_a_change_in_the_same_moment_ends_nothing(own: bool) -> None:
    scene = Scene(own=own)
    scene.set("a", reads=True)
    async with scene.pods, scene.values as values:
        async with scene.settings:
            await values.wait_synced(10)
            scene.set("a", reads=False)
            await until(lambda: "reads" not in scene.pods.by_key["default/a"]["data"])
        await settle()
        assert dict(values.by_key) == {"default/a": "alone"}
        assert values.health().live


async def test_a_collection_that_still_depends_on_another_ends_with_it_and_keeps_its_values() -> None:
    scene = Scene()
    scene.set("a", reads=True)
    scene.set("b", reads=False)
    async with scene.pods, scene.values as values:
        async with scene.settings, AsyncExitStack() as stack:
            await values.wait_synced(10)
            stream = await stack.enter_async_context(values.events())
            stack.pop_all()
        assert {event.object async for event in stream} == {"with 1", "alone"}
        assert dict(values.by_key) == {"default/a": "with 1", "default/b": "alone"}
        assert not values.health().live
        with pytest.raises(StoppedError, match="values has ended, because settings was exited"):
            values.add_event_handler(on_add=print)


async def test_a_crash_of_a_collection_that_is_no_longer_read_ends_nothing() -> None:
    def refuse(_: Any, error: BaseException) -> None:
        raise ZeroDivisionError("a bug of the program")

    scene = Scene(on_error=refuse)
    scene.set("a", reads=True)
    async with scene.pods, scene.values as values:
        with suppress(ZeroDivisionError):  # what leaving the settings raises
            async with scene.settings:
                await values.wait_synced(10)
                scene.set("a", reads=False)
                await settle()
                scene.setting_source.expire()
                await until(lambda: scene.settings.health().state == "stopped")
        scene.set("b", reads=False)
        await settle()
        assert dict(values.by_key) == {"default/a": "alone", "default/b": "alone"}


async def test_a_crash_of_a_collection_that_is_read_is_the_error_of_its_readers() -> None:
    def refuse(_: Any, error: BaseException) -> None:
        raise ZeroDivisionError("a bug of the program")

    scene = Scene(on_error=refuse)
    scene.set("a", reads=True)
    with suppress(ZeroDivisionError):  # what leaving them raises
        async with scene.pods, scene.settings, scene.values as values:
            await values.wait_synced(10)
            scene.setting_source.expire()
            await until(lambda: scene.values.health().state == "stopped")
    assert isinstance(scene.values.health().last_error, ZeroDivisionError)


async def test_the_first_sync_does_not_wait_for_what_is_no_longer_read() -> None:
    scene = Scene()
    scene.set("a", reads=True)
    scene.set("b", reads=True)
    scene.setting_source.hang = True
    async with scene.pods, scene.settings, scene.values as values:
        await asyncio.sleep(1)
        assert not values.has_synced
        scene.pod_source.delete("a")
        scene.set("b", reads=False)
        await values.wait_synced(10)
        assert dict(values.by_key) == {"default/b": "alone"}


async def test_a_collection_that_cannot_be_entered_reads_nothing() -> None:
    scene = Scene()
    async with scene.settings:
        await scene.settings.wait_synced(10)
    async with scene.pods:
        both = union(scene.pods, OwnCollection(scene.pods), scene.settings, name="both")
        with pytest.raises(StoppedError, match="settings was exited"):
            await both.__aenter__()
        assert both.reads == ()
        await settle()
        assert not [task for task in asyncio.all_tasks() if "mirror" in task.get_name()]


@pytest.mark.parametrize("turns", range(4))
def test_an_event_loop_is_freed_although_collections_had_work(turns: int) -> None:
    async def program() -> ref[asyncio.AbstractEventLoop]:
        scene = Scene()
        async with scene.pods, scene.settings, scene.values, mapped(scene.values, str) as texts:
            await texts.wait_synced(10)
            for number in range(3000):
                scene.set(f"p{number}", reads=True)
            await settle(turns)
        return ref(asyncio.get_running_loop())

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        loop = runner.run(program())
    del runner
    gc.collect()
    assert loop() is None


async def test_a_union_may_be_read_by_a_member_that_it_no_longer_has() -> None:
    scene = Scene()
    scene.set("a", reads=False)
    everything = union({"values": scene.values}, name="everything")
    scene.read = mapped(everything, lambda value: {"data": {"v": value}}, name="above")
    async with scene.pods, scene.values as values, everything, scene.read:
        await scene.read.wait_synced(10)
        assert list(everything.by_key) == ["values/default/a"]
        everything.remove("values")
        await settle()
        scene.set("a", reads=True)
        await settle()
        assert dict(values.by_key) == {"default/a": "with "}
        assert everything.health().live
