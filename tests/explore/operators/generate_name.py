"""`generateName` without a guard: a process that is started again has forgotten what it created a moment ago.

elastic/cloud-on-k8s#290: "It's ok to recreate a service with the same name twice ... recreating a pod (with a
different name) is not good".
"""

from __future__ import annotations

from typing import Any

from kinformer import AlreadyExistsError, Client, Controller, KubeObject, Request, SharedInformerFactory
from kinformer.objects import owned_by
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition

FINDS = "one_page_for_each_site"
STORY = r"(?s)creates v1/configmaps default/(\w)-.*creates v1/configmaps default/\1-"
SITES, PAGES = "example.com/v1/sites", "v1/configmaps"


def page_of(site: KubeObject, **name: str) -> dict[str, Any]:
    metadata = {**name, "namespace": site.namespace, "labels": {"site": site.name}}
    return owned_by({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, site)


class Operator:
    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    async def run(self, client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            sites, pages = factory.for_resource(SITES), factory.for_resource(PAGES)

            async def reconcile(request: Request) -> None:
                site = sites.by_key.get(request.key)
                if site is None or [page for page in pages.lister if page.labels.get("site") == site.name]:
                    return
                name = {"name": site.name} if self.mended else {"generateName": f"{site.name}-"}
                try:
                    await client.request(
                        "POST", f"/api/v1/namespaces/{site.namespace}/configmaps", body=page_of(site, **name)
                    )
                except AlreadyExistsError:
                    return  # the cache is going to tell

            await Controller(reconcile).for_(sites).owns(pages, "Site").run()


def one_page_for_each_site(state: ClusterState) -> None:
    sites = [page["metadata"]["labels"]["site"] for page in state.list(PAGES)]
    assert len(sites) == len(set(sites)), f"pages of {sites}"


def each_site_has_its_page(state: ClusterState) -> None:
    sites = {site["metadata"]["name"] for site in state.list(SITES)}
    assert sites == {page["metadata"]["labels"]["site"] for page in state.list(PAGES)}


def declare(world: World, *, mended: bool) -> None:
    world.apply(definition("Site"))
    world.run(Operator(mended=mended).run)
    world.script(world.create(custom("Site", "a")), world.create(custom("Site", "b")))
    world.script(world.delete(SITES, "default/a"))
    world.always(one_page_for_each_site)
    world.eventually(each_site_has_its_page)
