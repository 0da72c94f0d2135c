"""An operator: a Website gets a ConfigMap with its pages, a Deployment that serves them, and a line in a directory.

    kubectl apply -k examples/operator/base             the CRD, what the operator may do, and the operator
    kubectl apply -f examples/operator/website.yaml     a Website
    KUBECONFIG=~/.kube/config python website_operator.py      ... or the operator on your desk

Read it from `reconcile`, which is the operator; above it is the wanted state, below it the start.
Everything that a reconcile does may be done again: it looks at the caches, writes what differs, and where nothing
differs it makes no request. docs/operators.md says what each part promises.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry

from kinformer import (
    Client,
    Controller,
    KubeObject,
    LeaderElector,
    Manager,
    NotFoundError,
    Request,
    SharedInformer,
    TerminalError,
)
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.controller import Applier, EventRecorder, Finalizer, generation_changed, write_status
from kinformer.exceptions import InvalidError
from kinformer.objects import Condition, condition_of, with_conditions

NAME = "website-operator"
WEBSITES, DEPLOYMENTS, CONFIG_MAPS = "example.com/v1/websites", "apps/v1/deployments", "v1/configmaps"
OURS = {"app.kubernetes.io/managed-by": NAME}  # on all that we make: our caches hold nothing else of these kinds

log = logging.getLogger(NAME)


# --- what a Website is, and what it is to have ---------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """The spec, as 10-crd.yaml has it checked and its defaults filled in."""

    host: str
    image: str
    replicas: int
    pages: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Website:
    spec: Spec


def config_map_of(website: KubeObject, spec: Spec) -> dict[str, Any]:
    """The pages, as files."""
    metadata = {"name": f"{website.name}-pages", "namespace": website.namespace, "labels": OURS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": spec.pages}


def deployment_of(website: KubeObject, spec: Spec) -> dict[str, Any]:
    """The servers. They carry a digest of the pages, so that new pages are rolled out like a new image."""
    selector = {"example.com/website": website.name}
    digest = hashlib.sha256(json.dumps(spec.pages, sort_keys=True).encode()).hexdigest()
    pages = {"name": "pages", "mountPath": "/usr/share/nginx/html", "readOnly": True}
    ports = [{"name": "http", "containerPort": 8080}]
    pod = {
        "containers": [{"name": "web", "image": spec.image, "ports": ports, "volumeMounts": [pages]}],
        "volumes": [{"name": "pages", "configMap": {"name": f"{website.name}-pages"}}],
    }
    template = {"metadata": {"labels": selector | OURS, "annotations": {"example.com/pages": digest}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": website.name, "namespace": website.namespace, "labels": OURS},
        "spec": {"replicas": spec.replicas, "selector": {"matchLabels": selector}, "template": template},
    }


def readiness(deployment: KubeObject) -> Condition:
    """The Deployment's own status, if it is about the spec that we have just applied."""
    wanted = deployment.path("spec.replicas", 1)
    seen = deployment.path("status.observedGeneration", 0) >= deployment.generation
    updated = deployment.path("status.updatedReplicas", 0)
    available = min(deployment.path("status.availableReplicas", 0), updated) if seen else 0
    if seen and updated == available == wanted:
        return Condition("Ready", True, "Available", f"{available} of {wanted} replicas serve it")
    return Condition("Ready", False, "Progressing", f"{available} of {wanted} replicas serve it")


class Directory:
    """A ConfigMap beside the operator that tells the proxy in front which host is which Website.

    Owner references do not reach across namespaces, so the garbage collector takes no line out of it. We have to, and
    a Website must not be gone before we have: for this it has a finalizer.
    """

    def __init__(self, client: Client, config_maps: SharedInformer, namespace: str) -> None:
        self._client = client
        self._config_maps = config_maps
        self._namespace = namespace
        self._key = f"{namespace}/websites"

    async def enter(self, website: KubeObject, host: str) -> None:
        line = {f"{website.namespace}.{website.name}": host}
        if line.items() <= self._lines().items():
            return
        try:
            await self._client.patch(CONFIG_MAPS, self._key, {"data": line})
        except NotFoundError:
            metadata = {"name": "websites", "namespace": self._namespace, "labels": OURS}
            directory = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": line}
            await self._client.create(directory)  # another worker was faster: tried again

    async def leave(self, website: KubeObject) -> None:
        try:  # whatever the cache says: a line that it has not seen yet would stay for ever
            line = {f"{website.namespace}.{website.name}": None}
            await self._client.patch(CONFIG_MAPS, self._key, {"data": line})
        except NotFoundError:
            log.info("there is no directory that %s could be taken out of", website.key)

    def _lines(self) -> dict[str, str]:
        directory = self._config_maps.lister.get("websites", namespace=self._namespace)
        return {} if directory is None else directory.get("data", {})


