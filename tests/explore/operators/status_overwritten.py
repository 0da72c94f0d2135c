"""A status that is overwritten: the whole of it is put from a cache, under the newest resourceVersion.

A resourceVersion that is only read to make the conflict go away hides that others have written meanwhile:
projectcontour/contour#3009. Written by kubernetes_asyncio's calls.
"""

from __future__ import annotations

from typing import Any

from kubernetes_asyncio.client import ApiException, CustomObjectsApi

from kinformer import Client, Controller, KubeObject, Request, SharedInformerFactory
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition

FINDS = "undid the change of status|the_address_stays"
STORY = r"update example.com/v1/gateways/status default/a: 200"
GATEWAYS = "example.com/v1/gateways"


class Operator:
    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    async def run(self, client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            gateways = factory.for_resource(GATEWAYS)

            async def reconcile(request: Request) -> None:
                gateway = gateways.by_key.get(request.key)
                listeners = 0 if gateway is None else len(gateway.path("spec.ports"))
                if gateway is None or gateway.path("status.listeners") == listeners:
                    return
                status = {**gateway.path("status", {}), "listeners": listeners}
                try:
                    await self.write(CustomObjectsApi(client.api_client), gateway, status)
                except ApiException as error:
                    if error.status != 404:
                        raise

            await Controller(reconcile).for_(gateways).run()

    async def write(self, api: CustomObjectsApi, gateway: KubeObject, status: dict[str, Any]) -> None:
        place = ("example.com", "v1", gateway.namespace, "gateways", gateway.name)
        version = gateway.resource_version
        if not self.mended:
            newest = await api.get_namespaced_custom_object(*place)
            version = newest["metadata"]["resourceVersion"]
        metadata = {"name": gateway.name, "namespace": gateway.namespace, "resourceVersion": version}
        body = {"apiVersion": gateway.api_version, "kind": gateway.kind, "metadata": metadata, "status": status}
        await api.replace_namespaced_custom_object_status(*place, body)


def the_address_stays(state: ClusterState) -> None:
    for gateway in state.list(GATEWAYS):
        assert gateway["status"]["address"] == "10.0.0.1"
        assert gateway["status"]["listeners"] == len(gateway["spec"]["ports"])


def declare(world: World, *, mended: bool) -> None:
    world.apply(definition("Gateway"))
    world.run(Operator(mended=mended).run)
    world.script(world.create(custom("Gateway", "a", ports=[80])))
    world.script(world.patch(GATEWAYS, "default/a", {"spec": {"ports": [80, 443]}}))
    world.script(world.patch(GATEWAYS, "default/a", {"status": {"address": "10.0.0.1"}}))  # another controller's
    world.eventually(the_address_stays)
