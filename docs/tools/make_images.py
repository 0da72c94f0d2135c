"""Makes the pictures of README and site anew: `python -m docs.tools.make_images`; needs chromium and the group `dev`.

The pages are photographed in a real browser: a table on `kinformer dashboard --demo`, problems and changes on a cluster
of its own, in which some things are broken. The terminal is what `kinformer demo` draws.
The picture of the flow, docs/images/flow.svg, is drawn by hand.
"""

from __future__ import annotations

import asyncio
import io
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from kinformer import SharedInformerFactory
from kinformer.cli.demo.activity import Activity
from kinformer.cli.demo.screen import DemoScreen
from kinformer.cli.living.cluster import LivingCluster
from kinformer.testing import APIServer
from tests.cli.dashboard_page import serving_dashboard
from tests.support import kube
from tests.support.browser import browsing, missing, shows

IMAGES = Path(__file__).parent.parent / "images"
WIDTH, HEIGHT = 120, 30  # cells of the terminal
SHOWN = ("v1/pods", "apps/v1/deployments", "apps/v1/replicasets", "batch/v1/jobs", "v1/nodes", "v1/namespaces")
LIVES = 9.0  # seconds that the cluster has before its picture is taken
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

_COLOURS = [(24, 27, 34), (255, 112, 112), (98, 209, 140), (229, 192, 92)]
_COLOURS += [(108, 158, 255), (200, 140, 240), (92, 200, 216), (222, 226, 233)]
_BRIGHT = [(122, 130, 145), (255, 138, 138), (130, 226, 165), (240, 210, 130)]
_BRIGHT += [(140, 180, 255), (215, 165, 250), (130, 220, 232), (255, 255, 255)]
THEME = TerminalTheme((24, 27, 34), (222, 226, 233), _COLOURS, _BRIGHT)


async def photograph_page() -> None:
    """The page with an object beside its table, light and dark."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli", "dashboard", "--demo", "--port", "0"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().split()[0]
        async with browsing() as browser:
            for scheme, name in (("light", "dashboard.png"), ("dark", "dashboard-dark.png")):
                page = await browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
                await page.goto(f"{url}#/r/v1/pods")
                await asyncio.sleep(LIVES)
                await _open_one_that_changed(page)
                await page.screenshot(path=str(IMAGES / name))
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


async def photograph_overview() -> None:
    """The pages of problems and changes, light and dark."""
    async with APIServer() as server, browsing() as browser:
        cluster = LivingCluster(server)
        await cluster.start()
        break_some(server)
        life = asyncio.create_task(cluster.run())
        async with serving_dashboard(server, SHOWN, problems=True, grace=None) as url:
            for scheme, name in (("light", ""), ("dark", "-dark")):
                page = await browser.new_page(viewport={"width": 1280, "height": 560}, color_scheme=scheme)
                await page.goto(url)
                await shows(page, "document.querySelectorAll('#problem-list li').length", lambda count: count >= 5)
                await page.screenshot(path=str(IMAGES / f"problems{name}.png"))
                await page.goto(f"{url}/#/changes")
                await asyncio.sleep(LIVES)
                await page.click("#timeline-list .line:has-text('Running') >> nth=0")
                await shows(page, "document.querySelector('.opened').textContent", lambda text: "status.phase" in text)
                await page.screenshot(path=str(IMAGES / f"changes{name}.png"))
                await page.close()
        life.cancel()
        await asyncio.wait([life])


def break_some(server: APIServer) -> None:
    """Add objects with problems: crashes, a missing image, a node that is away, a claim without a volume."""
    for namespace, name, reason, count in (
        ("shop", "checkout", "CrashLoopBackOff", 3),
        ("search", "crawler", "ImagePullBackOff", 2),
    ):
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": f"{name}:1"}]},
        }
        metadata = {"name": name, "namespace": namespace}
        spec = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template}
        owner = server.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": owner["metadata"]["uid"]}
        for number in range(count):
            ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": ago(900)}}
            state = {"waiting": {"reason": reason, "message": f'Back-off pulling image "{name}:1"'}}
            container = {"name": "main", "ready": False, "restartCount": 7, "state": state, "lastState": ended}
            if reason == "ImagePullBackOff":
                del container["lastState"]
                container["restartCount"] = 0
            body = kube.pod(
                f"{name}-5d8f-{number}",
                namespace=namespace,
                node="node-2",
                ownerReferences=[{**reference, "controller": True}],
            )
            phase = "Running" if container["restartCount"] else "Pending"
            ready = {"type": "Ready", "status": "False", "lastTransitionTime": ago(900)}
            body["status"] = {
                "phase": phase,
                "containerStatuses": [container],
                "conditions": [ready],
                "startTime": ago(900),
            }
            server.create(body)
    away = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
    }
    conditions = [{**away, "lastTransitionTime": ago(300)}]
    server.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-9"}, "status": {"conditions": conditions}}
    )
    reasons = {
        "type": "Failed",
        "status": "True",
        "reason": "BackoffLimitExceeded",
        "message": "Job has reached the specified backoff limit",
    }
    template = {"spec": {"containers": [{"name": "main", "image": "migrate:1"}], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate", "namespace": "payments"},
        "spec": {"template": template},
    }
    server.create({**job, "status": {"failed": 6, "conditions": [{**reasons, "lastTransitionTime": ago(1200)}]}})
    gated = kube.pod("indexer-0", namespace="search", phase="Pending")
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": ago(600),
    }
    unschedulable["message"] = "0/5 nodes are available: 5 Insufficient memory."
    server.create({**gated, "status": {"phase": "Pending", "conditions": [unschedulable]}})


def ago(seconds: float) -> str:
    """Return a timestamp of the API."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


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
    await photograph_page()
    await photograph_overview()


if __name__ == "__main__":
    asyncio.run(main())
