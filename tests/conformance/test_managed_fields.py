"""`drop=metadata.managedFields` in `Accept`: a v1.36 ignores it, and informers that ask for it are as before."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from kinformer import SharedInformerFactory
from kinformer.testing import ClusterServer
from tests.conformance.api import WIDGETS, collection, manifest
from tests.conformance.conftest import OpenApi
from tests.conformance.history import History, assert_equal
from tests.support.mirror import Mirror

PARAMETER = "drop=metadata.managedFields"
STREAMED = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
FORMS = [
    "application/json",
    "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1",
]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=["whole", "metadata"])
@pytest.mark.parametrize("resource", ["v1/configmaps", "v1/pods", "example.com/v1/widgets"])
async def test_the_parameter_changes_nothing_on_a_server_that_does_not_know_it(
    server: ClusterServer, open_api: OpenApi, namespace: str, resource: str, form: str
) -> None:
    await server.install_crds(WIDGETS)
    api = await open_api(server)
    path = collection(resource, namespace)
    for name in ("a", "b", "c"):
        status, created = await api.call("POST", path, manifest(resource, name, name))
        assert status == 201, created
    for query, kind in (("", "List"), (STREAMED, "")):
        accept = form.replace("{}", kind)
        plain = await read(api, f"{path}?{query}", accept)
        for asked in (f"{accept};{PARAMETER}", f"{accept};{PARAMETER},{accept},application/json"):
            assert await read(api, f"{path}?{query}", asked) == plain
        assert plain


async def read(api: Any, path: str, accept: str) -> list[Any]:
    """The documents of an answer, without what differs between two lists of the same objects."""
    session: aiohttp.ClientSession = api.session
    async with session.get(path, headers={"Accept": accept}) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "application/json"
        lines = [json.loads(line) for line in (await response.read()).splitlines()]
    for line in lines:
        if "metadata" in line:
            line["metadata"].pop("resourceVersion", None)
    return [line for line in lines if line.get("type") != "BOOKMARK"]


@pytest.mark.parametrize("watch_list", [False, True], ids=["LIST", "stream"])
@pytest.mark.parametrize("metadata_only", [False, True], ids=["whole", "metadata"])
async def test_an_informer_that_asks_for_it_equals_the_server(
    server: ClusterServer, open_api: OpenApi, namespace: str, metadata_only: bool, watch_list: bool
) -> None:
    api = await open_api(server)
    history = History(api, "v1/configmaps", namespace=namespace)
    await history.go_on(40)
    options: dict[str, Any] = {"namespace": namespace, "watch_list": watch_list, "metadata_only": metadata_only}
    async with server.client() as client, SharedInformerFactory(client, **options) as factory:
        informer, mirror = factory.for_resource("v1/configmaps"), Mirror()
        informer.add_event_handler(mirror)
        await factory.wait_for_cache_sync(timeout=30, handlers=True)
        await history.go_on(80)
        if metadata_only:
            await informer.wait_for_resource_version(await newest(api, namespace), timeout=30)
            assert {obj.name for obj in informer.lister} == await names(api, namespace)
        else:
            await assert_equal(api, "v1/configmaps", informer, mirror, namespace=namespace)
        assert all("managedFields" not in obj["metadata"] for obj in informer.lister)
        assert informer.statistics().decode_errors == 0


async def newest(api: Any, namespace: str) -> str:
    _, listed = await api.call("GET", collection("v1/configmaps", namespace))
    return str(listed["metadata"]["resourceVersion"])


async def names(api: Any, namespace: str) -> set[str]:
    _, listed = await api.call("GET", collection("v1/configmaps", namespace))
    return {item["metadata"]["name"] for item in listed["items"]}
