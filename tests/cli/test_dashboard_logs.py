"""The dashboard shows the log of a container: as text, bounded, and only while its panel is open.

Internals: the response, since no server sends lines that are odd or endless.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from kinformer.cli.dashboard.logs import LogResponse
from kinformer.testing import APIServer
from tests.cli.dashboard_page import BODY, Open, serving_dashboard
from tests.support import browser, kube
from tests.support.browser import shows
from tests.support.waiting import until

STARTED = "2026-01-01T00:00:00Z"
LINES = "document.querySelector('#detail-body .log')?.textContent ?? ''"

in_browser = [
    pytest.mark.process,
    pytest.mark.tools,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing()),
]


def ended(code: int = 0) -> dict[str, Any]:
    run = {"startedAt": STARTED, "finishedAt": "2026-01-01T00:00:10Z", "exitCode": code}
    return {"terminated": run}


def container(name: str = "main", *, restarts: int = 0, **state: Any) -> dict[str, Any]:
    found = {"name": name, "ready": "running" in state, "restartCount": restarts, "state": state}
    return found | ({"lastState": ended(1)} if restarts else {})


def pod(name: str, *statuses: dict[str, Any]) -> dict[str, Any]:
    document = kube.pod(name, status={"phase": "Running", "containerStatuses": list(statuses)})
    document["spec"]["containers"] = [{"name": one["name"], "image": "app:1"} for one in statuses]
    return document


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [
        pod("done", container(**ended())),
        pod("two", container("web", running={}), container("proxy", restarts=3, running={})),
        pod("waits", container(waiting={"reason": "ContainerCreating"})),
    ]


@asynccontextmanager
async def asking(server: APIServer, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    options = {"picks": True, **options}
    async with (
        serving_dashboard(server, ("v1/pods",), **options) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


async def documents(client: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    answer = await client.get("/api/logs", params=params)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines() if line]


def lines(found: list[dict[str, Any]]) -> list[str]:
    return [line for one in found for line in one.get("lines", [])]


async def test_a_log_is_sent_in_lines_until_its_end(server: APIServer) -> None:
    async with asking(server) as client:
        found = await documents(client, key="default/done")
        assert found[-1] == {"end": None}
        assert len(lines(found)) == 11
        assert "started" in lines(found)[0]
        assert len(lines(await documents(client, key="default/done", tail=3))) == 3


async def test_a_log_that_cannot_be_read_says_why(server: APIServer) -> None:
    async with asking(server) as client:
        (found,) = await documents(client, key="default/waits")
        assert "is waiting to start: ContainerCreating" in found["end"]
        (found,) = await documents(client, key="default/done", previous=True)
        assert "previous terminated container" in found["end"]
        (found,) = await documents(client, key="default/nothing")
        assert "404" in found["end"]
        assert (await client.get("/api/logs", params={"key": "no-namespace"})).status_code == 404
        assert (await client.get("/api/logs", params={"key": "default/done", "tail": -1})).status_code == 422


async def test_a_missing_right_is_the_reason() -> None:
    async with APIServer(users={"secret": "eve"}, rules=[("eve", "*", "v1/pods")]) as server:
        server.create(pod("done", container(**ended())))
        async with asking(server, user="eve") as client:
            (found,) = await documents(client, key="default/done")
            assert "403" in found["end"]


async def test_lines_are_cut_and_have_neither_colours_nor_characters_that_deceive() -> None:
    async def read() -> Any:
        yield "\x1b[31mred\x1b[0m\tand \u202egnp.exe"
        yield "x" * 10_000

    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    await LogResponse(read())({"type": "http"}, asyncio.Event().wait, send)
    first, second = json.loads(sent[1])["lines"]
    assert first == "red     and ?gnp.exe"
    assert second == "x" * 8000 + "… (2,000 more characters)"


async def test_a_page_that_does_not_read_stops_the_reading_of_the_log() -> None:
    read = 0

    async def endless() -> Any:
        nonlocal read
        while True:
            read += 1
            yield "a line of a log"

    stuck = asyncio.Event()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            stuck.set()
            await asyncio.Event().wait()

    response = asyncio.create_task(LogResponse(endless())({"type": "http"}, asyncio.Event().wait, send))
    await stuck.wait()
    for _ in range(10_000):
        await asyncio.sleep(0)
    assert read <= 1001
    response.cancel()
    await asyncio.wait([response])


async def test_a_log_that_is_left_ends_its_connection_to_the_server(server: APIServer) -> None:
    async with asking(server) as client:

        def open_logs() -> int:
            return sum("kinformer dashboard: log lines" in task.get_name() for task in asyncio.all_tasks())

        async with client.stream("GET", "/api/logs", params={"key": "default/two", "container": "web"}) as answer:
            async for line in answer.aiter_lines():
                assert json.loads(line)["lines"]
                break
            assert open_logs() == 1
        await until(lambda: open_logs() == 0)


async def test_only_so_many_logs_are_open_at_once(server: APIServer) -> None:
    async with asking(server) as client:
        params = {"key": "default/two", "container": "web"}
        async with AsyncExitStack() as stack:
            for _ in range(20):
                answer = await stack.enter_async_context(client.stream("GET", "/api/logs", params=params))
                assert answer.status_code == 200
            assert (await client.get("/api/logs", params=params)).status_code == 503
        await until(lambda: documents(client, key="default/done"), holds=lambda found: len(found) == 2)


async def test_the_server_ends_while_a_log_is_open(server: APIServer) -> None:
    async with asking(server) as client, client.stream("GET", "/api/logs", params={"key": "default/two"}) as answer:
        assert answer.status_code == 200


async def test_a_service_and_other_pages_get_no_logs(server: APIServer) -> None:
    async with asking(server, picks=False) as client:
        answer = await client.get("/api/logs", params={"key": "default/done"})
        assert answer.status_code == 404
        assert (await client.get("/api/report")).json()["logs"] is False
    async with asking(server) as client:
        answer = await client.get(
            "/api/logs",
            params={"key": "default/done"},
            headers={"sec-fetch-site": "none", "sec-fetch-mode": "navigate"},
        )
        assert answer.status_code == 403


# --- on the page --------------------------------------------------------------------------------------------------


def marked(test: Any) -> Any:
    for mark in in_browser:
        test = mark(test)
    return test


@marked
async def test_the_panel_shows_the_log_of_the_container_that_is_ill_and_follows_it(
    server: APIServer, opened: Open
) -> None:
    server.update(pod("two", container("web", running={}), container("proxy", restarts=3, **ended(1))))
    page = await opened("#/r/v1/pods?open=v1/pods+default/two", dashboard={"picks": True}, pods=3)
    await page.keyboard.press("o")
    await shows(page, LINES, lambda text: "proxy of default/two started" in text and "exiting with code 1" in text)
    await shows(page, BODY, lambda text: "The log has ended." in text)
    await page.select_option(".logs select", "web")
    first = await shows(page, LINES, lambda text: "web of default/two started" in text and "proxy" not in text)
    await shows(page, LINES, lambda text: len(text.splitlines()) > len(first.splitlines()))


@marked
async def test_the_log_of_the_previous_run_is_one_click_away(opened: Open) -> None:
    page = await opened("#/r/v1/pods?open=v1/pods+default/two&tab=logs", dashboard={"picks": True}, pods=3)
    await page.select_option(".logs select", "proxy")
    await shows(page, LINES, lambda text: "proxy of" in text and "exiting" not in text)
    await page.click(".logs .button")
    await shows(page, LINES, lambda text: "exiting with code 1: Error" in text)
    assert await page.evaluate("document.querySelector('.logs .button').getAttribute('aria-pressed')") == "true"
    await page.select_option(".logs select", "web")
    await shows(page, BODY, lambda text: "The log cannot be read: 400" in text and "previous terminated" in text)


@marked
async def test_a_log_goes_on_when_its_container_is_started(server: APIServer, opened: Open) -> None:
    page = await opened("#/r/v1/pods?open=v1/pods+default/waits&tab=logs", dashboard={"picks": True}, pods=3)
    await shows(page, BODY, lambda text: "is waiting to start: ContainerCreating" in text)
    server.update(pod("waits", container(running={})))
    await shows(page, LINES, lambda text: "main of default/waits started" in text)
    await shows(page, BODY, lambda text: "cannot be read" not in text)


@marked
async def test_a_log_is_read_only_while_its_panel_is_open_and_is_text(server: APIServer, opened: Open) -> None:
    page = await opened("#/r/v1/pods?open=v1/pods+default/two&tab=logs", dashboard={"picks": True}, pods=3)
    await shows(page, LINES, lambda text: "web of" in text)
    await shows(page, "kinformer.detail.logs.reading !== null")
    await page.keyboard.press("y")
    await shows(page, "kinformer.detail.logs.reading === null")
    await page.keyboard.press("o")
    await shows(page, LINES, lambda text: "web of" in text)
    await page.evaluate("kinformer.detail.logs.add(['<img src=x onerror=\"globalThis.pwned=1\">'])")
    assert "<img" in await page.evaluate(LINES)
    assert await page.evaluate("document.querySelectorAll('.log img').length") == 0
    await page.keyboard.press("Escape")
    await shows(page, "kinformer.detail.logs.reading === null")


@marked
async def test_a_log_is_searched_paused_and_wrapped_and_has_all_of_the_window(opened: Open) -> None:
    size = {"width": 1440, "height": 900}
    page = await opened(
        "#/r/v1/pods?open=v1/pods+default/done&tab=logs", dashboard={"picks": True}, pods=3, viewport=size
    )
    await shows(page, BODY, lambda text: "The log has ended." in text)
    shown = "document.querySelector('.log').innerText.split('\\n').filter(Boolean).length"
    assert await page.evaluate(shown) == 11
    width = "document.querySelector('.log').clientWidth"
    assert await page.evaluate(width) > 1100
    await page.keyboard.press("w")
    assert await page.evaluate(width) < 600
    await page.keyboard.press("w")
    await page.fill(".logs input", "STARTED")
    await shows(page, BODY, lambda text: "1 of 11 lines" in text)
    assert await page.evaluate(shown) == 1
    assert await page.evaluate("document.querySelector('.log mark').textContent") == "started"
    await page.press(".logs input", "Escape")
    assert await page.evaluate(shown) == 11
    assert await page.evaluate("!document.getElementById('detail').hidden"), "the panel stays"
    space = "getComputedStyle(document.querySelector('.log')).whiteSpace"
    assert await page.evaluate(space) == "pre-wrap"
    await page.click(".logs button:has-text('Wrap')")
    assert await page.evaluate(space) == "pre"


@marked
async def test_a_pause_holds_lines_back_until_it_ends(opened: Open) -> None:
    page = await opened("#/r/v1/pods?open=v1/pods+default/two&tab=logs", dashboard={"picks": True}, pods=3)
    await shows(page, LINES, lambda text: "web of" in text)
    await page.click(".logs button:has-text('Pause')")
    before = await page.evaluate(LINES)
    await shows(page, BODY, lambda text: "2 new" in text)
    assert await page.evaluate(LINES) == before
    await page.click(".logs button:has-text('Pause')")
    await shows(page, LINES, lambda text: len(text.splitlines()) >= len(before.splitlines()) + 2)
    assert "new" not in await page.evaluate(BODY)


@marked
async def test_a_log_that_is_left_before_its_pod_is_known_is_not_read(opened: Open) -> None:
    page = await opened("#/r/v1/pods?open=v1/pods+default/two&tab=yaml", dashboard={"picks": True}, pods=3)
    await shows(page, BODY, lambda text: "name: two" in text)
    left = asyncio.Event()
    asked = asyncio.Event()

    async def late(route: Any) -> None:
        if "format=yaml" not in route.request.url:
            asked.set()
            await left.wait()
        await route.continue_()

    await page.route("**/api/object?*", late)
    await page.keyboard.press("o")
    await asked.wait()
    await page.keyboard.press("y")
    async with page.expect_response(lambda answer: "/api/object?" in answer.url and "yaml" not in answer.url):
        left.set()
    await shows(page, BODY, lambda text: "name: two" in text)
    assert await page.evaluate("kinformer.detail.logs.reading === null && kinformer.detail.logs.key === ''")


@marked
async def test_a_page_keeps_a_bounded_part_of_a_log(opened: Open) -> None:
    page = await opened("#/r/v1/pods?open=v1/pods+default/done&tab=logs", dashboard={"picks": True}, pods=3)
    await shows(page, BODY, lambda text: "The log has ended." in text)
    for script in ("Array(500).fill('line')", "Array(50).fill('x'.repeat(8000))"):
        await page.evaluate(f"for (let i = 0; i < 20; i += 1) kinformer.detail.logs.add({script})")
        assert await page.evaluate("kinformer.detail.logs.count") <= 2000
        assert await page.evaluate("kinformer.detail.logs.log.textContent.length") <= 1_000_000


@marked
async def test_only_pods_have_logs_and_a_service_has_none(server: APIServer, opened: Open) -> None:
    server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})
    page = await opened("#/r/v1/pods?open=v1/pods+default/done&tab=logs", pods=3)
    await shows(page, BODY, lambda text: "app:1" in text)
    assert await page.evaluate("document.getElementById('tab-logs').hidden")
