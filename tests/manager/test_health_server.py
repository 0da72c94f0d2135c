"""The health server against peers that send nothing, name other hosts, or read what is not meant for them."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kinformer import Backoff, Client, ConfigError, Fleet, LeaderElector, Manager, derive
from kinformer.testing import APIServer, faults
from tests.support.bare_http import ask, connected
from tests.support.kube import config_map
from tests.support.log_records import Said, message_of, said
from tests.support.manager_run import page
from tests.support.waiting import until

GET = "GET /livez HTTP/1.1\nHost: localhost\n\n"
SECRET = "hunter2"  # in texts that come from elsewhere


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map("a")]


# --- connections ---------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
@pytest.mark.parametrize("begun", ["", "GET /livez HTTP/1.1\nHost"])
async def test_a_connection_without_a_whole_head_ends_after_32_seconds(client: Client, begun: str) -> None:
    async with Manager(client, listen="127.0.0.1:0") as manager, connected(manager.port) as [one]:
        one.send(begun)
        assert await one.ended_after() == pytest.approx(32, abs=0.1)


@pytest.mark.virtual_time
async def test_a_connection_that_has_asked_may_be_idle_for_90_seconds(client: Client) -> None:
    async with Manager(client, listen="127.0.0.1:0") as manager, connected(manager.port) as [one]:
        for _ in range(3):
            one.send(GET)
            assert await one.status() == 200
            await asyncio.sleep(80)
        one.send(GET)
        assert await one.status() == 200
        assert await one.ended_after() == pytest.approx(90, abs=1.1)


@pytest.mark.virtual_time
async def test_a_reader_of_metrics_that_stops_reading_is_let_go(client: Client) -> None:
    class Endless:
        def exposition(self, accept: str) -> tuple[bytes, str]:
            return b"# x\n" * 10_000_000, "text/plain"

        def counter(self, *_: Any) -> Any:
            return lambda _: None

        gauge = histogram = collect = counter

    manager = Manager(client, listen="127.0.0.1:0", metrics=Endless())  # type: ignore[arg-type]
    async with manager, connected(manager.port) as [one]:
        one.writer.transport.pause_reading()
        one.send("GET /metrics HTTP/1.1\nHost: localhost\n\n")
        await asyncio.sleep(100)
        one.writer.transport.resume_reading()
        with pytest.raises(asyncio.IncompleteReadError):
            await one.status()


async def test_a_probe_is_answered_beside_many_silent_connections(client: Client) -> None:
    async with Manager(client, listen="127.0.0.1:0") as manager, connected(manager.port, 100) as silent:
        assert await ask(manager.port, GET.strip()) == 200
        await until(lambda: not silent[0].is_open)
        assert silent[-1].is_open
        assert sum(one.is_open for one in silent) <= 64


@pytest.mark.parametrize(
    "fields", ["X-Large: " + "x" * 100_000, "\n".join(f"X-{number}: 1" for number in range(1000)), "X-Field: \x00"]
)
async def test_a_head_without_measure_is_refused_and_does_not_fill_the_log(
    client: Client, fields: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Manager(client, listen="127.0.0.1:0") as manager, connected(manager.port) as [one]:
        one.send(f"GET /livez HTTP/1.1\nHost: localhost\n{fields}\n\n")
        assert await one.status() in (400, 431)
        await one.ended_after()
    assert [record for record in caplog.records if record.levelname != "DEBUG"] == []


async def test_a_page_that_fails_is_an_error_in_the_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    async with Manager(client, listen="127.0.0.1:0") as manager:
        manager.add_check("odd", lambda: object())  # type: ignore[arg-type, return-value]
        assert await ask(manager.port, "GET /readyz HTTP/1.1\nHost: localhost") == 500
    assert said(caplog, "server_failed") == [Said("ERROR", "kinformer.listening")]


# With 96 descriptors, of which Python, the loop, the client and the probes need a dozen.
PROGRAM = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (96, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from kinformer import Client, LeaderElector, Manager

def elector(client):
    times = {"lease_duration": 4, "renew_deadline": 3, "retry_period": 0.1}
    return LeaderElector(client, namespace="default", name="op", **times)

async def main():
    client = Client.from_url(sys.argv[1])
    async with client, Manager(client, elector=elector, listen="127.0.0.1:0") as manager:
        for name in ("configmaps", "pods", "secrets"):
            manager.factory.for_resource(f"v1/{name}")
        async def work():
            print(manager.port, flush=True)
            await asyncio.Event().wait()
        manager.add(work)
        await manager.run()

asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.slow
async def test_silent_connections_leave_the_descriptors_that_the_api_server_needs(server: APIServer) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, server.url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), 30))
        async with connected(port, 150):
            await server.restart()
            server.create(config_map("b"))
            began = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() - began < 5:  # longer than a lead without renewals
                await asyncio.sleep(0.2)
                assert await ask(port, GET.strip()) == 200
            assert await ask(port, "GET /readyz HTTP/1.1\nHost: localhost") == 200
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(process.communicate(), 20)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert b"LeadershipLost" not in errors
    assert b"out of system resource" not in errors


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Let this process have so few descriptors that each new one is among the last quarter."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.dup(0)]
    while held[-1] < 200:
        held.append(os.dup(0))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, ((held[-1] + 1) * 4 // 3, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for one in held:
            os.close(one)


@pytest.mark.usefixtures("few_descriptors")
async def test_a_process_with_few_free_descriptors_has_four_connections(client: Client) -> None:
    async with Manager(client, listen="127.0.0.1:0") as manager, connected(manager.port, 8) as silent:
        assert await ask(manager.port, GET.strip()) == 200
        await until(lambda: sum(one.is_open for one in silent) <= 4)


# --- hosts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET {} HTTP/1.1\nHost: 10.0.0.7:8080\nUser-Agent: kube-probe/1.36\nConnection: close", 200),  # a kubelet
        ("GET {} HTTP/1.1\nHost: [fd00::7]:8080", 200),
        ("GET {} HTTP/1.1\nHost: localhost:8080", 200),
        ("GET {} HTTP/1.1\nHost: operator.monitoring.svc:8080", 200),
        ("GET {} HTTP/1.0", 200),
        ("GET {} HTTP/1.0\nHost:", 200),
        ("GET {} HTTP/1.1\nHost: evil.example:8080", 421),
        ("GET http://evil.example{} HTTP/1.1\nHost: localhost", 421),
        ("GET {} HTTP/1.0\nHost: evil.example", 421),
        ("GET {} HTTP/1.1\nHost: localhost\nHost: localhost", 400),
        ("GET {} HTTP/1.1\nHost: localhost\nOrigin: http://a\nOrigin: http://a", 400),
        ("GET {} HTTP/1.1\nAccept: */*", 400),
    ],
)
async def test_only_addresses_and_allowed_names_are_answered(client: Client, head: str, status: int) -> None:
    async with Manager(client, listen="127.0.0.1:0", allowed_hosts=["operator.monitoring.svc"]) as manager:
        for path in ("/livez", "/healthz", "/readyz", "/statusz"):
            assert await ask(manager.port, head.format(path)) == status
        unknown = await ask(manager.port, head.format("/nothing"))
        assert unknown == (404 if status == 200 else status)


@pytest.mark.parametrize("names", ["operator.svc", ["http://operator.svc"], ["operator.svc:8080"]])
def test_names_that_cannot_be_a_host_are_refused(names: Any) -> None:
    with pytest.raises(ConfigError, match="allowed"):
        Manager(Client(), listen=":8080", allowed_hosts=names)


# --- what it shows -------------------------------------------------------------------------------------------------


def broken() -> str:
    raise LookupError(f"postgres://admin:{SECRET}@db")


async def test_texts_from_elsewhere_are_on_the_status_page_only_if_the_program_asks(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = {"kind": "Status", "status": "Failure", "code": 403, "reason": SECRET, "message": f"no {SECRET}"}
    server.faults.add(faults.status(403, refusal), resource="v1/pods")

    def unreachable() -> Client:
        raise ConfigError(f"/etc/{SECRET}: no such file")

    shown: dict[bool, Any] = {}
    for details in (False, True):
        backoff = Backoff(initial=0.01, maximum=0.05)
        async with Manager(client, listen="127.0.0.1:0", details=details, backoff=backoff) as manager:
            pods = manager.factory.for_resource("v1/pods")
            fleet = manager.add(Fleet({"one": unreachable}))
            manager.add(derive(manager.factory.for_resource("v1/configmaps"), lambda one, _: one.name, name="names"))
            manager.add_check("database", broken, live=True)
            await until(lambda: pods.health().last_error is not None and bool(fleet.health()["one"].last_error))  # noqa: B023
            for path in ("/livez", "/healthz", "/readyz"):
                status, body = await page(manager, path)
                assert status == 503
                assert SECRET not in json.dumps(body)
                assert body["failed"]["database"] == "LookupError"
            assert body["resources"]["v1/pods"] == {
                "ready": False,
                "state": "forbidden",
                "synced": False,
                "live": False,
                "reason": "403 ForbiddenError",
            }
            _, shown[details] = await page(manager, "/statusz")
    assert SECRET not in json.dumps(shown[False])
    assert shown[False]["resources"]["v1/pods"]["health"]["last_error"] == "403 ForbiddenError"
    assert shown[False]["fleets"]["fleet"]["clusters"]["one"]["last_error"] == "ConfigError"
    assert SECRET in shown[True]["resources"]["v1/pods"]["health"]["last_error"]
    assert SECRET in shown[True]["fleets"]["fleet"]["clusters"]["one"]["last_error"]


async def test_the_message_of_a_check_that_raises_is_in_the_log_once(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    problems = [None, None]

    def check() -> None:
        if problems:
            broken()

    async with Manager(client, listen="127.0.0.1:0") as manager:
        manager.add_check("database", check)
        for _ in range(3):
            assert (await page(manager, "/readyz"))[0] == 503
        assert SECRET in message_of(caplog, "check_failed")
        problems.clear()
        assert (await page(manager, "/readyz"))[0] == 200
        problems.append(None)
        assert (await page(manager, "/readyz"))[0] == 503
    assert said(caplog, "check_failed") == [Said("ERROR", "kinformer.manager")] * 2


async def test_a_lost_election_is_named_without_the_servers_words(server: APIServer, client: Client) -> None:
    refusal = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": SECRET}
    server.faults.add(faults.status(403, refusal), resource="coordination.k8s.io/v1/leases")

    def elector(client: Client) -> LeaderElector:
        times = {"lease_duration": 0.5, "renew_deadline": 0.4, "retry_period": 0.05}
        return LeaderElector(client, namespace="default", name="op", **times)

    async with Manager(client, listen="127.0.0.1:0", elector=elector, signals=()) as manager:
        running = asyncio.create_task(manager.run())
        assert manager.elector is not None
        await until(lambda: not manager.elector.health().live)  # type: ignore[union-attr]
        status, body = await page(manager, "/readyz")
        assert (status, body["failed"]) == (503, {"leader election": "403 ForbiddenError"})
        _, body = await page(manager, "/statusz")
        assert body["leader_election"]["last_error"] == "403 ForbiddenError"
        running.cancel()
        await asyncio.wait({running})
