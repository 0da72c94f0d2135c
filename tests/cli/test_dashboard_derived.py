"""The dashboard shows the derived collections of a service, with their sources and their figures."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kinformer import SharedInformerFactory, derive
from kinformer.derived import mapped
from kinformer.testing import APIServer
from tests.cli.dashboard_page import Open, serving_dashboard
from tests.support import browser, kube
from tests.support.browser import shows
from tests.support.waiting import until


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}
    return [node, *(kube.pod(f"web-{number}", node="node-a") for number in range(4))]


def load_of_nodes(factory: SharedInformerFactory) -> None:
    pods = factory.for_resource("v1/pods", indexers={"node": "spec.nodeName"})
    nodes = factory.for_resource("v1/nodes")
    load = factory.add(
        derive(nodes, lambda node, fetch: len(fetch(pods, index=("node", node.name))), name="load of nodes")
    )
    factory.add(mapped(load, lambda count: count > 3 or None, name="full nodes"))


async def test_the_report_names_what_each_collection_reads_and_its_figures(server: APIServer) -> None:
    async with (
        serving_dashboard(server, derive=load_of_nodes) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):

        async def derived() -> Any:
            return (await client.get("/api/report")).json()["derived"]

        load, full = await until(derived, holds=lambda found: len(found) == 2 and all(one["synced"] for one in found))
        assert (load["name"], load["reads"], load["values"], load["failures"]) == (
            "load of nodes",
            ["v1/nodes", "v1/pods"],
            1,
            0,
        )
        assert (full["reads"], full["values"], full["live"]) == (["load of nodes"], 1, True)
        server.delete("v1/pods", "default", "web-0")
        await until(derived, holds=lambda found: found[1]["values"] == 0)
        status = (await client.get("/statusz")).json()
        assert status["derived"]["load of nodes"]["statistics"]["reads"] == ["v1/nodes", "v1/pods"]
        assert status["derived"]["full nodes"]["health"]["live"]


async def test_a_factory_without_derived_collections_reports_none(server: APIServer) -> None:
    async with serving_dashboard(server) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        assert (await client.get("/api/report")).json()["derived"] == []
        assert "derived" not in (await client.get("/statusz")).json()


@pytest.mark.process
@pytest.mark.tools
@pytest.mark.skipif(bool(browser.missing()), reason=browser.missing())
async def test_the_page_draws_what_each_reads_and_its_figures(server: APIServer, opened: Open) -> None:
    page = await opened("#/health", dashboard={"derive": load_of_nodes})
    names = "[...document.querySelectorAll('.derived h2')].map(name => name.textContent)"
    await shows(page, names, lambda found: found == ["load of nodes", "full nodes"])
    graph = "document.querySelector('.graph svg')?.getAttribute('aria-label')"
    told = "load of nodes reads v1/nodes, v1/pods; full nodes reads load of nodes"
    await shows(page, graph, lambda text: text == told)
    assert await page.evaluate("document.querySelectorAll('.graph path').length") == 3
    places = "[...document.querySelectorAll('.graph rect')].map(box => Number(box.getAttribute('x')))"
    assert len(set(await page.evaluate(places))) == 3, "three columns"
    card = "[...document.querySelectorAll('.derived')].find(c => c.textContent.startsWith('full nodes')).textContent"
    await shows(page, card, lambda text: "values1" in text and "reads load of nodes" in text)
    server.delete("v1/pods", "default", "web-0")
    await shows(page, card, lambda text: "values0" in text)
