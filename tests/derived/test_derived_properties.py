"""Any history ends in the truth, and no value is ever made of two different states of what it reads."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import KubeObject, LabelSelector, SharedInformer, derive, group_by, join, union
from kinformer.derived import filtered, mapped
from tests.support.memory_source import MemorySource
from tests.support.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.search

NAMES = "abd"
LABELS = st.sampled_from([None, {"app": "x"}, {"app": "y"}, {"app": "x", "tier": "z"}])
OPERATIONS = ["set", "set", "set", "delete", "recreate", "cut", "expire", "away"]
PAUSES = st.sampled_from(["none", "none", "beat", "beats", "wait", "long"])
STEPS = st.tuples(
    st.sampled_from(OPERATIONS), st.sampled_from(NAMES), st.booleans(), LABELS, st.sampled_from(NAMES), PAUSES
)


class Told:
    """A handler of a derived collection that keeps what it was told, and what did not fit what it had been told."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.wrong: list[str] = []

    def on_add(self, value: Any, *, key: str) -> None:
        if key in self.values:
            self.wrong.append(f"{key} was added twice")
        self.values[key] = value

    def on_update(self, old: Any, new: Any, *, key: str) -> None:
        if self.values.get(key) != old or old == new:
            self.wrong.append(f"{key}: an update from {old} to {new}, after {self.values.get(key)}")
        self.values[key] = new

    def on_delete(self, value: Any, *, key: str) -> None:
        if self.values.pop(key, None) != value:
            self.wrong.append(f"{key}: a delete of {value}")


def states(objects: list[KubeObject] | tuple[KubeObject, ...]) -> frozenset[tuple[str, str, str]]:
    return frozenset((obj.key, obj.uid, obj.resource_version) for obj in objects)


def state(obj: KubeObject | None) -> tuple[str, str, str] | None:
    return None if obj is None else (obj.key, obj.uid, obj.resource_version)


def target(obj: KubeObject) -> str:
    return str(obj["data"].get("to", ""))


class Graph:
    """Collections over two informers, with their functions applied from scratch beside them."""

    def __init__(self, pods: SharedInformer[Any], nodes: SharedInformer[Any]) -> None:
        self.pods, self.nodes = pods, nodes
        self.labelled = filtered(pods, lambda pod: "app" in pod.labels, name="labelled")
        self.versions = mapped(pods, lambda pod: pod.resource_version, name="versions")
        self.groups = group_by(pods, target, name="groups")
        self.joined = join(pods, nodes, on=lambda pod: f"default/{target(pod)}", name="joined")
        self.by_node = derive(nodes, self._by_node, name="by node")
        # Two ways lead from a pod to each value: by the collection of versions, and by the pods themselves.
        self.both = derive(nodes, self._both, name="both ways")
        self.again = derive(self.both, lambda value, fetch: (value, len(fetch(self.labelled))), name="again")
        self.many = derive(pods, self._labels_of, name="labels", many=True)
        # It begins and ceases to depend on the others with the states of its pods.
        self.at_times = derive(pods, self._at_times, name="at times")
        self.all = union({"east": pods, "west": self.labelled})
        self.torn: list[str] = []

    @property
    def collections(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if hasattr(value, "wait_synced")} | {}

    @property
    def derived(self) -> dict[str, Any]:
        return {name: one for name, one in self.collections.items() if name not in ("pods", "nodes")}

    def _by_node(self, node: KubeObject, fetch: Any) -> Any:
        own = fetch(self.pods, index=("to", node.name))
        selected = fetch(self.pods, selector="app=x")
        if node.name == "d" and len(own) % 2:
            raise ValueError("a function may fail")
        return state(node), states(own), states(selected), fetch(self.versions, key=node.key)

    def _both(self, node: KubeObject, fetch: Any) -> Any:
        pod = fetch(self.pods, key=node.key)
        version = fetch(self.versions, key=node.key)
        if version != (pod.resource_version if pod is not None else None):
            self.torn.append(f"{node.key}: {version} beside {pod}")
        group = fetch(self.groups, key=node.name) or ()
        members = fetch(self.pods, index=("to", node.name))
        if states(group) != states(members):
            self.torn.append(f"{node.key}: {group} beside {members}")
        return version, states(group)

    def _labels_of(self, pod: KubeObject, fetch: Any) -> dict[str, str]:
        return {f"{label}={value}": pod.key for label, value in pod.labels.items()}

    def _at_times(self, pod: KubeObject, fetch: Any) -> Any:
        if target(pod) == "a":
            return len(fetch(self.labelled))
        return fetch(self.versions, key=f"default/{target(pod)}") if target(pod) == "b" else None

    def from_scratch(self, pods: dict[str, KubeObject], nodes: dict[str, KubeObject]) -> dict[str, dict[str, Any]]:
        """The values that there should be, computed at once from all objects."""
        to = {name: [pod for pod in pods.values() if target(pod) == name] for name in {*map(target, pods.values())}}
        labelled = {key: pod for key, pod in pods.items() if "app" in pod.labels}
        versions = {key: pod.resource_version for key, pod in pods.items()}
        both = {key: (versions.get(key), states(to.get(node.name, []))) for key, node in nodes.items()}
        selects = LabelSelector.parse("app=x").matches
        selected = states([pod for pod in pods.values() if selects(pod.labels)])
        labels: dict[str, str] = {}
        for key in sorted(pods, reverse=True):
            labels |= {f"{label}={value}": key for label, value in pods[key].labels.items()}
        return {
            "labelled": {key: state(pod) for key, pod in labelled.items()},
            "versions": versions,
            "groups": {name: states(members) for name, members in to.items() if name},
            "joined": {key: (state(pod), state(nodes.get(f"default/{target(pod)}"))) for key, pod in pods.items()},
            "by_node": {
                key: (state(node), states(to.get(node.name, [])), selected, versions.get(key))
                for key, node in nodes.items()
                if not (node.name == "d" and len(to.get("d", [])) % 2)
            },
            "both": both,
            "again": {key: (value, len(labelled)) for key, value in both.items()},
            "many": labels,
            "at_times": {
                key: value
                for key, pod in pods.items()
                if (value := {"a": len(labelled), "b": versions.get("default/b")}.get(target(pod))) is not None
            },
            "all": {f"east/{key}": state(pod) for key, pod in pods.items()}
            | {f"west/{key}": state(pod) for key, pod in labelled.items()},
        }


