"""`kinformer demo` and `kinformer serve`: the cluster that lives, what is shown of it, and how they end."""

from __future__ import annotations

import asyncio
import io
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kinformer import Client, SharedInformerFactory
from kinformer.cli.commands import serve as serve_command
from kinformer.cli.demo.activity import Activity
from kinformer.cli.demo.command import demo
from kinformer.cli.demo.screen import DemoScreen
from kinformer.cli.living_cluster import NAMESPACES, LivingCluster
from kinformer.testing import APIServer
from tests.cli.terminal import on_terminal
from tests.support.cli import CommandLine


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
        assert resource == "v1/pods"
        del self.objects["Pod", namespace, name]
        self.writes["delete"] += 1

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [obj for key, obj in self.objects.items() if key[0] == kind]


# --- the cluster ----------------------------------------------------------------------------------------------


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


# --- serve ------------------------------------------------------------------------------------------------------


@pytest.mark.process
async def test_serve_fills_a_server_changes_it_and_ends_with_sigterm() -> None:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli", "serve", "--port", "0"),
        *("--objects", "pods=30", "--objects", "deployments=5", "--churn", "100"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    try:
        async with asyncio.timeout(30):
            url = (await running.stdout.readline()).decode().removeprefix("Serving ").strip()
            while (await running.stdout.readline()) != b"5 deployments\n":
                pass
            async with Client.from_url(url) as client, SharedInformerFactory(client) as factory:
                pods = factory.for_resource("v1/pods")
                async with pods.events() as events:
                    types = set()
                    while types != {"ADDED", "UPDATED", "DELETED"}:
                        types.add((await anext(events)).type)
                assert len(pods.lister) == 30
            running.send_signal(signal.SIGTERM)
            _, err = await running.communicate()
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    assert (running.returncode, err) == (0, b"")


@pytest.mark.process
async def test_serve_over_tls_writes_a_kubeconfig_with_which_clients_are_known(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli", "serve", "--port", "0"),
        *("--tls", "--write-kubeconfig", str(kubeconfig)),
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    try:
        async with asyncio.timeout(30):
            assert (await running.stdout.readline()).startswith(b"Serving https://127.0.0.1:")
            assert f"--kubeconfig {kubeconfig}".encode() in await running.stdout.readline()
            async with Client.from_kubeconfig(kubeconfig) as client:
                review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
                path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
                answer = await client.request("POST", path, body=review)
                assert answer["status"]["userInfo"]["username"] == "kubernetes-admin"
                assert (await client.request("GET", "/api/v1/namespaces/default/services/kubernetes"))["spec"]
            running.send_signal(signal.SIGTERM)
            await running.communicate()
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    assert running.returncode == 0


async def test_serve_changes_nothing_that_was_there_before_its_objects(capsys: pytest.CaptureFixture[str]) -> None:
    made: list[APIServer] = []

    class Kept(APIServer):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serve_command, "APIServer", Kept)
        ended = await CommandLine(capsys)(
            *("serve", "--port", "0", "--objects", "services=1", "--churn", "500", "--duration", "0.3")
        )
    assert ended.status == 0
    service = made[0].get("v1/services", "default", "kubernetes")
    assert service is not None
    assert "annotations" not in service["metadata"]


_FILLED = (
    *("services", "namespaces", "deployments", "daemonsets", "jobs", "cronjobs", "replicationcontrollers", "ingresses"),
    *("persistentvolumeclaims", "horizontalpodautoscalers", "storageclasses", "rolebindings", "clusterrolebindings"),
)


async def test_serve_fills_in_and_changes_every_usual_kind(capsys: pytest.CaptureFixture[str]) -> None:
    objects = [word for name in _FILLED for word in ("--objects", f"{name}=2")]
    ended = await CommandLine(capsys)("serve", "--port", "0", *objects, "--churn", "2000", "--duration", "0.3")
    assert (ended.status, ended.err) == (0, "")
    assert [line for line in ended.out.splitlines() if line.startswith("2 ")] == [f"2 {name}" for name in _FILLED]


async def test_more_changes_than_the_server_can_make_hold_no_duration_up(capsys: pytest.CaptureFixture[str]) -> None:
    async with asyncio.timeout(10):
        ended = await CommandLine(capsys)(
            *("serve", "--port", "0", "--objects", "configmaps=2", "--churn", "1e7", "--duration", "0.2")
        )
    assert (ended.status, ended.err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--objects", "customresourcedefinitions=1"), "--objects cannot fill in apiextensions.k8s.io/v1/"),
        (
            ("--objects", "configmaps=1", "--churn", "inf", "--duration", "0"),
            "invalid --churn 'inf': expected a number, 0 or more",
        ),
    ],
)
async def test_what_serve_cannot_do_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    ended = await CommandLine(capsys)("serve", "--port", "0", *arguments)
    assert ended.status == 2
    assert ended.err.startswith(f"kinformer: {told}")
    assert ended.err.count("\n") == 1


@pytest.mark.process
async def test_a_port_that_is_taken_is_one_line_and_status_1() -> None:
    async with APIServer() as server:
        port = server.url.rpartition(":")[2]
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kinformer.cli", "serve", "--port", port), stderr=subprocess.PIPE
        )
        _, err = await running.communicate()
    assert running.returncode == 1
    assert err.decode().startswith("kinformer: ")
    assert err.count(b"\n") == 1
