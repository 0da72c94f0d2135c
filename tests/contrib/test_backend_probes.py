"""Probes of backends: which verdicts they lead to, and that they delay nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.contrib.backends import Backend, Backends
from kinformer.exceptions import NotSyncedError
from kinformer.testing import APIServer
from tests.contrib.backend_documents import backend_pod, endpoint, endpoint_slice
from tests.support.log_records import records
from tests.support.waiting import settle, until

pytestmark = pytest.mark.virtual_time

HANG = object()
DEAF = object()


class Probed:
    """A probe that does what a test says about each host.

    Attributes:
        outcome: By host: an exception, HANG, DEAF (hangs, and ignores its cancellation), or what it returns.
        calls: How often each host was probed.
        at_once: The number of probes that run now, and the largest number that ever did.
    """

    def __init__(self, **outcome: Any) -> None:
        self.outcome: dict[str, Any] = {host.replace("_", "."): one for host, one in outcome.items()}
        self.calls: Counter[str] = Counter()
        self.now = self.most = 0
        self.deaf = asyncio.Event()  # what a DEAF probe waits for

    async def __call__(self, backend: Backend) -> Any:
        self.calls[backend.host] += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            outcome = self.outcome.get(backend.host)
            if outcome is HANG:
                await asyncio.Event().wait()
            while outcome is DEAF and not self.deaf.is_set():
                with suppress(asyncio.CancelledError):
                    await self.deaf.wait()
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome
        finally:
            self.now -= 1


@asynccontextmanager
async def probed(client: Client, probe: Any, **options: Any) -> AsyncIterator[Backends]:
    options = {"service": "default/web"} | options
    async with SharedInformerFactory(client) as factory, Backends(factory, probe=probe, **options) as pool:
        yield pool


def web(*hosts: str) -> dict[str, Any]:
    return endpoint_slice("web-1", *(endpoint(host, pod=f"pod-{host}") for host in hosts), family="FQDN")


def hosts(pool: Backends) -> list[str]:
    return [backend.host for backend in pool.snapshot()]


async def holds(pool: Backends, *wanted: str, seconds: float = 120) -> None:
    await until(lambda: hosts(pool), seconds, holds=lambda found: found == list(wanted))


@pytest.mark.parametrize("outcome", [OSError("refused"), False, HANG, DEAF, asyncio.CancelledError()])
async def test_a_probe_that_raises_returns_false_or_hangs_has_failed(
    server: APIServer, client: Client, outcome: Any
) -> None:
    probe = Probed(b=outcome)
    server.create(web("a", "b"))
    async with probed(client, probe) as pool:
        await pool.wait_synced(10)
        await holds(pool, "a")
        assert [(one.host, one.healthy, one.ready) for one in pool.known()] == [("a", True, True), ("b", False, True)]
        assert pool.health().failing == 1
        assert pool.statistics().probe_failures >= 1
        probe.outcome["b"] = None
        probe.deaf.set()
        await holds(pool, "a", "b")


async def test_a_backend_is_in_the_snapshot_after_its_first_probe(server: APIServer, client: Client) -> None:
    probe = Probed(a=HANG)
    server.create(web("a"))
    async with probed(client, probe, timeout=30, interval=1) as pool:
        await until(lambda: probe.calls["a"])
        assert hosts(pool) == []
        assert pool.health().reason == "1 backends wait for their first probe"
        with pytest.raises(NotSyncedError, match="wait for their first probe"):
            await pool.wait_synced(1)
        server.update(web("a", "b"))
        await holds(pool, "b")


async def test_verdicts_change_at_their_thresholds(server: APIServer, client: Client) -> None:
    probe = Probed()
    server.create(web("a", "b"))
    async with probed(client, probe, interval=10, success_threshold=2, failure_threshold=3) as pool:
        await pool.wait_synced(10)
        assert hosts(pool) == ["a", "b"]  # the first result decides alone

        async def after(calls: int) -> list[str]:
            wanted = probe.calls["b"] + calls
            await until(lambda: probe.calls["b"] == wanted, 120)
            await settle()
            return hosts(pool)

        probe.outcome["b"] = OSError()
        assert await after(2) == ["a", "b"]
        probe.outcome["b"] = None
        assert await after(1) == ["a", "b"]
        probe.outcome["b"] = OSError()  # counted anew
        assert await after(2) == ["a", "b"]
        assert await after(1) == ["a"]
        probe.outcome["b"] = None
        assert await after(1) == ["a"]
        assert await after(1) == ["a", "b"]


async def test_a_backend_has_the_last_result_of_its_probe(server: APIServer, client: Client) -> None:
    probe = Probed(a=["small"])
    server.create(web("a"))
    async with probed(client, probe, interval=1) as pool:
        await pool.wait_synced(10)
        assert pool.snapshot()[0].probed == ["small"]
        version = pool.version
        probe.outcome["a"] = ["small"]  # another list, and equal
        await asyncio.sleep(5)
        assert pool.version == version
        probe.outcome["a"] = ["small", "large"]
        await until(lambda: pool.snapshot()[0].probed == ["small", "large"])
        assert pool.version == version + 1


async def test_another_pod_with_the_same_address_is_probed_anew(server: APIServer, client: Client) -> None:
    probe = Probed(a="first", b=None)
    server.create(web("a", "b"))
    async with probed(client, probe) as pool:
        await pool.wait_synced(10)
        probe.outcome["a"] = HANG
        server.update(endpoint_slice("web-1", endpoint("a", pod="other"), endpoint("b", pod="pod-b"), family="FQDN"))
        await holds(pool, "b", seconds=4)
        probe.outcome["a"] = "second"
        await holds(pool, "a", "b")
        assert pool.snapshot()[0].probed == "second"


async def test_only_ready_backends_are_probed(server: APIServer, client: Client) -> None:
    probe = Probed()
    server.create(backend_pod("a", "10.0.0.1"))
    server.create(backend_pod("b", "10.0.0.2", ready=False))
    async with probed(client, probe, service=None, selector="app=web", interval=1) as pool:
        await pool.wait_synced(10)
        await asyncio.sleep(5)
        assert probe.calls["10.0.0.1"] >= 4
        server.update(backend_pod("a", "10.0.0.1", ready=False))
        await holds(pool)
        await settle()
        calls = probe.calls.copy()
        await asyncio.sleep(5)
        assert probe.calls == calls
        assert probe.calls["10.0.0.2"] == 0


# --- when all fail --------------------------------------------------------------------------------------------------


async def test_all_ready_backends_are_kept_while_all_probes_fail(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    probe = Probed()
    server.create(web("a", "b"))
    async with probed(client, probe, failure_threshold=1) as pool:
        await pool.wait_synced(10)
        probe.outcome |= {"a": OSError(), "b": OSError()}
        health = await until(pool.health, 60, holds=lambda health: health.all_failed)
        assert (hosts(pool), health.reason) == (["a", "b"], "all 2 ready backends fail their probes")
        assert [backend.healthy for backend in pool.snapshot()] == [False, False]
        assert health.live
        await asyncio.sleep(60)
        assert [record.levelname for record in records(caplog, reason="all_failed")] == ["WARNING"]
        server.update(
            endpoint_slice("web-1", endpoint("a", pod="pod-a"), endpoint("b", pod="pod-b", ready=False), family="FQDN")
        )
        await holds(pool, "a", seconds=1)  # Kubernetes is still believed
        probe.outcome["a"] = None
        await until(lambda: not pool.health().all_failed, 60)
        assert pool.statistics().all_failed == 1


async def test_a_pool_may_be_empty_while_all_probes_fail(server: APIServer, client: Client) -> None:
    server.create(web("a", "b"))
    async with probed(client, Probed(a=OSError(), b=OSError()), when_all_fail="empty") as pool:
        await pool.wait_synced(10)
        assert (hosts(pool), pool.health().all_failed) == ([], True)
        assert pool.health().reason == "all 2 ready backends fail their probes"


async def test_failing_backends_are_not_used_while_others_wait_for_their_first_probe(
    server: APIServer, client: Client
) -> None:
    server.create(web("a", "b"))
    async with probed(client, Probed(a=OSError(), b=HANG)) as pool:
        seen = [[one.host for one in snapshot] async for snapshot in _until_synced(pool)]
        assert seen == [[], ["a", "b"]]  # b was waited for


async def _until_synced(pool: Backends) -> AsyncIterator[tuple[Backend, ...]]:
    async for snapshot in pool.changes():
        yield snapshot
        if pool.health().synced:
            return


# --- what probes must not delay -------------------------------------------------------------------------------------


async def test_backends_that_hang_do_not_delay_the_probes_of_others(server: APIServer, client: Client) -> None:
    silent = [f"s-{number:03}" for number in range(200)]
    probe = Probed(**dict.fromkeys(silent, HANG))
    server.create(web("a", *silent))
    async with probed(client, probe, concurrency=8, interval=1, timeout=5) as pool:
        await holds(pool, "a", seconds=5)
        await pool.wait_synced(300)
        before = probe.calls["a"]
        await asyncio.sleep(100)
        assert probe.calls["a"] >= before + 85
        assert probe.most <= 8


async def test_a_backend_leaves_at_once_while_its_probe_hangs(server: APIServer, client: Client) -> None:
    probe = Probed()
    server.create(web("a", "b"))
    async with probed(client, probe, interval=1, timeout=1000) as pool:
        await pool.wait_synced(10)
        probe.outcome["b"] = HANG
        await until(lambda: probe.now == 1)
        server.update(web("a"))
        await holds(pool, "a", seconds=0.1)
        await settle()
        assert probe.now == 0  # its probe was cancelled


async def test_probes_that_ignore_their_cancellation_give_their_slots_back(server: APIServer, client: Client) -> None:
    probe = Probed(b=DEAF, c=DEAF)
    server.create(web("a", "b", "c"))
    async with probed(client, probe, concurrency=1, interval=1, timeout=1) as pool:
        await holds(pool, "a")
        await asyncio.sleep(20)
        assert probe.calls["a"] > 10
        assert (probe.calls["b"], probe.calls["c"]) == (1, 1)  # no second one beside the first
        probe.deaf.set()


async def test_a_probe_that_never_ends_does_not_delay_the_exit(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    probe = Probed(a=DEAF)
    server.create(web("a"))
    now = asyncio.get_running_loop().time
    async with probed(client, probe, timeout=1) as pool:
        await pool.wait_synced(10)
        left = now()
    assert now() - left < 1.5
    assert [record.levelname for record in records(caplog, reason="abandoned")] == ["ERROR"]
    probe.deaf.set()
    await settle()


async def test_probes_are_spread_over_the_interval(server: APIServer, client: Client) -> None:
    times: list[float] = []

    async def probe(backend: Backend) -> None:
        times.append(asyncio.get_running_loop().time())

    server.create(web(*(f"h-{number}" for number in range(50))))
    async with probed(client, probe, interval=100) as pool:
        await pool.wait_synced(10)
        assert len(times) == 50
        await asyncio.sleep(115)
        second = times[50:100]
        assert max(second) - min(second) > 10


async def test_failures_are_logged_once_and_counted(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kinformer.backends")
    server.create(web("a", *(f"b-{number}" for number in range(30))))
    probe = Probed(**{f"b-{number}": OSError("refused") for number in range(30)})
    async with probed(client, probe, interval=1) as pool:
        await holds(pool, "a")
        await asyncio.sleep(15)
        found = records(caplog, reason="probe_failed")
        assert len(found) == 10
        assert found[0].__dict__["key"] == "b-0:8080"
        assert pool.statistics().probe_failures > 300
