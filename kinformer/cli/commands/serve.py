"""`kinformer serve`: the embedded API server, for kubectl, curl and tests."""

from __future__ import annotations

import asyncio
import math
import random
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from kinformer import APIResource, Client, InvalidError, ListWatch, SharedInformer, discover
from kinformer.cli.output.progress import Loading
from kinformer.cli.target import UsageError
from kinformer.testing import APIServer

__all__ = ["serve"]

_SLICE = 200  # objects that are created before the event loop gets a turn
_NAMESPACES = 20  # namespaces that objects are spread over, team-00 to team-19
_TRUE_TO_LIFE = ("v1/pods", "v1/configmaps")  # the server generates these, of 8 KB and 1 KB each
_TICK = 0.05  # seconds between two rounds of changes

Object = dict[str, Any]


async def serve(
    *,
    host: str,
    port: int,
    objects: Sequence[str],
    churn: float,
    tls: bool = False,
    kubeconfig: Path | None = None,
    duration: float | None,
) -> int:
    """Serve until cancelled.

    Prints its URL, then the counts of the generated objects, on stdout.

    Args:
        host, port: The address to listen on; port 0 takes a free one.
        objects: Texts such as "pods=1000".
        churn: Changes per second to the generated objects.
        tls: True serves https.
        kubeconfig: A file that gets a kubeconfig for the server, before anything is printed. With `tls` and without
            it, it is one of a temporary folder.
        duration: Seconds after which to end; None is never.

    Raises:
        UsageError: A text of `objects` does not have that form, or names a kind that cannot be generated; or `churn`
            is not a finite number.
        ConfigError: The server has no such resource.
        OSError: The port is taken, or the kubeconfig cannot be written.
    """
    wanted = [_parse(text) for text in objects]
    if churn and not wanted:
        raise UsageError("--churn changes the objects of --objects; give that too")
    if not math.isfinite(churn):
        raise UsageError(f"--churn takes a number of changes per second, not {churn}")
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(APIServer(host=host, port=port, tls=tls, bootstrap=True))
        client = await stack.enter_async_context(server.client())
        if tls and kubeconfig is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kinformer-serve-"))
            kubeconfig = Path(folder) / "kubeconfig"
        if kubeconfig is not None:
            server.kubeconfig(kubeconfig)
        filling: Counter[APIResource] = Counter()
        if wanted:
            resources = await discover(client)
            for name, count in wanted:
                filling[resources.find(name)] += count
        print(f"Serving {server.url}")
        target = f"--kubeconfig {kubeconfig}" if tls else f"--server {server.url}"
        print(f"  kubectl {target} get namespaces")
        print(f"  kinformer watch pods -A {target}", flush=True)
        population = _Population(server, client)
        for resource, count in filling.items():
            await population.add(resource, count)
            print(f"{count:,} {resource.name}", flush=True)
        limit = asyncio.timeout(duration)
        try:
            async with limit:
                await (population.churn(filling, churn) if churn else asyncio.Event().wait())
        except TimeoutError:
            if not limit.expired():
                raise
    return 0


