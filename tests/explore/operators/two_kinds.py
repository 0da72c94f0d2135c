"""An assumed order of two kinds: people make the Secret first, so the operator takes it to be there with the Site.

Two watches are in no order. What the cache does not have yet is never looked for again, unless the second kind triggers
too: grafana/tempo-operator#551, tigera/operator#624.
"""

from __future__ import annotations

from typing import Any

from kinformer import Client, Controller, Request, SharedInformerFactory
from kinformer.controller import write_status
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition

FINDS = "each_site_has_its_certificate"
STORY = r"v1/secrets"
SITES, SECRETS = "example.com/v1/sites", "v1/secrets"


def secret(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"tls.crt": "..."}}


class Operator:
    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    async def run(self, client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            sites, secrets = factory.for_resource(SITES), factory.for_resource(SECRETS)

            async def reconcile(request: Request) -> None:
                site = sites.by_key.get(request.key)
                if site is not None:
                    certificate = secrets.by_key.get(request.key)
                    await write_status(client, SITES, site, {"certificate": certificate.uid if certificate else None})

            controller = Controller(reconcile).for_(sites)
            if self.mended:
                controller.watches(secrets, lambda one: [one.key])
            await controller.run()


def each_site_has_its_certificate(state: ClusterState) -> None:
    for site in state.list(SITES):
        certificate = state.get(SECRETS, f"default/{site['metadata']['name']}")
        uid = certificate and certificate["metadata"]["uid"]
        assert site.get("status", {}).get("certificate") == uid, "a site is served without its certificate"


def declare(world: World, *, mended: bool) -> None:
    world.apply(definition("Site"))
    world.run(Operator(mended=mended).run)
    world.script(world.create(secret("a")), world.create(custom("Site", "a")))
    world.script(world.create(secret("b")), world.create(custom("Site", "b")))
    world.eventually(each_site_has_its_certificate)
