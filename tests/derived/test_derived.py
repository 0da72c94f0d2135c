"""Derived collections: what they promise, one behaviour at a time.

Internals: the budget of a slice, of which a test needs one that is always exhausted.
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from threading import current_thread, main_thread
from typing import Any
from weakref import ref

import pytest

from kinformer import (
    ConfigError,
    Controller,
    KubeObject,
    NotSyncedError,
    Request,
    SharedInformer,
    StoppedError,
    derive,
    group_by,
    join,
    union,
    wait_for,
)
from kinformer._runtime.clock import YieldBudget
from kinformer.derived import filtered, mapped
from tests.support.log_records import Said, said
from tests.support.memory_source import MemorySource
from tests.support.reading_threads import reading_threads
from tests.support.waiting import settle, until

pytestmark = pytest.mark.virtual_time


def informer(source: MemorySource, name: str = "pods", **options: Any) -> SharedInformer[Any]:
    return SharedInformer(source, name=name, **options)


class Hesitant(YieldBudget):
    """A budget that is always exhausted: who has it lets all others finish what they can.

    Two tests give it to one module alone. A slow clock would be that of all.
    """

    def exhausted(self) -> bool:
        return True

    async def pause(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0)


async def test_no_value_is_made_of_half_a_relist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinformer.processor.processor.YieldBudget", Hesitant)
    source = MemorySource()
    for number in range(800):
        source.set(f"p{number}")
    torn: list[str] = []
    async with informer(source) as pods:
        versions = mapped(pods, lambda pod: pod.resource_version)

        def both(pod: KubeObject, fetch: Any) -> str | None:
            number = (int(pod.name[1:]) + 400) % 800
            other = fetch(pods, key=f"default/p{number}")
            version = fetch(versions, key=f"default/p{number}")
            if version != (other.resource_version if other else None):
                torn.append(pod.key)
            return version

        async with versions, derive(pods, both) as collection:
            await collection.wait_synced(60)
            for number in range(800):
                source.set(f"p{number}")
            source.expire()
            await until(lambda: collection.statistics().waiting == 0 and pods.health().relists == 1)
            await asyncio.sleep(60)
            expected = {
                key: source.objects[f"default/p{(int(key[9:]) + 400) % 800}"].resource_version for key in source.objects
            }
            assert dict(collection.by_key) == expected
    assert torn == []


async def test_a_function_runs_again_for_the_objects_that_a_change_concerns_and_no_others() -> None:
    pod_source, node_source = MemorySource(), MemorySource()
    for name in "abc":
        node_source.set(name)
        pod_source.set(f"on-{name}", data={"to": name})
    ran: list[str] = []
    async with informer(pod_source, indexers={"to": "data.to"}) as pods, informer(node_source, "nodes") as nodes:

        def count(node: KubeObject, fetch: Any) -> int:
            ran.append(node.name)
            return len(fetch(pods, index=("to", node.name)))

        async with derive(nodes, count) as counts:
            await counts.wait_synced(10)
            assert sorted(ran) == ["a", "b", "c"]
            ran.clear()
            pod_source.set("on-b", data={"to": "c"})
            await until(lambda: counts.by_key["default/c"] == 2)
            assert sorted(ran) == ["b", "c"]
            ran.clear()
            node_source.set("a")
            await settle()
            assert ran == ["a"]


async def test_a_change_that_leaves_a_value_equal_is_not_told() -> None:
    source = MemorySource()
    source.set("a", data={"v": "1"})
    async with informer(source) as pods, mapped(pods, lambda pod: pod["data"]["v"]) as values:
        await values.wait_synced(10)
        async with values.events() as events:
            assert (await anext(events)).object == "1"
            source.set("a", data={"v": "1"}, labels={"x": "y"})
            source.set("a", data={"v": "2"})
            event = await anext(events)
            assert (event.type, event.key, event.old, event.object) == ("UPDATED", "default/a", "1", "2")


async def test_a_handler_that_reads_the_cache_finds_the_change_it_is_told_of() -> None:
    source = MemorySource()
    source.set("a")
    seen: list[bool] = []
    async with informer(source) as pods, mapped(pods, lambda pod: pod.resource_version) as versions:
        await versions.wait_synced(10)
        versions.add_event_handler(on_update=lambda old, new: seen.append(versions.by_key["default/a"] == new))
        for _ in range(5):
            source.set("a")
            await settle()
    assert seen == [True] * 5


async def test_it_is_synced_when_all_that_it_reads_is_and_shows_nothing_before() -> None:
    pod_source, node_source = MemorySource(), MemorySource()
    node_source.set("a")
    pod_source.hang = True
    pods, nodes = informer(pod_source), informer(node_source, "nodes")
    async with pods, nodes, derive(nodes, lambda node, fetch: len(fetch(pods))) as counts:
        with pytest.raises(NotSyncedError, match="pods: "):
            await counts.wait_synced(30)
        assert not counts.has_synced
        assert len(counts.lister) == 0
        pod_source.hang = False
        pod_source.set("a")
        await counts.wait_synced(300)
        assert dict(counts.by_key) == {"default/a": 1}


async def test_the_first_values_come_in_one_step() -> None:
    source = MemorySource()
    for number in range(2000):
        source.set(f"p{number}")
    sizes: set[int] = set()
    async with informer(source) as pods, mapped(pods, lambda pod: pod.name) as names:
        while not names.has_synced:
            sizes.add(len(names.lister))
            await asyncio.sleep(0)
        sizes.add(len(names.lister))
    assert sizes <= {0, 2000}


async def test_a_function_that_raises_leaves_its_value_out_and_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    for name in "ab":
        source.set(name, data={"v": "1"})

    def number(pod: KubeObject, fetch: Any) -> int:
        return int(pod["data"]["v"])

    async with informer(source) as pods, derive(pods, number, name="numbers") as numbers:
        await numbers.wait_synced(10)
        source.set("a", data={"v": "one"})
        source.set("b", data={"v": "2"})
        await settle()
        assert dict(numbers.by_key) == {"default/b": 2}
        assert numbers.statistics().failures == 1
        source.set("a", data={"v": "3"})
        await settle()
        assert dict(numbers.by_key) == {"default/a": 3, "default/b": 2}
    assert said(caplog, "derive_failed") == [Said("ERROR", "kinformer.derived", "numbers", "default/a")]


async def test_a_collection_that_would_be_made_of_itself_is_refused() -> None:
    source = MemorySource()
    source.set("a")
    async with informer(source) as pods:
        later: list[Any] = []
        first = derive(pods, lambda _, fetch: fetch(later[0], key="default/a"), name="first")
        later.append(mapped(first, str, name="second"))
        with pytest.raises(ConfigError, match="first reads second reads first"):
            async with later[0], first:
                await first.wait_synced(10)
    assert isinstance(first.health().last_error, ConfigError)


async def test_it_ends_when_what_it_reads_is_left_first() -> None:
    source = MemorySource()
    source.set("a")
    pods = informer(source)
    async with mapped(pods, lambda pod: pod.name) as names:
        async with pods:
            await names.wait_synced(10)
            stream = names.events()
            await stream.__aenter__()
        assert [event.object async for event in stream] == ["a"]
        assert dict(names.by_key) == {"default/a": "a"}
        assert not names.health().live
        with pytest.raises(StoppedError, match="because pods was exited"):
            names.add_event_handler(on_add=print)


async def test_a_filter_keeps_the_objects_themselves_and_finds_them_by_label_and_namespace() -> None:
    source = MemorySource()
    source.set("a", labels={"app": "x"})
    source.set("b", namespace="other", labels={"app": "x"})
    source.set("c")
    async with informer(source) as pods, filtered(pods, lambda pod: pod.labels) as labelled:
        await labelled.wait_synced(10)
        assert labelled.by_key.get("default/a") is pods.by_key.get("default/a")
        assert {pod.key for pod in labelled.lister.list("app=x")} == {"default/a", "other/b"}
        assert {pod.key for pod in labelled.lister.list(namespace="other")} == {"other/b"}
        assert labelled.lister.get("a", namespace="default") is not None


async def test_members_of_a_union_come_and_go() -> None:
    east_source, west_source = MemorySource(), MemorySource()
    east_source.set("a")
    west_source.set("a")
    east, west = informer(east_source, "east"), informer(west_source, "west")
    async with east, west, union({"east": east}) as pods:
        await pods.wait_synced(10)
        assert list(pods.by_key) == ["east/default/a"]
        pods.add("west", west)
        await settle()
        assert set(pods.by_key) == {"east/default/a", "west/default/a"}
        gone: list[str] = []
        pods.add_event_handler(on_delete=lambda pod, *, key: gone.append(key))
        pods.remove("west")
        await settle()
        assert gone == ["west/default/a"]
        assert pods.members == ("east",)
        with pytest.raises(ConfigError, match="already has a member 'east'"):
            pods.add("east", west)


async def test_an_index_over_values_follows_them() -> None:
    source = MemorySource()
    source.set("a", data={"v": "1"})
    grouped: dict[str, Any] = {"by": lambda members: [str(len(members))]}
    async with informer(source) as pods, group_by(pods, "data.v", indexers=grouped) as groups:
        await groups.wait_synced(10)
        source.set("b", data={"v": "1"})
        await settle()
        assert [len(members) for members in groups.lister.by_index("by", "2")] == [2]
        assert groups.lister.by_index("by", "1") == []


async def test_an_owner_finds_what_it_owns() -> None:
    owner_source, owned_source = MemorySource(), MemorySource()
    owner = owner_source.set("a", uid="uid-of-a")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name, "uid": owner.uid}
    owned_source.set("x", ownerReferences=[reference])
    async with informer(owner_source, "owners") as owners, informer(owned_source, "owned") as owned:
        names = derive(owners, lambda obj, fetch: sorted(child.name for child in fetch(owned, owner=obj.uid)))
        async with names:
            await names.wait_synced(10)
            assert dict(names.by_key) == {"default/a": ["x"]}
            owned_source.set("y", ownerReferences=[reference])
            owned_source.set("x", ownerReferences=[])
            await settle()
            assert dict(names.by_key) == {"default/a": ["y"]}


async def test_a_coroutine_function_is_refused_when_it_is_declared() -> None:
    async def slow(pod: Any, fetch: Any) -> None: ...

    with pytest.raises(TypeError, match="slow is a coroutine function"):
        derive(informer(MemorySource()), slow)


async def test_fetch_is_refused_after_the_run_that_it_belongs_to() -> None:
    source = MemorySource()
    source.set("a")
    kept: list[Any] = []
    async with informer(source) as pods, derive(pods, lambda _, fetch: kept.append(fetch) or 1) as ones:
        await ones.wait_synced(10)
        with pytest.raises(RuntimeError, match="after the run of the function"):
            kept[0](pods)


async def test_a_handler_gets_the_values_again_at_each_resync() -> None:
    source = MemorySource()
    source.set("a")
    updates: list[tuple[Any, Any]] = []
    async with informer(source) as pods, mapped(pods, lambda pod: pod.name) as names:
        await names.wait_synced(10)
        names.add_event_handler(on_update=lambda old, new: updates.append((old, new)), resync_period=60)
        await asyncio.sleep(150)
    assert updates == [("a", "a"), ("a", "a")]


@pytest.mark.parametrize("steps", range(4))
async def test_a_change_beside_a_resync_is_told(steps: int) -> None:
    source = MemorySource()
    source.set("a", data={"v": "1"})
    updates: list[tuple[Any, Any]] = []
    async with informer(source) as pods, mapped(pods, lambda pod: pod["data"]["v"]) as values:
        await values.wait_synced(10)
        values.add_event_handler(on_update=lambda old, new: updates.append((old, new)), resync_period=60)
        await asyncio.sleep(60)
        for _ in range(steps):
            await asyncio.sleep(0)
        source.set("a", data={"v": "2"})
        await asyncio.sleep(1)
    assert updates in ([("1", "1"), ("1", "2")], [("1", "2"), ("2", "2")])


async def test_a_controller_runs_on_a_derived_collection_and_reads_one_state() -> None:
    source = MemorySource()
    source.set("a", data={"v": "1"})
    seen: list[tuple[Request, Any, str]] = []
    pods = informer(source)
    versions = mapped(pods, lambda pod: pod["data"]["v"])
    async with pods, versions, union({"east": versions}) as values:

        async def reconcile(request: Request) -> None:
            pod = pods.by_key.get(f"{request.namespace}/{request.name}")
            assert pod is not None
            seen.append((request, values.by_key.get(request.key), pod["data"]["v"]))

        task = asyncio.ensure_future(Controller(reconcile).for_(values).run())
        await until(lambda: len(seen) == 1)
        source.set("a", data={"v": "2"})
        await until(lambda: len(seen) == 2)
        task.cancel()
        await asyncio.wait({task})
    assert [(request.cluster, request.key, value, own) for request, value, own in seen] == [
        ("east", "east/default/a", "1", "1"),
        ("east", "east/default/a", "2", "2"),
    ]


async def test_a_collection_of_what_was_left_cannot_be_entered_and_leaves_no_task() -> None:
    pods = informer(MemorySource())
    async with pods:
        await pods.wait_synced(10)
    names = mapped(pods, lambda pod: pod.name)
    before = asyncio.all_tasks()
    with pytest.raises(StoppedError, match="pods was exited"):
        async with names:
            raise AssertionError("it was entered")
    assert asyncio.all_tasks() == before


async def test_a_member_cannot_be_added_before_the_union_is_entered() -> None:
    pods = union({"east": informer(MemorySource())})
    with pytest.raises(RuntimeError, match="has not been entered"):
        pods.add("west", informer(MemorySource()))


async def test_a_value_is_waited_for_as_an_object_is() -> None:
    source = MemorySource()
    source.set("a", data={"v": "1"})
    source.set("b", data={"v": "1"})
    async with informer(source) as pods, mapped(pods, lambda pod: int(pod["data"]["v"])) as numbers:
        waiting = asyncio.ensure_future(wait_for(numbers, "default/a", lambda number: number == 3, 60))
        for number in (2, 3):
            source.set("b", data={"v": "3"})
            source.set("a", data={"v": str(number)})
            await settle()
        assert await waiting == 3
        with pytest.raises(TimeoutError, match="it is 3"):
            await wait_for(numbers, "default/a", lambda number: number == 4, 1)


@pytest.mark.slow
async def test_values_of_texts_and_objects_cost_the_garbage_collector_nothing() -> None:
    source = MemorySource()
    for number in range(2000):
        source.set(f"p{number}", data={"on": "p1"})
    async with informer(source) as pods:
        await pods.wait_synced(10)
        for make in (
            lambda: derive(pods, lambda pod, fetch: (pod.name, fetch(pods, key="default/p1")), name="pairs"),
            lambda: join(pods, pods, on=lambda pod: f"default/{pod['data']['on']}", name="joined"),
        ):
            gc.collect()
            before = len(gc.get_objects())
            async with make() as collection:
                await collection.wait_synced(10)
                gc.collect()
                assert len(collection.lister) == 2000
                assert len(gc.get_objects()) - before < 1000  # the dicts of a cache, in newer versions of Python


async def test_a_value_that_leads_back_to_its_collection_is_freed_with_it() -> None:
    @dataclass(eq=False)
    class Value:
        of: object

    source = MemorySource()
    source.set("a")
    made: list[Any] = []
    async with informer(source) as pods:
        for value_of in (lambda _, fetch: Value(made[-1]), lambda _, fetch: (Value(made[-1]),)):
            made.append(derive(pods, value_of, name="round"))
            async with made[-1]:
                await made[-1].wait_synced(10)
        freed = [ref(collection) for collection in made]
        made.clear()
        await settle()
        gc.collect()
        assert [collection() for collection in freed] == [None, None]


async def test_a_pair_of_a_join_is_taken_apart_and_keeps_the_object_of_the_cache() -> None:
    source = MemorySource()
    source.set("a", data={"on": "b"})
    source.set("b", data={"on": "none"})
    async with (
        informer(source) as pods,
        join(pods, pods, on=lambda pod: f"default/{pod['data']['on']}") as pairs,
    ):
        await pairs.wait_synced(10)
        left, right = pairs.by_key["default/a"]
        assert left is pods.by_key.get("default/a")
        assert right is pods.by_key.get("default/b")
        assert pairs.by_key["default/b"].right is None


async def test_a_handler_in_a_thread_gets_every_value_in_order() -> None:
    source = MemorySource()
    source.set("a", data={"v": "0"})
    seen: list[tuple[str, bool]] = []

    def on_change(_: str, new: str) -> None:
        seen.append((new, current_thread() is main_thread()))

    async with informer(source) as pods, mapped(pods, lambda pod: pod["data"]["v"]) as values:
        await values.wait_synced(10)
        values.add_event_handler(on_update=on_change, queue_size=None, thread=True)
        for number in range(1, 6):
            source.set("a", data={"v": str(number)})
            await settle()
        await until(lambda: len(seen) == 5)
    assert seen == [(str(number), False) for number in range(1, 6)]


async def test_one_change_that_concerns_many_values_is_worked_off_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinformer.derived.propagation.YieldBudget", Hesitant)
    source, settings = MemorySource(), MemorySource()
    for number in range(2000):
        source.set(f"p{number}")
    settings.set("one", data={"v": "1"})
    runs = 0
    async with informer(source) as pods, informer(settings, "settings") as config:

        def with_setting(pod: KubeObject, fetch: Any) -> str:
            nonlocal runs
            runs += 1
            return f"{pod.name} {fetch(config, key='default/one')['data']['v']}"

        async with derive(pods, with_setting) as first, mapped(first, str.upper) as second:
            heard: list[str] = []
            second.add_event_handler(on_update=lambda _, new: heard.append(new), queue_size=None)
            await second.wait_synced(60)
            runs, most, turns = 0, 0, 0
            settings.set("one", data={"v": "2"})
            async with asyncio.timeout(60):
                while len(heard) < 2000:
                    before = runs, second.statistics().events.get("UPDATED", 0)
                    await asyncio.sleep(0)
                    now = runs, second.statistics().events.get("UPDATED", 0)
                    most = max(most, *(after - earlier for after, earlier in zip(now, before, strict=True)))
                    turns += most > 0
    assert runs == 2000
    assert most <= 128, "as many as between two looks at the clock, not all of them"
    assert turns >= 2000 / 128


async def test_other_threads_read_states_that_there_were() -> None:
    source = MemorySource()
    for number in range(20):
        source.set(f"p{number}", labels={"turn": "0"}, data={"turn": "0"})
    reads = 0

    def read() -> None:
        nonlocal reads
        assert {value[0] for value in turns.lister.list()} <= set("0123456789")
        assert len(turns.lister) == len(list(turns.lister)) == len(turns.by_key) == 20
        assert all(turns.by_key.get(key) is not None for key in turns.by_key)
        assert all(value.startswith("5") for value in turns.lister.by_index("turn", "5"))
        assert {pod.labels["turn"] for pod in even.lister.list("turn=4")} <= {"4"}
        reads += 1

    async with informer(source) as pods:
        turns = mapped(pods, lambda pod: pod["data"]["turn"] + pod.name)
        turns.add_indexers({"turn": lambda value: [value[0]]})
        even = filtered(pods, lambda pod: int(pod.labels["turn"]) % 2 == 0)
        async with turns, even:
            await turns.wait_synced(60)
            await even.wait_synced(60)
            with reading_threads(read):
                for turn in range(1, 40):
                    for number in range(20):
                        source.set(f"p{number}", labels={"turn": str(turn % 10)}, data={"turn": str(turn % 10)})
                    if turn % 5 == 0:
                        source.expire()
                    before = reads
                    await until(lambda reads_before=before: reads > reads_before, 1e6)
                    await settle()
    assert reads > 39
