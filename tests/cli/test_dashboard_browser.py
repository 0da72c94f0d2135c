"""The dashboard's page in a real browser: it follows the cluster, survives what happens, and shows text as text.

Without chromium and playwright these tests are skipped, and say so.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from kinformer.testing import APIServer, faults
from tests.cli.dashboard_page import (
    CHOSEN,
    NAMES,
    NAMESPACES,
    PODS,
    SORTED,
    TROUBLE,
    WITHHELD,
    Open,
    serving_dashboard,
)
from tests.support import browser, kube
from tests.support.browser import browsing, shows
from tests.support.ports import reserved_port

pytestmark = [
    pytest.mark.process,
    pytest.mark.tools,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing()),
]

pod = partial(kube.pod, node="node-a")


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}, "status": ready},
        *(pod(f"web-{number}", labels={"app": "web"}) for number in range(3)),
        pod("cart", namespace="shop", labels={"app": "cart"}),
    ]


async def test_the_table_follows_every_change(server: APIServer, opened: Open) -> None:
    page = await opened()
    assert await shows(page, NAMES, lambda names: len(names) == 4) == ["cart", "web-0", "web-1", "web-2"]
    server.create(pod("new"))
    await shows(page, NAMES, lambda names: "new" in names)
    server.update(pod("web-1", phase="Failed", labels={"app": "web"}))
    cells = "[...document.querySelectorAll('#body .row')].find(r => r.title === 'default/web-1')?.textContent ?? ''"
    await shows(page, cells, lambda text: "Failed" in text)
    server.delete("v1/pods", "default", "web-0")
    await shows(page, NAMES, lambda names: "web-0" not in names and len(names) == 4)
    assert await page.evaluate("document.getElementById('count').textContent") == "4"


async def test_filters_by_text_labels_and_namespace(opened: Open) -> None:
    page = await opened()
    await page.fill("#text", "WEB-1")
    await shows(page, NAMES, lambda names: names == ["web-1"])
    await page.fill("#text", "")
    await page.fill("#selector", "app in (cart), !none")
    await shows(page, NAMES, lambda names: names == ["cart"])
    await page.fill("#selector", "app=(")
    await shows(page, "document.getElementById('selector').classList.contains('wrong')")
    await shows(page, NAMES, lambda names: names == [])
    await page.fill("#selector", "app!=cart")
    await shows(page, NAMES, lambda names: names == ["web-0", "web-1", "web-2"])
    await page.fill("#selector", "")
    await shows(page, "document.getElementById('namespace').options.length === 3")
    await page.select_option("#namespace", "shop")
    await shows(page, NAMES, lambda names: names == ["cart"])
    await page.keyboard.press("Escape")


async def test_a_count_has_two_numbers_only_with_a_filter_and_a_button_clears_it(
    server: APIServer, opened: Open
) -> None:
    page = await opened()
    count, clear = "document.getElementById('count').textContent", "document.getElementById('clear').hidden"
    await shows(page, count, lambda text: text == "4")
    assert await page.evaluate(clear)
    await page.evaluate("kinformer.table.shown = 3; kinformer.table.tell()")
    assert await page.evaluate(count) == "4", "the rows may be a moment behind"
    await page.fill("#text", "web")
    await page.select_option("#namespace", "default")
    await shows(page, count, lambda text: text == "3 of 4")
    await page.click("#clear")
    await shows(page, count, lambda text: text == "4")
    assert await page.evaluate(f"[document.getElementById('text').value, {CHOSEN}, {clear}]") == ["", "", True]
    assert await page.evaluate("document.activeElement.id") == "text"


async def test_a_narrow_screen_keeps_the_namespace_and_unfolds_the_navigation(server: APIServer, opened: Open) -> None:
    page = await opened(viewport={"width": 390, "height": 844})
    await shows(page, NAMES, lambda names: len(names) == 4)
    under = "getComputedStyle(document.querySelector('#body .row[title^=shop] .cell'), '::after').content"
    assert await page.evaluate(under) == '"shop"'
    entries = "[...document.querySelectorAll('#views a:not(.ill)')].filter(one => one.checkVisibility()).length"
    assert await page.evaluate(entries) == 0
    assert await page.evaluate("document.getElementById('menu').textContent") == "Pods"
    await page.focus("#menu")
    await page.keyboard.press("Enter")
    assert await page.evaluate(entries) == 5
    assert await page.evaluate("document.getElementById('menu').getAttribute('aria-expanded')") == "true"
    await page.keyboard.press("Escape")
    assert await page.evaluate(entries) == 0
    assert await page.evaluate("document.activeElement.id") == "menu"
    await page.click("#menu")
    await page.click("#views a[href*='/nodes']")
    await shows(page, "document.getElementById('menu').textContent === 'Pods by node'")
    assert await page.evaluate(entries) == 0


async def test_many_nodes_of_few_pods_use_the_width_of_their_cards(server: APIServer, opened: Open) -> None:
    for number in range(100):
        server.create(kube.pod(f"many-{number:03}", node=f"node-{number // 10}"))
    page = await opened("#/nodes", pods=104, viewport={"width": 1440, "height": 900})
    await shows(page, "document.querySelectorAll('#grid .card').length === 11")
    used = """(() => { const pods = document.querySelector('[aria-label="pods on node-3"]'), last = pods.children[9];
        return (last.getBoundingClientRect().right - pods.getBoundingClientRect().left) / pods.clientWidth; })()"""
    await shows(page, used, lambda share: share > 0.95)


async def test_a_namespace_stays_chosen_when_its_last_object_goes(server: APIServer, opened: Open) -> None:
    page = await opened()
    await shows(page, NAMESPACES, lambda namespaces: "shop" in namespaces)
    await page.select_option("#namespace", "shop")
    await shows(page, NAMES, lambda names: names == ["cart"])
    server.delete("v1/pods", "shop", "cart")
    await shows(page, NAMES, lambda names: names == [])
    await page.evaluate("kinformer.store.report = null")
    await shows(page, "kinformer.store.report")
    assert await page.evaluate(CHOSEN) == "shop"
    server.create(pod("cart", namespace="shop"))
    await shows(page, NAMES, lambda names: names == ["cart"])
    server.delete("v1/pods", "shop", "cart")
    await page.select_option("#namespace", "")
    await shows(page, NAMES, lambda names: names == ["web-0", "web-1", "web-2"])
    await shows(page, NAMESPACES, lambda namespaces: namespaces == ["", "default"])


async def test_columns_sort(server: APIServer, opened: Open) -> None:
    server.update(pod("web-1", phase="Failed", labels={"app": "web"}))
    page = await opened()
    await shows(page, NAMES, lambda names: len(names) == 4)
    await page.click("#head [data-column=STATUS]")
    await shows(page, NAMES, lambda names: names[:1] == ["web-1"])
    await page.click("#head [data-column=STATUS]")
    await shows(page, NAMES, lambda names: names[-1:] == ["web-1"])


async def test_a_sort_stays_when_its_column_has_no_room(server: APIServer, opened: Open) -> None:
    page = await opened()
    await shows(page, NAMES, lambda names: len(names) == 4)
    await page.click("#head [data-column=NODE]")
    server.update({**(moved := pod("web-2")), "spec": {**moved["spec"], "nodeName": "node-0"}})
    await shows(page, NAMES, lambda names: names == ["web-2", "web-0", "web-1", "cart"])
    await page.set_viewport_size({"width": 560, "height": 700})
    await shows(page, SORTED, lambda columns: columns == [])
    server.create(pod("apart"))
    await shows(page, NAMES, lambda names: names == ["web-2", "apart", "web-0", "web-1", "cart"])
    await page.set_viewport_size({"width": 1280, "height": 700})
    await shows(page, SORTED, lambda columns: columns == ["NODE"])


async def test_the_keyboard_is_enough(opened: Open) -> None:
    page = await opened()
    await shows(page, NAMES, lambda names: len(names) == 4)
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await shows(page, "document.getElementById('detail-name').textContent === 'web-0'")
    await page.keyboard.press("j")
    await shows(page, "document.getElementById('detail-name').textContent === 'web-1'")
    await page.keyboard.press("Escape")
    await shows(page, "document.getElementById('detail').hidden")
    await page.keyboard.press("/")
    assert await page.evaluate("document.activeElement.id") == "text"
    await page.keyboard.type("cart")
    await shows(page, NAMES, lambda names: names == ["cart"])
    await page.keyboard.press("Escape")
    await shows(page, NAMES, lambda names: len(names) == 4)
    await page.keyboard.press("h")
    await shows(page, "!document.getElementById('health').hidden")
    await page.focus(".informer summary")
    assert not await page.evaluate("document.querySelector('.informer .measures').checkVisibility()"), "folded at first"
    await page.keyboard.press("Enter")
    await shows(page, "document.querySelector('.informer .measures').checkVisibility()")
    await page.keyboard.press("n")
    await shows(page, "!document.getElementById('nodes').hidden")
    await page.keyboard.press("?")
    await shows(page, "document.getElementById('keys').open")


async def test_an_object_shows_what_changed_in_it(server: APIServer, opened: Open) -> None:
    page = await opened()
    await page.click("#body .row[title='default/web-2']")
    body = "document.getElementById('detail-body').textContent"
    await shows(page, body, lambda text: "registry.example/app:1" in text)
    await page.click("[data-tab=changes]")
    await shows(page, body, lambda text: "Nothing has changed" in text)
    server.update(pod("web-2", phase="Failed", labels={"app": "web"}))
    await shows(page, body, lambda text: '"Running"' in text and '"Failed"' in text and "status.phase" in text)
    await page.click("[data-tab=yaml]")
    await shows(page, body, lambda text: "phase: Failed" in text)
    server.delete("v1/pods", "default", "web-2")
    await shows(page, "document.getElementById('detail').classList.contains('gone')")


async def test_an_object_of_which_only_the_row_is_left_is_shown_as_it_was(server: APIServer, opened: Open) -> None:
    page = await opened()
    server.create(pod("doomed"))
    await shows(page, NAMES, lambda names: "doomed" in names)
    await page.evaluate("kinformer.store.close()")  # the page hears of the deletion when it looks again
    server.delete("v1/pods", "default", "doomed")
    await page.click("#body .row[title='default/doomed']")
    line = "document.getElementById('detail-gone').hidden ? '' : document.getElementById('detail-gone').textContent"
    await shows(page, line, lambda text: text == "It is gone. You see its last known state.")
    body = "document.getElementById('detail-body').textContent"
    await shows(page, body, lambda text: "registry.example/app:1" in text)
    await page.keyboard.press("y")
    await shows(page, body, lambda text: "name: doomed" in text)
    await page.evaluate("kinformer.store.open()")
    await page.keyboard.press("Escape")
    await page.evaluate("location.hash = '#/r/v1/pods?open=v1/pods+default/never'")
    await shows(page, body, lambda text: text == "It is gone.")
    assert await page.evaluate(line) == ""


async def test_an_object_that_could_not_be_read_and_goes_is_gone(server: APIServer, opened: Open) -> None:
    page = await opened()
    await shows(page, NAMES, lambda names: len(names) == 4)
    await page.route("**/api/object?*", lambda route: route.abort())
    await page.click("#body .row[title='default/web-2']")
    body = "document.getElementById('detail-body').textContent"
    await shows(page, body, lambda text: text.startswith("It cannot be read"))
    server.delete("v1/pods", "default", "web-2")
    await shows(page, body, lambda text: text == "It is gone.")


async def test_what_a_cluster_holds_is_text_and_nothing_else(server: APIServer, opened: Open) -> None:
    evil = "<img src=x onerror='globalThis.pwned=1'><script>globalThis.pwned=1</script>"
    more = {"labels": {"app": "web"}, "annotations": {"note": evil}}
    nasty = pod("nasty", phase=evil, **more)
    nasty["spec"]["containers"][0]["image"] = evil
    nasty["spec"]["nodeName"] = evil
    page = await opened()
    server.create(nasty)
    await shows(page, NAMES, lambda names: "nasty" in names)
    await page.click("#body .row[title='default/nasty']")
    body = "document.getElementById('detail-body').textContent"
    await shows(page, body, lambda text: evil in text)
    server.update({**nasty, "metadata": {**nasty["metadata"], "annotations": {"note": evil + evil}}})
    for tab in ("yaml", "changes"):
        await page.click(f"[data-tab={tab}]")
        await shows(page, body, lambda text: "onerror=" in text)
    await page.keyboard.press("n")
    await shows(page, "document.getElementById('grid').textContent", lambda text: evil in text)
    assert await page.evaluate("globalThis.pwned === undefined")
    foreign = "document.querySelectorAll('main img, main script, aside img, aside script').length"
    assert await page.evaluate(foreign) == 0


async def test_pods_are_squares_on_their_nodes(server: APIServer, opened: Open) -> None:
    page = await opened("#/nodes")
    squares = "[...document.querySelectorAll('#grid .pod')].map(one => `${one.key} ${one.className}`).sort()"
    await shows(page, squares, lambda found: len(found) == 4 and all("good" in one for one in found))
    server.update(pod("web-1", phase="Failed", labels={"app": "web"}))
    await shows(page, squares, lambda found: "default/web-1 pod bad" in found)
    server.delete("v1/pods", "default", "web-0")
    await shows(page, squares, lambda found: len(found) == 3)
    await page.fill("#text", "cart")
    await shows(page, squares, lambda found: sum("dim" in one for one in found) == 2)
    down = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    server.update({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}, "status": down})
    await shows(page, "document.querySelector('.node.ill .status')?.textContent === 'NotReady'")


async def test_a_card_goes_with_its_last_pod_also_when_that_moves(server: APIServer, opened: Open) -> None:
    page = await opened("#/nodes")
    cards = "[...document.querySelectorAll('#grid .node-name')].map(one => one.textContent)"
    waiting = pod("late", phase="Pending")
    server.create({**waiting, "spec": {"containers": waiting["spec"]["containers"]}})
    await shows(page, cards, lambda found: found == ["not on a node", "node-a"])
    server.update(waiting)
    await shows(page, cards, lambda found: found == ["node-a"])


async def test_informers_are_charts_that_move(server: APIServer, opened: Open) -> None:
    page = await opened("#/health")
    card = "[...kinformer.health.cards.cards.values()][0]"
    charts = f"Object.values({card}?.charts ?? {{}}).map(chart => chart.values.length)"
    await shows(page, charts, lambda lengths: min(lengths, default=0) >= 3)
    await page.click(".informer summary")
    drawn = """(() => { const c = document.querySelector('.chart.memory');
        return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0) })()"""
    assert await shows(page, drawn)
    await shows(page, "document.querySelectorAll('.informer').length === 2")


async def test_a_restart_of_the_api_server_is_shown_and_survived(server: APIServer, opened: Open) -> None:
    page = await opened()
    restarting = asyncio.create_task(server.restart(downtime=2.5))
    told = "The API server has not been reachable for"
    await shows(page, TROUBLE, lambda text: text.startswith(told) and "connection refused" in text, 10)
    assert "Showing the last known state." in (banner := await page.evaluate(TROUBLE))
    assert banner.count(told) == 1, "one cause, one line"
    await shows(page, "document.getElementById('link').textContent === '0 of 2 live'")
    assert await page.evaluate(PODS) == 4, "the last good state stays"
    await restarting
    server.create(pod("after"))
    await shows(page, NAMES, lambda names: "after" in names)
    await shows(page, TROUBLE, lambda text: text == "")


async def test_a_permission_that_is_revoked_is_named(server: APIServer, opened: Open) -> None:
    page = await opened()
    fault = server.faults.add(faults.status(403), resource="v1/pods")
    await server.restart()
    await shows(
        page,
        TROUBLE,
        lambda text: "v1/pods: no right to list and watch" in text or ("v1/pods" in text and "403" in text),
    )
    await shows(page, "document.querySelector('nav .dot.bad') !== null")
    fault.remove()
    await shows(page, TROUBLE, lambda text: text == "")


async def test_what_may_not_be_listed_is_said_where_it_would_be(server: APIServer) -> None:
    server.faults.add(faults.status(403), resource="v1/nodes")
    async with serving_dashboard(server) as url, browsing() as chromium:
        page = await chromium.new_page()
        await page.goto(f"{url}/#/r/v1/nodes")
        await shows(page, "document.getElementById('nothing').textContent", lambda text: "403" in text)
        await shows(page, WITHHELD, lambda text: text.startswith("1 of 2 resources is not yours to read"))
        assert await page.evaluate(TROUBLE) == ""
        await shows(page, "document.getElementById('link').textContent === '1 of 2 live'")
        assert await page.evaluate("document.querySelector('nav .dot.bad, nav .dot.good')") is None


async def test_ten_thousand_changes_lead_to_the_truth(server: APIServer, opened: Open) -> None:
    page = await opened()
    for turn in range(200):
        for number in range(50):
            body = pod(f"busy-{number}", phase="Running" if turn % 2 else "Pending", labels={"turn": str(turn)})
            (server.create if turn == 0 else server.update)(body)
        await asyncio.sleep(0)
    server.delete("v1/pods", "default", "busy-11")
    wanted = {f"default/busy-{number}" for number in range(50) if number != 11}
    rows = "Object.fromEntries([...kinformer.table.rows.values()].map(row => [row.k, row.c[1]]))"
    await page.fill("#selector", "turn=199")
    await shows(page, rows, lambda found: set(found) == wanted and set(found.values()) == {"Running"}, 60)
    await shows(page, NAMES, lambda names: "busy-10" in names and "busy-11" not in names)


async def test_of_thousands_of_rows_only_those_in_sight_are_elements(server: APIServer) -> None:
    for _ in server.generate("v1/pods", 3000):
        await asyncio.sleep(0)
    async with serving_dashboard(server) as url, browsing() as chromium:
        page = await chromium.new_page()
        await page.goto(f"{url}/#/r/v1/pods")
        await shows(page, f"globalThis.kinformer && {PODS} === 3004", seconds=60)
        assert await page.evaluate("document.querySelectorAll('#body .row').length") < 80
        seen = await shows(page, NAMES, lambda names: len(names) > 10)
        await page.evaluate("document.getElementById('scroll').scrollTop = 1e9")
        await shows(page, NAMES, lambda names: set(names).isdisjoint(seen) and len(names) > 10)
        assert await page.evaluate("document.querySelectorAll('#body .row').length") < 80


async def test_an_address_that_is_no_encoding_opens_the_page_all_the_same(opened: Open) -> None:
    page = await opened("#/r/v1/pods?%&x")
    await shows(page, NAMES, lambda names: len(names) == 4)


@pytest.mark.parametrize("place", ["#/r/v1/pods", "#/nodes", "#/health", "#/problems", "#/changes"])
async def test_a_narrow_screen_shows_all_of_it(server: APIServer, opened: Open, place: str) -> None:
    page = await opened(place, dashboard={"problems": True}, viewport={"width": 360, "height": 700})
    server.create(pod("broken", phase="Failed"))
    if place in ("#/problems", "#/changes"):
        await shows(page, "document.querySelector('.view:not([hidden]) .sheet').textContent.includes('broken')")
    await shows(page, "document.documentElement.scrollWidth <= 360")
    if place.startswith("#/r"):
        shown = "[...document.querySelectorAll('#head .cell')].map(cell => cell.dataset.column)"
        assert (await page.evaluate(shown))[:2] == ["NAME", "STATUS"]


async def test_light_and_dark_follow_the_system_and_the_button(opened: Open) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = await (await opened(color_scheme="light")).evaluate(ground)
    page = await opened(color_scheme="dark")
    dark = await page.evaluate(ground)
    assert light != dark
    await page.click("#theme")
    assert await page.evaluate(ground) == light
    await page.reload()
    await shows(page, ground, lambda now: now == light)


async def test_a_new_server_behind_the_page_is_noticed_and_believed(server: APIServer) -> None:
    async with AsyncExitStack() as stack:
        port = stack.enter_context(reserved_port())
        chromium = await stack.enter_async_context(browsing())
        page = await chromium.new_page()
        async with serving_dashboard(server, at=port) as url:
            await page.goto(f"{url}/#/r/v1/pods")
            await shows(page, f"globalThis.kinformer && {PODS} === 4")
        await shows(page, "document.getElementById('link').textContent === 'not connected'")
        await shows(page, TROUBLE, lambda text: text.startswith("The server of this page has not answered for"))
        dimmed = "getComputedStyle(document.getElementById('table')).opacity < '1'"
        await shows(page, dimmed)
        assert await page.evaluate(PODS) == 4, "the last state stays"
        server.delete("v1/pods", "default", "web-1")
        async with serving_dashboard(server, at=port):
            await shows(page, f"{PODS} === 3 && kinformer.store.linked")
            await shows(page, NAMES, lambda names: names == ["cart", "web-0", "web-2"])
            await shows(page, "document.getElementById('link').textContent === 'live'")
            await shows(page, TROUBLE, lambda text: text == "")
            await page.close()


async def test_a_new_server_behind_the_page_leaves_the_filter_as_it_was(server: APIServer) -> None:
    async with AsyncExitStack() as stack:
        port = stack.enter_context(reserved_port())
        chromium = await stack.enter_async_context(browsing())
        page = await chromium.new_page()
        async with serving_dashboard(server, at=port) as url:
            await page.goto(f"{url}/#/r/v1/pods")
            await shows(page, NAMESPACES, lambda namespaces: "shop" in namespaces)
            await page.select_option("#namespace", "shop")
            await shows(page, NAMES, lambda names: names == ["cart"])
        held = server.faults.add(faults.status(503))
        async with serving_dashboard(server, at=port):
            await shows(page, f"kinformer.store.linked && {PODS} === 0 && !kinformer.store.report.resources[0].synced")
            assert await page.evaluate(CHOSEN) == "shop", "a report without any row"
            held.remove()
            await shows(page, NAMES, lambda names: names == ["cart"])
            await page.close()


async def test_a_page_that_comes_back_into_sight_goes_on_where_it_was(server: APIServer, opened: Open) -> None:
    page = await opened()
    await page.fill("#text", "web")
    await shows(page, NAMES, lambda names: len(names) == 3)
    await page.evaluate("kinformer.store.close()")
    server.create(pod("web-missed"))
    server.create(pod("other"))
    await page.evaluate("kinformer.store.open()")
    await shows(page, NAMES, lambda names: names == ["web-0", "web-1", "web-2", "web-missed"])
