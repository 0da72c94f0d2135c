"""Lists in pages that go from the server to a cache and back: each is one state, whatever answers which page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer.testing import APIServer, faults
from tests.support.kube import config_map, pod
from tests.support.waiting import until
from tests.watchcache.front import Front, front_of

ALL = "/api/v1/configmaps"
ONE = "/api/v1/namespaces/default/configmaps"
SELECTORS = ("", "&labelSelector=app%3Dx")

Step = tuple[str, str]  # what happens before a page, and what answers it


def write(server: APIServer, what: str, number: int) -> None:
    if what == "another resource":
        server.create(pod(f"web-{number}"))
    elif what == "create":
        server.create(config_map(f"c-{number}", labels={"app": "x"}))
    elif what == "delete" and server.get("v1/configmaps", "default", f"m-{number % 8}"):
        server.delete("v1/configmaps", "default", f"m-{number % 8}")


async def listed(server: APIServer, front: Front, path: str, limit: int, steps: Sequence[Step]) -> None:
    async with aiohttp.ClientSession() as session:

        async def page(base: str, token: str) -> dict[str, Any]:
            async with session.get(f"{base}{path}limit={limit}&continue={token}") as response:
                assert response.status == 200, await response.text()
                document: dict[str, Any] = await response.json()
                return document

        async with session.get(f"{server.url}{path}") as response:
            expected = {item["metadata"]["name"] for item in (await response.json())["items"]}
        names: list[str] = []
        versions: set[str] = set()
        token = ""
        for number in range(100):
            what, answers = steps[number % len(steps)]
            if number:
                write(server, what, number)
            document = await page(server.url if answers == "server" else front.url, token)
            names += [item["metadata"]["name"] for item in document["items"]]
            versions.add(document["metadata"]["resourceVersion"])
            if not (token := document["metadata"].get("continue", "")):
                break
        assert len(names) == len(expected)
        assert set(names) == expected
        assert len(versions) == 1


async def scene(path: str, selector: str, limit: int, steps: Sequence[Step]) -> None:
    async with APIServer() as server, server.client() as client:
        for number in range(8):
            server.create(config_map(f"m-{number}", labels={"app": "xy"[number % 2]}))
        async with front_of(server, client) as front:
            await listed(server, front, f"{path}?{selector.lstrip('&')}&", limit, steps)


WRITES = st.sampled_from(["nothing", "another resource", "create", "delete"])
STEPS = st.lists(st.tuples(WRITES, st.sampled_from(["server", "cache"])), min_size=1, max_size=6)


@pytest.mark.slow
@given(path=st.sampled_from([ALL, ONE]), selector=st.sampled_from(SELECTORS), limit=st.integers(1, 5), steps=STEPS)
def test_a_list_is_one_state_whatever_answers_its_pages(
    path: str, selector: str, limit: int, steps: list[Step]
) -> None:
    asyncio.run(scene(path, selector, limit, steps))


async def test_a_page_after_a_history_was_lost_is_the_servers(server: APIServer) -> None:
    for number in range(6):
        server.create(config_map(f"m-{number}"))
    async with server.client() as client, front_of(server, client) as front, aiohttp.ClientSession() as session:
        async with session.get(f"{front.url}{ONE}?limit=4") as response:
            token = (await response.json())["metadata"]["continue"]
        lost = server.faults.add(faults.drop_event(), verb="watch", resource="v1/configmaps", times=1)
        server.create(config_map("m-6"))
        await until(lambda: lost.hits == 1)
        server.faults.add(faults.expired(), verb="watch", resource="v1/configmaps", times=1)
        server.create(config_map("m-7"))
        await front.caught_up()
        async with session.get(f"{front.url}{ONE}?limit=4&continue={token}") as response:
            items = (await response.json())["items"]
        assert [item["metadata"]["name"] for item in items] == ["m-4", "m-5"]
