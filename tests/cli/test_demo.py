"""`kinformer demo`: the cluster that lives, what is shown of it, and how it ends.

Internals: the cluster, the screen and the command, since a process would need real seconds and many terminals.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from rich.console import Console

from kinformer import SharedInformerFactory
from kinformer.cli.demo.activity import Activity
from kinformer.cli.demo.command import demo
from kinformer.cli.demo.screen import DemoScreen
from kinformer.cli.living.ailing import AilingWorkloads
from kinformer.cli.living.cluster import NAMESPACES, LivingCluster
from kinformer.contrib.problems import Problems
from kinformer.testing import APIServer
from tests.cli.terminal import on_terminal
from tests.support.waiting import until

# --- the cluster ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def living(seed: int) -> AsyncIterator[APIServer]:
    """A server whose cluster has started, and lives."""
    async with APIServer() as server:
        cluster = LivingCluster(server, random.Random(seed), pause=(0.2, 0.8))
        await cluster.start()
        life = asyncio.create_task(cluster.run())
        try:
            yield server
        finally:
            life.cancel()
            await asyncio.wait({life})
            assert life.cancelled()


def of_kind(server: APIServer, resource: str) -> list[dict[str, Any]]:
    return list(server.list(resource))


def owners_are_there(server: APIServer) -> bool:
    """True if each pod has an owner, which exists under its uid, and each replica set belongs to a deployment."""
    owners = ("apps/v1/deployments", "apps/v1/replicasets", "batch/v1/jobs")
    uids = {obj["metadata"]["uid"] for resource in owners for obj in of_kind(server, resource)}
    owned = [*of_kind(server, "v1/pods"), *of_kind(server, "apps/v1/replicasets")]
    return all(obj["metadata"]["ownerReferences"][0]["uid"] in uids for obj in owned)


@pytest.mark.search
@pytest.mark.virtual_time
@pytest.mark.parametrize("seed", range(3))
async def test_a_cluster_lives_without_growing_and_without_dying_out(seed: int) -> None:
    phases: set[str] = set()
    down = []
    async with living(seed) as server:
        assert {pod["status"]["phase"] for pod in of_kind(server, "v1/pods")} == {"Running"}
        for _ in range(120):
            await asyncio.sleep(1)
            phases |= {pod["status"]["phase"] for pod in of_kind(server, "v1/pods")}
            assert 10 < len(of_kind(server, "v1/pods")) < 150
            assert len(of_kind(server, "batch/v1/jobs")) < 50
            assert len(of_kind(server, "v1/events")) <= 1100
            nodes = of_kind(server, "v1/nodes")
            down.append(sum(node["status"]["conditions"][-1]["status"] != "True" for node in nodes))
        await asyncio.sleep(0.5)
        assert owners_are_there(server)
    assert phases == {"Pending", "Running", "Succeeded", "Failed"}
    assert set(down) == {0, 1}, "a node that drops out comes back"


@pytest.mark.virtual_time
async def test_a_deployment_that_is_left_alone_has_the_pods_that_it_wants() -> None:
    async with APIServer() as server:
        await LivingCluster(server, random.Random(1)).start()
        for deployment in of_kind(server, "apps/v1/deployments"):
            app = deployment["metadata"]["name"]
            pods = [pod for pod in of_kind(server, "v1/pods") if pod["metadata"]["labels"]["app"] == app]
            assert {pod["status"]["phase"] for pod in pods} == {"Running"}
            assert deployment["status"]["readyReplicas"] == deployment["spec"]["replicas"] == len(pods)


# --- what is shown --------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 36), (200, 60), (60, 20), (60, 24), (60, 50), (79, 24)])
async def test_the_screen_fits_every_terminal(width: int, height: int) -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        await LivingCluster(server, random.Random(4)).start()
        resources = ("v1/pods", "apps/v1/deployments", "v1/nodes")
        pods, deployments, nodes = (factory.for_resource(resource) for resource in resources)
        heard = asyncio.Event()
        activity = Activity(lambda happening: heard.set(), clock=asyncio.get_running_loop().time)
        activity.listen(pods)
        await factory.wait_for_cache_sync(timeout=10, handlers=True)
        server.delete("v1/pods", "shop", next(pod.name for pod in pods.lister.list(namespace="shop")))
        await heard.wait()
        screen = DemoScreen(pods=pods, deployments=deployments, nodes=nodes, activity=activity, url=server.url)
        console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, color_system=None)
        console.print(screen.render(elapsed=61, footer="a [b]footer[/b]", height=height, width=width), height=height)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = text.splitlines()
    assert len(lines) == height
    assert {len(line) for line in lines} <= {width}
    for word in ("01:01", "DELETED", "a footer", "● watching", server.url, *([] if height < 24 else NAMESPACES)):
        assert word in text
    assert "…" not in text or width <= 80, "there is room for all of it, but for long names of pods"


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_the_demo_survives_its_restart_and_its_caches_equal_the_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await demo(duration=25, plain=True) == 0
    out = capsys.readouterr().out
    assert "v1/pods: synced with 31 objects" in out
    down, back = out.index("the API server is being restarted"), out.index("the API server is back")
    assert "UPDATED" in out[:down]
    assert "backing_off" in out[down:back]
    assert "UPDATED" in out[back:]
    assert re.search(r"The caches of 3 informers equal the server, object by object: \d+, after a restart", out)


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_the_demo_draws_on_a_screen_of_its_own_and_gives_it_back(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=120, height=36, file=io.StringIO(), force_terminal=True)
    assert await demo(duration=3, plain=False, console=console) == 0
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert drawn.index("\x1b[?1049h") < drawn.index("Pods, by the lister") < drawn.index("\x1b[?1049l")
    assert drawn.rindex("\x1b[?25l") < drawn.rindex("\x1b[?25h"), "the cursor is visible again"
    assert "\x1b[2J" not in drawn, "nothing is cleared between two pictures, so nothing flickers"
    ended = capsys.readouterr()
    assert "equal the server" in ended.out
    assert ended.err == ""


@pytest.mark.process
async def test_q_ends_the_demo_and_the_terminal_is_as_it_was() -> None:
    pty = pytest.importorskip("pty")
    termios = pytest.importorskip("termios")
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    loop = asyncio.get_running_loop()
    seen = bytearray()
    shown = asyncio.Event()

    def read() -> None:
        try:
            seen.extend(os.read(ours, 65536))
        except OSError:  # the other side has closed
            loop.remove_reader(ours)
        if b"1049h" in seen and b"Running" in seen:
            shown.set()

    os.set_blocking(ours, False)
    loop.add_reader(ours, read)
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli", "demo"),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"},
    )
    try:
        async with asyncio.timeout(60):
            await shown.wait()
            os.write(ours, b"q")
            _, err = await running.communicate()
        assert (running.returncode, err) == (0, b"")
        assert termios.tcgetattr(theirs) == before
        assert b"1049l" in seen
    finally:
        loop.remove_reader(ours)
        if running.returncode is None:
            running.kill()
            await running.wait()
        os.close(ours)
        os.close(theirs)


@pytest.mark.process
@pytest.mark.parametrize("arguments", [(), ("--plain",)])
async def test_ctrl_c_ends_the_demo_with_the_comparison_as_q_does(arguments: tuple[str, ...]) -> None:
    async with on_terminal("demo", *arguments, width=100, height=30) as terminal:
        await terminal.shows("Running")
        terminal.press("\x03")
        assert await terminal.ended() == 130
        assert b"The caches of 3 informers equal the server" in terminal.written
        assert "Traceback" not in terminal.text


@pytest.mark.process
async def test_a_reader_that_has_gone_ends_the_demo_quietly() -> None:
    reading, writing = os.pipe()
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli", "demo", "--plain"), stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert b"synced with" in await asyncio.to_thread(os.read, reading, 200)
    os.close(reading)
    async with asyncio.timeout(30):
        _, err = await running.communicate()
    assert (running.returncode, err) == (141, b"")


# --- troubles -------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_the_demo_of_the_dashboard_has_a_crash_loop_a_waiting_pod_and_a_node_that_goes_away() -> None:
    async with APIServer() as server, server.client() as client:
        cluster = LivingCluster(server, random.Random(1))
        await cluster.start()
        living = [asyncio.create_task(one.run()) for one in (cluster, AilingWorkloads(server))]
        async with SharedInformerFactory(client) as factory, Problems(factory) as problems:
            await problems.wait_synced(10)
            wanted = {("Deployment", "checkout", 5), ("Deployment", "embeddings", 1), ("Node", "node-6", 1)}

            def found() -> set[tuple[str, str, int]]:
                return {(one.owner.kind, one.owner.name, one.count) for one in problems.lister.list()}

            await until(lambda: wanted <= found(), seconds=30)
            await until(lambda: not any(name == "node-6" for _, name, _ in found()), seconds=180)
        for task in living:
            task.cancel()
        await asyncio.wait(living)
