"""The dashboard's pages over all resources: problems and changes.

Without chromium and playwright the tests of the page are skipped, and say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from kinformer.conditions import is_deployment_rolled_out
from kinformer.testing import APIServer, faults
from tests.cli.dashboard_page import BODY, OPENED, TROUBLE, Open, serving_dashboard
from tests.support import browser, kube
from tests.support.browser import shows
from tests.support.waiting import until

PROBLEMS = "[...document.querySelectorAll('#problem-list .cause a')].map(one => one.textContent)"
LIST = "document.getElementById('problem-list').textContent"
QUIET = "document.getElementById('no-problems').hidden ? '' : document.getElementById('no-problems').textContent"
WHAT = """[...document.querySelectorAll('#timeline-list .line')]
    .map(one => [...one.children].slice(1, 4).map(c => c.textContent))"""
INSIDE = "document.querySelector('.opened')?.textContent ?? ''"
VIEW = "document.querySelector('.view:not([hidden])').id"
FOCUS = "document.activeElement.textContent"
RESOURCES = ("v1/pods", "v1/nodes", "apps/v1/deployments", "apps/v1/replicasets")


def node(name: str, ready: str = "True") -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def owned_by(owner: dict[str, Any]) -> list[dict[str, Any]]:
    found = {key: owner[key] for key in ("apiVersion", "kind")}
    return [{**found, **{key: owner["metadata"][key] for key in ("name", "uid")}, "controller": True}]


def workload(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def crashing(name: str, **metadata: Any) -> dict[str, Any]:
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:00Z"}}
    container = {"name": "main", "ready": False, "restartCount": 9, "state": state, "lastState": last}
    return kube.pod(name, node="node-a", status={"phase": "Running", "containerStatuses": [container]}, **metadata)


def create_web(server: APIServer) -> None:
    """A deployment `web` with two pods that crash."""
    deployment = server.create(workload("Deployment", "web"))
    replicas = server.create(workload("ReplicaSet", "web-7f", ownerReferences=owned_by(deployment)))
    for name in ("web-7f-a", "web-7f-b"):
        server.create(crashing(name, ownerReferences=owned_by(replicas)))


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [node("node-a"), kube.pod("fine", node="node-a")]


@asynccontextmanager
async def asking(server: APIServer, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving_dashboard(server, RESOURCES, **options) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


async def ask(client: httpx.AsyncClient, path: str, **params: Any) -> Any:
    answer = await client.get(f"/api/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


# --- problems -----------------------------------------------------------------------------------------------------


async def test_a_problem_names_its_owner_and_where_both_are_opened(server: APIServer) -> None:
    create_web(server)
    async with asking(server, problems=True) as client:
        found = await until(lambda: ask(client, "problems"), holds=lambda found: found["items"])
        (one,) = found["items"]
        assert (one["rule"], one["severity"], one["count"]) == ("crashes", "error", 2)
        assert one["owner"]["resource"] == "apps/v1/deployments"
        assert one["owner"]["key"] == "default/web"
        assert (one["resource"], one["key"].startswith("default/web-7f-")) == ("v1/pods", True)
        report = (await ask(client, "report"))["problems"]
        assert (report["counts"], report["synced"], report["unknown"]["since"]) == ({"error": 1}, True, None)


async def test_a_report_has_a_version_that_changes_with_the_problems(server: APIServer) -> None:
    async with asking(server, problems=True) as client:

        async def report() -> Any:
            return (await ask(client, "report"))["problems"]

        before = await until(report, holds=lambda found: found["synced"])
        assert before["counts"] == {}
        server.update(node("node-a", ready="False"))
        version = before["version"]
        await until(report, holds=lambda found: found["counts"] == {"critical": 1} and found["version"] > version)


@pytest.mark.slow
async def test_a_resource_that_cannot_be_read_is_named(server: APIServer) -> None:
    server.faults.add(faults.status(500), resource="v1/persistentvolumes")
    create_web(server)
    async with asking(server, problems=True) as client:

        def is_named(found: Any) -> bool:
            return found["problems"]["synced"] and found["troubles"] and "error" in found["problems"]["counts"]

        found = await until(lambda: ask(client, "report"), holds=is_named)
        assert [one["resources"] for one in found["troubles"]] == [["v1/persistentvolumes"]]
        assert found["problems"]["verdict"].endswith("resources that could be read.")
        assert found["problems"]["counts"]["error"] == 1, "the others are shown"
        ready = await client.get("/readyz")
        assert (ready.status_code, sorted(ready.json()["resources"])) == (200, sorted(RESOURCES))


async def test_a_service_has_no_problems_to_show(server: APIServer) -> None:
    async with asking(server) as client:
        assert (await ask(client, "report"))["problems"] is None
        assert (await client.get("/api/problems")).status_code == 404


# --- changes ------------------------------------------------------------------------------------------------------


async def test_the_timeline_has_the_changes_of_all_resources_since_a_number(server: APIServer) -> None:
    async with asking(server) as client:
        began = await ask(client, "timeline")
        assert began["items"] == []
        await until(lambda: ask(client, "report"), holds=lambda report: all(one["live"] for one in report["resources"]))
        server.update(node("node-a", ready="False"))
        server.update(kube.pod("fine", node="node-a", phase="Failed"))

        async def items(after: int = 0) -> Any:
            return (await ask(client, "timeline", after=after))["items"]

        first, second = await until(items, holds=lambda found: len(found) == 2)
        by_kind = {one["kind"]: one for one in (first, second)}
        assert by_kind["Node"]["resource"] == "v1/nodes"
        assert (by_kind["Pod"]["namespace"], by_kind["Pod"]["name"]) == ("default", "fine")
        assert by_kind["Pod"]["type"] == "changed"
        assert await items(after=first["number"]) == [second]
        assert (await ask(client, "timeline", after=second["number"]))["last"] == second["number"]
        change = await ask(client, "change", number=by_kind["Pod"]["number"])
        assert {"path": "status.phase", "old": "Running", "new": "Failed"} in change["differences"]
        assert (await client.get("/api/change", params={"number": 99})).status_code == 404


def roll_out(server: APIServer, image: str) -> None:
    web = server.get("apps/v1/deployments", "default", "web")
    assert web is not None
    web["spec"]["template"]["spec"]["containers"][0]["image"] = image
    server.update(web)


def is_rolled_out(server: APIServer) -> bool:
    return is_deployment_rolled_out(server.get("apps/v1/deployments", "default", "web"))


async def test_changes_of_one_cause_have_its_number_and_its_outcome(server: APIServer) -> None:
    server.create(workload("Deployment", "web"))
    async with server.run_controllers(startup=0, shutdown=0), asking(server) as client:
        await until(lambda: is_rolled_out(server))
        await until(lambda: ask(client, "report"), holds=lambda report: all(one["live"] for one in report["resources"]))
        roll_out(server, "web:2")
        words = "image 1 to 2, 2 of 2 pods replaced"
        found = await until(lambda: ask(client, "timeline"), holds=lambda found: words in found["outcomes"].values())
        [number] = [int(number) for number, outcome in found["outcomes"].items() if outcome == words]
        [head] = [item for item in found["items"] if item["number"] == number]
        assert (head["kind"], head["change"], head["cause"]) == ("Deployment", "image 1 to 2", 0)
        members = {(item["kind"], item["type"]) for item in found["items"] if item["cause"] == number}
        assert {("Pod", "created"), ("Pod", "deleted")} <= members

        async def afterwards() -> Any:
            last = (await ask(client, "timeline"))["last"]
            return await ask(client, "timeline", after=last)

        last = await until(afterwards, holds=lambda last: not last["items"])
        assert last["outcomes"] == {}


async def test_noise_is_in_the_timeline_only_on_request(server: APIServer) -> None:
    async with asking(server) as client:
        await until(lambda: ask(client, "report"), holds=lambda report: all(one["live"] for one in report["resources"]))
        beat = node("node-a")
        beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:05:00Z"
        server.update(beat)
        found = await until(lambda: ask(client, "timeline", noise=True), holds=lambda found: found["items"])
        assert found["items"][0]["noise"] is True
        assert (await ask(client, "timeline"))["items"] == []


async def test_a_deleted_object_has_owners_as_long_as_its_changes_are_kept(server: APIServer) -> None:
    create_web(server)
    async with asking(server) as client:
        await until(lambda: ask(client, "report"), holds=lambda report: all(one["live"] for one in report["resources"]))
        server.delete("v1/pods", "default", "web-7f-a")
        await until(lambda: ask(client, "timeline"), holds=lambda found: found["items"])
        groups = await ask(client, "relations", resource="v1/pods", key="default/web-7f-a")
        assert [one["name"] for one in groups[0]["items"]] == ["web-7f", "web"]


# --- on the page --------------------------------------------------------------------------------------------------


def in_browser(test: Any) -> Any:
    marks = (pytest.mark.process, pytest.mark.tools)
    for mark in (*marks, pytest.mark.skipif(bool(browser.missing()), reason=browser.missing())):
        test = mark(test)
    return test


ALL: dict[str, Any] = {"resources": RESOURCES, "problems": True}


@in_browser
async def test_problems_are_the_first_page_and_lead_to_the_owner_and_the_object(
    server: APIServer, opened: Open
) -> None:
    create_web(server)
    page = await opened("", dashboard=ALL, pods=3)
    await shows(page, PROBLEMS, lambda names: names == ["web"])
    assert "error" in (text := await page.evaluate(LIST))
    assert "Deployment in default" in text
    assert "2 pods" in text
    await shows(
        page, "document.querySelector('nav .ill:not([hidden])').getAttribute('aria-label') === 'Problems: 1 failing'"
    )
    await page.click("#problem-list .cause a")
    await shows(page, OPENED, lambda name: name == "web")
    assert await page.evaluate(VIEW) == "problems"
    await page.click("#problem-list .hit a")
    await shows(page, OPENED, lambda name: name.startswith("web-7f-"))
    await shows(page, BODY, lambda text: "OOMKilled" in text)


@in_browser
async def test_a_healthy_cluster_says_so_and_a_problem_appears_by_itself(server: APIServer, opened: Open) -> None:
    page = await opened("", dashboard=ALL, pods=1)
    await shows(page, QUIET, lambda text: text.startswith("No problems in "))
    server.create(node("node-b", ready="False"))
    await shows(page, PROBLEMS, lambda names: names == ["node-b"])
    server.update(node("node-b"))
    await shows(page, QUIET, lambda text: text.startswith("No problems in "))


@in_browser
async def test_problems_by_keyboard_with_filters(server: APIServer, opened: Open) -> None:
    create_web(server)
    server.create(node("node-b", ready="False"))
    page = await opened("#/nodes", dashboard=ALL, pods=3)
    await page.keyboard.press("p")
    await shows(page, PROBLEMS, lambda names: names == ["node-b", "web"])
    await page.keyboard.press("j")
    assert await page.evaluate(FOCUS) == "node-b"
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await shows(page, OPENED, lambda name: name == "web")
    await page.focus("#detail-body")
    await page.keyboard.press("Escape")
    await shows(page, OPENED, lambda name: name == "")
    assert await page.evaluate(FOCUS) == "web", "the focus goes back to the link"
    await page.click("#severities .counter:has-text('critical')")
    await shows(page, PROBLEMS, lambda names: names == ["node-b"])
    await page.click("#severities .counter:has-text('critical')")
    await page.fill("#text", "crashloop")
    await shows(page, PROBLEMS, lambda names: names == ["web"])
    await page.fill("#text", "nothing like it")
    await shows(page, QUIET, lambda text: text == "Nothing matches the filter.")


@in_browser
async def test_a_resource_that_cannot_be_looked_at_is_named_on_the_page(server: APIServer, opened: Open) -> None:
    server.faults.add(faults.status(500), resource="v1/persistentvolumes")
    page = await opened("", dashboard=ALL, pods=1)
    await shows(page, TROUBLE, lambda text: "v1/persistentvolumes" in text and "500" in text)


@in_browser
async def test_an_informer_that_does_not_follow_leads_to_the_informers(server: APIServer, opened: Open) -> None:
    page = await opened("", dashboard=ALL, pods=1)
    await shows(page, QUIET, lambda text: text.startswith("No problems in "))
    server.faults.add(faults.status(403), resource="v1/nodes")
    await server.restart()
    await shows(page, LIST, lambda text: "v1/nodes" in text and "403" in text)
    await page.click("#problem-list .cause a")
    await shows(page, VIEW, lambda view: view == "health")


@in_browser
async def test_a_page_without_problems_begins_with_the_nodes(opened: Open) -> None:
    page = await opened("", pods=1)
    await shows(page, VIEW, lambda view: view == "nodes")
    assert "Problems" not in await page.evaluate("document.getElementById('views').textContent")
    await page.keyboard.press("p")
    assert await page.evaluate(VIEW) == "nodes"


@in_browser
async def test_changes_come_in_by_themselves_and_open_to_differences_and_owners(
    server: APIServer, opened: Open
) -> None:
    create_web(server)
    page = await opened("#/changes", dashboard={"resources": RESOURCES}, pods=3)
    empty = "document.getElementById('no-changes').textContent"
    await shows(page, empty, lambda text: text == "Nothing has changed yet.")
    server.update(kube.pod("fine", node="node-a", phase="Failed"))
    server.delete("v1/pods", "default", "web-7f-a")
    rows = await shows(page, WHAT, lambda rows: len(rows) == 2)
    assert [row[:2] for row in rows] == [["Pod", "default/web-7f-a"], ["Pod", "default/fine"]]
    assert rows[0][2] == "deleted"
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await shows(page, INSIDE, lambda text: "Owners" in text and "web-7f" in text and "Deployment" in text)
    await page.keyboard.press("Enter")
    await shows(page, INSIDE, lambda text: text == "")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await shows(page, INSIDE, lambda text: "status.phase" in text and '"Running"' in text and '"Failed"' in text)
    server.create(kube.pod("late", node="node-a"))
    await shows(page, WHAT, lambda rows: len(rows) == 3 and rows[0][1:] == ["default/late", "created"])
    await shows(page, INSIDE, lambda text: "status.phase" in text)
    await page.click(".opened a:text-is('fine')")
    await shows(page, OPENED, lambda name: name == "fine")


@in_browser
async def test_changes_are_filtered_and_noise_is_a_switch(server: APIServer, opened: Open) -> None:
    page = await opened("#/changes", dashboard={"resources": RESOURCES}, pods=1)
    await shows(page, "kinformer.store.report.resources.every((one) => one.live)")
    server.create(kube.pod("other", namespace="shop"))
    server.update(node("node-a", ready="False"))
    beat = node("node-a", ready="False")
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:05:00Z"
    server.update(beat)
    await shows(page, WHAT, lambda rows: [row[0] for row in rows] in (["Node", "Pod"], ["Pod", "Node"]))
    await page.click("#timeline-noise")
    await shows(page, WHAT, lambda rows: len(rows) == 3)
    assert "noise=1" in await page.evaluate("location.hash")
    await page.select_option("#timeline-kind", "Pod")
    await shows(page, WHAT, lambda rows: [row[0] for row in rows] == ["Pod"])
    await page.select_option("#timeline-kind", "")
    await page.fill("#text", "node-a")
    await shows(page, WHAT, lambda rows: [row[0] for row in rows] == ["Node", "Node"])
    await page.fill("#text", "")
    await shows(page, "[...document.getElementById('namespace').options].length > 1")
    await page.select_option("#namespace", "shop")
    await shows(page, WHAT, lambda rows: "default" not in str(rows) and ["Pod", "shop/other", "created"] in rows)
    await page.focus("#main")
    await page.keyboard.press("n")
    await page.keyboard.press("d")
    assert "noise" not in await page.evaluate("location.hash"), "noise is off by default"


@in_browser
async def test_a_rollout_is_one_line_that_opens_to_the_changes_of_its_pods(server: APIServer, opened: Open) -> None:
    server.create(workload("Deployment", "web"))
    async with server.run_controllers(startup=0, shutdown=0):
        await until(lambda: is_rolled_out(server))
        page = await opened("#/changes", dashboard={"resources": RESOURCES}, pods=1)
        await shows(page, "kinformer.store.report.resources.every((one) => one.live)")
        roll_out(server, "web:2")
        line = ["Deployment", "default/web", "image 1 to 2, 2 of 2 pods replaced"]
        await shows(page, WHAT, lambda rows: rows == [line])
        await until(lambda: is_rolled_out(server))
        await page.click("#timeline-list .line")
        await shows(page, INSIDE, lambda text: "web:2" in text and text.count("Pod") >= 4 and "created" in text)
        await page.click("#timeline-noise")
        await shows(page, WHAT, lambda rows: len(rows) > 4 and not any("replaced" in row[2] for row in rows))


@in_browser
async def test_lines_keep_their_places_while_the_pointer_rests_on_them(server: APIServer, opened: Open) -> None:
    page = await opened("#/changes", dashboard={"resources": RESOURCES}, pods=1)
    await shows(page, "kinformer.store.report.resources.every((one) => one.live)")
    server.create(kube.pod("first"))
    await shows(page, WHAT, lambda rows: len(rows) == 1)
    await page.hover("#timeline-list .line")
    server.create(kube.pod("second"))
    await shows(page, "document.getElementById('timeline-news').textContent === '1 new'")
    assert len(await page.evaluate(WHAT)) == 1
    await page.mouse.move(5, 5)
    await shows(page, WHAT, lambda rows: [row[1] for row in rows] == ["default/second", "default/first"])


@in_browser
async def test_thousands_of_changes_are_few_elements(server: APIServer, opened: Open) -> None:
    page = await opened("#/changes", dashboard={"resources": RESOURCES}, pods=1)
    await shows(page, "kinformer.store.report.resources.every((one) => one.live)")
    for number in range(1000):
        server.create(kube.pod(f"web-{number}"))
        await asyncio.sleep(0)
    await shows(page, "kinformer.timeline.items.length", lambda count: count == 1000, 60)
    assert await page.evaluate("document.querySelectorAll('#timeline-list li').length") == 200
    await page.click("#timeline-more")
    assert await page.evaluate("document.querySelectorAll('#timeline-list li').length") == 400
    count = await page.evaluate("document.getElementById('timeline-count').textContent")
    assert count.startswith("1,000 since ")


@in_browser
async def test_text_of_a_cluster_is_text_on_both_pages(server: APIServer, opened: Open) -> None:
    evil = "<img src=x onerror='globalThis.pwned=1'>"
    broken = node("node-b", ready="False")
    broken["status"]["conditions"][0]["message"] = evil
    page = await opened("", dashboard=ALL, pods=1)
    server.create(broken)
    await shows(page, LIST, lambda text: "onerror" in text)
    server.update(kube.pod("fine", node="node-a", annotations={"note": evil}))
    await page.keyboard.press("d")
    await shows(page, WHAT, lambda rows: len(rows) == 2)
    await page.click("#timeline-list .line:has-text('fine')")
    await shows(page, INSIDE, lambda text: "onerror" in text)
    assert await page.evaluate("document.querySelectorAll('main img').length") == 0
    assert await page.evaluate("globalThis.pwned === undefined")
