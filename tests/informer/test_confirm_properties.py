"""The model of confirmed reads: whatever lags, is cut or is stale, `confirm` returns the state at its call or later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kinformer import KubeObject, ListOptions, ListPage, SharedInformer, WatchEvent
from kinformer.exceptions import InvalidError
from kinformer.list_watcher import MetadataList, ServerTip
from tests.support.memory_source import MemorySource
from tests.support.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.slow

State = dict[str, KubeObject]
NAMES = "abc"


class Replicas(MemorySource):
    """A server with a replica that answers watches and is late, or frozen. Consistent reads do not come from that.

    Attributes:
        send, answer: Seconds from a call to the moment at which a request is served, and from there to its answer.
        lag: Seconds until an event reaches a watch.
        frozen: The last version that the replica has, or None if it follows.
        states: The objects at each version.
    """

    def __init__(self) -> None:
        super().__init__(watch_list=False)
        self.send = self.answer = self.lag = 0.0
        self.frozen: int | None = None
        self.states: dict[int, State] = {1: {}}

    def record(self, kind: str, obj: KubeObject) -> None:
        self.states[self.version] = dict(self.objects)
        super().record(kind, obj)

    def state(self, version: int) -> State:
        return self.states[max(known for known in self.states if known <= version)]

    async def list(self, options: ListOptions) -> ListPage:
        await asyncio.sleep(self.send)
        version = self.version if options.resource_version != "0" else self._replica()
        state = self.state(version)
        await asyncio.sleep(self.answer)
        return ListPage(list(state.values()), str(version))

    async def tip(self) -> ServerTip:
        page = await self.list(ListOptions(limit=1))
        return ServerTip(page.resource_version)

    async def list_metadata(self, namespace: str = "", *, name: str = "", label_selector: str = "") -> MetadataList:
        page = await self.list(ListOptions())
        assert isinstance(page.items, list)
        found = [obj for obj in page.items if name in ("", obj.name)]
        return MetadataList([obj for obj in found if not label_selector or "x" in obj.labels], page.resource_version)

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        await asyncio.sleep(self.send)
        if options.send_initial_events:
            raise InvalidError(422, "Invalid", "sendInitialEvents is forbidden")
        yield self._watched(options)

    async def _watched(self, options: ListOptions) -> AsyncIterator[list[WatchEvent]]:
        loop, epoch, seen = asyncio.get_running_loop(), self._epoch, int(options.resource_version or 0)
        end = loop.time() + (options.timeout_seconds or 300)
        bookmark = end - 2
        while self._epoch == epoch and loop.time() < end:
            changed, upto = self._changed, self._replica()
            events = [event for version, event in self.history if seen < version <= upto]
            if events:
                seen = upto
                await asyncio.sleep(self.lag)
                yield events
                continue
            if loop.time() >= bookmark:
                bookmark = end + 1
                yield [WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(upto)}})]
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(bookmark, end)):
                    await changed.wait()

    def _replica(self) -> int:
        return self.version if self.frozen is None else min(self.frozen, self.version)


async def confirm(source: Replicas, informer: SharedInformer, which: str) -> None:
    """Confirm, and compare each object with its states from the call to the return."""
    called = source.version
    try:
        if which == "all":
            found = await informer.confirm(timeout=30)
        elif which == "labels":
            found = await informer.confirm(label_selector="x", timeout=30)
        else:
            found = await informer.confirm(name=which, namespace="default", timeout=30)
    except TimeoutError:
        return
    returned = {obj.key: (obj.uid, obj.resource_version) for obj in found}
    for name in NAMES if which in ("all", "labels") else which:
        key = f"default/{name}"
        true = {_shown(source.state(version).get(key), which) for version in range(called, source.version + 1)}
        assert returned.get(key) in true, (key, which, called)


def _shown(obj: KubeObject | None, which: str) -> tuple[str, str] | None:
    return None if obj is None or (which == "labels" and "x" not in obj.labels) else (obj.uid, obj.resource_version)


DELAYS = st.sampled_from([0.0, 0.05, 0.5, 1.5, 4.0])
SET = st.tuples(st.just("set"), st.sampled_from(NAMES), st.booleans())
CONFIRM = st.tuples(st.just("confirm"), st.sampled_from(["all", "labels", *NAMES]), st.booleans())
OTHER = st.one_of(
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just(None)),
    st.tuples(st.sampled_from(["send", "answer", "lag"]), DELAYS, st.just(None)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.01, 0.2, 1.0, 3.0, 40.0]), st.just(None)),
    st.tuples(st.sampled_from(["cut", "freeze", "thaw", "beside"]), st.just(""), st.just(None)),
)


async def live_through(steps: list[tuple[str, Any, Any]], lag: float) -> None:
    source = Replicas()
    source.set("a")
    source.lag = lag
    confirming: list[asyncio.Task[None]] = []
    async with SharedInformer(source) as informer:
        await informer.wait_synced(60)
        for step, what, flag in steps:
            if step == "set":
                source.set(what, labels={"x": "y"} if flag else None)
            elif step == "delete" and f"default/{what}" in source.objects:
                source.delete(what)
            elif step == "confirm":
                confirming.append(asyncio.create_task(confirm(source, informer, what)))
                if flag:
                    await confirming[-1]
            elif step in ("send", "answer", "lag"):
                setattr(source, step, what)
            elif step == "wait":
                await asyncio.sleep(what)
            elif step == "cut":
                source.cut()
            elif step in ("freeze", "thaw"):
                source.frozen = source.version if step == "freeze" else None
                source._wake()
            elif step == "beside":  # a write of another resource
                source.version += 1
        source.frozen = None
        source._wake()
        await asyncio.gather(*confirming)
        source.send = source.answer = source.lag = 0.0
        assert {obj.key for obj in await informer.confirm(timeout=60)} == set(source.objects)


@given(st.lists(st.one_of(SET, CONFIRM, CONFIRM, OTHER), min_size=3, max_size=20), DELAYS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example([("freeze", "", None), ("set", "b", True), ("confirm", "all", True)], 0.0)
@example([("set", "b", True), ("confirm", "b", True)], 1.5)
@example(
    [
        ("answer", 1.5, None),
        ("confirm", "all", False),
        ("wait", 1.0, None),
        ("set", "b", True),
        ("confirm", "all", True),
    ],
    4.0,
)
def test_a_confirmed_read_is_never_older_than_its_call(steps: list[tuple[str, Any, Any]], lag: float) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(live_through(steps, lag))
