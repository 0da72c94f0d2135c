"""A cache that is behind: the pods of a Cluster are counted there, and what lacks is created a second time.

ray-project/kuberay#715. A `Controller` waits for its own writes; this has informers and a queue alone.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from kinformer import APIError, Client, ConnectError, KubeObject, SharedInformerFactory
from kinformer.objects import owned_by
from kinformer.testing.explore import ClusterState, World
from kinformer.workqueue import WorkQueue
from tests.explore.operators.custom import custom, definition

FINDS = "no_more_workers_than_asked_for"
STORY = r"(?s)creates v1/pods default/a-.*creates v1/pods default/a-"
CLUSTERS, PODS = "example.com/v1/clusters", "v1/pods"


def worker(cluster: KubeObject, name: str) -> dict[str, Any]:
    metadata = {"name": f"{cluster.name}-{name}", "namespace": cluster.namespace, "labels": {"cluster": cluster.name}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "w", "image": "w"}]},
    }
    return owned_by(pod, cluster)


class Operator:
    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    async def run(self, client: Client) -> None:
        queue: WorkQueue[str] = WorkQueue()
        async with SharedInformerFactory(client) as factory:
            clusters, pods = factory.for_resource(CLUSTERS), factory.for_resource(PODS)
            clusters.add_event_handler(
                on_add=lambda obj: queue.add(obj.key),
                on_update=lambda old, new: queue.add(new.key),
            )
            await factory.wait_for_cache_sync()
            while True:
                key = await queue.get()
                cluster = clusters.by_key.get(key)
                try:
                    if cluster is not None:
                        await self.scale(
                            client, cluster, [pod for pod in pods.lister if pod.labels["cluster"] == cluster.name]
                        )
                except (APIError, ConnectError):
                    asyncio.get_running_loop().call_later(1, queue.add, key)
                queue.done(key)

    async def scale(self, client: Client, cluster: KubeObject, workers: list[KubeObject]) -> None:
        path = f"/api/v1/namespaces/{cluster.namespace}/pods"
        for number in range(cluster.path("spec.workers")):
            # A name that says which one it is, and the server refuses the second one.
            if self.mended and f"{cluster.name}-{number}" not in [one.name for one in workers]:
                try:
                    await client.request("POST", path, body=worker(cluster, str(number)))
                except APIError as error:
                    if error.reason != "AlreadyExists":
                        raise
            elif not self.mended and number >= len(workers):
                await client.request("POST", path, body=worker(cluster, uuid.uuid4().hex[:5]))


def no_more_workers_than_asked_for(state: ClusterState) -> None:
    for cluster in state.list(CLUSTERS):
        name = cluster["metadata"]["name"]
        workers = [pod for pod in state.list(PODS) if pod["metadata"]["labels"]["cluster"] == name]
        assert len(workers) <= cluster["spec"]["workers"], f"{len(workers)} workers of {name}"


def all_workers_are_there(state: ClusterState) -> None:
    wanted = sum(cluster["spec"]["workers"] for cluster in state.list(CLUSTERS))
    assert len(state.list(PODS)) == wanted, f"{len(state.list(PODS))} of {wanted}"


def declare(world: World, *, mended: bool) -> None:
    world.apply(definition("Cluster"))
    world.run(Operator(mended=mended).run)
    world.script(world.create(custom("Cluster", "a", workers=1)))
    world.script(world.patch(CLUSTERS, "default/a", {"spec": {"workers": 2}}))
    world.script(world.patch(CLUSTERS, "default/a", {"metadata": {"labels": {"team": "blue"}}}))
    world.always(no_more_workers_than_asked_for)
    world.eventually(all_workers_are_there)
