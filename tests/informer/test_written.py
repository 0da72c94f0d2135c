"""The answer to a write, as it is, tells an informer what to catch up with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import Client, ListWatch, SharedInformer
from kinformer.testing import APIServer, Features
from tests.support.kube import config_map
from tests.support.lagging_source import LaggingSource

pytestmark = pytest.mark.virtual_time

PATH = "/api/v1/namespaces/{}/configmaps"


@asynccontextmanager
async def behind(client: Client, *namespaces: str) -> AsyncIterator[SharedInformer]:
    sources = {one: LaggingSource(ListWatch(client, "v1/configmaps", namespace=one), lag=2) for one in namespaces}
    async with SharedInformer(sources) as informer:
        await informer.wait_synced()
        yield informer


@pytest.mark.parametrize("form", ["version", "object", "dict", "model"])
async def test_the_answer_is_taken_in_every_form(server: APIServer, client: Client, form: str) -> None:
    async with behind(client, "default") as informer:
        path, body = PATH.format("default"), config_map("a")
        answer: Any
        if form == "model":
            from kubernetes_asyncio.client import CoreV1Api

            answer = await CoreV1Api(client.api_client).create_namespaced_config_map("default", body)
        else:
            written = await client.request("POST", path, body=body)
            answer = {
                "version": written["metadata"]["resourceVersion"],
                "object": written,
                "dict": dict(written),
            }[form]
        assert informer.lister.get("a", namespace="default") is None
        await informer.wait_for_resource_version(answer, timeout=10)
        assert informer.lister.get("a", namespace="default") is not None


async def test_of_several_namespaces_the_answer_names_its_own(server: APIServer, client: Client) -> None:
    async with behind(client, "default", "kube-system") as informer:
        answer = await client.request("POST", PATH.format("kube-system"), body=config_map("a", namespace="kube-system"))
        await informer.wait_for_resource_version(answer, timeout=10)
        assert informer.lister.get("a", namespace="kube-system") is not None
        elsewhere = await client.request(
            "POST", PATH.format("kube-public"), body=config_map("a", namespace="kube-public")
        )
        with pytest.raises(ValueError, match="namespace='kube-public'"):
            await informer.wait_for_resource_version(elsewhere, timeout=10)


@pytest.mark.parametrize("as_model", [False, True])
async def test_the_answer_that_took_the_last_finalizer_waits_for_the_end(
    server: APIServer, client: Client, as_model: bool
) -> None:
    """Its resourceVersion is that of before, which the cache has already."""
    held = config_map("a")
    held["metadata"]["finalizers"] = ["example.com/clean-up"]
    server.create(held)
    async with behind(client, "default") as informer:
        path, body = f"{PATH.format('default')}/a", {"metadata": {"finalizers": None}}
        await informer.wait_for_resource_version(await client.request("DELETE", path), timeout=10)
        answer: Any
        if as_model:
            from kubernetes_asyncio.client import CoreV1Api

            answer = await CoreV1Api(client.api_client).patch_namespaced_config_map("a", "default", body)
        else:
            answer = await client.request("PATCH", path, body=body)
        await informer.wait_for_resource_version(answer, timeout=10)
        assert informer.lister.get("a", namespace="default") is None


async def test_the_answer_to_a_delete_is_taken_from_servers_that_give_a_version() -> None:
    async with APIServer(features=Features(delete_versions=True)) as server, server.client() as client:
        server.create(config_map("a"))
        async with behind(client, "default") as informer:
            status = await client.request("DELETE", f"{PATH.format('default')}/a")
            assert informer.lister.get("a", namespace="default") is not None
            await informer.wait_for_resource_version(status, timeout=10)
            assert informer.lister.get("a", namespace="default") is None


async def test_the_answer_to_a_delete_without_a_version_is_named_with_the_way_out(
    server: APIServer, client: Client
) -> None:
    server.create(config_map("a"))
    async with behind(client, "default") as informer:
        status = await client.request("DELETE", f"{PATH.format('default')}/a")
        with pytest.raises(ValueError, match=r"invalid response .*has no metadata\.resourceVersion.*is_deleted\(uid\)"):
            await informer.wait_for_resource_version(status)


@pytest.mark.parametrize("answer", [{}, {"metadata": {}}, {"metadata": {"resourceVersion": 7}}, object(), None])
async def test_what_has_no_version_is_named(server: APIServer, client: Client, answer: Any) -> None:
    async with behind(client, "default") as informer:
        with pytest.raises(ValueError, match=r"it has no metadata\.resourceVersion"):
            await informer.wait_for_resource_version(answer)
        await asyncio.sleep(0)
