"""A small cluster that lives: Deployments that people change, Jobs, and nodes that drop out, while controllers keep up.

It runs no containers. The server's controllers, scheduler and kubelets write what an informer of a real cluster would
see: pods that start, run, fail and are removed, their ReplicaSets, and the corresponding Events.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any

from kinformer import Client
from kinformer.cli.living.contents import container, deployment, node, service
from kinformer.conditions import is_deployment_rolled_out
from kinformer.testing import APIServer

__all__ = ["DEPLOYMENTS", "JOBS", "NAMESPACES", "LivingCluster"]

NAMESPACES = ("batch", "payments", "search", "shop")
DEPLOYMENTS: Mapping[tuple[str, str], int] = {
    ("payments", "api"): 4,
    ("payments", "ledger"): 2,
    ("search", "index"): 5,
    ("search", "query"): 3,
    ("shop", "cart"): 3,
    ("shop", "catalog"): 6,
    ("shop", "web"): 8,
}
_HTTP = {"name": "http", "port": 80, "targetPort": "http"}
JOBS = ("report", "backup", "import")
_NODES = 5
_MOST = 10  # replicas
_KEEP = 10  # seconds that a finished Job stays
_STARTUP, _RUNTIME, _SHUTDOWN = 1.0, 4.0, 1.5  # seconds
_FAILS = 0.25  # of the pods of its own Jobs
_UNTIL_OUTAGE = (8.0, 14.0)  # seconds between two outages of nodes
_OUTAGE = (3.0, 6.0)  # seconds
_EVICTION = 0.5  # seconds of an outage after which the pods are deleted

Object = dict[str, Any]


class LivingCluster:
    """A cluster on a server.

    Args:
        server: The server to write to.
        chance: The random number generator.
        pause: The least and most seconds between two changes by people.
        runtime: Seconds after which pods end by themselves whose `restartPolicy` is not `Always`. None: those of Jobs
            after 4 s, and others never, such as a user's bare pods.
    """

    def __init__(
        self,
        server: APIServer,
        chance: random.Random | None = None,
        *,
        pause: tuple[float, float] = (0.5, 2.0),
        runtime: float | None = None,
    ) -> None:
        self._server = server
        self._chance = chance or random.Random()
        self._pause = pause
        self._runtime = runtime
        self._turn = 0

    def populate(self) -> str:
        """Create nodes, namespaces, Deployments and their Services, and return a line that says so."""
        for name in NAMESPACES:
            if self._server.get("v1/namespaces", None, name) is None:  # roles of serve --rbac may be in one
                self._server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for number in range(1, _NODES + 1):
            self._server.create(node(f"node-{number}"))
        for (namespace, name), replicas in DEPLOYMENTS.items():
            self._server.create(deployment(namespace, name, replicas))
            self._server.create(service(namespace, name, {"app": name}, _HTTP))
        return f"{len(DEPLOYMENTS)} deployments with services in {len(NAMESPACES)} namespaces, on {_NODES} nodes"

    def add_dns(self) -> None:
        """Create the Deployment and the Service that each cluster has in kube-system, and that people leave alone."""
        space, labels = "kube-system", {"k8s-app": "kube-dns"}
        self._server.create(deployment(space, "coredns", 2, labels))
        self._server.create(service(space, "kube-dns", labels, {"name": "dns", "port": 53, "protocol": "UDP"}))

    async def start(self) -> None:
        """Populate the cluster, and wait until all its pods run."""
        self.populate()
        async with self._server.client() as client, self._server.run_controllers(startup=0.0, seed=self._seed()):
            await asyncio.gather(*(_rolled_out(client, f"{namespace}/{name}") for namespace, name in DEPLOYMENTS))

    async def run(self) -> None:
        """Run the controllers, and change the cluster, until cancelled."""
        runtime = _RUNTIME if self._runtime is None else self._runtime
        controllers = self._server.run_controllers(
            startup=_STARTUP, runtime=runtime, shutdown=_SHUTDOWN, outcome=self._outcome, seed=self._seed()
        )
        async with controllers, asyncio.TaskGroup() as group:
            group.create_task(self._change(), name="kinformer living cluster: changes")
            group.create_task(self._fail_nodes(), name="kinformer living cluster: nodes")

    def _seed(self) -> int:
        return self._chance.getrandbits(32)

    def _outcome(self, pod: Mapping[str, Any]) -> Any:
        """Let pods of Jobs end, some of them with a failure, and others run on."""
        metadata = pod["metadata"]
        if any(owner["kind"] == "Job" for owner in metadata.get("ownerReferences") or ()):
            return "Failed" if metadata["namespace"] == "batch" and self._chance.random() < _FAILS else None
        return "Running" if self._runtime is None else None

    # --- the changes --------------------------------------------------------------------------------------------

    async def _change(self) -> None:
        changes: tuple[Callable[[], None], ...] = (
            *(self._scale, self._scale, self._roll_out),
            *(self._start_job, self._start_job, self._lose_pod),
        )
        while True:
            await asyncio.sleep(self._chance.uniform(*self._pause))
            self._turn += 1
            self._chance.choice(changes)()

    def _deployment(self) -> Object | None:
        """Return one of the Deployments, if the user has left it."""
        namespace, name = self._chance.choice(sorted(DEPLOYMENTS))
        return self._server.get("apps/v1/deployments", namespace, name)

    def _scale(self) -> None:
        if (workload := self._deployment()) is not None:
            replicas = workload["spec"].get("replicas", 1) + self._chance.choice((-3, -2, -1, 1, 2, 3))
            workload["spec"]["replicas"] = max(1, min(_MOST, replicas))
            self._server.update(workload)

    def _roll_out(self) -> None:
        if (workload := self._deployment()) is not None:
            main = workload["spec"]["template"]["spec"]["containers"][0]
            main["image"] = f"{main['image'].rpartition(':')[0]}:1.{self._turn}"
            self._server.update(workload)

    def _start_job(self) -> None:
        name = self._chance.choice(JOBS)
        spec = {"restartPolicy": "Never", "containers": [container(name)]}
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        metadata = {"name": f"{name}-{self._turn}", "namespace": "batch", "labels": {"app": name}}
        job = {"ttlSecondsAfterFinished": _KEEP, "backoffLimit": 1, "template": template}
        if self._server.get("v1/namespaces", None, "batch") is not None:
            self._server.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job})

    def _lose_pod(self) -> None:
        pods = [pod for pod in self._server.list("v1/pods") if pod["metadata"]["namespace"] in NAMESPACES[1:]]
        if pods:
            self._delete(self._chance.choice(pods))

    def _delete(self, pod: Object) -> None:
        self._server.delete("v1/pods", pod["metadata"]["namespace"], pod["metadata"]["name"])

    # --- nodes ----------------------------------------------------------------------------------------------------

    async def _fail_nodes(self) -> None:
        """Let one node after another drop out for a while, and delete its pods, as the taint manager does."""
        while True:
            await asyncio.sleep(self._chance.uniform(*_UNTIL_OUTAGE))
            name = f"node-{self._chance.randint(1, _NODES)}"
            self._report(name, "Unknown")
            await asyncio.sleep(_EVICTION)
            for pod in self._server.list("v1/pods"):
                if pod["spec"].get("nodeName") == name and pod["metadata"]["namespace"] in NAMESPACES:
                    self._delete(pod)
            await asyncio.sleep(self._chance.uniform(*_OUTAGE))
            self._report(name, "True")

    def _report(self, name: str, status: str) -> None:
        if (host := self._server.get("v1/nodes", None, name)) is not None:
            fresh = node(name, ready=status)
            self._server.update({**host, "status": {**host["status"], "conditions": fresh["status"]["conditions"]}})


async def _rolled_out(client: Client, key: str) -> None:
    await client.wait_for("apps/v1/deployments", key, is_deployment_rolled_out)
