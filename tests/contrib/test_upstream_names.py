"""The names of client-go's metrics, for dashboards that exist; and those of a client's requests."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from kinformer import Client, ConfigError, ForbiddenError, SharedInformerFactory
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.waiting import until

MAPS = {"name": "v1/configmaps", "group": "", "version": "v1", "resource": "configmaps"}
DEPLOYMENTS = {"name": "apps/v1/deployments", "group": "apps", "version": "v1", "resource": "deployments"}


def names_in(registry: CollectorRegistry) -> set[str]:
    return {sample.name for family in registry.collect() for sample in family.samples}


async def test_upstreams_names_take_the_place_of_ours(server: APIServer, client: Client) -> None:
    registry = CollectorRegistry()
    async with SharedInformerFactory(client, metrics=PrometheusMetrics(registry, names="upstream")) as factory:
        maps = factory.for_resource("v1/configmaps")
        factory.for_resource("apps/v1/deployments")
        maps.add_event_handler(on_add=print)
        await factory.wait_for_cache_sync(timeout=10)
        server.create(config_map("late"))
        await until(lambda: len(maps.lister) == 1)
        value = registry.get_sample_value
        assert value("informer_queued_items", MAPS) == 0
        assert value("informer_queued_items", DEPLOYMENTS) == 0
        assert value("informer_store_resource_version", MAPS) == float(maps.last_sync_resource_version)
        assert value("informer_processing_latency_seconds_count", MAPS) == 2, "the first list, and the event"
        assert not [name for name in names_in(registry) if name.startswith("kinformer_")]


@pytest.mark.parametrize(("names", "both"), [("kinformer", False), ("both", True)])
async def test_ours_are_the_default_and_both_are_possible(
    server: APIServer, client: Client, names: str, both: bool
) -> None:
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry, names="both") if both else PrometheusMetrics(registry)
    async with SharedInformerFactory(client, metrics=metrics) as factory:
        factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(timeout=10)
        exported = names_in(registry)
        assert "kinformer_live" in exported
        assert ("informer_queued_items" in exported) is both
        assert ("informer_processing_latency_seconds_count" in exported) is both


async def test_requests_are_counted_by_code_and_method(server: APIServer) -> None:
    registry = CollectorRegistry()
    host = server.url.removeprefix("http://")
    async with Client.from_url(server.url, metrics=PrometheusMetrics(registry)) as client:
        server.faults.add(faults.status(403), verb="get", resource="v1/configmaps", times=1)
        server.faults.add(faults.reset(), verb="delete", resource="v1/configmaps", times=1)
        await client.create(config_map("a"))
        with pytest.raises(ForbiddenError):
            await client.get("v1/configmaps", "default/a")
        with pytest.raises(OSError, match="configmaps"):
            await client.delete("v1/configmaps", "default/a")
        async with SharedInformerFactory(client) as factory:
            factory.for_resource("v1/configmaps")
            await factory.wait_for_cache_sync(timeout=10)

        def sent(method: str, code: str) -> float | None:
            labels = {"method": method, "code": code, "host": host}
            return registry.get_sample_value("rest_client_requests_total", labels)

        assert sent("POST", "201") == 1
        assert sent("GET", "403") == 1
        assert sent("DELETE", "<error>") == 1
        assert (sent("GET", "200") or 0) >= 1
        seconds = registry.get_sample_value(
            "rest_client_request_duration_seconds_count", {"verb": "POST", "host": host}
        )
        assert seconds == 1


def test_other_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="names='client-go'"):
        PrometheusMetrics(CollectorRegistry(), names="client-go")  # type: ignore[arg-type]
