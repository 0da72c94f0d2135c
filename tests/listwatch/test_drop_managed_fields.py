"""Informers that drop managedFields ask the server to leave them out, and are the same whether it does or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from kinformer import Client, ListOptions, ListWatch, SharedInformer
from kinformer.testing import APIServer, Features
from tests.support.http_server import HttpServer, json_answer, status_answer
from tests.support.kube import pod
from tests.support.waiting import until

PODS = "/api/v1/namespaces/default/pods"
PARAMETER = "drop=metadata.managedFields"


async def accepted(**options: bool) -> list[str]:
    """Return the `Accept` of a list and a watch."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return json_answer({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        pods = ListWatch(client, "v1/pods", **options)
        page = await pods.list(ListOptions())
        assert [one async for items in page.items for one in items] == []  # type: ignore[union-attr]
        async with pods.watch(ListOptions(resource_version="1")):
            pass
        return [request.headers["Accept"] for request in server.requests]


async def test_it_is_asked_for_with_the_plain_form_behind_it() -> None:
    assert await accepted() == [f"application/json;{PARAMETER},application/json"] * 2


async def test_it_is_asked_for_with_metadata_alone_too() -> None:
    form = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
    assert await accepted(metadata_only=True) == [
        f"{form.format(kind)};{PARAMETER},{form.format(kind)},application/json" for kind in ("List", "")
    ]


@pytest.mark.parametrize("metadata_only", [False, True])
async def test_those_who_keep_managed_fields_ask_for_them(metadata_only: bool) -> None:
    for accept in await accepted(keep_managed_fields=True, metadata_only=metadata_only):
        assert PARAMETER not in accept


async def test_a_snapshot_of_before_is_of_the_same_contents() -> None:
    async with Client.from_url("http://127.0.0.1:1") as client:
        assert ListWatch(client, "v1/pods").contents["accept"] == "application/json"
        partial = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
        assert ListWatch(client, "v1/pods", metadata_only=True).contents["accept"] == partial


# --- the same cache, whoever answers --------------------------------------------------------------------


@asynccontextmanager
async def proxy(server: APIServer, what: str) -> AsyncIterator[str]:
    """A proxy that strips the parameters of `Accept`, or that refuses clauses with parameters that it does not know."""

    async def answer(request: web.Request) -> web.StreamResponse:
        clauses = [clause.strip() for clause in request.headers.get("Accept", "").split(",")]
        if what == "strips":
            clauses = [clause.partition(";")[0] for clause in clauses]
        elif what == "strict":
            clauses = [clause for clause in clauses if "drop=" not in clause]
            if not clauses:
                return status_answer(406, "NotAcceptable")
        headers = {"Accept": ", ".join(clauses)}
        async with session.request(request.method, server.url + request.path_qs, headers=headers) as upstream:
            response = web.StreamResponse(status=upstream.status, headers={"Content-Type": upstream.content_type})
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    async with aiohttp.ClientSession() as session, HttpServer(answer) as between:
        yield between.url


async def make(client: Client, name: str, namespace: str = "default") -> None:
    """By a request, so that there are managedFields."""
    await client.request("POST", PODS, body=pod(name, phase=None))
    path = f"{PODS}/{name}/status"
    await client.request("PATCH", path, body={"status": {"phase": "Running"}})


@pytest.mark.parametrize("watch_list", [False, True], ids=["list", "watch list"])
@pytest.mark.parametrize("metadata_only", [False, True], ids=["whole", "metadata"])
@pytest.mark.parametrize("answers", ["1.36", "1.38", "strips", "strict"])
async def test_the_cache_is_the_same_whoever_answers(answers: str, metadata_only: bool, watch_list: bool) -> None:
    features = Features(drop_managed_fields=answers == "1.38")
    async with APIServer(features=features) as server, server.client() as client:
        for name in ("a", "b", "c"):
            await make(client, name)
        async with (
            proxy(server, answers if answers in ("strips", "strict") else "passes") as url,
            Client.from_url(url) as asking,
        ):
            partial = metadata_only and answers != "strips"  # which takes that away too
            sources = [
                ListWatch(asking, "v1/pods", namespace="default", metadata_only=metadata_only),
                ListWatch(client, "v1/pods", namespace="default", metadata_only=partial, keep_managed_fields=True),
            ]
            async with (
                SharedInformer(sources[0], watch_list=watch_list) as dropped,
                SharedInformer(sources[1], watch_list=watch_list) as kept,
            ):
                await asyncio.gather(dropped.wait_synced(20), kept.wait_synced(20))
                await make(client, "d")
                await client.request("DELETE", f"{PODS}/a", body={"gracePeriodSeconds": 0})
                version = kept.last_sync_resource_version
                await until(lambda: sorted(kept.lister.keys()) == ["default/b", "default/c", "default/d"])
                version = kept.last_sync_resource_version
                await dropped.wait_for_resource_version(version, timeout=20)
                assert sorted(dropped.lister.keys()) == sorted(kept.lister.keys())
                for obj in kept.lister:
                    document = obj.to_dict()
                    assert document["metadata"].pop("managedFields")
                    twin = dropped.indexer.get_by_key(obj.key)
                    assert twin is not None
                    assert twin.to_dict() == document
                received = [one.statistics().bytes for one in (dropped, kept)]
                assert (received[0] < received[1]) is (answers == "1.38")
