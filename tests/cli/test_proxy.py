"""`kinformer proxy`: its output, its pages, its end, and kubectl before it."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kinformer.testing import APIServer
from tests.support.apiserver_http import ask, watch
from tests.support.cli import CommandLine
from tests.support.kube import config_map, pod
from tests.support.ports import reserved_port


@pytest.fixture
def kinformer(server: APIServer, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    server.create(pod("web-1"))
    return CommandLine(capsys, server.url)


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run the command in a process; yields it with its URL, once the caches are complete."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli", "proxy", "v1/pods", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().removeprefix("Serving ").strip()
            assert (await process.stdout.readline()).startswith(b"v1/pods: ")
            yield process, url
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_it_says_where_it_serves_and_what_it_holds(kinformer: CommandLine) -> None:
    ended = await kinformer("proxy", "v1/pods", "cm", "--listen", "127.0.0.1:0", "--duration", "1")
    first, *lines = ended.out.splitlines()
    assert (ended.status, ended.err) == (0, "")
    assert first.startswith("Serving http://127.0.0.1:")
    assert sorted(lines) == ["v1/configmaps: 0 objects", "v1/pods: 1 object"]


async def test_it_listens_on_a_socket(kinformer: CommandLine, tmp_path: Path) -> None:
    ended = await kinformer("proxy", "pods", "--socket", str(tmp_path / "x.sock"), "--duration", "1")
    assert ended.out.splitlines()[0] == f"Serving unix:{tmp_path}/x.sock"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["pods", "--listen", ":8001"], 1, "other machines"),
        (["pods", "--listen", "8001"], 1, "invalid listen='8001'"),
        (["pods", "--listen", "127.0.0.1:1", "--socket", "x"], 2, "--listen cannot be combined with --socket"),
        (["pods", "--authenticate"], 2, "unknown option --authenticate"),
        (["pods", "--allow-writes"], 2, "unknown option --allow-writes"),
        (["podz"], 1, "no resource 'podz'"),
        (["pods", "--socket", "/nowhere/x.sock"], 1, "cannot listen on /nowhere/x.sock: No such file"),
        ([], 2, "RESOURCE"),
    ],
)
async def test_what_cannot_be_served_is_an_error_in_a_line(
    kinformer: CommandLine, arguments: list[str], status: int, message: str
) -> None:
    ended = await kinformer("proxy", *arguments)
    assert (ended.status, ended.out) == (status, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


async def test_an_address_in_use_is_an_error(kinformer: CommandLine, server: APIServer) -> None:
    ended = await kinformer("proxy", "pods", "--listen", server.url.removeprefix("http://"))
    assert ended.status == 1
    assert "cannot listen on 127.0.0.1 port" in ended.err


@pytest.mark.process
async def test_its_own_pages_are_at_another_address(kinformer: CommandLine, server: APIServer) -> None:
    with reserved_port() as port:
        health = f"http://127.0.0.1:{port}"
        arguments = ("--server", server.url, "--listen", "127.0.0.1:0", "--health", f"127.0.0.1:{port}")
        async with running(*arguments) as (_, url):
            assert (await ask(health, "GET", "/readyz")).json["ready"] is True
            assert (await ask(health, "GET", "/livez")).status == 200
            assert (await ask(url, "GET", "/readyz")).body == (await ask(server.url, "GET", "/readyz")).body
            await ask(url, "GET", "/api/v1/pods?resourceVersion=0")
            await ask(url, "DELETE", "/api/v1/namespaces/default/pods/web-1")
            metrics = (await ask(health, "GET", "/metrics")).body.decode()
    for line in (
        'kinformer_proxy_requests_total{method="GET",source="cache"} 1.0',
        'kinformer_proxy_requests_total{method="GET",source="server"} 1.0',
        'kinformer_proxy_requests_total{method="DELETE",source="proxy"} 1.0',
        'kinformer_proxy_watches{resource="v1/pods"} 0.0',
    ):
        assert line in metrics


@pytest.mark.process
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_signal_ends_it_in_order(server: APIServer, number: signal.Signals, status: int) -> None:
    server.create(pod("web-1"))
    async with running("--server", server.url, "--listen", "127.0.0.1:0") as (process, url):
        exchange = await watch(url, f"/api/v1/pods?watch=1&resourceVersion={server.resource_version}")
        server.create(pod("web-2"))
        assert (await exchange.event())[0] == "ADDED"
        process.send_signal(number)
        assert await exchange.line() == b""
        assert exchange.reply.clean
        await exchange.close()
        _, err = await process.communicate()
    assert (process.returncode, err) == (status, b"")


@pytest.mark.process
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
async def test_kubectl_reads_through_it(server: APIServer, tmp_path: Path) -> None:
    server.create(pod("web-1", namespace="default"))

    async def kubectl(url: str, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *("kubectl", "--server", url, "--cache-dir", str(tmp_path), *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin:/usr/local/bin"},
        )
        out, _ = await process.communicate()
        return out.decode()

    async with running("--server", server.url, "--listen", "127.0.0.1:0") as (_, url):
        assert "web-1" in await kubectl(url, "get", "pods")
        assert await kubectl(url, "get", "pods", "-o", "name") == "pod/web-1\n"
        assert "Running" in await kubectl(url, "describe", "pod", "web-1")
        server.create(config_map("x"))
        assert "only reads" in await kubectl(url, "delete", "configmap", "x")
        assert "only reads" in await kubectl(url, "exec", "web-1", "--", "sh")
        assert "its own credentials" in await kubectl(url, "get", "pods", "--as", "admin")
        waiting = asyncio.ensure_future(kubectl(url, "wait", "--for=delete", "pod/web-1", "--timeout=20s"))
        server.delete("v1/pods", "default", "web-1")
        await waiting
