"""The parts of operators, on both servers: drift, ownership, finalizers, Events and reading one's own writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from kinformer import (
    Client,
    Controller,
    KubeObject,
    LeaderElector,
    ListWatch,
    Manager,
    Request,
    SharedInformer,
    wait_for,
)
from kinformer.conditions import is_deleted
from kinformer.controller import Applier, EventRecorder, Finalizer, write_status
from kinformer.objects import Condition, condition_is, owned_by, with_conditions
from kinformer.testing import ClusterServer

DEPLOYMENTS = "apps/v1/deployments"
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


def deployment(namespace: str, replicas: int | None = 2, cpu: str = "1000m") -> dict[str, Any]:
    labels = {"app": "web"}
    container = {
        "name": "web",
        "image": "web:1",
        "resources": {"limits": {"cpu": cpu}},
        "ports": [{"containerPort": 80}],
    }
    spec: dict[str, Any] = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace, "labels": labels},
        "spec": spec if replicas is None else {**spec, "replicas": replicas},
    }


class Scene:
    """A deployment in a namespace of its own, as the server and as an informer have it."""

    def __init__(self, client: Client, namespace: str, informer: SharedInformer) -> None:
        self.client = client
        self.namespace = namespace
        self.informer = informer
        self.path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"

    async def now(self) -> KubeObject:
        """As the server has it, once the cache has it too."""
        obj = await self.client.request("GET", self.path)
        assert isinstance(obj, KubeObject)
        await self.informer.wait_for_resource_version(obj.resource_version, timeout=10)
        return obj

    async def patch(self, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        await self.client.request("PATCH", self.path, body=body, headers=headers)
        await self.now()

    def applier(self) -> Applier:
        return Applier(self.client, DEPLOYMENTS, self.informer, field_manager="test")


@pytest_asyncio.fixture
async def scene(server: ClusterServer, namespace: str) -> AsyncIterator[Scene]:
    client = server.client()
    async with client, SharedInformer(ListWatch(client, DEPLOYMENTS, namespace=namespace)) as informer:
        await informer.wait_synced(20)
        yield Scene(client, namespace, informer)


async def test_apply_makes_a_request_where_its_own_fields_differ_and_nowhere_else(scene: Scene) -> None:
    applier, wanted = scene.applier(), deployment(scene.namespace)
    await applier.apply(wanted)
    await scene.now()
    await applier.apply(wanted)
    assert applier.requests == 1, "also where the server writes 1000m as 1"
    await scene.patch({"metadata": {"labels": {"team": "x"}}})
    sidecar = {"name": "sidecar", "image": "proxy:1"}
    await scene.patch({"spec": {"template": {"spec": {"containers": [sidecar]}}}}, STRATEGIC)
    await write_status(scene.client, DEPLOYMENTS, await scene.now(), {"replicas": 2, "observedGeneration": 1})
    await scene.now()
    await applier.apply(wanted)
    assert applier.requests == 1, "what others do with their own fields is no drift"
    await scene.patch({"spec": {"replicas": 9}})
    await applier.apply(wanted)
    assert applier.requests == 2
    found = await scene.now()
    assert found.path("spec.replicas") == 2
    assert {one["name"] for one in found.path("spec.template.spec.containers")} == {"web", "sidecar"}
    await applier.apply(wanted)
    assert applier.requests == 2


async def test_an_apply_that_changes_nothing_writes_nothing_and_what_is_no_longer_said_goes(scene: Scene) -> None:
    await scene.applier().apply(deployment(scene.namespace))
    before = await scene.now()
    (container,) = before.path("spec.template.spec.containers")
    assert "requests" not in container["resources"], "limits become requests in pods, not in their templates"
    applier = scene.applier()  # a process that starts again
    await applier.apply(deployment(scene.namespace))
    assert (await scene.now()).resource_version == before.resource_version
    wanted = deployment(scene.namespace)
    del wanted["spec"]["template"]["spec"]["containers"][0]["resources"]
    await applier.apply(wanted)
    (container,) = (await scene.now()).path("spec.template.spec.containers")
    assert not (container.get("resources") or {}).get("limits")


async def test_a_finalizer_holds_a_deleted_object_until_it_is_removed(scene: Scene) -> None:
    finalizer = Finalizer(scene.client, DEPLOYMENTS, "example.com/x")
    made = await scene.applier().apply(deployment(scene.namespace))
    assert finalizer.is_on(await finalizer.add(made))
    await scene.client.request("DELETE", scene.path)
    obj = await scene.now()
    assert obj.deletion_timestamp is not None
    await finalizer.remove(obj)
    assert await wait_for(scene.informer, f"{scene.namespace}/web", is_deleted(), 10) is None


async def test_a_condition_is_kept_by_the_server_as_it_was_said(scene: Scene) -> None:
    obj = await scene.applier().apply(deployment(scene.namespace))
    conditions = with_conditions(obj, Condition("Available", True, "Enough", "all are there"))
    obj = await write_status(scene.client, DEPLOYMENTS, obj, {"conditions": conditions})
    assert condition_is(obj, "Available")


async def test_an_owner_reference_is_taken(scene: Scene) -> None:
    owner = await scene.applier().apply(deployment(scene.namespace))
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "child", "namespace": scene.namespace},
    }
    path = f"/api/v1/namespaces/{scene.namespace}/configmaps"
    made = await scene.client.request("POST", path, body=owned_by(child, owner))
    assert isinstance(made, KubeObject)
    (reference,) = made.owner_references
    assert (reference.kind, reference.uid, reference.controller) == ("Deployment", owner.uid, True)


async def test_events_are_taken_with_their_series_and_at_their_longest(scene: Scene) -> None:
    obj = await scene.applier().apply(deployment(scene.namespace))
    async with EventRecorder(scene.client, controller="test.example.com") as events:
        events.record(obj, "Repeated", "one")
        await asyncio.sleep(0.05)
        events.record(obj, "Repeated", "two")
        events.record(obj, "Long", "ä" * 2000, type="Warning", related=obj)
        events.record(obj, "Repeated", "three")
    assert events.statistics().dropped == 0
    found = await scene.client.request("GET", f"/apis/events.k8s.io/v1/namespaces/{scene.namespace}/events")
    mine = {one["reason"]: one for one in found["items"] if one.get("reportingController") == "test.example.com"}
    assert mine["Repeated"]["series"]["count"] == 3
    assert mine["Long"]["type"] == "Warning"
    assert set(mine) == {"Repeated", "Long"}


async def test_a_hundred_writes_of_a_reconcile_are_each_seen_by_the_next(scene: Scene) -> None:
    path = f"/api/v1/namespaces/{scene.namespace}/configmaps"
    client, finished, wrong = scene.client, asyncio.Event(), []
    async with SharedInformer(ListWatch(client, "v1/configmaps", namespace=scene.namespace)) as informer:
        steps = 0

        async def reconcile(request: Request) -> None:
            nonlocal steps
            if request.name != "main":
                return
            child = informer.lister.get("child", namespace=scene.namespace)
            state = None if child is None else child["data"]["step"]
            if state != [None, "1", "2"][steps % 3]:
                wrong.append((steps, state))
            if steps % 3 == 0:
                document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child"}}
                await client.request("POST", path, body={**document, "data": {"step": "1"}})
            elif steps % 3 == 1:
                await client.request("PATCH", f"{path}/child", body={"data": {"step": "2"}})
            else:
                await client.request("DELETE", f"{path}/child")
            steps += 1
            controller.trigger(request) if steps < 100 else finished.set()

        controller = Controller(reconcile, name="test").for_(informer)
        task = asyncio.ensure_future(controller.run())
        main = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "main"}}
        await client.request("POST", path, body=main)
        try:
            async with asyncio.timeout(60):
                await finished.wait()
        finally:
            task.cancel()
            await asyncio.wait({task})
    assert wrong == []
    assert controller.statistics().own_write_timeouts == 0


async def test_a_manager_leads_reconciles_and_gives_the_lease_back(scene: Scene) -> None:
    await scene.applier().apply(deployment(scene.namespace))
    elector = LeaderElector(scene.client, namespace=scene.namespace, name="op", retry_period=0.1)
    async with Manager(scene.client, elector=elector, signals=(), namespace=scene.namespace) as manager:

        async def reconcile(request: Request) -> None:
            manager.stop()

        manager.add(Controller(reconcile, name="test").for_(manager.factory.for_resource(DEPLOYMENTS)))
        async with asyncio.timeout(30):
            await manager.run()
    lease = await scene.client.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{scene.namespace}/leases/op")
    assert not lease["spec"].get("holderIdentity")