def plain(name: str, value: Any) -> Any:
    if name in ("labelled", "all"):
        return state(value)
    if name == "groups":
        return states(value)
    if name == "joined":
        return state(value.left), state(value.right)
    return value


async def live_through(steps: list[Any]) -> None:
    pod_source, node_source = MemorySource(), MemorySource(watch_list=False)
    pod_source.set("a", data={"to": "b"})
    node_source.set("b")
    pods: SharedInformer[Any] = SharedInformer(pod_source, name="pods", indexers={"to": "data.to"})
    nodes: SharedInformer[Any] = SharedInformer(node_source, name="nodes")
    async with pods, nodes, AsyncExitStack() as stack:
        graph = Graph(pods, nodes)
        # The upper ones first: they wait for what they read.
        for one in reversed(graph.derived.values()):
            await stack.enter_async_context(one)
        told = {name: Told() for name in graph.derived}
        for name, one in graph.derived.items():
            one.add_event_handler(told[name])
        for step in steps:
            await one_step(pod_source, node_source, *step)
        pod_source.hang = node_source.hang = False
        for one in graph.derived.values():
            await one.wait_synced(900)
        late = {name: Told() for name in graph.derived}
        for name, one in graph.derived.items():
            one.add_event_handler(late[name])
        await asyncio.sleep(900)
        expected = graph.from_scratch(pod_source.objects, node_source.objects)
        for name, one in graph.derived.items():
            assert {key: plain(name, value) for key, value in one.by_key.items()} == expected[name], name
            assert told[name].wrong == [], name
            assert {key: plain(name, value) for key, value in told[name].values.items()} == expected[name], name
            assert {key: plain(name, value) for key, value in late[name].values.items()} == expected[name], name
        assert graph.torn == []


async def one_step(
    pods: MemorySource, nodes: MemorySource, step: str, name: str, flag: bool, labels: Any, to: str, pause: str
) -> None:
    source = nodes if step in ("delete", "recreate", "expire") and flag and len(pods.history) % 2 else pods
    key = f"default/{name}"
    if step == "set":
        pods.set(name, labels=labels, data={"to": to})
        if flag:
            nodes.set(name)
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
    elif step == "away":
        source.hang = flag
    if pause in ("wait", "long"):
        await asyncio.sleep(45 if pause == "long" else 3)
    elif pause != "none":
        for _ in range(20 if pause == "beats" else 1):
            await asyncio.sleep(0)
    pods.hang = pods.hang and step == "away"


@pytest.mark.timeout(600)  # 200 histories, beside other work
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=40))
def test_any_history_ends_in_the_truth(steps: list[Any]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(live_through(steps))