def _parse(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if not (name and count.isdecimal()):
        raise UsageError(f"--objects takes RESOURCE=COUNT, as in pods=1000, not {text!r}")
    return name, int(count)


class _Population:
    """Generates objects, and changes them."""

    def __init__(self, server: APIServer, client: Client) -> None:
        self._server = server
        self._client = client
        self._chance = random.Random()
        self._keys: list[tuple[APIResource, str, str]] = []
        self._made_before: set[tuple[APIResource, str, str]] = set()  # by the server, at its start
        self._turn = 0

    async def add(self, resource: APIResource, count: int) -> None:
        """Create objects of a resource: pods and configmaps as in real clusters, others bare."""
        for obj in self._server.list(resource.gvr):
            self._made_before.add((resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
        with Loading(resource.name) as loading:
            steps = (
                self._server.generate(resource.gvr, count)
                if str(resource) in _TRUE_TO_LIFE
                else self._bare(resource, count)
            )
            for done in steps:
                loading.update(f"{done:,} of {count:,}")
                await asyncio.sleep(0)

    async def churn(self, filled: Collection[APIResource], rate: float) -> None:
        """Change `rate` objects per second: most are updated, one in ten is deleted and replaced by another."""
        for resource in filled:
            async with SharedInformer(ListWatch(self._client, resource.gvr, metadata_only=True)) as informer:
                await informer.wait_synced()
                keys = [(resource, obj.namespace, obj.name) for obj in informer.lister.list()]
                self._keys += [key for key in keys if key not in self._made_before]
        loop = asyncio.get_running_loop()
        due, before = 0.0, loop.time()
        while self._keys:
            await asyncio.sleep(_TICK)
            now = loop.time()
            due = min(
                due + (now - before) * rate, max(1.0, rate)
            )  # changes that a second was too short for are dropped
            before = now
            while due >= 1 and self._keys:
                due -= 1
                self._change()
                if self._turn % _SLICE == 0:
                    await asyncio.sleep(0)

    def _change(self) -> None:
        """Update or replace a random object; forget it if it was deleted by another client."""
        number = self._chance.randrange(len(self._keys))
        resource, namespace, name = self._keys[number]
        document = self._server.get(resource.gvr, namespace, name)
        self._turn += 1
        if document is None:
            self._keys[number] = self._keys[-1]
            self._keys.pop()
        elif self._turn % 10:
            document["metadata"].setdefault("annotations", {})["kinformer/turn"] = str(self._turn)
            self._server.update(document)
        else:
            self._server.delete(resource.gvr, namespace, name)
            metadata = document["metadata"]
            for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
                metadata.pop(field, None)
            metadata["name"] = f"{name.partition('--')[0]}--{self._turn}"  # without dots: names of services have none
            self._server.create(document)
            self._keys[number] = (resource, namespace, metadata["name"])

    def _bare(self, resource: APIResource, count: int) -> Iterator[int]:
        singular = resource.singular or resource.kind.lower()
        for number in range(count):
            app = f"app-{number % 20}"
            body: Object = {
                "apiVersion": resource.gvr.api_version,
                "kind": resource.kind,
                "metadata": {"name": f"{singular}-{number:06}", "labels": {"app": app}},
                **_content(resource.kind, app),
            }
            if resource.namespaced:
                body["metadata"]["namespace"] = f"team-{number % _NAMESPACES:02}"
            try:
                self._server.create(body)
            except InvalidError as error:
                raise UsageError(f"--objects cannot fill in {resource}: {error}") from error
            if number % _SLICE == 0:
                yield number
        yield count


def _content(kind: str, app: str) -> Object:
    """Return the content of an object besides its metadata, for the usual kinds; nothing for others."""
    container = {"name": "main", "image": f"registry.example/{app}:1.0"}
    template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}
    selected = {"selector": {"matchLabels": {"app": app}}, "template": template}
    workload = {"replicas": 3, **selected}
    once = {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    match kind:
        case "Deployment" | "ReplicaSet" | "StatefulSet":
            return {"spec": workload, "status": {"replicas": 3, "readyReplicas": 3}}
        case "DaemonSet":
            return {"spec": selected}
        case "ReplicationController":
            return {"spec": {"selector": {"app": app}, "template": template}}
        case "Job":
            return {"spec": once}
        case "CronJob":
            return {"spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": once}}}
        case "HorizontalPodAutoscaler":
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": app}
            return {"spec": {"scaleTargetRef": target, "maxReplicas": 3}}
        case "Ingress":
            return {"spec": {"defaultBackend": {"service": {"name": app, "port": {"number": 80}}}}}
        case "PersistentVolumeClaim":
            return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        case "StorageClass":
            return {"provisioner": "example.com/disks"}
        case "RoleBinding" | "ClusterRoleBinding":
            return {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}
        case "Node":
            condition = {"type": "Ready", "status": "True"}
            return {"status": {"conditions": [condition], "nodeInfo": {"kubeletVersion": "v1.36.0"}}}
        case "Service":
            return {"spec": {"selector": {"app": app}, "ports": [{"port": 80, "protocol": "TCP"}]}}
        case _:
            return {}
