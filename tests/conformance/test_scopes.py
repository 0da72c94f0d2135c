"""Paths with and without a namespace, of resources that have the other scope."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.site import APPLY, STRATEGIC, Site

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EMPTY = {"metadata": {"name": "a"}}


async def all_verbs(site: Site, collection: str, name: str, body: dict[str, Any]) -> None:
    """Ask for everything that can be asked of a collection."""
    for query in (
        "",
        "?limit=1",
        "?watch=1&timeoutSeconds=1&resourceVersion=0",
        "?labelSelector=(",
        f"?fieldSelector=metadata.name%3D{name}",
    ):
        await site.get(f"{collection}{query}")
    await site.post(collection, body)
    await site.post(collection, "{")
    await site.put(collection, body)
    await site.patch(collection, body)
    await site.delete(f"{collection}?dryRun=All&labelSelector=none%3Dof-them")
    await site.ask("OPTIONS", collection)
    one = f"{collection}/{name}"
    await site.get(one)
    await site.get(f"{one}?watch=1")
    await site.post(one, body)
    await site.put(one, body)
    await site.patch(one, {})
    await site.patch(one, {}, STRATEGIC)
    await site.patch(f"{one}?fieldManager=test", body, APPLY)
    await site.delete(f"{one}?dryRun=All")
    for below in ("status", "nothing", "status/more"):
        await site.get(f"{one}/{below}")
        await site.put(f"{one}/{below}", body)


@pytest.mark.parametrize(
    ("group_version", "kind", "plural"),
    [
        ("v1", "Namespace", "namespaces"),
        ("v1", "Node", "nodes"),
        ("v1", "PersistentVolume", "persistentvolumes"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
    ],
)
async def test_a_resource_of_the_cluster_has_no_path_in_a_namespace(
    site: Site, group_version: str, kind: str, plural: str
) -> None:
    base = "/api" if group_version == "v1" else "/apis"
    body = {"apiVersion": group_version, "kind": kind, **EMPTY}
    await all_verbs(site, f"{base}/{group_version}/namespaces/{site.namespace}/{plural}", site.namespace, body)
    await site.get(f"{base}/{group_version}/namespaces/not-there/{plural}")
    await site.get(f"{base}/{group_version}/watch/namespaces/{site.namespace}/{plural}?timeoutSeconds=1")
    await site.get(f"{base}/{group_version}/watch/namespaces/{site.namespace}/{plural}/a?timeoutSeconds=1")


@pytest.mark.parametrize(
    ("group_version", "kind", "plural"),
    [
        ("v1", "ConfigMap", "configmaps"),
        ("v1", "Pod", "pods"),
        ("apps/v1", "Deployment", "deployments"),
        ("rbac.authorization.k8s.io/v1", "Role", "roles"),
    ],
)
async def test_an_object_of_a_namespace_has_no_path_without_it(
    site: Site, group_version: str, kind: str, plural: str
) -> None:
    base = "/api" if group_version == "v1" else "/apis"
    collection = f"{base}/{group_version}/{plural}"
    body = {"apiVersion": group_version, "kind": kind, "metadata": {"name": "a", "namespace": site.namespace}}
    for query in ("?labelSelector=none%3Dof-them", f"?fieldSelector=metadata.namespace%3D{site.namespace}"):
        await site.get(f"{collection}{query}&limit=1&resourceVersion=0&resourceVersionMatch=NotOlderThan", kept=False)
    await site.post(collection, body)
    await site.put(collection, body)
    await site.patch(collection, body)
    await site.delete(f"{collection}?dryRun=All&labelSelector=none%3Dof-them")
    for one in (f"{collection}/a", f"{collection}/a/status"):
        await site.get(one)
        await site.get(f"{one}?watch=1")
        await site.post(one, body)
        await site.put(one, body)
        await site.patch(one, {})
        await site.delete(one)


@pytest.mark.slow
async def test_custom_resources_have_the_paths_of_their_scope_alone(site: Site) -> None:
    group = f"{site.namespace}.scopes.example.com"
    for plural, kind, scope in (("globals", "Global", "Cluster"), ("locals", "Local", "Namespaced")):
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
        names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
        spec = {"group": group, "names": names, "scope": scope, "versions": [version]}
        meta = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        await site.make(DEFINITIONS, {**meta, "metadata": {"name": f"{plural}.{group}"}, "spec": spec})
    inside, outside = f"/apis/{group}/v1/namespaces/{site.namespace}", f"/apis/{group}/v1"
    await site.until(f"{outside}/globals", 200)
    await site.until(f"{inside}/locals", 200)
    made = {"apiVersion": f"{group}/v1", "kind": "Global", "metadata": {"name": "there"}}
    await site.make(f"{outside}/globals", made)
    await site.make(f"{inside}/locals", {**made, "kind": "Local"})
    body = {"apiVersion": f"{group}/v1", "kind": "Global", **EMPTY}
    await all_verbs(site, f"{inside}/globals", "there", body)
    await site.get(f"/apis/{group}/v1/watch/namespaces/{site.namespace}/globals?timeoutSeconds=1")
    await all_verbs(site, f"{outside}/locals", "there", {**body, "kind": "Local"})
    await all_verbs(
        site,
        f"{outside}/locals",
        "there",
        {**body, "kind": "Local", "metadata": {"name": "a", "namespace": site.namespace}},
    )
    for plural in ("globals", "locals"):
        await site.delete(f"{DEFINITIONS}/{plural}.{group}", kept=False)
