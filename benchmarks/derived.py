"""Derived collections: the price of a change, of the first sync and of a dependency, in memory.

Levels of diamonds have one object. Each level has two collections that read the level below, and one that reads both,
so that 16 levels have 65,536 paths to the last value and 64 reads.

100,000 pods on 1,000 nodes, and each node with the list of its pods. The sources are in memory, without a socket and
without decoding: so what is derived is held against the barest informer. A change is awaited until the last handler has
it; the reference is the same change without what is derived, before and after.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from benchmarks.harness import Figure, median, run
from benchmarks.stall import Ticker
from kinformer import KubeObject, ListOptions, ListPage, SharedInformer, WatchEvent, derive
from kinformer.derived import mapped

PODS, NODES = 100_000, 1_000
CHANGES = 1_000  # of a round
ROUNDS = 5


def pod(number: int, nodes: int, version: int) -> KubeObject:
    name = f"pod-{number}"
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
    spec = {"nodeName": f"node-{number % nodes}"}
    return KubeObject.from_dict({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def node(number: int) -> KubeObject:
    metadata = {"name": f"node-{number}", "uid": f"node-{number}", "resourceVersion": "1"}
    return KubeObject.from_dict({"apiVersion": "v1", "kind": "Node", "metadata": metadata})


class Source:
    """Objects in memory, and events that come when they are put into the queue."""

    decodes = True

    def __init__(self, name: str, objects: list[KubeObject]) -> None:
        self.name = name
        self.coming: asyncio.Queue[WatchEvent] = asyncio.Queue()
        self._objects = objects

    async def list(self, options: ListOptions) -> ListPage:
        return ListPage(list(self._objects), "1")

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        async def events() -> AsyncIterator[list[WatchEvent]]:
            while True:
                yield [await self.coming.get()]

        yield events()


class Cluster:
    """Informers of pods and nodes; entered."""

    def __init__(self, pods: int, nodes: int) -> None:
        self.count, self.nodes_count = pods, nodes
        self.source = Source("pods", [pod(number, nodes, 1) for number in range(pods)])
        by_node: Any = {"node": lambda obj: [f"node-{int(obj.name[4:]) % nodes}"]}  # no JSON is read for it
        self.pods: SharedInformer[Any] = SharedInformer(self.source, indexers=by_node, watch_list=False)
        of_nodes = Source("nodes", [node(number) for number in range(nodes)])
        self.nodes: SharedInformer[Any] = SharedInformer(of_nodes, watch_list=False)
        self.seconds = 0.0  # of CPU that the first sync took
        self._version = 1
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Cluster:
        began = time.process_time()
        for informer in (self.pods, self.nodes):
            await self._stack.enter_async_context(informer)
            await informer.wait_synced(60)
        self.seconds = time.process_time() - began
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def by_node(self) -> Any:
        return derive(self.nodes, lambda obj, fetch: (obj.name, fetch(self.pods, index=("node", obj.name))))

    def with_node(self) -> Any:
        return derive(
            self.pods, lambda obj, fetch: (obj.name, fetch(self.nodes, key=f"node-{int(obj.name[4:]) % 1000}"))
        )

    async def cpu_us(self, collection: Any) -> float:
        """CPU microseconds of a change, until a handler of `collection` has it."""
        events = []
        for _ in range(CHANGES):
            self._version += 1
            events.append(
                WatchEvent("MODIFIED", pod(self._version * 7919 % self.count, self.nodes_count, self._version))
            )
        heard = asyncio.Event()
        registration = collection.add_event_handler(on_update=lambda *_: heard.set())
        await registration.wait_synced(60)
        began = time.process_time()
        for event in events:
            heard.clear()
            self.source.coming.put_nowait(event)
            await heard.wait()
        cost = (time.process_time() - began) / len(events) * 1e6
        await collection.remove_event_handler(registration)
        return cost


async def of_changes() -> list[Figure]:
    ratios, chains, bare, joined = [], [], [], []
    small = []
    async with Cluster(1_000, 10) as cluster, cluster.by_node() as by_node:
        await by_node.wait_synced(60)
        for _ in range(ROUNDS):
            small.append(await cluster.cpu_us(by_node))
    async with Cluster(PODS, NODES) as cluster:
        for _ in range(ROUNDS):
            before = await cluster.cpu_us(cluster.pods)
            async with cluster.by_node() as by_node:
                await by_node.wait_synced(60)
                joined.append(await cluster.cpu_us(by_node))
            after = await cluster.cpu_us(cluster.pods)
            bare.append((before + after) / 2)
            ratios.append(joined[-1] / bare[-1])
            one = await of_a_chain(cluster, 1)
            five = await of_a_chain(cluster, 5)
            chains.append((five - bare[-1]) / (one - bare[-1]))
    text = f"with the join {min(joined):.0f} us of CPU at best, without {min(bare):.0f}"
    growth = [large / little for large, little in zip(joined, small, strict=True)]
    return [
        median("a change in a join", ratios, "x the same without", limit=3.0, reference=text),
        median("a change in a join of 100,000 pods", growth, "x of 1,000 pods", limit=1.25),
        median("a chain of five", chains, "x a chain of one", limit=5.0),
    ]


async def of_a_chain(cluster: Cluster, length: int) -> float:
    last: Any = cluster.pods
    async with AsyncExitStack() as stack:
        for _ in range(length):
            last = await stack.enter_async_context(mapped(last, _state))
        await last.wait_synced(60)
        return await cluster.cpu_us(last)


async def of_diamonds() -> list[Figure]:
    """The CPU time of a change of one object, until it is through all levels."""
    few, many = 8, 16
    cost: dict[int, list[float]] = {few: [], many: []}
    for _ in range(ROUNDS):
        for levels in cost:
            async with Cluster(1, 1) as cluster, AsyncExitStack() as stack:
                last: Any = cluster.pods
                for _ in range(levels):
                    last = await _diamond(last, stack)
                await last.wait_synced(60)
                cost[levels].append(await cluster.cpu_us(last))
    ratios = [large / little for large, little in zip(cost[many], cost[few], strict=True)]
    text = f"{min(cost[many]):.0f} us of CPU for a change through 16 levels at best, {min(cost[few]):.0f} through 8"
    return [median("16 levels of diamonds", ratios, "x 8 levels", limit=3.0, reference=text)]


async def _diamond(below: Any, stack: AsyncExitStack) -> Any:
    left = await stack.enter_async_context(mapped(below, _state))
    right = await stack.enter_async_context(mapped(below, _state))
    both = derive(left, lambda value, fetch: max(value, fetch(right, key="default/pod-0")))
    return await stack.enter_async_context(both)


def _state(value: Any) -> Any:
    return value.resource_version if isinstance(value, KubeObject) else value


async def of_the_first_sync() -> list[Figure]:
    ratios, stalls = [], []
    for _ in range(3):
        gc.collect()
        async with Cluster(PODS, NODES) as cluster:
            ticker = Ticker()
            ticking = asyncio.create_task(ticker.run())
            began = time.process_time()
            async with cluster.with_node() as joined:
                await joined.wait_synced(120)
                ratios.append((cluster.seconds + time.process_time() - began) / cluster.seconds)
            ticking.cancel()
            stalls.append(max(ticker.late, default=0.0))
    return [
        median("the first sync of a join", ratios, "x that of its inputs", limit=2.5),
        median("the longest stall of it", stalls, "ms", limit=10.0),
    ]


async def of_memory() -> list[Figure]:
    """The bytes of one dependency: a join of pods with nodes, over the same values without a read."""
    async with Cluster(20_000, 200) as cluster:

        async def grown(make: Callable[[], Any]) -> int:
            async with make() as collection:
                await collection.wait_synced(60)
                gc.collect()
                return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        without = await grown(lambda: derive(cluster.pods, lambda obj, _: (obj.name, None)))
        with_reads = await grown(
            lambda: derive(cluster.pods, lambda obj, fetch: (obj.name, fetch(cluster.nodes, key="node-1") and None))
        )
        tracemalloc.stop()
    return [median("a dependency", [(with_reads - without) / 20_000], "bytes", limit=200)]


async def measure() -> list[Figure]:
    return [*await of_changes(), *await of_diamonds(), *await of_the_first_sync(), *await of_memory()]


if __name__ == "__main__":
    sys.exit(run("derived", measure))
