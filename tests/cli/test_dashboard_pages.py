"""The dashboard's page asks its server for what it shows: sorted and filtered there, a part of a large table at a time.

The tests read the event stream that the page reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from kinformer.testing import APIServer
from tests.cli.dashboard_page import NAMES, Open, serving_dashboard
from tests.support import browser
from tests.support.browser import shows
from tests.support.kube import pod
from tests.support.waiting import until
from tests.support.web_server import EventReader, reading

_LARGE = 2_000
_FIRST = 64 * 1024  # bytes of a table's first event


@asynccontextmanager
async def dashboard(server: APIServer) -> AsyncIterator[str]:
    """The URL of the event stream of a dashboard whose caches are filled."""
    async with serving_dashboard(server) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:

        async def live() -> list[bool]:
            resources = (await client.get("/api/report")).json()["resources"]
            return [one["live"] and one["objects"] == len(server.list(one["name"])) for one in resources]

        await until(live, seconds=60, holds=all)
        yield f"{url}/api/events"


async def following(stream: EventReader, kind: str, holds: Callable[[Any], bool] = lambda _: True) -> Any:
    """The data of the next event of a type that holds."""
    while (event := await stream.next(60)).type != kind or not holds(event.data):
        pass
    return event.data


async def table(url: str, **params: str) -> Any:
    """The first rows of a table of pods."""
    async with reading(url, view="table", resource="v1/pods", **params) as stream:
        return await following(stream, "TABLE")


async def names(url: str, **params: str) -> list[str]:
    return [key.partition("/")[2] for key in (await table(url, **params))["keys"]]


def restarted(name: str, restarts: int, **more: Any) -> dict[str, Any]:
    container = {"name": "main", "ready": True, "restartCount": restarts, "state": {"running": {}}}
    return pod(name, status={"phase": "Running", "containerStatuses": [container]}, **more)


# --- pages of a large table ---------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_of_thousands_of_objects_a_table_gets_the_first_rows_in_order_and_the_number_of_all(
    server: APIServer,
) -> None:
    for _ in server.generate("v1/pods", _LARGE):
        await asyncio.sleep(0)
    keys = sorted(f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in server.list("v1/pods"))
    by_name = sorted(keys, key=lambda key: (key.partition("/")[2], key))
    async with dashboard(server) as url, httpx.AsyncClient(timeout=60) as client:
        params = {"view": "table", "resource": "v1/pods"}
        async with client.stream("GET", url, params=params) as answer:
            size, kind = 0, ""
            async for line in answer.aiter_lines():
                size += len(line) + 1
                if kind == "event: TABLE":
                    break
                kind = line
        assert size < _FIRST
        found = await table(url)
        assert (found["shown"], found["total"]) == (_LARGE, _LARGE)
        assert found["keys"] == by_name[:200]
        assert [row["k"] for row in found["rows"]] == by_name[:200]
        assert (await table(url, sort="-NAME"))["keys"] == by_name[::-1][:200]
        assert (await table(url, first="1900"))["keys"] == by_name[1_900:]
        found = await table(url, text=by_name[1_234])
        assert (found["shown"], found["total"], found["keys"]) == (1, _LARGE, [by_name[1_234]])


async def test_a_page_takes_five_hundred_rows_at_most(server: APIServer) -> None:
    async with serving_dashboard(server) as url, httpx.AsyncClient(base_url=url) as client:
        for params in ({"limit": 501}, {"limit": 0}, {"first": -1}, {"view": "all"}):
            assert (await client.get("/api/events", params=params)).status_code == 422


# --- sort and filter ----------------------------------------------------------------------------------------------


async def test_the_server_sorts_numbers_before_words_and_equal_ones_by_name(server: APIServer) -> None:
    for name, restarts in (("d", 3), ("b", 20), ("c", 3), ("a", 100)):
        server.create(restarted(name, restarts, node="n"))
    async with dashboard(server) as url:
        assert await names(url) == ["a", "b", "c", "d"]
        assert await names(url, sort="-NAME") == ["d", "c", "b", "a"]
        assert await names(url, sort="RESTARTS") == ["c", "d", "b", "a"]
        assert await names(url, sort="-RESTARTS") == ["a", "b", "c", "d"]
        assert await names(url, sort="NODE") == ["a", "b", "c", "d"]
        assert await names(url, sort="-NODE") == ["a", "b", "c", "d"]
        assert await names(url, sort="NOTHING") == ["a", "b", "c", "d"]


async def test_the_server_sorts_by_status_with_the_worst_first(server: APIServer) -> None:
    for name, phase in (("a", "Succeeded"), ("b", "Running"), ("c", "Failed"), ("d", "Pending")):
        server.create(pod(name, phase=phase))
    async with dashboard(server) as url:
        assert await names(url, sort="STATUS") == ["c", "d", "b", "a"]
        assert await names(url, sort="-STATUS") == ["a", "b", "d", "c"]


async def test_the_server_sorts_by_age_with_the_youngest_first(server: APIServer) -> None:
    for name, created in (("a", "2026-01-02"), ("b", "2026-01-03"), ("c", "2026-01-01")):
        server.create(pod(name, creationTimestamp=f"{created}T00:00:00Z"))
    async with dashboard(server) as url:
        ages = {row["k"]: row["t"] for row in (await table(url))["rows"]}
        wanted = sorted(ages, key=lambda key: (-ages[key], key))
        assert (await table(url, sort="AGE"))["keys"] == wanted


async def test_the_server_filters_by_text_labels_namespace_and_level(server: APIServer) -> None:
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    server.create(pod("web-1", labels={"app": "web"}, owner="web"))
    server.create(pod("web-2", labels={"app": "web"}, phase="Failed", node="node-a"))
    server.create(pod("db", namespace="shop", labels={"app": "db"}))
    async with dashboard(server) as url:
        assert await names(url, text="WEB replicaset") == ["web-1"]
        assert await names(url, text="node-a failed") == ["web-2"]
        assert await names(url, labels="app in (db)") == ["db"]
        assert await names(url, labels="app!=db") == ["web-1", "web-2"]
        assert await names(url, labels="app in (") == []
        assert await names(url, namespace="shop") == ["db"]
        assert await names(url, level="bad") == ["web-2"]
        found = await table(url, text="web", level="good")
        assert (found["shown"], found["total"], len(found["rows"])) == (1, 3, 1)


# --- changes ------------------------------------------------------------------------------------------------------


async def test_a_stream_has_only_the_changes_of_the_rows_that_it_shows(server: APIServer) -> None:
    for number in range(10):
        server.create(pod(f"web-{number}"))
    async with dashboard(server) as url, reading(url, view="table", resource="v1/pods", first="2", limit="3") as stream:
        first = await following(stream, "TABLE")
        assert [row["k"] for row in first["rows"]] == ["default/web-2", "default/web-3", "default/web-4"]
        server.update(pod("web-9", phase="Failed"))
        server.update(pod("web-3", phase="Failed"))
        found = await following(stream, "TABLE")
        assert [row["k"] for row in found["rows"]] == ["default/web-3"]
        assert "keys" not in found
        server.delete("v1/pods", "default", "web-0")
        found = await following(stream, "TABLE", lambda data: "keys" in data)
        assert found["keys"] == ["default/web-3", "default/web-4", "default/web-5"]
        assert [row["k"] for row in found["rows"]] == ["default/web-5"]
        assert (found["gone"], found["shown"]) == ([], 9)


async def test_a_thousand_changes_are_few_events(server: APIServer) -> None:
    for number in range(20):
        server.create(pod(f"web-{number:02}"))
    async with dashboard(server) as url, reading(url, view="table", resource="v1/pods", sort="STATUS") as stream:
        await following(stream, "TABLE")
        began, tables, newest = time.monotonic(), 0, {}
        for turn in range(1000):
            phase = "Failed" if turn % 2 else "Pending"
            body = server.update(pod(f"web-{turn % 20:02}", phase=phase))
            newest[f"default/{body['metadata']['name']}"] = body["metadata"]["resourceVersion"]
            if not turn % 50:
                await asyncio.sleep(0.01)
        shown: dict[str, str] = {}
        while shown != newest:
            found = await following(stream, "TABLE")
            shown |= {row["k"]: row["v"] for row in found["rows"]}
            tables += 1
        assert tables <= 2 + (time.monotonic() - began) / 0.2


@pytest.mark.slow
async def test_a_table_that_changes_in_nothing_sends_only_reports(server: APIServer) -> None:
    server.create(pod("web"))
    async with dashboard(server) as url, reading(url, view="table", resource="v1/pods") as stream:
        await following(stream, "TABLE")
        server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}})
        await following(stream, "HEALTH", lambda report: report["resources"][1]["objects"] == 1)
        assert {(await stream.next()).type for _ in range(2)} == {"HEALTH"}


@pytest.mark.slow
async def test_a_stream_has_marks_that_change_with_the_open_object_and_its_relations(server: APIServer) -> None:
    server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})
    async with dashboard(server) as url, reading(url, open="v1/nodes node-a") as stream:
        first = await following(stream, "OPEN")
        assert (first["resource"], first["key"]) == ("v1/nodes", "node-a")
        server.create(pod("web", node="node-a"))
        second = await following(stream, "OPEN")
        assert (second["own"] == first["own"], second["around"] == first["around"]) == (True, False)
        server.delete("v1/nodes", None, "node-a")
        assert (await following(stream, "OPEN"))["own"] == ""


# --- pods by node -------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_of_very_many_pods_a_map_has_a_part_with_those_that_fail_and_the_numbers(server: APIServer) -> None:
    for number in range(6000):
        server.create(
            pod(f"web-{number:04}", node=f"node-{number % 2}", phase="Failed" if number > 5990 else "Running")
        )
    async with dashboard(server) as url, reading(url, view="nodes") as stream:
        found = await following(stream, "NODES")
        pods = {name: one for name, one in found.items() if name.startswith("pod ")}
        assert (len(pods), found["node node-0"][0], found["node node-1"][0]) == (4000, 3000, 3000)
        assert {name for name, one in pods.items() if one[1] == "bad"} == {
            f"pod default/web-{number}" for number in range(5991, 6000)
        }
        server.update(pod("web-5999", node="node-1"))
        changed = await following(stream, "NODES")
        assert len(changed) <= 2


# --- on the page --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.tools
@pytest.mark.skipif(bool(browser.missing()), reason=browser.missing())
async def test_a_page_of_five_thousand_rows_gets_those_in_sight_also_by_keyboard(
    server: APIServer, opened: Open
) -> None:
    for number in range(5000):
        server.create(pod(f"web-{number:04}"))
    page = await opened(pods=5000)
    await shows(page, NAMES, lambda found: found[:2] == ["web-0000", "web-0001"])
    assert await page.evaluate("kinformer.store.received") < 500
    assert await page.evaluate("document.getElementById('count').textContent") == "5,000"
    await page.evaluate("document.getElementById('scroll').scrollTop = 2500 * 34")
    await shows(page, NAMES, lambda found: "web-2500" in found and "web-0000" not in found)
    await page.evaluate("document.getElementById('scroll').scrollTop = 1e9")
    await shows(page, NAMES, lambda found: "web-4999" in found)
    await page.evaluate("document.getElementById('scroll').scrollTop = 0")
    await shows(page, NAMES, lambda found: "web-0000" in found)
    await page.focus("#scroll")
    for _ in range(230):
        await page.keyboard.press("j")
    await shows(page, "kinformer.table.selected", lambda key: key == "default/web-0229")
    await shows(page, NAMES, lambda found: "web-0229" in found)
    await page.fill("#text", "web-49")
    await page.keyboard.press("Enter")
    await shows(page, "kinformer.table.selected", lambda key: key == "default/web-4900")
    assert await page.evaluate("kinformer.store.received") < 3000
