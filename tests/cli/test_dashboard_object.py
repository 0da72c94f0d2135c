"""The page of the dashboard, from one object to the next: relations, Events, restarts, any resource, YAML, addresses.

Without chromium and playwright these tests are skipped, and say so.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from kinformer.testing import APIServer, faults
from tests.cli.dashboard_page import BODY, LINK, NAMES, OPENED, TROUBLE, Open, serving_dashboard
from tests.support import browser, kube
from tests.support.browser import browsing, shows

pytestmark = [
    pytest.mark.process,
    pytest.mark.tools,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing()),
]

LINKS = "[...document.querySelectorAll('.relations a')].map(one => one.textContent)"
RESOURCES = ("v1/pods", "v1/nodes", "apps/v1/deployments", "apps/v1/replicasets")

pod = partial(kube.pod, node="node-a")


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}]


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def owned(owner: dict[str, Any]) -> dict[str, Any]:
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"ownerReferences": [{**reference, "controller": True}], "labels": {"app": "web"}}


def workload(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": spec,
    }


def create_web(server: APIServer) -> None:
    deployment = server.create(workload("Deployment", "web"))
    replicas = server.create(workload("ReplicaSet", "web-7f", **owned(deployment)))
    for name in ("web-7f-a", "web-7f-b"):
        server.create(pod(name, **owned(replicas)))


def event_of(document: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    metadata = document["metadata"]
    about = {"kind": document["kind"], "name": metadata["name"], "namespace": metadata["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "involvedObject": {**about, "uid": metadata["uid"]},
        "firstTimestamp": ago(90),
        "lastTimestamp": ago(30),
        **more,
    }


async def test_relations_lead_from_a_deployment_to_its_pods_their_node_and_back(
    server: APIServer, opened: Open
) -> None:
    create_web(server)
    page = await opened("#/r/apps/v1/deployments", dashboard={"resources": RESOURCES}, pods=2)
    await page.click("#body .row[title='default/web']")
    await shows(page, LINKS, lambda names: names == ["web-7f", "web-7f-a", "web-7f-b"])
    await page.click(".relations a:text-is('web-7f-a')")
    await shows(page, LINKS, lambda names: names == ["web-7f", "web", "node-a"])
    await page.click(".relations a:text-is('node-a')")
    await shows(page, OPENED, lambda name: name == "node-a")
    await shows(page, LINKS, lambda names: names == ["web-7f-a", "web-7f-b"])
    server.create(pod("late"))
    await shows(page, LINKS, lambda names: names == ["late", "web-7f-a", "web-7f-b"])
    await page.go_back()
    await shows(page, OPENED, lambda name: name == "web-7f-a")
    await page.click(".relations a:text-is('web')")
    await shows(page, OPENED, lambda name: name == "web")


async def test_an_owner_of_a_resource_that_is_not_followed_is_followed_when_it_is_opened(
    server: APIServer, opened: Open
) -> None:
    create_web(server)
    page = await opened(dashboard={"picks": True}, pods=2)
    await page.click("#body .row[title='default/web-7f-a']")
    await page.click(".relations a:text-is('web-7f')")
    await shows(page, OPENED, lambda name: name == "web-7f")
    await shows(page, LINKS, lambda names: {"web-7f-a", "web-7f-b"} <= set(names))


async def test_events_of_an_object_are_shown_and_followed(server: APIServer, opened: Open) -> None:
    web = server.create(pod("web"))
    server.create(pod("other"))
    pulled = event_of(web, "pulled", reason="Pulled", type="Normal", message="image is present", count=3)
    server.create(pulled)
    page = await opened(dashboard={"picks": True}, pods=2)
    await page.click("#body .row[title='default/web']")
    await page.click("[data-tab=events]")
    await shows(page, BODY, lambda text: "Pulled" in text and "image is present" in text and "3 times" in text)
    failed = event_of(web, "failed", reason="BackOff", type="Warning", message="restarting", lastTimestamp=ago(1))
    server.create(failed)
    await shows(page, BODY, lambda text: "BackOff" in text and text.index("BackOff") < text.index("Pulled"))
    await page.click("#body .row[title='default/other']")
    await shows(page, BODY, lambda text: text == "There are no Events of this object.")


async def test_a_service_that_follows_no_events_says_so(server: APIServer, opened: Open) -> None:
    server.create(pod("web"))
    page = await opened(pods=1)
    await page.click("#body .row[title='default/web']")
    await page.click("[data-tab=events]")
    await shows(page, BODY, lambda text: "v1/events is not followed by this service" in text)
    assert await page.evaluate("document.getElementById('more').hidden"), "nothing can be picked"


async def test_the_summary_has_conditions_and_reasons_of_restarts(server: APIServer, opened: Open) -> None:
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": ago(300), "startedAt": ago(400)}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    container = {"name": "main", "ready": False, "restartCount": 4, "state": waiting, "lastState": killed}
    condition = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "main is not ready"}
    condition["lastTransitionTime"] = ago(300)
    status = {"phase": "Running", "conditions": [condition], "containerStatuses": [container]}
    server.create(pod("web", status=status))
    page = await opened(pods=1)
    await page.click("#body .row[title='default/web']")
    text = await shows(page, BODY, lambda text: "OOMKilled" in text)
    assert "4 restarts, the last after OOMKilled, exit code 137 5m" in text
    assert "back-off 40s" in text
    assert "ContainersNotReady: main is not ready" in text
    await page.keyboard.press("Escape")
    row = "document.querySelector('#body .row')?.textContent ?? ''"
    await shows(page, row, lambda text: "4 (5m" in text and "CrashLoopBackOff" in text)


async def test_ages_tick_in_the_table_and_beside_it(server: APIServer, opened: Open) -> None:
    server.create(pod("web"))
    page = await opened(pods=1)
    await page.click("#body .row[title='default/web']")
    created = "document.querySelector('.facts time').textContent"
    aged = "document.querySelector('#body .row [data-column=AGE]').textContent"
    before = [await shows(page, created), await shows(page, aged)]
    await shows(page, created, lambda words: words != before[0])
    await shows(page, aged, lambda words: words != before[1])


async def test_any_resource_is_picked_also_one_whose_definition_came_later(server: APIServer, opened: Open) -> None:
    page = await opened(dashboard={"picks": True}, pods=0)
    server.register("example.com/v1", "Widget", "widgets", namespaced=True)
    metadata = {"name": "gear", "namespace": "default"}
    server.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata})
    await page.keyboard.press("r")
    await page.keyboard.type("widg")
    picks = "[...document.querySelectorAll('#picker-list code')].map(one => one.textContent)"
    await shows(page, picks, lambda names: names == ["example.com/v1/widgets"])
    await page.keyboard.press("Enter")
    await shows(page, NAMES, lambda names: names == ["gear"])
    server.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {**metadata, "name": "cog"}})
    await shows(page, NAMES, lambda names: names == ["cog", "gear"])
    other = await opened("#/r/example.com/v1/widgets", pods=0)
    await shows(other, NAMES, lambda names: names == ["cog", "gear"])


async def test_a_resource_that_the_server_does_not_have_is_said_in_its_place(opened: Open) -> None:
    page = await opened("#/r/v1/things", dashboard={"picks": True}, pods=0)
    await shows(page, "document.getElementById('nothing').textContent", lambda text: "things" in text)


async def test_the_address_keeps_filters_namespace_sort_and_the_open_object(server: APIServer, opened: Open) -> None:
    for name in ("a", "b"):
        server.create(pod(name, labels={"app": "web"}))
    server.create(pod("c", labels={"app": "db"}))
    page = await opened(pods=3)
    await page.click("#head [data-column=NAME] button")
    await page.fill("#selector", "app=web")
    await shows(page, NAMES, lambda names: names == ["b", "a"])
    await shows(page, "[...document.getElementById('namespace').options].length === 2")
    await page.select_option("#namespace", "default")
    await page.click("#body .row[title='default/a']")
    await page.click("[data-tab=yaml]")
    await shows(page, BODY, lambda text: "name: a" in text)
    address = await page.evaluate("location.href")
    other = await opened(address[address.index("#") :], pods=3)
    await shows(other, f"globalThis.kinformer && {BODY}", lambda text: text and "name: a" in text)
    await shows(other, NAMES, lambda names: names == ["b", "a"])
    assert await other.evaluate("document.getElementById('namespace').value") == "default"
    assert await other.evaluate("document.getElementById('selector').value") == "app=web"
    await other.click("#views a[href*='/nodes']")
    assert "labels=app%3Dweb" in await other.evaluate("location.hash"), "filters are those of all views"
    await other.go_back()
    await shows(other, OPENED, lambda name: name == "a")


async def test_yaml_has_text_as_blocks_and_is_copied_by_a_button(server: APIServer, opened: Open) -> None:
    script = "#!/bin/sh\nset -e\necho: this is no key\n"
    metadata = {"name": "scripts", "namespace": "default"}
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"run.sh": script}})
    page = await opened("#/r/v1/configmaps", dashboard={"resources": ("v1/pods", "v1/configmaps")}, pods=0)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.click("#body .row[title='default/scripts']")
    await page.click("[data-tab=yaml]")
    text = await shows(page, BODY, lambda text: "run.sh: |" in text)
    assert "  run.sh: |\n    #!/bin/sh\n    set -e\n    echo: this is no key\n" in text
    keys = await page.evaluate("[...document.querySelectorAll('.yaml .key')].map(one => one.textContent)")
    assert "run.sh" in keys
    assert "echo" not in keys
    await page.click(".tools button")
    await shows(page, "document.querySelector('.tools button').textContent === 'Copied'")
    assert script.splitlines()[1] in await page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ("app=(", "“app=(” is not a condition"),
        ("app in", "in takes a list in parentheses"),
        ("app web", "expected =, !=, in or notin after app"),
        ("app=web,", "A comma is last"),
    ],
)
async def test_a_malformed_selector_shows_its_error_under_the_field(
    server: APIServer, opened: Open, selector: str, told: str
) -> None:
    server.create(pod("web", labels={"app": "web"}))
    page = await opened(pods=1)
    await page.fill("#selector", selector)
    error = (
        "document.getElementById('selector-error').hidden ? '' : document.getElementById('selector-error').innerText"
    )
    assert told in await shows(page, error)
    field, text = await page.locator("#selector").bounding_box(), await page.locator("#selector-error").bounding_box()
    assert text["y"] >= field["y"] + field["height"]
    assert text["x"] == pytest.approx(field["x"], abs=2)
    assert await page.evaluate("document.getElementById('selector').getAttribute('aria-invalid')") == "true"
    await page.fill("#selector", "app=web")
    await shows(page, error, lambda text: text == "")
    await shows(page, NAMES, lambda names: names == ["web"])


async def test_forbidden_resources_are_one_line_that_opens_to_the_rights_that_are_missing() -> None:
    rules = [("eve", "*", "v1/pods"), ("eve", "list", "v1/secrets")]
    resources = ("v1/pods", "v1/secrets", "v1/configmaps")
    async with APIServer(users={"secret": "eve"}, rules=rules) as server:
        server.create(pod("web"))
        async with serving_dashboard(server, resources, picks=True, user="eve") as url, browsing() as chromium:
            page = await chromium.new_page()
            await page.goto(f"{url}/#/r/v1/pods")
            await shows(page, f"globalThis.kinformer && {NAMES}", lambda names: names == ["web"])
            await page.click("#withheld summary")
            lines = "document.getElementById('withheld').innerText.split('\\n').map(one => one.trim()).filter(Boolean)"

            def told(found: list[str]) -> bool:
                return found == [
                    "2 of 3 resources are not yours to read",
                    *("v1/configmaps", "no right to list and watch", "v1/secrets", "no right to watch", "×"),
                ]

            await shows(page, lines, told)
            assert await page.evaluate(LINK) == "1 of 3 live"


async def test_the_banner_says_since_when_and_counts_on(server: APIServer, opened: Open) -> None:
    server.create(pod("web"))
    page = await opened(pods=1)
    restarting = asyncio.create_task(server.restart(downtime=6))
    told = "The API server has not been reachable for {}s: connection refused. Showing the last known state."
    await shows(page, TROUBLE, lambda text: text == told.format(2), 15)
    await shows(page, TROUBLE, lambda text: text == told.format(4), 15)
    await restarting
    await shows(page, TROUBLE, lambda text: text == "")
    await shows(page, LINK, lambda word: word == "live")


async def test_an_api_server_that_refuses_all_resources_alike_is_one_cause(server: APIServer, opened: Open) -> None:
    page = await opened(pods=0)
    server.faults.add(faults.status(503))
    await server.restart()
    lines = "[...document.querySelectorAll('#trouble p')].map(one => one.textContent)"
    await shows(page, lines, lambda found: len(found) == 1 and "503" in found[0] and "v1/pods, v1/nodes" in found[0])
