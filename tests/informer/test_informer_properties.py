"""Any history, with failures at any point, ends in the truth: in the cache, its indexes and every handler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import SharedInformer, WatchEvent
from tests.support.memory_source import MemorySource
from tests.support.mirror import Mirror
from tests.support.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.slow

STEPS = st.one_of(
    st.tuples(st.sampled_from(["set", "delete", "recreate"]), st.sampled_from("abcd"), st.booleans()),
    st.tuples(
        st.sampled_from(["cut", "expire", "duplicate", "away", "late", "pause", "resume", "wait", "beat"]),
        st.just(""),
        st.booleans(),
    ),
)


class Reader(Mirror):
    """A handler that stops reading when told to, and checks what it is told."""

    def __init__(self, only_labelled: bool) -> None:
        super().__init__()
        self.only_labelled = only_labelled
        self.gate = asyncio.Event()
        self.gate.set()

    def shows(self, obj: Any) -> bool:
        return not self.only_labelled or "x" in obj.labels

    async def on_add(self, obj: Any, *, is_in_initial_list: bool) -> None:
        await self.gate.wait()
        super().on_add(obj, is_in_initial_list=is_in_initial_list)

    async def on_update(self, old: Any, new: Any) -> None:
        await self.gate.wait()
        super().on_update(old, new)

    async def on_delete(self, obj: Any, *, final_state_unknown: bool) -> None:
        await self.gate.wait()
        super().on_delete(obj, final_state_unknown=final_state_unknown)


async def live_through(steps: list[tuple[str, str, bool]], watch_list: bool) -> None:
    source = MemorySource(watch_list=watch_list)
    source.set("a")
    indexers = {"value": lambda obj: [obj["data"]["v"]]}
    async with SharedInformer(source, indexers=indexers) as informer:
        readers: list[Reader] = []

        def join(only_labelled: bool) -> None:
            readers.append(Reader(only_labelled))
            informer.add_event_handler(readers[-1], filter=readers[-1].shows, queue_size=2)

        join(False)
        join(True)
        for step, name, flag in steps:
            await one_step(source, step, name, flag)
            if step == "late":
                join(flag)
            elif step == "pause":
                readers[-1].gate.clear()
            elif step == "resume":
                for reader in readers:
                    reader.gate.set()
        source.hang = False
        for reader in readers:
            reader.gate.set()
        await informer.wait_synced(600)
        await asyncio.sleep(900)
        check(source, informer, readers)


async def one_step(source: MemorySource, step: str, name: str, flag: bool) -> None:
    key = f"default/{name}"
    if step == "set":
        source.set(name, labels={"x": "y"} if flag else None)
    elif step == "delete" and key in source.objects:
        source.delete(name)
    elif step == "recreate" and key in source.objects:
        if flag:
            source.delete(name)
        source.set(name, uid=f"new-{source.version}")
    elif step == "cut":
        source.cut()
    elif step == "expire":
        source.expire()
    elif step == "duplicate" and source.history:
        _, event = source.history[-1]
        if event.type != "DELETED":
            source.version += 1
            source.history.append((source.version, WatchEvent("MODIFIED", event.object)))
    elif step == "away":
        source.hang = flag
    elif step == "wait":
        await asyncio.sleep(45 if flag else 3)
    elif step == "beat":
        for _ in range(20 if flag else 1):
            await asyncio.sleep(0)
    source.hang = source.hang and step == "away"


def check(source: MemorySource, informer: SharedInformer, readers: list[Reader]) -> None:
    truth = source.objects
    cached = {obj.key: obj for obj in informer.lister.list()}
    assert cached == truth
    for key, obj in cached.items():
        assert obj.raw == truth[key].raw
    by_value: dict[str, set[str]] = {}
    for obj in truth.values():
        by_value.setdefault(obj["data"]["v"], set()).add(obj.key)
    assert {v: set(informer.indexer.index_keys("value", v)) for v in informer.indexer.index_values("value")} == by_value
    assert sorted(informer.indexer.index_keys("namespace", "default")) == sorted(truth)
    for reader in readers:
        assert not reader.wrong
        assert reader.objects == {key: obj for key, obj in truth.items() if reader.shows(obj)}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=40), st.booleans())
def test_any_history_ends_in_the_truth(steps: list[tuple[str, str, bool]], watch_list: bool) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(live_through(steps, watch_list))
