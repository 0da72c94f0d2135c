"""The page of the dashboard by keyboard, under a resting pointer, and as axe-core finds it (contrast of 4.5 included).

Without chromium and playwright these tests are skipped, and say so; those of axe-core also without npm's registry.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kinformer.testing import APIServer, faults
from tests.cli.dashboard_page import BODY, FOCUS, NAMES, OPENED, TROUBLE, WITHHELD, Open, serving_dashboard
from tests.support import browser, kube, npm
from tests.support.browser import shows

pytestmark = [
    pytest.mark.process,
    pytest.mark.tools,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing()),
]

AXE = "axe-core@4.10.3"
DIMMED = "Number(getComputedStyle(document.querySelector('.view:not([hidden])')).opacity) < 0.8"
SQUARE = "document.activeElement.key ?? ''"
CARD = "document.activeElement.closest('.card')?.querySelector('.node-name').textContent ?? ''"
TAB = "document.querySelector('[role=tab][aria-selected=true]').dataset.tab"

pod = partial(kube.pod, node="node-a")


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return [
        *(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": ready}
            for name in ("node-a", "node-b")
        ),
        *(pod(f"web-{number}", labels={"app": "web"}) for number in range(3)),
        kube.pod("cart", node="node-b", labels={"app": "cart"}),
    ]


# --- by keyboard --------------------------------------------------------------------------------------------------


async def test_keys_open_the_tabs_of_an_object_and_leave_the_focus_in_the_table(opened: Open) -> None:
    page = await opened(dashboard={"picks": True})
    await shows(page, NAMES, lambda names: len(names) == 4)
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    assert await page.evaluate(FOCUS) == "scroll"
    active = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))?.title"
    await shows(page, active, lambda title: title == "default/web-0")
    for key, tab in (("y", "yaml"), ("c", "changes"), ("e", "events"), ("s", "summary")):
        await page.keyboard.press(key)
        await shows(page, OPENED, lambda name: name == "web-0")
        assert await page.evaluate(TAB) == tab
        assert await page.evaluate(FOCUS) == "scroll"
    await page.keyboard.press("y")
    await page.keyboard.press("j")
    await shows(page, BODY, lambda text: "name: web-1" in text)
    await page.keyboard.press("Escape")
    await shows(page, OPENED, lambda name: name == "")
    assert await page.evaluate(FOCUS) == "scroll"
    await page.keyboard.press("Enter")
    await shows(page, OPENED, lambda name: name == "web-1")
    assert await page.evaluate(FOCUS) == "scroll"


async def test_escape_inside_the_object_gives_the_focus_back_to_the_table(server: APIServer, opened: Open) -> None:
    page = await opened()
    await shows(page, NAMES, lambda names: len(names) == 4)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    link = page.locator(".relations a")
    await link.focus()
    server.update(kube.pod("cart", node="node-b", labels={"app": "cart", "v": "2"}))
    await shows(page, BODY, lambda text: "v 2" in text)
    assert await page.evaluate("document.activeElement.textContent") == "node-b", "an update keeps the focus"
    await page.keyboard.press("Enter")
    await shows(page, OPENED, lambda name: name == "node-b")
    assert await page.evaluate(FOCUS) == "detail-body"
    await page.keyboard.press("Escape")
    assert await page.evaluate(FOCUS) == "scroll"


async def test_the_arrows_move_among_the_tabs(opened: Open) -> None:
    page = await opened("#/r/v1/pods?open=v1/pods+default/cart")
    await shows(page, BODY)
    await page.focus("#tab-summary")
    await page.keyboard.press("ArrowRight")
    assert await page.evaluate(FOCUS) == "tab-changes"
    assert await page.evaluate(TAB) == "changes"
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowLeft")
    assert await page.evaluate(TAB) == "yaml"
    await shows(page, BODY, lambda text: "name: cart" in text)


async def test_enter_in_the_filter_goes_on_to_the_rows_that_it_left(opened: Open) -> None:
    page = await opened()
    await shows(page, NAMES, lambda names: len(names) == 4)
    await page.keyboard.press("/")
    await page.keyboard.type("web-1")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Enter")
    await shows(page, OPENED, lambda name: name == "web-1")


async def test_the_node_map_by_keyboard(server: APIServer, opened: Open) -> None:
    page = await opened("#/nodes")
    await shows(page, "document.querySelectorAll('#grid .pod').length === 4")
    await page.focus(".node-name")
    await page.keyboard.press("Tab")
    assert await page.evaluate(SQUARE) == "default/web-0"
    await page.keyboard.press("ArrowRight")
    assert await page.evaluate(SQUARE) == "default/web-1"
    await page.keyboard.press("End")
    assert await page.evaluate(SQUARE) == "default/cart"
    assert await page.evaluate(CARD) == "node-b"
    await page.keyboard.press("Home")
    assert await page.evaluate(SQUARE) == "default/web-0"
    await page.keyboard.press("Enter")
    await shows(page, OPENED, lambda name: name == "web-0")
    server.create(kube.pod("late", node="node-0"))
    server.update(pod("web-0", phase="Failed"))
    await shows(page, "document.querySelectorAll('#grid .card').length === 3")
    await page.keyboard.press("Escape")
    assert await page.evaluate(SQUARE) == "default/web-0", "neither a new card nor a change takes the focus"
    await page.keyboard.press("y")
    await shows(page, BODY, lambda text: "name: web-0" in text)
    await page.keyboard.press("Escape")
    server.delete("v1/pods", "default", "web-0")
    await shows(page, SQUARE, lambda key: key == "default/web-1")
    await page.set_viewport_size({"width": 360, "height": 700})
    await page.keyboard.press("ArrowDown")
    await shows(page, SQUARE, lambda key: key == "default/cart")
    await page.keyboard.press("ArrowUp")
    await shows(page, CARD, lambda card: card == "node-a")


async def test_the_squares_of_a_node_are_in_the_order_of_their_names(server: APIServer, opened: Open) -> None:
    page = await opened("#/nodes")
    keys = "[...document.querySelectorAll('#grid .pod')].map(one => one.key.split('/')[1])"
    for name in ("web-11", "a", "web-05"):
        server.create(pod(name))
    await shows(page, keys, lambda names: names == ["a", "web-0", "web-05", "web-1", "web-11", "web-2", "cart"])


# --- under a pointer ----------------------------------------------------------------------------------------------


async def test_rows_keep_their_places_while_the_pointer_rests_on_them(server: APIServer, opened: Open) -> None:
    page = await opened()
    shown = (
        "[...document.querySelectorAll('#body .row')].filter(r => !r.hidden).map(r => [r.at, r.row.k.split('/')[1]])"
    )
    places = f"{shown}.sort((a, b) => a[0] - b[0]).map(one => one[1])"
    await shows(page, places, lambda names: names == ["cart", "web-0", "web-1", "web-2"])
    await page.hover("#body .row[title='default/web-1']")
    server.create(pod("a-first"))
    server.delete("v1/pods", "default", "web-0")
    server.update(pod("web-1", phase="Failed", labels={"app": "web"}))
    await shows(page, places, lambda names: names == ["cart", "web-0", "web-1", "web-2", "a-first"])
    assert await page.evaluate("document.querySelector('.row.gone').title") == "default/web-0"
    await shows(page, "document.getElementById('held').textContent", lambda text: text.startswith("1 new, 1 gone"))
    under = "document.querySelector('#body .row:hover').title"
    assert await page.evaluate(under) == "default/web-1"
    await shows(page, "document.querySelector('#body .row:hover').textContent", lambda text: "Failed" in text)
    await page.mouse.move(5, 5)
    await shows(page, places, lambda names: names == ["a-first", "cart", "web-1", "web-2"])
    assert await page.evaluate("document.getElementById('held').textContent") == ""


# --- as axe-core finds it -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def axe(request: pytest.FixtureRequest) -> str:
    cache: Path = request.config.cache.mkdir("npm")
    try:
        return (npm.package(AXE, cache) / "axe.min.js").read_text(encoding="utf-8")
    except npm.NotFetchedError as error:
        pytest.skip(str(error))


async def violations(page: Any, axe: str) -> list[str]:
    """What axe-core finds, of any weight that is at least serious, once nothing moves any more."""
    await page.emulate_media(reduced_motion="reduce")
    await asyncio.sleep(0.3)  # transitions that had begun
    await page.evaluate(axe)
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['impact']} {one['id']}: {node['target']} {node['any'][0]['message'] if node['any'] else node['html']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_axe_finds_nothing_serious(server: APIServer, opened: Open, axe: str, scheme: str, width: int) -> None:
    for number, phase in enumerate(("Failed", "Pending", "Succeeded")):
        server.create(pod(f"other-{number}", phase=phase))
    script = {"run.sh": "#!/bin/sh\nexit 1\n"}
    server.create(kube.config_map("scripts", data=script))
    size = {"width": width, "height": 800}
    dashboard = {"problems": True, "resources": ("v1/pods", "v1/nodes", "v1/configmaps")}
    page = await opened(dashboard=dashboard, pods=7, color_scheme=scheme, viewport=size)

    async def look(place: str) -> None:
        assert await violations(page, axe) == [], place

    for place in ("#/r/v1/pods?labels=app+in", "#/r/v1/pods?level=bad", "#/nodes", "#/health", "#/problems"):
        await page.evaluate(f"location.hash = {place!r}")
        if place == "#/problems":
            await shows(page, "document.querySelectorAll('#problem-list li').length")
        await look(place)
    await page.evaluate("location.hash = '#/changes?noise=1'")
    server.update(pod("other-1", phase="Running", labels={"app": "other"}))
    await page.click("#timeline-list .line")
    await shows(page, "document.querySelector('.opened').textContent", lambda text: "status.phase" in text)
    await look("the timeline")
    await page.evaluate("location.hash = '#/r/v1/pods?open=v1/pods+default/web-1&tab=logs'")
    await shows(page, BODY, lambda text: "generated line" in text)
    await page.fill(".logs input", "generated")
    await shows(page, "document.querySelectorAll('.log mark').length")
    await look("the logs")
    await page.evaluate("location.hash = '#/r/v1/pods?open=v1/pods+default/web-1'")
    await shows(page, BODY, lambda text: "registry.example" in text)
    await look("the summary")
    server.update(pod("web-1", phase="Failed", labels={"app": "other", "new": "yes"}))
    await page.keyboard.press("c")
    await shows(page, BODY, lambda text: "status.phase" in text)
    await look("the changes")
    await page.evaluate("location.hash = '#/r/v1/configmaps?open=v1/configmaps+default/scripts&tab=yaml'")
    await shows(page, BODY, lambda text: "run.sh: |" in text)
    await look("the YAML")
    await page.keyboard.press("Escape")
    for key in ("r", "?"):
        await page.keyboard.press(key)
        await shows(page, "document.querySelector('dialog[open]') !== null")
        await asyncio.sleep(0.3)
        await look(f"the dialog of {key}")
        await page.keyboard.press("Escape")
    if width < 900:
        await page.click("#menu")
        await look("the navigation")
        await page.keyboard.press("Escape")
    await page.evaluate("location.hash = '#/health'")
    await page.click(".informer summary")
    await look("the figures of an informer")
    await page.evaluate("location.hash = '#/r/v1/pods?open=v1/pods+default/web-1&tab=yaml'")
    await shows(page, BODY, lambda text: "name: web-1" in text)
    server.delete("v1/pods", "default", "web-1")
    await shows(page, "!document.getElementById('detail-gone').hidden")
    await look("an object that is gone")
    await page.keyboard.press("Escape")
    server.faults.add(faults.status(403), resource="v1/configmaps")
    await server.restart()
    await shows(page, TROUBLE, lambda text: "403" in text)
    await page.evaluate("location.hash = '#/r/v1/configmaps'")
    await look("the banner")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
async def test_axe_finds_nothing_serious_in_a_page_of_few_rights(axe: str, scheme: str, width: int) -> None:
    rules = [("eve", verb, "v1/pods") for verb in ("list", "watch")]
    async with (
        APIServer(users={"secret": "eve"}, rules=rules) as server,
        serving_dashboard(server, problems=True, user="eve") as url,
        browser.browsing() as chromium,
    ):
        page = await chromium.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
        await page.goto(url)
        await shows(page, WITHHELD, lambda text: "not yours to read" in text)
        await page.click("#withheld summary")
        assert await violations(page, axe) == []
        if width < 900:
            await page.click("#menu")
            assert await violations(page, axe) == [], "with locks"
        await page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious_while_the_server_of_the_page_is_gone(
    server: APIServer, axe: str, scheme: str
) -> None:
    for number, phase in enumerate(("Failed", "Pending", "Succeeded")):
        server.create(pod(f"other-{number}", phase=phase))
    async with browser.browsing() as chromium:
        page = await chromium.new_page(color_scheme=scheme)
        async with serving_dashboard(server) as url:
            await page.goto(f"{url}/#/r/v1/pods?open=v1/pods+default/web-1")
            await shows(page, BODY, lambda text: "registry.example" in text)
            await shows(page, NAMES, lambda names: len(names) == 7)
        await shows(page, TROUBLE, lambda text: text.startswith("The server of this page has not answered for"))
        for place in ("#/r/v1/pods?open=v1/pods+default/web-1", "#/nodes", "#/health", "#/changes"):
            await page.evaluate(f"location.hash = {place!r}")
            await shows(page, DIMMED)
            assert await violations(page, axe) == [], place
        await page.close()
