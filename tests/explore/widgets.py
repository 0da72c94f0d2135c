"""Generic programs of kinformer's own parts, and what each of them is to bring about."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import Context, copy_context
from typing import Any

from kinformer import Client, Controller, KubeObject, LeaderElector, Manager, Request, SharedInformer
from kinformer.controller import Applier, Finalizer, write_status
from kinformer.exceptions import LeadershipLostError
from kinformer.leaderelection import check_fences
from kinformer.sharding import Shard
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition, names
from tests.explore.operators.external import Cloud

WIDGETS, MAPS = "example.com/v1/widgets", "v1/configmaps"


def map_of(widget: KubeObject) -> dict[str, Any]:
    metadata = {"name": widget.name, "namespace": widget.namespace}
    size = str(widget.path("spec.size", 0))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": size}}


class Widgets:
    """A Widget gets a ConfigMap of its size, a thing in the cloud under its name, and a status that says so.

    Args:
        cloud: None: nothing is made there, and there is no finalizer.
    """

    def __init__(self, client: Client, widgets: SharedInformer, maps: SharedInformer, cloud: Cloud | None) -> None:
        self.client = client
        self.widgets = widgets
        self.cloud = cloud
        self.applier = Applier(client, MAPS, maps, field_manager="widgets")
        self.finalizer = Finalizer(client, WIDGETS, "example.com/cloud")

    async def reconcile(self, request: Request) -> None:
        widget = self.widgets.by_key.get(request.key)
        if widget is None:
            return
        if widget.deletion_timestamp is not None:
            if self.cloud is not None and self.finalizer.is_on(widget):
                await self.cloud.delete(widget.name)
                await self.finalizer.remove(widget)
            return
        if self.cloud is not None:
            widget = await self.finalizer.add(widget)
            await self.cloud.make(widget.name, widget.uid)
        made = await self.applier.apply(map_of(widget), owner=widget)
        await write_status(self.client, WIDGETS, widget, {"map": made.uid, "size": widget.path("spec.size")})


def declare(world: World, *, cloud: Cloud | None = None) -> None:
    """Declare what people do, and what has to be true in the end."""

    def each_widget_has_its_map(state: ClusterState) -> None:
        widgets = state.list(WIDGETS)
        sizes = {one["metadata"]["name"]: one["data"]["size"] for one in state.list(MAPS)}
        assert sizes == {one["metadata"]["name"]: str(one["spec"]["size"]) for one in widgets}, sizes
        maps = {one["metadata"]["name"]: one["metadata"] for one in state.list(MAPS)}
        for one in widgets:
            mine = maps[one["metadata"]["name"]]
            assert mine["ownerReferences"][0]["uid"] == one["metadata"]["uid"]
            assert one["status"] == {"map": mine["uid"], "size": one["spec"]["size"]}, one["status"]
        if cloud is not None:
            assert set(cloud.buckets) == names(widgets), set(cloud.buckets)

    world.apply(definition("Widget"))
    world.script(world.create(custom("Widget", "a", size=1)), world.create(custom("Widget", "b", size=1)))
    world.script(world.patch(WIDGETS, "default/a", {"spec": {"size": 2}}))
    world.script(world.delete(WIDGETS, "default/a"), world.create(custom("Widget", "a", size=3)))
    world.eventually(each_widget_has_its_map)


async def controller(world: World) -> None:
    async def main(client: Client) -> None:
        async with Manager(client) as manager:
            widgets, maps = manager.factory.for_resource(WIDGETS), manager.factory.for_resource(MAPS)
            operator = Widgets(client, widgets, maps, None)
            manager.add(Controller(operator.reconcile, workers=2).for_(widgets).owns(maps, "Widget"))
            await manager.run()

    world.run(main)
    declare(world)


async def finalizer(world: World) -> None:
    cloud = Cloud()

    async def main(client: Client) -> None:
        async with Manager(client) as manager:
            widgets, maps = manager.factory.for_resource(WIDGETS), manager.factory.for_resource(MAPS)
            operator = Widgets(client, widgets, maps, cloud)
            manager.add(Controller(operator.reconcile, workers=2).for_(widgets).owns(maps, "Widget"))
            await manager.run()

    world.run(main)
    declare(world, cloud=cloud)


async def leader_elector(world: World) -> None:
    async def main(client: Client) -> None:
        async with Manager(client, elector=LeaderElector(client, namespace="default", name="widgets")) as manager:
            widgets, maps = manager.factory.for_resource(WIDGETS), manager.factory.for_resource(MAPS)
            operator = Widgets(client, widgets, maps, None)
            manager.add(Controller(operator.reconcile).for_(widgets).owns(maps, "Widget"))
            await manager.run()

    world.run(main, replicas=2, may_raise=LeadershipLostError)
    declare(world)


async def sharded_controller(world: World) -> None:
    held: list[tuple[Shard, Context]] = []  # of all processes, also of those that were killed: their right goes on

    async def main(client: Client) -> None:
        async with Shard.claim(client, name="widgets", count=2) as shard, Manager(client) as manager:
            held.append((shard, copy_context()))
            widgets = manager.factory.for_resource(WIDGETS, shard=shard)
            maps = manager.factory.for_resource(MAPS, shard=shard.of_owners())
            operator = Widgets(client, widgets, maps, None)
            manager.add(Controller(operator.reconcile).for_(widgets).owns(maps, "Widget"))
            await manager.run()

    def is_valid(context: Context) -> bool:
        try:
            context.run(check_fences)
        except LeadershipLostError:
            return False
        return True

    def no_shard_has_two_owners(state: ClusterState) -> None:
        owners = Counter(shard for shard, context in held if is_valid(context))  # by the clock
        assert not owners or max(owners.values()) == 1, owners

    world.run(main, replicas=3, may_raise=LeadershipLostError)
    world.always(no_shard_has_two_owners)
    declare(world)


async def ready_deployments(client: Client) -> None:
    """Do as the deployment controller and the kubelets do: what a Deployment asks for is available soon."""
    async with Manager(client) as manager:
        deployments = manager.factory.for_resource("apps/v1/deployments")

        async def reconcile(request: Request) -> None:
            one = deployments.by_key.get(request.key)
            if one is None:
                return
            await asyncio.sleep(0.2)
            fields = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
            counts = dict.fromkeys(fields, one.path("spec.replicas", 1))
            status = {"observedGeneration": one.generation, **counts}
            await write_status(client, "apps/v1/deployments", one, status)

        manager.add(Controller(reconcile, name="deployments").for_(deployments))
        await manager.run()
