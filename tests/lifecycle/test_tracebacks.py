"""A program that fails shows one traceback, whose last line says why; one that is stopped by a manager shows none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.process

BEGIN = """
import asyncio, os, signal, threading
from kinformer import *
from kinformer import blocking
from kinformer.testing import APIServer

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}

def interrupt(delay=0.3):
    threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()

async def nothing(request):
    pass
"""

END = """
asyncio.run(main())
"""

TERMINAL_ERROR_IN_A_MANAGER = """
async def serve():
    try:
        {}["port"]
    except KeyError:
        raise TerminalError("there is no port") from None

async def main():
    async with APIServer() as server, server.client() as client, Manager(client) as manager:
        manager.add(Controller(nothing).for_(manager.factory.for_resource("v1/configmaps")))
        manager.add(serve)
        await manager.run()
"""

UNREACHABLE_SERVER = """
async def main():
    async with Client.from_url("http://127.0.0.1:1") as client, SharedInformerFactory(client) as factory:
        factory.for_resource("v1/pods")
        await factory.wait_for_cache_sync(timeout=0.3)
"""

UNREACHABLE_SERVER_OF_ONE_INFORMER = """
async def main():
    async with Client.from_url("http://127.0.0.1:1") as client, SharedInformer(ListWatch(client, "v1/pods")) as pods:
        await pods.wait_synced(timeout=0.3)
"""

REQUEST_TO_NOBODY = """
async def main():
    async with Client.from_url("http://127.0.0.1:1") as client:
        await client.request("GET", "/version", retries=0)
"""

MISSING_RIGHT = """
async def main():
    async with APIServer(users={"t": "alice"}, rules=[]) as server, server.client("alice") as client:
        async with SharedInformerFactory(client) as factory:
            factory.for_resource("v1/pods")
            await factory.wait_for_cache_sync(fail_fast=True)
"""

NO_KUBECONFIG = """
async def main():
    async with Client.from_kubeconfig("/nowhere/config"):
        pass
"""

NO_CLUSTER = """
async def main():
    os.environ["HOME"] = "/nowhere"
    os.environ.pop("KUBECONFIG", None)
    async with Client():
        pass
"""

WAIT_FOR_AN_OBJECT = """
async def main():
    async with APIServer() as server, server.client() as client:
        await client.wait_for("v1/pods", "default/a", lambda pod: pod is not None, timeout=0.3)
"""

LOST_LEAD = """
async def main():
    async with APIServer() as server, server.client() as client:
        elector = LeaderElector(
            client, namespace="default", name="x", lease_duration=1.5, renew_deadline=1, retry_period=0.2
        )
        async with Manager(client, elector=elector) as manager:
            manager.add(Controller(nothing).for_(manager.factory.for_resource("v1/configmaps")))
            asyncio.get_running_loop().call_later(0.5, server.pause)
            await manager.run()
"""

INTERRUPTED_THREAD = """
async def main():
    pass

interrupt()
with blocking.Informers(url="http://127.0.0.1:1") as informers:
    informers.for_resource("v1/pods").wait_synced()
"""


def stderr_of(program: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", BEGIN + program + END],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    return run.stderr


@pytest.mark.parametrize(
    ("program", "last"),
    [
        (TERMINAL_ERROR_IN_A_MANAGER, "TerminalError: there is no port"),
        (UNREACHABLE_SERVER, "v1/pods: the server is not reachable: GET 127.0.0.1:1/api/v1/pods: connection refused"),
        (
            UNREACHABLE_SERVER_OF_ONE_INFORMER,
            "the server is not reachable: GET 127.0.0.1:1/api/v1/pods: connection refused",
        ),
        (REQUEST_TO_NOBODY, "ConnectError: GET 127.0.0.1:1/version: connection refused"),
        (MISSING_RIGHT, 'User "alice" cannot watch resource "pods" in API group "" at the cluster scope'),
        (NO_KUBECONFIG, "ConfigError: /nowhere/config: No such file or directory"),
        (NO_CLUSTER, "KUBERNETES_SERVICE_HOST is not set: this process does not run in a pod"),
        (WAIT_FOR_AN_OBJECT, "TimeoutError: v1/pods default/a: no <lambda> within 0.3 s; it is absent"),
        (LOST_LEAD, "LeadershipLostError: "),
        (INTERRUPTED_THREAD, "KeyboardInterrupt"),
    ],
)
def test_a_program_that_fails_shows_one_traceback(program: str, last: str) -> None:
    stderr = stderr_of(program)
    assert stderr.count("Traceback (most recent call last)") == 1, stderr
    assert last in stderr.splitlines()[-1]
    assert "Exception Group" not in stderr
    assert "aiohttp" not in stderr


TERMINAL_ERROR_OF_A_RECONCILE = """
async def reconcile(request):
    try:
        {}["image"]
    except KeyError as error:
        asyncio.get_running_loop().call_later(0.2, stop)
        raise TerminalError("the website has no image")CHAIN

async def main():
    global stop
    async with APIServer() as server, server.client() as client, Manager(client) as manager:
        stop = manager.stop
        server.create(CONFIG_MAP)
        configs = manager.factory.for_resource("v1/configmaps", namespace="default", field_selector="metadata.name=a")
        manager.add(Controller(reconcile).for_(configs))
        await manager.run()
"""


@pytest.mark.parametrize(("chain", "shown"), [(" from error", "KeyE"), ("", "KeyE"), (" from None", "Terminal")])
def test_a_reconcile_that_gives_up_is_one_traceback_in_the_log(chain: str, shown: str) -> None:
    lines = stderr_of(TERMINAL_ERROR_OF_A_RECONCILE.replace("CHAIN", chain)).splitlines()
    assert lines[0] == (
        "controller reconcile: default/a failed and is not retried (INITIAL v1/configmaps): the website has no image"
    )
    assert [line for line in lines if "Traceback" in line] == lines[1:2]
    assert shown in lines[-1]


INTERRUPTED_MANAGER = """
async def main():
    async with APIServer() as server, server.client() as client, Manager(client) as manager:
        manager.add(Controller(nothing).for_(manager.factory.for_resource("v1/configmaps")))
        interrupt()
        await manager.run()
"""


def test_a_manager_that_is_interrupted_says_nothing() -> None:
    assert stderr_of(INTERRUPTED_MANAGER) == ""


CALLBACK_THAT_RAISES = """
def failed(informer, error):
    raise RuntimeError("no place for errors")

async def main():
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        factory.for_resource("v1/podz", on_error=failed)
        await factory.wait_for_cache_sync()
"""


def test_an_informer_that_crashes_shows_its_error_without_those_that_it_recovered_from() -> None:
    stderr = stderr_of(CALLBACK_THAT_RAISES)
    assert stderr.count("Traceback (most recent call last)") == 2, "one in the log, and one of the program's own"
    assert "During handling" not in stderr
    assert "direct cause" not in stderr
    assert stderr.splitlines()[-1] == "RuntimeError: no place for errors"
