"""The dashboard's page tells how objects do: colours by readiness, counts of what fails, the worst first.

Without chromium and playwright these tests are skipped, and say so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from kinformer.contrib.problems import RULES
from kinformer.testing import APIServer
from tests.cli.dashboard_page import BODY, NAMES, Open
from tests.support import browser, kube
from tests.support.browser import shows

pytestmark = [
    pytest.mark.process,
    pytest.mark.tools,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing()),
]

GRACES = {rule.name: rule.grace for rule in RULES}
GRACE = GRACES["not-ready"]
RESOURCES = ("v1/pods", "v1/nodes", "apps/v1/deployments", "apps/v1/replicasets")
COLOURS = """Object.fromEntries([...document.querySelectorAll('#body .row')].filter(r => !r.hidden).map(r =>
    [r.cells[0].textContent, [...r.querySelectorAll('.status')]
        .map(c => [c.dataset.column, c.className.split(' ').at(-1)].join(' '))]))"""
SQUARES = """Object.fromEntries([...document.querySelectorAll('#grid .pod')]
    .map(one => [one.key.split('/')[1], one.className]))"""
FAILING = """Object.fromEntries([...document.querySelectorAll('nav .ill')].filter(one => !one.hidden)
    .map(one => [one.getAttribute('aria-label'), one.textContent]))"""
COUNTERS = """[...document.querySelectorAll('.view:not([hidden]) .counter')].filter(one => !one.hidden)
    .map(one => one.textContent)"""
CARDS = "[...document.querySelectorAll('#grid .node-name')].map(one => one.textContent)"
CUT = "[...document.querySelectorAll('#body .cell')].filter(c => c.scrollWidth > c.clientWidth).map(c => c.textContent)"

pod = partial(kube.pod, node="node-a")


def node(name: str, ready: str = "True") -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [node("node-a"), pod("web-0"), pod("web-1"), pod("web-2", phase="Failed"), pod("web-3", phase="Succeeded")]


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def unready(name: str, since: float, **more: Any) -> dict[str, Any]:
    """A pod that runs, and has not been ready for some seconds."""
    container = {"name": "main", "ready": False, "restartCount": 0, "state": {"running": {"startedAt": ago(since)}}}
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": ago(since)}
    return pod(name, status={"phase": "Running", "containerStatuses": [container], "conditions": [condition]}, **more)


def workload(kind: str, name: str, replicas: int, **status: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}


async def test_a_running_pod_is_green_only_if_it_is_ready(server: APIServer, opened: Open) -> None:
    server.create(unready("early", since=1))
    server.create(unready("late", since=600))
    page = await opened(pods=6)
    colours = await shows(page, COLOURS, lambda found: len(found) == 6)
    assert colours["web-0"] == ["STATUS good"]
    assert colours["early"] == ["READY busy", "STATUS busy"]
    assert colours["late"] == ["READY bad", "STATUS bad"]
    title = "[...document.querySelectorAll('#body .row')].find(r => r.title === 'default/late').cells[2].title"
    assert await page.evaluate(title) == "container main is not ready"
    await page.keyboard.press("n")
    squares = await shows(page, SQUARES, lambda found: len(found) == 6)
    assert squares == {
        "web-0": "pod good",
        "web-1": "pod good",
        "web-2": "pod bad",
        "web-3": "pod over",
        "early": "pod busy",
        "late": "pod bad",
    }


async def test_a_pod_that_stays_unready_becomes_red_by_time_alone(server: APIServer, opened: Open) -> None:
    server.create(unready("slow", since=GRACE - 4))
    page = await opened(pods=5)
    await shows(page, COLOURS, lambda found: found.get("slow") == ["READY busy", "STATUS busy"])
    await shows(page, FAILING, lambda found: found == {"Pods: 1 failing": "1"})
    await shows(page, COLOURS, lambda found: found["slow"] == ["READY bad", "STATUS bad"])
    await shows(page, FAILING, lambda found: found == {"Pods: 2 failing": "2"})
    server.update(pod("slow"))
    await shows(page, COLOURS, lambda found: found["slow"] == ["STATUS good"])
    await shows(page, FAILING, lambda found: found == {"Pods: 1 failing": "1"})


async def test_a_workload_is_red_if_no_pod_is_ready(server: APIServer, opened: Open) -> None:
    since = [{"type": "Available", "status": "False", "lastTransitionTime": ago(GRACES["replicas"] + 60)}]
    server.create(workload("Deployment", "none", 3, observedGeneration=1, conditions=since))
    server.create(workload("Deployment", "all", 3, readyReplicas=3, updatedReplicas=3))
    server.create(workload("Deployment", "some", 3, readyReplicas=1))
    server.create(workload("Deployment", "zero", 0))
    page = await opened("#/r/apps/v1/deployments", dashboard={"resources": RESOURCES}, pods=0)
    colours = await shows(page, COLOURS, lambda found: len(found) == 4)
    assert colours == {"none": ["READY bad"], "all": ["READY good"], "some": ["READY busy"], "zero": ["READY over"]}
    await page.click("#head [data-column=READY]")
    await shows(page, NAMES, lambda names: names == ["none", "some", "all", "zero"])


async def test_a_count_of_failures_leads_to_them(server: APIServer, opened: Open) -> None:
    page = await opened("#/nodes")
    await shows(page, FAILING, lambda found: found == {"Pods: 1 failing": "1"})
    await page.click("nav .ill:not([hidden])")
    await shows(page, NAMES, lambda names: names == ["web-2"])
    assert "level=bad" in await page.evaluate("location.hash")
    server.update(pod("web-1", phase="Failed"))
    await shows(page, NAMES, lambda names: names == ["web-1", "web-2"])
    await page.click("nav a[href*='/v1/pods']:not(.ill)")
    await shows(page, NAMES, lambda names: len(names) == 4)


async def test_counters_filter_by_level_and_belong_to_their_view(opened: Open) -> None:
    page = await opened()
    await shows(page, COUNTERS, lambda found: found == ["1failing", "2ready", "1finished"])
    await page.click(".view:not([hidden]) .counter:has(.good)")
    await shows(page, NAMES, lambda names: names == ["web-0", "web-1"])
    address = await page.evaluate("location.hash")
    other = await opened(address)
    await shows(other, f"globalThis.kinformer && {NAMES}", lambda names: names == ["web-0", "web-1"])
    await page.keyboard.press("b")
    await shows(page, NAMES, lambda names: names == ["web-2"])
    await page.keyboard.press("b")
    await shows(page, NAMES, lambda names: len(names) == 4)
    await page.keyboard.press("b")
    await page.keyboard.press("n")
    await shows(page, SQUARES, lambda found: len(found) == 4 and not any("dim" in one for one in found.values()))
    await page.click(".view:not([hidden]) .counter:has(.bad)")
    await shows(page, SQUARES, lambda found: sum("dim" in one for one in found.values()) == 3)


async def test_a_sort_by_status_has_the_worst_first(server: APIServer, opened: Open) -> None:
    server.create(unready("zz-late", since=600))
    server.create(unready("aa-early", since=1))
    page = await opened(pods=6)
    await page.click("#head [data-column=STATUS]")
    order = ["web-2", "zz-late", "aa-early", "web-0", "web-1", "web-3"]
    await shows(page, NAMES, lambda names: names == order)
    await page.click("#head [data-column=STATUS]")
    await shows(page, NAMES, lambda names: names[0] == "web-3" and set(names[-2:]) == {"web-2", "zz-late"})


async def test_broken_nodes_are_first_in_the_map(server: APIServer, opened: Open) -> None:
    server.create(node("node-b", ready="False"))
    server.create(node("node-c"))
    page = await opened("#/nodes")
    await shows(page, CARDS, lambda names: names == ["node-b", "node-a", "node-c"])
    server.update(node("node-b"))
    await shows(page, CARDS, lambda names: names == ["node-a", "node-b", "node-c"])
    server.update(node("node-c", ready="Unknown"))
    server.create(kube.pod("nowhere", phase="Pending"))
    await shows(page, CARDS, lambda names: names == ["not on a node", "node-c", "node-a", "node-b"])


async def test_no_cell_is_cut_while_there_is_room(server: APIServer, opened: Open) -> None:
    last = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": ago(5 * 86400 + 3 * 3600)}}
    container = {"name": "main", "ready": True, "restartCount": 1234, "state": {"running": {}}, "lastState": last}
    server.create(pod("restarting", status={"phase": "Running", "containerStatuses": [container]}))
    page = await opened(pods=5, viewport={"width": 1280, "height": 700})
    await shows(page, "document.getElementById('body').textContent", lambda text: "1234 (5d3h ago)" in text)
    await shows(page, CUT, lambda found: found == [])


async def test_an_owner_shows_how_many_of_its_pods_are_ready(server: APIServer, opened: Open) -> None:
    replicas = server.create(workload("ReplicaSet", "web", 2))
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": replicas["metadata"]["uid"]}
    server.create(pod("owned", ownerReferences=[{**reference, "controller": True}]))
    page = await opened(dashboard={"resources": RESOURCES}, pods=5)
    await page.click("#body .row[title='default/owned']")
    await shows(page, BODY, lambda text: "ReplicaSetweb0/2" in text)


async def test_a_container_that_runs_and_is_not_ready_is_not_green(server: APIServer, opened: Open) -> None:
    server.create(unready("late", since=600))
    page = await opened(pods=5)
    await page.click("#body .row[title='default/late']")
    await shows(page, BODY, lambda text: "Running, not ready" in text)
    assert "reasoncontainer main is not ready" in await page.evaluate(BODY)


async def test_only_the_entry_of_the_informers_has_a_dot(opened: Open) -> None:
    page = await opened("#/health")
    dots = "[...document.querySelectorAll('nav .dot.good, nav .dot.bad')].map(one => one.parentElement.textContent)"
    await shows(page, dots, lambda names: names == ["Informers"])
    await shows(page, "document.querySelectorAll('.informer').length === 2")
