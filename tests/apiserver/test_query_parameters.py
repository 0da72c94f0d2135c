"""The query of a LIST or watch is read as by Go: numbers, booleans, repeated and broken parameters.

`query_parameters.jsonl` has what kube-apiserver 1.36.3 answered to each query for two configmaps: the number of items,
the types of a watch's events, or the status and message of an error. Queries without an end are not among them.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from kinformer import Client
from kinformer.testing import APIServer
from tests.watchcache.front import front_of

PATH = "/api/v1/namespaces/default/configmaps"
RECORDED = [json.loads(line) for line in (Path(__file__).parent / "query_parameters.jsonl").read_text().splitlines()]


def shape(status: int, body: bytes) -> list[Any]:
    documents = [json.loads(line) for line in body.splitlines()] if body.count(b"\n") < 40 else [json.loads(body)]
    first = documents[0]
    if first.get("kind") == "Status":
        return [status, re.sub(r"current: \d+", "current: N", first["message"])]
    if "type" in first:
        kinds = {f"{event['type']}:{event['object'].get('code')}".removesuffix(":None") for event in documents}
        return [status, *sorted(kinds)]
    return [status, "list", len(first["items"])]


async def differences(url: str) -> dict[str, Any]:
    """Send all queries at the same time, and return the answers that differ from the recorded ones."""

    async def ask(session: aiohttp.ClientSession, query: str) -> list[Any]:
        async with session.get(URL(f"{url}{PATH}?{query}", encoded=True)) as response:
            return shape(response.status, await response.read())

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        answers = await asyncio.gather(*(ask(session, recorded["query"]) for recorded in RECORDED))
    pairs = zip(RECORDED, answers, strict=True)
    return {recorded["query"]: answer for recorded, answer in pairs if answer != recorded["answer"]}


def fill(server: APIServer) -> None:
    for name in ("a", "b"):
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})


async def test_the_embedded_server_reads_a_query_as_a_kube_apiserver_does() -> None:
    async with APIServer() as server:
        fill(server)
        assert await differences(server.url) == {}


async def test_a_watch_cache_reads_a_query_as_the_server_behind_it() -> None:
    async with APIServer() as server, Client.from_url(server.url) as client:
        fill(server)
        async with front_of(server, client) as front:
            await front.caught_up()
            wrong = await differences(front.url)
            too_old = [query for query, answer in wrong.items() if answer == [200, "ERROR:410"]]
            assert wrong.keys() == set(too_old), "a cache does not have what was before it"
            assert all(query.endswith(("resourceVersion=1", "resourceVersion=05")) for query in too_old)
            assert front.answered > len(RECORDED) / 2


async def test_a_watch_whose_time_has_passed_ends_at_once() -> None:
    async with APIServer() as server, aiohttp.ClientSession(server.url) as session, asyncio.timeout(20):
        response = await session.get(f"{PATH}?watch=1&timeoutSeconds=-1")
        await response.read()
        assert response.status == 200


@pytest.mark.parametrize("quality", ["1_0", "nan", "inf", "٥", "x", ""])
async def test_a_quality_that_is_not_a_number_in_go_is_the_last_choice(quality: str) -> None:
    accept = f"application/yaml;q={quality},application/json;q=0.1"
    async with APIServer() as server, aiohttp.ClientSession(server.url) as session:
        response = await session.get(PATH, headers={"Accept": accept})
        await response.read()
        assert response.content_type == ("application/yaml" if quality == "" else "application/json")
