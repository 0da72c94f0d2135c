"""The whole path at a size: sync, index, list, follow changes, a relist in the middle; at the end all agree.

5,000 pods and 2,000 changes by default; KINFORMER_SCALE=100000 runs it at full size (20,000 changes, 8 KB each).
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import tracemalloc
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import KubeObject, SharedInformer, SharedInformerFactory
from kinformer.testing import APIServer, faults
from tests.support import kube
from tests.support.mirror import Mirror
from tests.support.waiting import until

SCALE = int(os.environ.get("KINFORMER_SCALE", "5000"))
CHANGES = max(2000, SCALE // 5)
FULL = SCALE > 20_000
NODES = 50
PADDING = "x" * (7500 if FULL else 1500)
DEADLINE = 600 if FULL else 60  # seconds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * DEADLINE)]


def pod(number: int, *, generation: int = 0, node: int | None = None) -> dict[str, Any]:
    labels = {"app": f"app-{number % 100}", "part": "odd" if number % 2 else "even"}
    node = (number + generation) % NODES if node is None else node
    where: dict[str, Any] = {"namespace": f"team-{number % 20}", "node": f"node-{node}"}
    return kube.pod(f"pod-{number}", **where, labels=labels, status={"message": f"{generation} {PADDING}"})


class Cluster:
    """The server, and the changes that happen on it, from a seed."""

    def __init__(self, server: APIServer, seed: int) -> None:
        self.server = server
        self.random = random.Random(seed)
        self.alive = list(range(SCALE))
        self.next = SCALE
        self.touched: set[str] = set()

    async def fill(self) -> None:
        for number in self.alive:
            self.server.create(pod(number))
            if number % 100 == 0:
                await asyncio.sleep(0)

    async def change(self, count: int) -> None:
        """Updates for the most part; creates, deletes, and deletes followed by a create of the same name."""
        for step in range(count):
            kind = self.random.random()
            place = self.random.randrange(len(self.alive))
            number = self.alive[place]
            namespace, name = f"team-{number % 20}", f"pod-{number}"
            self.touched.add(f"{namespace}/{name}")
            if kind < 0.8:
                self.server.update(pod(number, generation=step + 1))
            elif kind < 0.88:
                self.server.create(pod(self.next))
                self.touched.add(f"team-{self.next % 20}/pod-{self.next}")
                self.alive.append(self.next)
                self.next += 1
            elif kind < 0.96:
                self.server.delete("v1/pods", namespace, name)
                self.alive[place] = self.alive[-1]
                self.alive.pop()
            else:
                self.server.delete("v1/pods", namespace, name)
                self.server.create(pod(number, generation=step + 1))
            if step % 20 == 0:
                await asyncio.sleep(0)

    @property
    def touched_names(self) -> set[str]:
        return {key.partition("/")[2] for key in self.touched}

    async def objects(self) -> dict[str, KubeObject]:
        """What the server has, by key, as a plain LIST gives it."""
        async with self.server.client() as client:
            answer = await client.request("GET", "/api/v1/pods")
        return {
            f"{item['metadata']['namespace']}/{item['metadata']['name']}": KubeObject.from_dict(
                {"apiVersion": "v1", "kind": "Pod", **item}
            )
            for item in answer["items"]
        }


def without_managed_fields(obj: KubeObject) -> dict[str, Any]:
    document = obj.to_dict()
    document["metadata"].pop("managedFields", None)
    return document


async def assert_all_agree(cluster: Cluster, informer: SharedInformer, mirror: Mirror) -> None:
    """Cache, indexes, listers, the mirror of a handler and the server, object by object."""
    truth = await cluster.objects()
    newest = max(int(obj.resource_version) for obj in truth.values())
    await informer.wait_for_resource_version(str(newest), timeout=DEADLINE)
    await until(lambda: not any(informer.statistics().pending.values()), DEADLINE)
    await until(lambda: mirror.objects.keys() == truth.keys(), DEADLINE)

    cached = {obj.key: obj for obj in informer.lister.list()}
    assert cached.keys() == truth.keys()
    assert sorted(informer.lister.keys()) == sorted(truth)
    assert len(informer.lister) == len(truth) == len(cluster.alive)
    by_node: dict[str, set[str]] = defaultdict(set)
    by_namespace: dict[str, set[str]] = defaultdict(set)
    by_part: dict[str, set[str]] = defaultdict(set)
    for key, obj in truth.items():
        assert cached[key] == obj
        assert cached[key].to_dict() == without_managed_fields(obj), key
        assert mirror.objects[key] == obj, key
        assert mirror.objects[key].raw == cached[key].raw, key
        by_node[obj["spec"]["nodeName"]].add(key)
        by_namespace[obj.namespace].add(key)
        by_part[obj.labels["part"]].add(key)
    assert set(informer.lister.index_values("node")) == set(by_node)
    for node, keys in by_node.items():
        assert {obj.key for obj in informer.lister.by_index("node", node)} == keys
        assert set(informer.indexer.index_keys("node", node)) == keys
        for obj in informer.lister.by_index("node", node):
            assert obj is cached[obj.key], "an index holds another state than the cache"
    for namespace, keys in by_namespace.items():
        assert {obj.key for obj in informer.lister.by_namespace(namespace).list()} == keys
    for part, keys in by_part.items():
        assert {obj.key for obj in informer.lister.list(f"part={part}")} == keys
    assert mirror.wrong == []


@asynccontextmanager
async def followed(watch_list: bool | None) -> AsyncIterator[tuple[Cluster, SharedInformer, Mirror]]:
    """A filled server, an informer that has synced, and a mirror that has every object."""
    async with APIServer() as server:
        cluster = Cluster(server, seed=7)
        await cluster.fill()
        async with server.client() as client, SharedInformerFactory(client, watch_list=watch_list) as factory:
            informer = factory.for_resource("v1/pods", indexers={"node": "spec.nodeName"})
            mirror = Mirror()
            informer.add_event_handler(mirror)
            await factory.wait_for_cache_sync(timeout=DEADLINE, handlers=True)
            yield cluster, informer, mirror


@pytest.mark.parametrize("watch_list", [False, None], ids=["list", "watch-list"])
async def test_cache_indexes_replica_and_server_agree_after_all_changes(watch_list: bool | None) -> None:
    async with followed(watch_list) as (cluster, informer, mirror):
        assert len(informer.lister) == len(mirror.objects) == SCALE
        await cluster.change(CHANGES)
        await assert_all_agree(cluster, informer, mirror)
        assert informer.statistics().relists == {}


@pytest.mark.parametrize("watch_list", [False, None], ids=["list", "watch-list"])
async def test_a_relist_in_the_middle_tells_only_what_has_changed(watch_list: bool | None) -> None:
    async with followed(watch_list) as (cluster, informer, mirror):
        await cluster.change(CHANGES // 2)
        await assert_all_agree(cluster, informer, mirror)
        before = {obj.key: obj for obj in informer.lister.list()}
        cluster.touched.clear()
        mirror.calls.clear()

        await cut_and_change(cluster, CHANGES // 4)
        await until(lambda: informer.statistics().relists, DEADLINE)
        await assert_all_agree(cluster, informer, mirror)

        assert informer.statistics().relists == {"expired": 1}
        assert set(mirror.of("update")) <= cluster.touched_names, "an object that has not changed caused an update"
        kept = [obj for obj in informer.lister.list() if obj.key not in cluster.touched]
        assert len(kept) > SCALE // 3
        assert all(obj is before[obj.key] for obj in kept), "an object that has not changed has a new entry"

        await cluster.change(CHANGES // 4)
        await assert_all_agree(cluster, informer, mirror)


async def cut_and_change(cluster: Cluster, changes: int) -> None:
    """The connection is cut, things happen, and the server forgets them: who comes back gets a 410.

    Nobody comes back before, however long the changes take: else there would be nothing that he has missed.
    """
    refused = cluster.server.faults.add(faults.status(503), verb="watch", resource="v1/pods")
    restarting = asyncio.create_task(cluster.server.restart(downtime=0.3))
    await asyncio.sleep(0.1)
    await cluster.change(changes)
    await cluster.server.compact()
    await restarting
    refused.remove()


async def test_a_relist_holds_no_second_copy() -> None:
    async with followed(False) as (cluster, informer, mirror):
        await cluster.change(CHANGES // 4)
        await assert_all_agree(cluster, informer, mirror)
        cluster.touched.clear()
        mirror.calls.clear()
        raw = sum(len(obj.raw) for obj in informer.lister.list())
        gc.collect()
        tracemalloc.start(1)
        try:
            await cut_and_change(cluster, 5)
            start = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            await until(lambda: informer.statistics().relists, DEADLINE)
            await until(lambda: informer.health().live, DEADLINE)
            extra = tracemalloc.get_traced_memory()[1] - start
        finally:
            tracemalloc.stop()
        assert extra < 0.3 * raw + 10e6, f"a relist of {raw / 1e6:.0f} MB took {extra / 1e6:.0f} MB more"
        await assert_all_agree(cluster, informer, mirror)
        assert set(mirror.of("update")) <= cluster.touched_names
