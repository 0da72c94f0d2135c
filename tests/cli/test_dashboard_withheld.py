"""The page and `kinformer problems` say what they do not know: resources that are withheld, and a server that is away.

Without chromium and playwright the tests of the page are skipped, and say so.

Internals: the coverage and its scope, since the command and the page have their words from it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from kinformer import APIError, ConnectError, ForbiddenError, InformerHealth, SharedInformerFactory
from kinformer.cli.coverage import Coverage, Scope
from kinformer.contrib.problems import Problems
from kinformer.testing import APIServer, faults
from tests.cli.dashboard_page import LINK, TROUBLE, WITHHELD, serving_dashboard
from tests.contrib.problem_scenes import DEFINITION, LATER, condition, resource
from tests.support import browser, kube
from tests.support.browser import browsing, shows
from tests.support.cli import CommandLine
from tests.support.waiting import until

RESOURCES = ("v1/pods", "apps/v1/deployments", "v1/secrets", "v1/nodes", "v1/namespaces")
GRANTED = ("v1/pods", "apps/v1/deployments", "v1/namespaces")
QUIET = "document.getElementById('no-problems').hidden ? '' : document.getElementById('no-problems').textContent"
COUNTS = """Object.fromEntries([...document.querySelectorAll('nav li')]
    .map(one => [...one.querySelectorAll('span, b')].map(cell => cell.textContent)))"""
LOCKS = "[...document.querySelectorAll('nav b.lock')].map(one => one.previousSibling.textContent)"
COUNT = "document.getElementById('count').textContent"

on_page = [
    pytest.mark.process,
    pytest.mark.tools,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing()),
]


def in_browser(test: Any) -> Any:
    for mark in on_page:
        test = mark(test)
    return test


@asynccontextmanager
async def of_a_developer(granted: tuple[str, ...] = GRANTED, **options: Any) -> AsyncIterator[tuple[APIServer, str]]:
    """A dashboard of the namespace `shop`, whose user may read these resources only."""
    rules = [("eve", verb, name) for name in granted for verb in ("list", "watch")]
    async with APIServer(users={"secret": "eve"}, rules=rules) as server:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        server.create(kube.pod("web", namespace="shop"))
        options = {"problems": True, "namespace": "shop", "user": "eve", **options}
        async with serving_dashboard(server, RESOURCES, **options) as url:
            yield server, url


@asynccontextmanager
async def a_page(url: str, place: str = "") -> AsyncIterator[Any]:
    async with browsing() as chromium:
        page = await chromium.new_page()
        await page.goto(f"{url}/{place}")
        await shows(page, "globalThis.kinformer && kinformer.store.report !== null")
        yield page


async def report(url: str) -> Any:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        return (await client.get("/api/report")).json()


# --- rights -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_resources_that_are_withheld_are_neither_troubles_nor_problems() -> None:
    async with of_a_developer() as (_, url):

        def is_known(found: Any) -> bool:
            items = found["withheld"]["items"]
            return found["problems"]["synced"] and all(one["rights"] == "no right to list and watch" for one in items)

        found = await until(lambda: report(url), holds=is_known)
        names = [one["resource"] for one in found["withheld"]["items"]]
        assert {"v1/secrets", "v1/nodes", "batch/v1/jobs"} <= set(names)
        assert not set(GRANTED) & set(names)
        assert found["withheld"]["words"] == f"{len(names)} of {len(names) + 3} resources are not yours to read"
        assert found["troubles"] == []
        assert found["problems"]["counts"] == {}
        assert found["problems"]["verdict"] == "No problems in the 2 resources that could be read."


@in_browser
async def test_withheld_resources_are_one_line_and_a_lock_for_a_count() -> None:
    async with of_a_developer() as (_, url), a_page(url) as page:
        words = await shows(page, WITHHELD, lambda text: text.split("\n")[0].endswith("are not yours to read"))
        assert "no right" not in words, "the details are folded"
        await shows(page, QUIET, lambda text: text == "No problems in the 2 resources that could be read.")
        assert await page.evaluate(TROUBLE) == ""
        await shows(page, LOCKS, lambda names: names == ["Secrets", "Nodes"])
        counts = await shows(page, COUNTS, lambda found: found["Pods"] == "1")
        assert (counts["Secrets"], counts["Nodes"], counts["Namespaces"] != "") == ("", "", True)
        assert await page.evaluate(LINK) == "3 of 5 live"
        await page.click("#withheld summary")
        await shows(page, WITHHELD, lambda text: "v1/secrets\nno right to list and watch" in text)
        await page.evaluate("location.hash = '#/r/v1/secrets'")
        why = "document.getElementById('nothing').textContent"
        await shows(page, why, lambda text: text.startswith("403"))
        assert await page.evaluate(COUNT) == ""


@in_browser
async def test_a_line_that_was_dismissed_comes_back_if_the_rights_change() -> None:
    async with of_a_developer() as (_, url), a_page(url) as page:
        await shows(page, WITHHELD)
        await page.focus("#dismiss")
        await page.keyboard.press("Enter")
        await shows(page, WITHHELD, lambda text: text == "")
        await page.reload()
        await shows(page, LOCKS, lambda names: names == ["Secrets", "Nodes"])
        assert await page.evaluate(WITHHELD) == "", "it holds for the session"
        await page.evaluate("kinformer.store.report.withheld.items.pop(); kinformer.notice.draw()")
        await shows(page, WITHHELD)


# --- outages ------------------------------------------------------------------------------------------------------


@in_browser
async def test_in_an_outage_nothing_is_known_from_the_first_moment_on(server: APIServer) -> None:
    dashboard = serving_dashboard(server, ("v1/pods", "v1/nodes"), problems=True, grace=None)
    async with dashboard as url, a_page(url) as page:
        await shows(page, QUIET, lambda text: text.startswith("No problems in "))
        both = f"[{QUIET}, {TROUBLE}]"
        seen: list[tuple[str, str]] = []

        def is_unknown(found: tuple[str, str]) -> bool:
            seen.append(found)
            return found[0].startswith("Problems are unknown since ")

        restarting = asyncio.create_task(server.restart(downtime=10))
        await shows(page, both, is_unknown)
        assert all("reachable" not in trouble for words, trouble in seen if words.startswith("No problems"))
        await shows(page, QUIET, lambda text: text == "Problems are unknown since 2s.")
        await restarting
        await shows(page, QUIET, lambda text: text.startswith("No problems in "))


@in_browser
async def test_a_page_whose_own_server_is_gone_knows_nothing(server: APIServer) -> None:
    async with browsing() as chromium:
        page = await chromium.new_page()
        async with serving_dashboard(server, ("v1/pods",), problems=True) as url:
            await page.goto(url)
            await shows(page, QUIET, lambda text: text.startswith("No problems in "))
        await shows(page, QUIET, lambda text: text.startswith("Problems are unknown since "))
        await page.close()


@pytest.mark.slow
async def test_the_command_says_so_too(server: APIServer, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("list", "watch"):
        server.faults.add(faults.reset(), verb=verb)
    found = await CommandLine(capsys, server.url)("problems", "-A")
    assert (found.status, found.out) == (2, "")
    words, *others = found.err.splitlines()
    assert words.startswith("Problems are unknown since ")
    assert others
    assert all("could not look at " in line for line in others)


def test_the_words_for_each_coverage() -> None:
    read = InformerHealth(state="watching", synced=True, live=True)
    withheld = InformerHealth(state="forbidden", synced=False, live=False, last_error=ForbiddenError(403, "no"))
    away = InformerHealth(state="backing_off", synced=True, live=False, last_error=ConnectError("refused"))
    broken = InformerHealth(state="backing_off", synced=False, live=False, last_error=APIError(500, "broken"))

    def coverage(*healths: InformerHealth, once: bool = False) -> Coverage:
        return Coverage.of({str(number): health for number, health in enumerate(healths)}, once=once)

    assert coverage(read).verdict == "No problems in 1 resource."
    assert coverage(read, read).verdict == "No problems in 2 resources."
    assert coverage(read, read, withheld, broken).verdict == "No problems in the 2 resources that could be read."
    assert coverage(read, withheld).verdict == "No problems in the only resource that could be read."
    assert coverage(withheld, withheld).verdict == "None of 2 resources could be read."
    assert coverage(read, away).is_unknown
    assert coverage(broken).is_unknown
    assert not coverage(read, broken).is_unknown
    assert not coverage(withheld).is_unknown
    assert coverage(read, away, once=True).verdict == "No problems in 2 resources.", "it was read a moment ago"


# --- custom resources ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_problems_of_custom_resources_are_on_the_page_as_on_the_command_line(
    server: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.create(DEFINITION)
    ailing = condition("Ready", "False", LATER - time.time() + 60, reason="NoSecret", message="no secret")
    server.create(resource("a", ailing))
    async with serving_dashboard(server, ("v1/pods",), problems=True) as url:

        async def owners() -> list[str]:
            async with httpx.AsyncClient(base_url=url, timeout=60) as client:
                return [one["owner"]["name"] for one in (await client.get("/api/problems")).json()["items"]]

        await until(owners, holds=lambda names: names == ["a"])
    found = await CommandLine(capsys, server.url)("problems", "-A", "--grace", "0")
    assert "Widget/a" in found.out


@pytest.mark.virtual_time
async def test_custom_resources_that_are_defined_later_are_followed_and_removed_ones_are_let_go(
    server: APIServer,
) -> None:
    async with server.client() as client, SharedInformerFactory(client) as factory:
        scope = Scope(client, factory, None)
        await scope.update()
        async with Problems(factory, grace=0) as problems, scope.kept():
            await problems.wait_synced(10)
            before = scope.coverage(problems).resources
            server.create(DEFINITION)
            server.create(resource("a", condition("Ready", "False", LATER - time.time() + 60, reason="NoSecret")))
            await until(lambda: [one.owner.name for one in problems.lister.list()] == ["a"], seconds=90)
            assert scope.coverage(problems).resources == before + 1
            server.delete("apiextensions.k8s.io/v1/customresourcedefinitions", None, DEFINITION["metadata"]["name"])
            await until(lambda: "example.com/v1/widgets" not in problems.resources, seconds=90)
            assert scope.found(problems) == []
            assert scope.coverage(problems).verdict == f"No problems in {before} resources."
