"""Pages, made in the ways that operators make what belongs to an object."""

from __future__ import annotations

import contextlib

from kinformer import AlreadyExistsError, Client, ConflictError, KubeObject, NotFoundError, Result, SharedInformer
from kinformer.controller import Applier
from kinformer.testing.explore import World
from tests.explore.operators.sites import APPLY, PAGES, PAGES_PATH, Reconcile, declare, page_of, reconciling, size_of


async def created_by_name(world: World) -> None:
    """The server refuses a second page of the name. A page of another size is replaced from the cache."""

    async def main(client: Client) -> None:
        def make(_: SharedInformer, pages: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> Result | None:
                page = pages.by_key.get(site.key)
                try:
                    if page is None:
                        await client.request("POST", PAGES_PATH, body=page_of(site))
                    elif page.path("data.size") != size_of(site) or page.owner_references[0].uid != site.uid:
                        body = page_of(site, resourceVersion=page.resource_version)
                        await client.request("PUT", f"{PAGES_PATH}/{site.name}", body=body)
                except (AlreadyExistsError, ConflictError, NotFoundError):
                    return Result(requeue_after=1)
                return None

            return reconcile

        await reconciling(client, make)

    declare(world, main)


async def applied_without_a_read(world: World) -> None:
    """A forced apply of the whole page, whatever is there, and again each minute."""

    async def main(client: Client) -> None:
        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> Result:
                params = {"fieldManager": "pages", "force": "true"}
                path = f"{PAGES_PATH}/{site.name}"
                await client.request("PATCH", path, body=page_of(site), params=params, headers=APPLY)
                return Result(requeue_after=60)

            return reconcile

        await reconciling(client, make)

    edited = world.patch(PAGES, "default/a", {"data": {"size": "9"}})
    declare(world, main, edited)


async def applied_by_two_managers(world: World) -> None:
    """Two programs apply fields of their own to the same page."""

    async def color(client: Client) -> None:
        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> None:
                page = page_of(site)
                page["data"] = {"color": "blue"}
                params = {"fieldManager": "color", "force": "true"}
                await client.request("PATCH", f"{PAGES_PATH}/{site.name}", body=page, params=params, headers=APPLY)

            return reconcile

        await reconciling(client, make)

    async def size(client: Client) -> None:
        def make(_: SharedInformer, pages: SharedInformer) -> Reconcile:
            applier = Applier(client, PAGES, pages, field_manager="size")

            async def reconcile(site: KubeObject) -> None:
                await applier.apply(page_of(site))

            return reconcile

        await reconciling(client, make)

    world.run(color)
    declare(world, size, world.patch(PAGES, "default/a", {"data": {"size": "9", "color": "red"}}))


async def adopted_under_generated_names(world: World) -> None:
    """A list from the server finds what the cache does not have yet. Of two pages the older one stays."""

    async def main(client: Client) -> None:
        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> None:
                found = await client.request("GET", PAGES_PATH, params={"labelSelector": f"site={site.name}"})
                mine = [one for one in found["items"] if one["metadata"]["ownerReferences"][0]["uid"] == site.uid]
                mine.sort(key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))
                if not mine:
                    await client.request("POST", PAGES_PATH, body=page_of(site, generateName=f"{site.name}-"))
                for page in mine[1:]:
                    await client.request("DELETE", f"{PAGES_PATH}/{page['metadata']['name']}")
                for page in mine[:1]:
                    if page["data"]["size"] != size_of(site):
                        body = {**page, "data": {"size": size_of(site)}}
                        await client.request("PUT", f"{PAGES_PATH}/{page['metadata']['name']}", body=body)

            return reconcile

        await reconciling(client, make)

    declare(world, main)


async def corrected_by_get_and_put(world: World) -> None:
    """Each ten seconds the page is read and, if it drifted, put with the version that was read."""

    async def main(client: Client) -> None:
        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> Result:
                path = f"{PAGES_PATH}/{site.name}"
                try:
                    page = (await client.request("GET", path)).to_dict()  # type: ignore[union-attr]
                except NotFoundError:
                    await client.request("POST", PAGES_PATH, body=page_of(site))
                    return Result(requeue_after=10)
                wanted = page_of(site)
                wanted["metadata"]["resourceVersion"] = page["metadata"]["resourceVersion"]
                owners = page["metadata"]["ownerReferences"]
                if page["data"] != wanted["data"] or owners != wanted["metadata"]["ownerReferences"]:
                    await client.request("PUT", path, body=wanted)
                return Result(requeue_after=10)

            return reconcile

        await reconciling(client, make)

    declare(world, main, world.patch(PAGES, "default/a", {"data": {"size": "9"}}))


async def corrected_by_merge_patch(world: World) -> None:
    """A patch that names what it wants, whenever a page or a Site changes."""

    async def main(client: Client) -> None:
        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> None:
                page = page_of(site)
                body = {"metadata": {"ownerReferences": page["metadata"]["ownerReferences"]}, "data": page["data"]}
                try:
                    await client.request("PATCH", f"{PAGES_PATH}/{site.name}", body=body)
                except NotFoundError:
                    await client.request("POST", PAGES_PATH, body=page)

            return reconcile

        await reconciling(client, make)

    declare(world, main, world.patch(PAGES, "default/a", {"data": {"size": "9"}}))


async def corrected_by_json_patch(world: World) -> None:
    """A JSON patch that tests the version which it was made for."""

    async def main(client: Client) -> None:
        def make(_: SharedInformer, pages: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> None:
                page, wanted = pages.by_key.get(site.key), page_of(site)
                if page is None:
                    await client.request("POST", PAGES_PATH, body=wanted)
                elif page.path("data") != wanted["data"] or page.owner_references[0].uid != site.uid:
                    body = [
                        {"op": "test", "path": "/metadata/resourceVersion", "value": page.resource_version},
                        {"op": "add", "path": "/data", "value": wanted["data"]},
                        {
                            "op": "add",
                            "path": "/metadata/ownerReferences",
                            "value": wanted["metadata"]["ownerReferences"],
                        },
                    ]
                    await client.request("PATCH", f"{PAGES_PATH}/{site.name}", body=body)

            return reconcile

        await reconciling(client, make)

    declare(world, main, world.patch(PAGES, "default/a", {"data": {"size": "9"}}))


async def replaced_as_if_immutable(world: World) -> None:
    """A page of another size, or of a predecessor, is deleted by its uid, and made anew."""

    async def main(client: Client) -> None:
        def make(_: SharedInformer, pages: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> None:
                page = pages.by_key.get(site.key)
                if page is not None:
                    if page.path("data.size") == size_of(site) and page.owner_references[0].uid == site.uid:
                        return
                    with contextlib.suppress(NotFoundError):
                        body = {"preconditions": {"uid": page.uid}}
                        await client.request("DELETE", f"{PAGES_PATH}/{site.name}", body=body)
                await client.request("POST", PAGES_PATH, body=page_of(site))

            return reconcile

        await reconciling(client, make)

    declare(world, main)


CORRECT = [
    created_by_name,
    applied_without_a_read,
    applied_by_two_managers,
    adopted_under_generated_names,
    corrected_by_get_and_put,
    corrected_by_merge_patch,
    corrected_by_json_patch,
    replaced_as_if_immutable,
]
