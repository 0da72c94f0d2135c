"""Many replicas, each of which follows its part of all pods: it counts those whose containers restart again and again.

    kubectl apply -k examples/shards/base
    POD_NAME=restart-watch-0 SHARDS=3 python restart_watch.py      the first of three parts, on your desk

The pods of a StatefulSet are numbered, and each number runs once, so a part needs no Lease. In a Deployment,
`Shard.claim` takes a free part instead: docs/sharding.md says when to use which.
"""

from __future__ import annotations

import asyncio
import logging
import os

from prometheus_client import CollectorRegistry, Counter

from kinformer import Client, Controller, Manager, Request
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.sharding import Shard

MANY = 5  # restarts of a pod's containers

log = logging.getLogger("restart-watch")


def shard_of(pod_name: str, count: int) -> Shard:
    """The part of a pod of a StatefulSet: `restart-watch-2` has the third."""
    return Shard(int(pod_name.rpartition("-")[2]), count)


async def run(shard: Shard, client: Client | None = None, *, listen: str | None = ":8080") -> None:
    """Until SIGTERM."""
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    restarting = Counter("pods_restarting", "Pods seen with many restarts", registry=registry)
    seen: set[str] = set()
    async with Manager(client, listen=listen, metrics=metrics) as manager:
        fields = ["spec.nodeName", "status.containerStatuses[*].restartCount"]
        pods = manager.factory.for_resource("v1/pods", shard=shard, fields=fields)

        async def reconcile(request: Request) -> None:
            pod = pods.lister.get(request.name, namespace=request.namespace)
            if pod is None:
                seen.discard(request.key)
                return
            restarts = sum(status["restartCount"] for status in pod.path("status.containerStatuses", ()))
            if restarts >= MANY and request.key not in seen:
                seen.add(request.key)
                restarting.inc()
                log.warning("%s on %s has restarted %d times", request.key, pod.path("spec.nodeName"), restarts)

        manager.add(Controller(reconcile, name="pods", metrics=metrics).for_(pods))
        await manager.run()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    shard = shard_of(os.environ["POD_NAME"], int(os.environ["SHARDS"]))
    asyncio.run(run(shard, listen=os.environ.get("LISTEN", ":8080")))


if __name__ == "__main__":
    main()
