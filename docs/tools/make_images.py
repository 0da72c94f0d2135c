"""Makes the pictures of README and site anew: `python -m docs.tools.make_images`; needs chromium and the group `dev`.

The pages are photographed in a real browser, on `kinformer dashboard --demo`. The terminal is what `kinformer demo`
draws. The picture of the flow, docs/images/flow.svg, is drawn by hand.
"""

from __future__ import annotations

import asyncio
import io
import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from kinformer import SharedInformerFactory
from kinformer.cli.demo.activity import Activity
from kinformer.cli.demo.screen import DemoScreen
from kinformer.cli.living.cluster import LivingCluster
from kinformer.testing import APIServer
from tests.support.browser import browsing, missing, shows

IMAGES = Path(__file__).parent.parent / "images"
WIDTH, HEIGHT = 120, 30  # cells of the terminal
LIVES = 9.0  # seconds that the cluster has before its picture is taken
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

_COLOURS = [(24, 27, 34), (255, 112, 112), (98, 209, 140), (229, 192, 92)]
_COLOURS += [(108, 158, 255), (200, 140, 240), (92, 200, 216), (222, 226, 233)]
_BRIGHT = [(122, 130, 145), (255, 138, 138), (130, 226, 165), (240, 210, 130)]
_BRIGHT += [(140, 180, 255), (215, 165, 250), (130, 220, 232), (255, 255, 255)]
THEME = TerminalTheme((24, 27, 34), (222, 226, 233), _COLOURS, _BRIGHT)


async def photograph_pages() -> None:
    """The table with an object beside it, the problems and the changes, light and dark."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli", "dashboard", "--demo", "--port", "0"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().split()[0]
        async with browsing() as browser:
            for scheme, name in (("light", ""), ("dark", "-dark")):
                page = await browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
                await page.goto(f"{url}#/r/v1/pods")
                await asyncio.sleep(LIVES)
                await _open_one_that_changed(page)
                await page.screenshot(path=str(IMAGES / f"dashboard{name}.png"))
                await page.close()
                page = await browser.new_page(viewport={"width": 1280, "height": 560}, color_scheme=scheme)
                await page.goto(url)
                await shows(page, "document.querySelectorAll('#problem-list li').length", lambda count: count >= 3)
                await page.screenshot(path=str(IMAGES / f"problems{name}.png"))
                await page.goto(f"{url}#/changes")
                await asyncio.sleep(LIVES)
                await page.click("#timeline-list .line:has-text('pods replaced') >> nth=0")
                await shows(page, "document.querySelectorAll('.opened .members li').length", lambda count: count >= 3)
                await page.evaluate("document.querySelector('.opened').parentElement.scrollIntoView()")
                await page.screenshot(path=str(IMAGES / f"changes{name}.png"))
                await page.close()
    finally:
        process.terminate()
        await process.wait()


async def _open_one_that_changed(page: Any) -> None:
    """Clicks on a pod that has just got its node, and waits for it to run."""
    new = (
        "[...document.querySelectorAll('#body .row')].find(one => one.textContent.includes('ContainerCreating'))?.title"
    )
    key = await shows(page, new)
    await page.click(f"#body .row[title='{key}']")
    await page.click("[data-tab=changes]")
    await shows(page, "document.getElementById('detail-body').textContent", lambda text: "Running" in text)


async def draw_terminal() -> None:
    """What `kinformer demo` shows, as a picture whose text can be selected."""
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        cluster = LivingCluster(server)
        await cluster.start()
        pods = factory.for_resource("v1/pods")
        deployments = factory.for_resource("apps/v1/deployments")
        nodes = factory.for_resource("v1/nodes")
        loop = asyncio.get_running_loop()
        began = loop.time()
        activity = Activity(clock=lambda: loop.time() - began)
        for informer in (pods, deployments, nodes):
            activity.listen(informer)
        life = asyncio.create_task(cluster.run())
        await asyncio.sleep(2 * LIVES)
        url = "http://127.0.0.1:8001"  # as it usually is; this one has a port of its own
        screen = DemoScreen(pods=pods, deployments=deployments, nodes=nodes, activity=activity, url=url)
        nowhere = io.StringIO()
        console = Console(file=nowhere, record=True, width=WIDTH, height=HEIGHT, force_terminal=True)
        footer = "all three caches follow the server"
        console.print(screen.render(elapsed=loop.time() - began, footer=footer, height=HEIGHT, width=WIDTH), end="")
        life.cancel()
        await asyncio.wait([life])
    svg = console.export_svg(title="kinformer demo", theme=THEME)
    svg = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)  # it would be fetched from elsewhere
    svg = svg.replace("Fira Code, monospace", FONTS).replace("Fira Code", "monospace")
    (IMAGES / "terminal.svg").write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE), encoding="utf-8")


async def main() -> None:
    """All of them."""
    if why := missing():
        sys.exit(why)
    await draw_terminal()
    await photograph_pages()


if __name__ == "__main__":
    asyncio.run(main())
