"""Readers of a watch cache over any history of writes, lost events, interruptions and resumed watches."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer import GroupVersionResource, KubeObject, LabelSelector, ListOptions, SharedInformer
from kinformer.exceptions import ExpiredError
from kinformer.list_watcher import ListerWatcher
from kinformer.watchcache import WatchCache
from tests.support.memory_source import MemorySource
from tests.support.virtual_time import VirtualTimeLoop


class WholeSource(MemorySource):
    """All config maps of a server."""

    resource: ClassVar[GroupVersionResource] = GroupVersionResource("", "v1", "configmaps")
    selects_all = True


class Reader:
    """A client that lists, watches, and goes back to any version that it has seen, as a reflector may."""

    def __init__(self, source: ListerWatcher, selector: str = "") -> None:
        self._source = source
        self._selector = LabelSelector.parse(selector)
        self._states: list[tuple[int, dict[str, KubeObject]]] = []
        self.objects: dict[str, KubeObject] = {}
        self.version = 0
        self.lists = 0
        self._task = asyncio.create_task(self._run())

    def chosen(self, source: MemorySource) -> dict[str, KubeObject]:
        """Return the objects that this reader should have."""
        return {key: obj for key, obj in source.objects.items() if self._selector.matches(obj.labels)}

    async def resume(self, back: int) -> None:
        """Watch again from an earlier version."""
        await self.close()
        if self._states:
            self.version, objects = self._states[max(0, len(self._states) - 1 - back)]
            self.objects = dict(objects)
        self._task = asyncio.create_task(self._run())

    async def adopt(self, version: int, objects: dict[str, KubeObject]) -> None:
        """Watch from a state that was read at the server."""
        await self.close()
        self.version, self.objects = version, objects
        self._states = [(version, dict(objects))]
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def _run(self) -> None:
        while True:
            if not self.version:
                await self._list()
            options = ListOptions(resource_version=str(self.version), allow_watch_bookmarks=True)
            try:
                async with self._source.watch(options) as stream:
                    async for events in stream:
                        for kind, obj in events:
                            self._take(kind, obj)
            except ExpiredError:
                self.version = 0

    async def _list(self) -> None:
        self.lists += 1
        page = await self._source.list(ListOptions(resource_version="0"))
        assert isinstance(page.items, list)
        self.objects = {obj.key: obj for obj in page.items}
        self.version = int(page.resource_version)
        self._states = [(self.version, dict(self.objects))]

    def _take(self, kind: str, obj: KubeObject) -> None:
        version = int(obj["metadata"]["resourceVersion"])
        assert version > self.version, "versions of a watch are monotonic, and nothing comes twice"
        self.version = version
        if kind == "BOOKMARK":
            return
        assert (obj.key in self.objects) is (kind != "ADDED")
        if kind == "DELETED":
            del self.objects[obj.key]
        else:
            self.objects[obj.key] = obj
        self._states.append((version, dict(self.objects)))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from("abc"), st.sampled_from("xy")),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.none()),
        st.tuples(st.just("recreate"), st.sampled_from("abc"), st.sampled_from("xy")),
        st.tuples(st.sampled_from(["cut", "expire", "lose"]), st.none(), st.none()),
        st.tuples(st.just("blink"), st.integers(0, 1), st.sampled_from("xy")),
        st.tuples(st.just("resume"), st.integers(0, 1), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.001, 1.0, 90.0]), st.none()),
    ),
    max_size=25,
)


async def _step(source: WholeSource, readers: list[Reader], step: tuple[object, ...]) -> None:
    action, what, more = step
    if action == "set":
        source.set(str(what), labels={"app": more})
    elif action == "delete" and f"default/{what}" in source.objects:
        source.delete(str(what))
    elif action == "recreate":
        source.set(str(what), uid=f"another-{source.version}", labels={"app": more})
    elif action == "cut":
        source.cut()
    elif action == "expire":
        source.expire()
    elif action == "lose":  # changes that no watch will have
        source.set("a", labels={"app": "x"})
        if "default/b" in source.objects:
            source.delete("b")
        source.expire()
    elif action == "blink":  # an object that only a reader has seen, at the server
        assert isinstance(what, int)
        source.set("d", labels={"app": more})
        version, objects = source.version, readers[what].chosen(source)
        source.delete("d")
        source.expire()
        await readers[what].adopt(version, objects)
    elif action == "resume":
        assert isinstance(what, int)
        assert isinstance(more, int)
        await readers[what].resume(more)
    elif action == "wait":
        assert isinstance(what, float)
        await asyncio.sleep(what)


async def _follow(steps: list[tuple[object, ...]], max_events: int) -> None:
    source = WholeSource()
    source.set("a", labels={"app": "x"})
    async with AsyncExitStack() as stack:
        cache = await stack.enter_async_context(WatchCache(SharedInformer(source), max_events=max_events))
        readers = []
        for selector in ("", "app=x"):
            readers.append(Reader(cache.source(label_selector=selector), selector))
            stack.push_async_callback(readers[-1].close)
        for step in steps:
            await _step(source, readers, step)
        await asyncio.sleep(120)
        for reader in readers:
            assert reader.objects == reader.chosen(source)


@pytest.mark.slow
@given(steps=STEPS, max_events=st.sampled_from([1, 3, 1000]))
def test_each_reader_ends_equal_to_the_server(steps: list[tuple[object, ...]], max_events: int) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_follow(steps, max_events))


@pytest.mark.virtual_time
async def test_versions_before_a_list_that_found_no_difference_are_expired() -> None:
    source = WholeSource()
    source.set("a")
    informer = SharedInformer(source)
    async with WatchCache(informer) as cache:
        await informer.wait_synced()
        reader = Reader(cache.source())
        await asyncio.sleep(1)
        source.set("b")
        seen_at_the_server = source.version
        source.delete("b")
        source.expire()
        await asyncio.sleep(60)
        assert reader.lists == 2
        assert list(reader.objects) == ["default/a"]
        await reader.close()
        with pytest.raises(ExpiredError):
            async with cache.source().watch(ListOptions(resource_version=str(seen_at_the_server))) as stream:
                await anext(stream)


@pytest.mark.virtual_time
async def test_a_list_at_the_version_that_was_reached_ends_no_watch() -> None:
    source = WholeSource()
    source.set("a")
    informer = SharedInformer(source)
    async with WatchCache(informer) as cache:
        await informer.wait_synced()
        reader = Reader(cache.source())
        await asyncio.sleep(1)
        source.floor = source.version + 1
        source.cut()
        await asyncio.sleep(1)
        source.floor = 0
        await asyncio.sleep(60)
        assert informer.statistics().relists
        source.set("b")
        await asyncio.sleep(1)
        assert (reader.lists, list(reader.objects)) == (1, ["default/a", "default/b"])
        await reader.close()


@pytest.mark.virtual_time
async def test_a_source_hands_on_the_objects_of_the_cache() -> None:
    source = WholeSource()
    source.set("a", labels={"app": "x"})
    source.set("b", labels={"app": "y"})
    informer = SharedInformer(source)
    async with WatchCache(informer) as cache, SharedInformer(cache.source(label_selector="app=x")) as chosen:
        await chosen.wait_synced()
        assert list(chosen.by_key) == ["default/a"]
        assert chosen.by_key["default/a"].raw is informer.by_key["default/a"].raw
        source.set("b", labels={"app": "x"})
        source.set("a", labels={"app": "y"})
        await asyncio.sleep(1)
        assert list(chosen.by_key) == ["default/b"]
