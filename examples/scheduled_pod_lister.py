"""Which pods have a node? Asked every ten seconds, as the cluster autoscaler does, without asking the server.

Look for this in the output:

* every answer is read from memory: the server sees one list and one watch, however often is asked;
* the server applies the selector: a pod that ends leaves it, and arrives here as a delete;
* the loop goes on while the API server restarts, with the last good state.

*Resync* and *relist* are two things: a resync (every hour here) replays the cache and asks no server; a
relist asks the server for everything again, which happens only when the history that was missed is gone.
"""

from __future__ import annotations

import asyncio

from playground import pod, run, until_followed

from kinformer import Client, KubeObject, Lister, ListWatch, namespace_keyed_indexer_and_reflector
from kinformer.testing import APIServer

SCHEDULED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
ASK_EVERY = 0.25  # seconds; an autoscaler takes 10


class ScheduledPodLister:
    """The pods that have a node and have not ended."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister

    def list(self) -> list[KubeObject]:
        return sorted(self._lister.list(), key=lambda pod: pod.key)


async def main(client: Client) -> None:
    list_watch = ListWatch(client, "v1/pods", field_selector=SCHEDULED)
    indexer, reflector = namespace_keyed_indexer_and_reflector(list_watch, resync_period=3600)
    scheduled = ScheduledPodLister(Lister(indexer))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(reflector.run())
        while True:
            await asyncio.sleep(ASK_EVERY)
            pods = scheduled.list()
            print(f"{len(pods)} scheduled:", ", ".join(f"{pod.key} on {pod.path('spec.nodeName')}" for pod in pods))


# --- what happens on the embedded server ------------------------------------------------------------------


async def fill(server: APIServer) -> None:
    server.create(pod("api-1", node="node-a", phase="Running"))
    server.create(pod("api-2"))
    server.create(pod("import-1", node="node-b", phase="Running"))


async def happens(server: APIServer) -> None:
    await asyncio.sleep(2 * ASK_EVERY)
    server.update(pod("api-2", node="node-b", phase="Running"))
    print("-- api-2 gets a node")
    await asyncio.sleep(2 * ASK_EVERY)
    server.update(pod("import-1", node="node-b", phase="Succeeded"))
    print("-- import-1 has succeeded, and leaves the selector")
    await asyncio.sleep(2 * ASK_EVERY)
    before = len(server.requests)
    print(f"-- so far the server was asked {before} times; now it restarts")
    await server.restart(downtime=ASK_EVERY)
    server.create(pod("api-3", node="node-a", phase="Running"))
    print("-- it is back, with a new pod api-3")
    await until_followed(server, before)
    await asyncio.sleep(2 * ASK_EVERY)


if __name__ == "__main__":
    run(main, fill=fill, happens=happens)
