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
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

from kinformer import SharedInformerFactory
from kinformer.cli.demo.activity import Activity
from kinformer.cli.demo.command import demo
from kinformer.cli.demo.screen import DemoScreen
from kinformer.cli.living_cluster import NAMESPACES, LivingCluster
from kinformer.testing import APIServer
from tests.cli.terminal import on_terminal


class StrictServer:
    """Takes writes as a server would: no object twice, none changed or deleted that is not there."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.writes: Counter[str] = Counter()

    @staticmethod
    def _key(obj: Any) -> tuple[str, str, str]:
        return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]

    def create(self, obj: Any) -> None:
        assert self._key(obj) not in self.objects
        self.objects[self._key(obj)] = obj
        self.writes["create"] += 1

    def update(self, obj: Any) -> None:
        assert self._key(obj) in self.objects
        self.objects[self._key(obj)] = obj
        self.writes["update"] += 1

    def delete(self, resource: str, namespace: str, name: str) -> None:
        kinds = {"v1/pods": "Pod", "batch/v1/jobs": "Job", "v1/events": "Event"}
        del self.objects[kinds[resource], namespace, name]
        self.writes["delete"] += 1

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [obj for key, obj in self.objects.items() if key[0] == kind]


# --- the cluster ----------------------------------------------------------------------------------------------


def owners_are_there(server: StrictServer) -> bool:
    """True if each pod has an owner, which exists under its uid, and each replica set belongs to a deployment."""
    uids = {obj["metadata"]["uid"] for kind in ("Deployment", "ReplicaSet", "Job") for obj in server.of_kind(kind)}
    owned = [*server.of_kind("Pod"), *server.of_kind("ReplicaSet")]
    return all(obj["metadata"]["ownerReferences"][0]["uid"] in uids for obj in owned)


@pytest.mark.parametrize("seed", range(5))
def test_a_cluster_lives_without_growing_and_without_dying_out(seed: int) -> None:
    server = StrictServer()
    cluster = LivingCluster(server, random.Random(seed))
    cluster.populate()
    phases: set[str] = set()
    for _ in range(1200):
        cluster.step(0.1)
        phases |= {pod["status"]["phase"] for pod in server.of_kind("Pod")}
        assert 10 < len(server.of_kind("Pod")) < 150
        assert len(server.of_kind("Job")) < 50
        assert len(server.of_kind("Event")) <= 200
        assert owners_are_there(server)
    assert phases == {"Pending", "Running", "Succeeded", "Failed"}
    assert all(server.writes[verb] > 100 for verb in ("create", "update", "delete")), server.writes


def test_a_deployment_has_the_pods_that_it_wants_and_says_how_many_run() -> None:
    server = StrictServer()
    cluster = LivingCluster(server, random.Random(1))
    cluster.populate()
    for _ in range(300):
        cluster.step(0.1)
        for deployment in server.of_kind("Deployment"):
            own = [
                pod["status"]["phase"]
                for pod in server.of_kind("Pod")
                if pod["metadata"]["namespace"] == deployment["metadata"]["namespace"]
                and pod["metadata"]["labels"] == deployment["metadata"]["labels"]
            ]
            assert deployment["status"]["readyReplicas"] == own.count("Running")
            assert deployment["spec"]["replicas"] == own.count("Running") + own.count("Pending")


def test_a_node_that_drops_out_comes_back() -> None:
    server = StrictServer()
    cluster = LivingCluster(server, random.Random(2))
    cluster.populate()
    history = []
    for _ in range(400):
        cluster.step(0.1)
        ready = [node["status"]["conditions"][0]["status"] for node in server.of_kind("Node")]
        history.append(ready.count("False"))
    assert set(history) == {0, 1}
    assert sum(1 for before, after in pairwise(history) if before > after) >= 2


# --- what is shown --------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 36), (200, 60), (60, 20), (60, 24), (60, 50), (79, 24)])
async def test_the_screen_fits_every_terminal(width: int, height: int) -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        LivingCluster(server, random.Random(4)).populate()
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
    assert "…" not in text, "there is room for all of it"


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
