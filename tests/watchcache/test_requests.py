"""Requests that only some clients send: the cache answers them as the server does, or leaves them to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest

from kinformer import Client, GroupVersionResource, ListOptions, SharedInformer, SharedInformerFactory
from kinformer.exceptions import ConfigError
from kinformer.testing import APIServer
from kinformer.watchcache import WatchCache
from tests.support.apiserver_http import ask
from tests.support.kube import pod
from tests.support.memory_source import MemorySource
from tests.support.opaque_versions import OpaqueVersions
from tests.watchcache.front import Front, answering, front_of

PODS = "/api/v1/namespaces/default/pods"
CLUSTER_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sites.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Site", "listKind": "SiteList", "plural": "sites", "singular": "site"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class WholeOpaque(OpaqueVersions):
    """A source of all objects, without selectors."""

    resource = GroupVersionResource("", "v1", "configmaps")
    selects_all = True


def metadata_first(kind: str) -> str:
    """Return the header of client-go's informers of metadata."""
    form = f"as={kind};g=meta.k8s.io;v=v1"
    return f"application/vnd.kubernetes.protobuf;{form},application/json;{form},application/json"


@pytest.fixture
def initial_objects() -> list[Mapping[str, Any]]:
    return [pod("web")]


@pytest.fixture
async def front(server: APIServer, client: Client) -> AsyncIterator[Front]:
    async with front_of(server, client) as front:
        front.passes = False
        yield front


@pytest.mark.parametrize(
    ("path", "kind"),
    [(f"{PODS}?resourceVersion=0", "PartialObjectMetadataList"), (f"{PODS}/web", "PartialObjectMetadata")],
)
async def test_metadata_that_is_preferred_as_protobuf_is_answered_as_json(front: Front, path: str, kind: str) -> None:
    answer = await ask(front.url, "GET", path, headers={"Accept": metadata_first(kind)})
    assert (answer.status, answer.json["kind"]) == (200, kind)


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ],
)
async def test_a_form_that_is_preferred_as_protobuf_is_not_replaced_by_another(front: Front, accept: str) -> None:
    assert (await ask(front.url, "GET", f"{PODS}?resourceVersion=0", headers={"Accept": accept})).status == 406


@pytest.mark.parametrize("count", [0, 1])
async def test_a_namespace_is_no_field_of_a_resource_of_the_cluster(
    server: APIServer, client: Client, count: int
) -> None:
    await server.install_crds(CLUSTER_CRD)
    for number in range(count):
        metadata = {"name": f"site-{number}"}
        server.create({"apiVersion": "example.com/v1", "kind": "Site", "metadata": metadata})
    query = "?resourceVersion=0&fieldSelector=metadata.namespace%3Ddefault"
    assert (await ask(server.url, "GET", f"/apis/example.com/v1/sites{query}")).status == 400
    async with SharedInformerFactory(client) as factory:
        sites = factory.for_resource("example.com/v1/sites")
        async with WatchCache(sites, client=client) as cache, answering(cache) as url:
            assert (await ask(url, "GET", "/sites?resourceVersion=0")).status == 200
            assert (await ask(url, "GET", f"/sites{query}")).status == 406


async def test_a_namespace_is_a_field_of_pods(front: Front) -> None:
    for namespace, count in (("default", 1), ("other", 0)):
        query = f"resourceVersion=0&fieldSelector=metadata.namespace%3D{namespace}"
        answer = await ask(front.url, "GET", f"/api/v1/pods?{query}")
        assert (answer.status, len(answer.json["items"])) == (200, count)


async def test_versions_that_are_not_numbers_are_left_to_the_server() -> None:
    memory = MemorySource(watch_list=False)
    memory.set("web")
    informer: SharedInformer[Any] = SharedInformer(WholeOpaque(memory))
    async with WatchCache(informer) as cache, answering(cache) as url, aiohttp.ClientSession() as session:
        await informer.wait_synced()
        for query in ("", "?resourceVersion=0", "?resourceVersion=v1", "?watch=1&resourceVersion=v1"):
            async with session.get(f"{url}/{query}") as response:
                assert response.status == 406
        with pytest.raises(ConfigError, match="versions that are numbers"):
            await cache.source().list(ListOptions())
