"""Lists from the server, page by page."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from kinformer import Client, ConnectError, LabelSelector
from kinformer.exceptions import ExpiredError, ForbiddenError
from kinformer.testing import APIServer, faults
from tests.support.http_server import HttpServer, hang, json_answer
from tests.support.kube import config_map, pod


def pages(server: APIServer) -> list[dict[str, str]]:
    return [dict(request.params) for request in server.requests if request.path.endswith("configmaps")]


async def test_objects_come_page_by_page(server: APIServer, client: Client) -> None:
    for number in range(1100):
        server.create(config_map(f"a-{number:04}"))
    keys: list[str] = []
    obj = None
    async for obj in client.list("v1/configmaps"):
        assert len(pages(server)) == len(keys) // 500 + 1, "a page is read when it is needed"
        keys.append(obj.key)
    assert keys == [f"default/a-{number:04}" for number in range(1100)]
    assert [page["limit"] for page in pages(server)] == ["500"] * 3
    assert obj is not None
    assert "managedFields" not in obj["metadata"]
    assert (obj.kind, obj.api_version) == ("ConfigMap", "v1")


async def test_a_list_is_filtered_by_the_server(server: APIServer, client: Client) -> None:
    server.create(pod("a", labels={"app": "web"}))
    server.create(pod("b", labels={"app": "db"}))
    server.create(pod("c", labels={"app": "web"}, namespace="other"))

    async def names(**options: object) -> list[str]:
        return [obj.name async for obj in client.list("v1/pods", **options)]  # type: ignore[call-overload]

    assert await names() == ["a", "b", "c"]
    assert await names(namespace="default") == ["a", "b"]
    for selector in ("app=web", {"app": "web"}, LabelSelector.parse("app in (web)")):
        assert await names(label_selector=selector) == ["a", "c"]
    assert await names(field_selector="metadata.name=b") == ["b"]


async def test_a_list_whose_state_expired_midway_is_an_error(server: APIServer, client: Client) -> None:
    for number in range(501):
        server.create(config_map(f"a-{number:04}"))
    listing = client.list("v1/configmaps")
    for _ in range(500):
        await anext(listing)
    server.create(config_map("b"))
    await server.compact()
    with pytest.raises(ExpiredError):
        await anext(listing)


async def test_leaving_a_list_reads_no_further_page(server: APIServer, client: Client) -> None:
    for number in range(501):
        server.create(config_map(f"a-{number:04}"))
    async for _ in client.list("v1/configmaps"):
        break
    assert len(pages(server)) == 1


async def test_a_page_is_read_again_if_the_server_asks_for_it(server: APIServer, client: Client) -> None:
    server.create(config_map("a"))
    server.faults.add(faults.status(429, retry_after=0), verb="list", times=2)
    assert [obj.name async for obj in client.list("v1/configmaps")] == ["a"]
    server.faults.add(faults.status(403), verb="list", times=1)
    with pytest.raises(ForbiddenError):
        await anext(client.list("v1/configmaps"))


@pytest.mark.virtual_time
async def test_a_page_is_read_again_after_its_connection_was_lost(server: APIServer, client: Client) -> None:
    server.create(config_map("a"))
    server.faults.add(faults.close_mid_line(), verb="list", times=1)
    assert [obj.name async for obj in client.list("v1/configmaps")] == ["a"]


@pytest.mark.virtual_time
async def test_a_page_that_never_ends_is_an_error_in_time() -> None:
    async with HttpServer(hang) as server, Client.from_url(server.url) as client:
        with pytest.raises(ConnectError, match="v1/configmaps in default: no response within 60 s"):
            await anext(client.list("v1/configmaps", namespace="default"))
        await server.until_idle()


@pytest.mark.virtual_time
@pytest.mark.parametrize("seconds", [20, 40, 60])
async def test_a_server_that_is_slow_has_as_long_as_it_gives_itself(seconds: float) -> None:
    asked = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += "limit" in request.query
        await asyncio.sleep(seconds)
        token = {} if "continue" in request.query else {"continue": "next"}
        metadata = {"resourceVersion": "7", **token}
        items = [config_map("b" if "continue" in request.query else "a", rv=3)]
        return json_answer({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items})

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        assert [obj.name async for obj in client.list("v1/configmaps")] == ["a", "b"]
        await server.until_idle()
    assert asked == (2 if seconds < 30 else 3), "the second page waits 65 s at once"


@pytest.mark.virtual_time
async def test_a_server_that_is_silent_is_asked_twice() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        began = asyncio.get_running_loop().time()
        with pytest.raises(ConnectError, match="no response within 65 s; before: list: no response within 30 s"):
            await anext(client.list("v1/configmaps"))
        assert asyncio.get_running_loop().time() - began == pytest.approx(95, abs=1)
        assert len(server.requests) == 2
        await server.until_idle()
