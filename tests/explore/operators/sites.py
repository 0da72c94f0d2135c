"""The work of many operators: each Site gets a page, which is a ConfigMap with the Site's size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kinformer import Client, Controller, KubeObject, Result, SharedInformer, SharedInformerFactory
from kinformer.objects import owned_by
from kinformer.testing.explore import ClusterState, Step, World
from tests.explore.operators.custom import custom, definition

SITES, PAGES = "example.com/v1/sites", "v1/configmaps"
SITES_PATH = "/apis/example.com/v1/namespaces/default/sites"
PAGES_PATH = "/api/v1/namespaces/default/configmaps"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
Main = Callable[[Client], Awaitable[object]]
Reconcile = Callable[[KubeObject], Awaitable[Result | None]]


def page_of(site: KubeObject, **metadata: Any) -> dict[str, Any]:
    """Return the page of a Site, under its name unless another name is given."""
    name = {} if "generateName" in metadata else {"name": site.name}
    metadata = {"namespace": site.namespace, "labels": {"site": site.name}, **name, **metadata}
    page = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": size_of(site)}}
    return owned_by(page, site)


def size_of(site: KubeObject) -> str:
    """Return the size that a page should have."""
    return str(site.path("spec.size"))


async def reconciling(
    client: Client, make: Callable[[SharedInformer, SharedInformer], Reconcile], workers: int = 1
) -> None:
    """Reconcile the Sites that are there. `make(sites, pages)` returns the function that does it."""
    async with SharedInformerFactory(client) as factory:
        sites, pages = factory.for_resource(SITES), factory.for_resource(PAGES)
        reconcile = make(sites, pages)

        async def called(request: Any) -> Result | None:
            site = sites.by_key.get(request.key)
            return None if site is None else await reconcile(site)

        await Controller(called, workers=workers).for_(sites).owns(pages, "Site").run()


def site(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Site of people."""
    return custom("Site", name, **{"size": 1, **spec})


def steps(world: World) -> list[Step]:
    """Return what people do: two Sites, a change, and a Site that goes and comes back."""
    return [
        world.create(site("a")),
        world.create(site("b")),
        world.patch(SITES, "default/a", {"spec": {"size": 2}}),
        world.delete(SITES, "default/b"),
        world.create(site("b", size=3)),
    ]


def each_site_has_its_page(state: ClusterState) -> None:
    """Fail unless the pages are those of the Sites."""
    wanted = {one["metadata"]["uid"]: str(one["spec"]["size"]) for one in state.list(SITES)}
    pages = [one for one in state.list(PAGES, "default") if one["metadata"].get("ownerReferences")]
    found = {one["metadata"]["ownerReferences"][0]["uid"]: one["data"]["size"] for one in pages}
    assert found == wanted, (found, wanted)
    assert len(pages) == len(found), "a Site has two pages"


def declare(world: World, main: Main, *more: Step, **options: Any) -> None:
    """Declare an operator that makes pages."""
    world.apply(definition("Site"))
    world.run(main, **options)
    world.script(*steps(world), *more)
    world.eventually(each_site_has_its_page)