# --- the operator --------------------------------------------------------------------------------------------


class WebsiteOperator:
    """One reconcile, and what it works with."""

    def __init__(self, manager: Manager, events: EventRecorder, namespace: str) -> None:
        client, factory = manager.client, manager.factory
        ours = ",".join(f"{label}={value}" for label, value in OURS.items())
        self._client = client
        self._events = events
        self._websites = factory.for_resource(WEBSITES)
        self._deployments = factory.for_resource(DEPLOYMENTS, label_selector=ours)
        self._config_maps = factory.for_resource(CONFIG_MAPS, label_selector=ours)
        self._deployment = Applier(client, DEPLOYMENTS, self._deployments, field_manager=NAME)
        self._config_map = Applier(client, CONFIG_MAPS, self._config_maps, field_manager=NAME)
        self._finalizer = Finalizer(client, WEBSITES, "example.com/directory")
        self._directory = Directory(client, self._config_maps, namespace)

    def controller(self, metrics: PrometheusMetrics) -> Controller:
        controller = Controller(self.reconcile, name="websites", workers=4, timeout=60, metrics=metrics)
        controller.for_(self._websites, generation_changed)  # our own writes of the status are not news
        return controller.owns(self._deployments, "Website").owns(self._config_maps, "Website")

    async def reconcile(self, request: Request) -> None:
        website = self._websites.lister.get(request.name, namespace=request.namespace)
        if website is None:
            return  # gone, and cleaned up; the garbage collector takes what it owned
        if website.deletion_timestamp is not None:
            if self._finalizer.is_on(website):
                await self._directory.leave(website)
                await self._finalizer.remove(website)
                log.info("%s has left the directory", website.key)
            return
        website = await self._finalizer.add(website)  # first: from here on there is something to clean up
        spec = website.decode(Website).spec
        try:
            await self._config_map.apply(config_map_of(website, spec), owner=website)
            deployment = await self._deployment.apply(deployment_of(website, spec), owner=website)
        except InvalidError as error:
            await self._report(website, Condition("Ready", False, "Refused", error.message))
            # A retry cannot help: the next change of the Website is tried again.
            raise TerminalError(f"{website.key}: the server refuses what it asks for") from error
        await self._directory.enter(website, spec.host)
        await self._report(website, readiness(deployment), deployment.path("status.availableReplicas", 0))

    async def _report(self, website: KubeObject, condition: Condition, replicas: int | None = None) -> None:
        """Write the status, and record an Event if it has changed."""
        before = condition_of(website, condition.type) or {}
        status: dict[str, Any] = {"conditions": with_conditions(website, condition)}
        if replicas is not None:
            status["replicas"] = replicas
        await write_status(self._client, WEBSITES, website, status)
        if before.get("reason") != condition.reason:
            kind = "Warning" if condition.reason == "Refused" else "Normal"
            self._events.record(website, condition.reason, condition.message, type=kind)
            log.info("%s: %s, %s", website.key, condition.reason, condition.message)


# --- the process ---------------------------------------------------------------------------------------------


async def run(
    client: Client | None = None,
    *,
    namespace: str | None = None,
    listen: str | None = ":8080",
    registry: CollectorRegistry = REGISTRY,
) -> None:
    """Until SIGTERM; a second one ends it at once. That the lead is lost comes out, and ends the process.

    Args:
        client: None: from the KUBECONFIG, or the pod's service account.
        namespace: Work in this one alone; None: in all, with the Lease and the directory in the operator's own.
        listen: Where probes and metrics are served.
        registry: The registry to serve metrics from.
    """
    metrics = PrometheusMetrics(registry)

    def elector(client: Client) -> LeaderElector:
        return LeaderElector(client, namespace=namespace or client.namespace, name=NAME, metrics=metrics)

    async with (
        Manager(client, elector=elector, listen=listen, metrics=metrics, namespace=namespace) as manager,
        EventRecorder(manager.client, controller=f"example.com/{NAME}") as events,
    ):
        operator = WebsiteOperator(manager, events, namespace or manager.client.namespace)
        manager.add(operator.controller(metrics))
        await manager.run()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(run(listen=os.environ.get("LISTEN", ":8080")))


if __name__ == "__main__":
    main()
