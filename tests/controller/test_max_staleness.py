"""A bound on staleness: reconciles, probes and endpoints wait or refuse while a cache has not been proved current."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kinformer import Client, ConfigError, Controller, Request, SharedInformerFactory, derive
from kinformer.manager import readiness, stale_reason
from kinformer.testing import APIServer
from tests.support.kube import config_map, pod
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time


async def test_a_reconcile_waits_while_the_cache_may_be_stale(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def reconcile(request: Request) -> None:
        seen.append(request.key)

    caplog.set_level(logging.WARNING, "kinformer.controller")
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        controller = Controller(reconcile, max_staleness=10).for_(pods)
        running = asyncio.create_task(controller.run())
        await until(lambda: controller.synced)
        server.create(pod("web-1"))
        await until(lambda: seen == ["default/web-1"])
        server.pause()
        await asyncio.sleep(20)
        controller.trigger("default/web-1")
        controller.trigger("default/web-2")
        await asyncio.sleep(20)
        assert seen == ["default/web-1"], "nothing proves that the cache is current"
        assert controller.statistics().stale_waits >= 2
        server.resume()
        await until(lambda: len(seen) == 3, 60)
        stale = [record for record in caplog.records if "may be stale" in record.getMessage()]
        assert len(stale) == 2, "once at the start, before the first proof, and once for the pause"
        running.cancel()
        await asyncio.wait([running])


async def test_a_quiet_cache_stays_within_the_bound_and_costs_two_small_requests_a_period(
    server: APIServer, client: Client
) -> None:
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        server.requests.clear()
        await asyncio.sleep(60)
        assert [request for request in server.requests if request.path.endswith("/pods")] == [], "nothing is asked"
        readiness(factory, max_staleness=20)
        await asyncio.sleep(5)
        ages = []
        for _ in range(100):
            server.create(config_map(f"c{len(ages)}"))
            await asyncio.sleep(1)
            ages.append(pods.health().staleness or 0)
            assert readiness(factory, max_staleness=20)[0]
        assert 9 < max(ages) < 13
        asked = [request for request in server.requests if request.path.endswith("/pods")]
        assert 20 <= len(asked) <= 24, "a list of one object and a short watch every 10 s"


async def test_it_is_not_ready_until_it_is_proved_current_and_again_when_the_proof_is_old(
    server: APIServer, client: Client
) -> None:
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        derived = factory.add(derive(pods, lambda obj, fetch: obj.name, name="names"))
        await factory.wait_for_cache_sync()
        assert readiness(factory)[0]
        ready, caches = readiness(factory, max_staleness=20)
        assert not ready
        assert "never proved current" in caches["v1/pods"]["reason"]
        await until(lambda: readiness(factory, max_staleness=20)[0])
        assert stale_reason(derived, 20) == ""
        server.pause()
        await asyncio.sleep(25)
        assert "proved current 2" in stale_reason(derived, 20)
        assert stale_reason(pods, None) == ""
        server.resume()
        await until(lambda: stale_reason(derived, 20) == "", 60)


async def test_an_optional_resource_that_is_absent_delays_nothing(server: APIServer, client: Client) -> None:
    seen: list[str] = []

    async def reconcile(request: Request) -> None:
        seen.append(request.key)

    server.create(pod("web-1"))
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        absent = factory.for_resource("example.com/v1/widgets", optional=True)
        controller = Controller(reconcile, max_staleness=10).for_(pods).owns(absent, "Pod")
        running = asyncio.create_task(controller.run())
        await until(lambda: seen == ["default/web-1"], 30)
        await asyncio.sleep(60)
        controller.trigger("default/web-1")
        await until(lambda: len(seen) == 2, 30)
        assert readiness(factory, max_staleness=10)[0]
        running.cancel()
        await asyncio.wait([running])


async def test_asking_for_a_bound_after_the_end_starts_nothing(client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
    before = asyncio.all_tasks()
    assert "never proved" in stale_reason(pods, 10)
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("value", [0, 3.9, -1])
async def test_a_bound_that_no_proof_can_keep_is_refused(client: Client, value: float) -> None:
    async with SharedInformerFactory(client) as factory:
        with pytest.raises(ConfigError, match="max_staleness"):
            Controller(print, max_staleness=value)
        with pytest.raises(ConfigError, match="max_staleness"):
            stale_reason(factory.for_resource("v1/pods"), value)
