"""Backends: which endpoints of a Service, or of pods, requests are sent to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.contrib.backends import Backend, Backends, BackendsHealth
from kinformer.exceptions import ConfigError, NotSyncedError, SelectorError, StoppedError
from kinformer.testing import APIServer
from kinformer.testing.faults import status
from tests.contrib.backend_documents import backend_pod, endpoint, endpoint_slice
from tests.support.reading_threads import reading_threads
from tests.support.waiting import until


@asynccontextmanager
async def backends(client: Client, *, synced: bool = True, **options: Any) -> AsyncIterator[Backends]:
    if "selector" not in options:
        options = {"service": "default/web"} | options
    async with SharedInformerFactory(client) as factory, Backends(factory, **options) as pool:
        if synced:
            await pool.wait_synced(10)
        yield pool


def keys(pool: Backends) -> list[str]:
    return [backend.key for backend in pool.snapshot()]


async def holds(pool: Backends, *wanted: str) -> None:
    await until(lambda: keys(pool), holds=lambda found: found == list(wanted))


# --- EndpointSlices -------------------------------------------------------------------------------------------------


async def test_a_snapshot_has_the_ready_endpoints_of_a_service(server: APIServer, client: Client) -> None:
    server.create(
        endpoint_slice(
            "web-1",
            endpoint("10.0.0.2", pod="web-b", nodeName="node-1", zone="z1", hints={"forZones": [{"name": "z1"}]}),
            endpoint("10.0.0.1", ready=True),
            endpoint("10.0.0.3", ready=False),
            endpoint("10.0.0.4", ready=None, serving=None),
            ports=[{"name": "http", "port": 8080, "appProtocol": "kubernetes.io/h2c"}],
        )
    )
    server.create(endpoint_slice("other-1", endpoint("10.0.9.9"), service="other"))
    server.create(endpoint_slice("web-1", endpoint("10.0.9.9"), namespace="elsewhere"))
    async with backends(client, port="http") as pool:
        assert keys(pool) == ["10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.4:8080"]
        assert pool.snapshot()[1] == Backend(
            key="10.0.0.2:8080",
            host="10.0.0.2",
            port=8080,
            family="IPv4",
            ready=True,
            serving=True,
            terminating=False,
            target="default/web-b",
            uid="uid-web-b",
            node="node-1",
            zone="z1",
            zones=("z1",),
            app_protocol="kubernetes.io/h2c",
        )
        assert pool.health().live
        assert pool.health().reason == ""


async def test_a_terminating_endpoint_serves_and_gets_no_new_requests(server: APIServer, client: Client) -> None:
    server.create(
        endpoint_slice(
            "web-1",
            endpoint("10.0.0.1", ready=False, serving=True, terminating=True),
            endpoint("10.0.0.2", ready=None, terminating=True),
            endpoint("10.0.0.3", ready=True, terminating=True),  # publishNotReadyAddresses
        )
    )
    async with backends(client) as pool:
        assert keys(pool) == ["10.0.0.3:8080"]
        first = pool.known()[0]
        assert (first.ready, first.serving, first.terminating) == (False, True, True)
        assert len(pool.known()) == 3


async def test_an_address_in_two_slices_is_one_backend(server: APIServer, client: Client) -> None:
    server.create(endpoint_slice("web-1", endpoint("10.0.0.1", pod="a"), endpoint("10.0.0.2", pod="b")))
    server.create(endpoint_slice("web-2", endpoint("10.0.0.2", pod="b"), endpoint("10.0.0.3", pod="c")))
    async with backends(client) as pool:
        assert keys(pool) == ["10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"]
        server.update(endpoint_slice("web-1", endpoint("10.0.0.1", pod="a")))
        server.update(endpoint_slice("web-2", endpoint("10.0.0.2", pod="b")))
        await holds(pool, "10.0.0.1:8080", "10.0.0.2:8080")


@pytest.mark.parametrize("slices", [("web-1", "web-2"), ("web-2", "web-1")])
async def test_of_two_slices_that_differ_the_one_that_is_not_ready_wins(
    server: APIServer, client: Client, slices: tuple[str, str]
) -> None:
    server.create(endpoint_slice(slices[0], endpoint("10.0.0.1", pod="a", ready=True)))
    server.create(endpoint_slice(slices[1], endpoint("10.0.0.1", pod="a", ready=False)))
    async with backends(client) as pool:
        assert keys(pool) == []
        assert pool.health().reason == "no backend is ready"
        server.delete("discovery.k8s.io/v1/endpointslices", "default", slices[1])
        await holds(pool, "10.0.0.1:8080")


PORTS = [{"name": "http", "port": 8080}, {"name": "grpc", "port": 9090}]


@pytest.mark.parametrize(
    ("ports", "port", "found", "reason"),
    [
        (PORTS, "grpc", ["10.0.0.1:9090"], ""),
        (PORTS, 8080, ["10.0.0.1:8080"], ""),
        (PORTS, 7070, [], "no port 7070; ports: 8080, 9090"),
        (PORTS, "metrics", [], "no port 'metrics'; ports: http, grpc"),
        (PORTS, None, [], "port= is needed, because there is not exactly one port; ports: http, grpc"),
        ([{"name": "", "port": 80}], None, ["10.0.0.1:80"], ""),
        ([{"name": "http"}], 8080, ["10.0.0.1:8080"], ""),  # a port without a number: all ports
        ([], 8080, ["10.0.0.1:8080"], ""),
        ([], "http", [], "no port 'http'; ports: none"),
        ([], None, [], "port= is needed, because there is not exactly one port; ports: none"),
    ],
)
async def test_a_port_is_chosen_by_name_or_number(
    server: APIServer, client: Client, ports: list[dict[str, Any]], port: Any, found: list[str], reason: str
) -> None:
    server.create(endpoint_slice("web-1", endpoint("10.0.0.1"), ports=ports))
    async with backends(client, port=port) as pool:
        assert keys(pool) == found
        assert pool.health().reason == reason


async def test_each_slice_has_its_own_number_of_a_named_port(server: APIServer, client: Client) -> None:
    server.create(endpoint_slice("web-1", endpoint("10.0.0.1"), ports=[{"name": "http", "port": 8080}]))
    server.create(endpoint_slice("web-2", endpoint("10.0.0.2"), ports=[{"name": "http", "port": 9090}]))
    async with backends(client, port="http") as pool:
        assert keys(pool) == ["10.0.0.1:8080", "10.0.0.2:9090"]


@pytest.mark.parametrize(
    ("family", "found"),
    [
        ("IPv4", ["10.0.0.1:8080"]),
        ("IPv6", ["[fd00::1]:8080", "[fd00::2]:8080"]),
        ("FQDN", ["db.example.com:8080"]),
        (None, ["10.0.0.1:8080", "[fd00::2]:8080", "db.example.com:8080"]),
    ],
)
async def test_a_family_chooses_the_addresses_of_a_dual_stack_service(
    server: APIServer, client: Client, family: Any, found: list[str]
) -> None:
    server.create(endpoint_slice("web-4", endpoint("10.0.0.1", pod="a")))
    server.create(endpoint_slice("web-6", endpoint("fd00::1", pod="a"), endpoint("fd00::2", pod="b"), family="IPv6"))
    server.create(endpoint_slice("web-names", endpoint("db.example.com"), family="FQDN"))
    async with backends(client, family=family) as pool:
        assert keys(pool) == found


async def test_a_service_without_endpoints_says_so(server: APIServer, client: Client) -> None:
    async with backends(client) as pool:
        assert (pool.snapshot(), pool.health().live) == ((), True)
        assert pool.health().reason == "default/web has no backend"
        server.create({**endpoint_slice("web-1"), "endpoints": []})
        server.create(endpoint_slice("web-2", endpoint("10.0.0.1")))
        await holds(pool, "10.0.0.1:8080")
        server.delete("discovery.k8s.io/v1/endpointslices", "default", "web-2")
        await holds(pool)


async def test_defaults_of_the_factory_hide_no_backend(server: APIServer, client: Client) -> None:
    server.create(endpoint_slice("web-1", endpoint("10.0.0.1")))
    server.create(backend_pod("web-1", "10.0.0.1", namespace="default"))
    async with SharedInformerFactory(
        client, namespace="team-a", label_selector="app=web", field_selector="metadata.name=x", fields=["spec.nodeName"]
    ) as factory:
        async with Backends(factory, service="default/web") as pool:
            await pool.wait_synced(10)
            assert keys(pool) == ["10.0.0.1:8080"]
        async with Backends(factory, selector="app=web", namespace="default") as pool:
            await pool.wait_synced(10)
            assert keys(pool) == ["10.0.0.1:8080"]
        assert factory.informers == ()  # each was given back


# --- Pods -----------------------------------------------------------------------------------------------------------


async def test_pods_are_backends_by_the_rules_of_a_service(server: APIServer, client: Client) -> None:
    server.create(backend_pod("ready", "10.0.0.1"))
    server.create(backend_pod("unready", "10.0.0.2", ready=False))
    server.create(backend_pod("ended", "10.0.0.1", phase="Failed"))  # its address belongs to another pod now
    server.create(backend_pod("leaving", "10.0.0.3", finalizers=["example.com/drain"]))
    server.delete("v1/pods", "default", "leaving")
    server.create(backend_pod("unrelated", "10.0.0.4", labels={"app": "db"}))
    async with backends(client, selector={"app": "web"}, port="http") as pool:
        assert keys(pool) == ["10.0.0.1:8080"]
        assert (pool.snapshot()[0].target, len(pool.known())) == ("default/ready", 3)
        leaving = pool.known()[2]
        assert (leaving.ready, leaving.serving, leaving.terminating) == (False, True, True)
        server.update(backend_pod("unready", "10.0.0.2"))
        await holds(pool, "10.0.0.1:8080", "10.0.0.2:8080")
        server.delete("v1/pods", "default", "ready")
        await holds(pool, "10.0.0.2:8080")


@pytest.mark.parametrize(
    ("family", "found"), [(None, "10.0.0.1:80"), ("IPv4", "10.0.0.1:80"), ("IPv6", "[fd00::1]:80")]
)
async def test_a_pod_has_one_address_of_each_family(server: APIServer, client: Client, family: Any, found: str) -> None:
    server.create(backend_pod("web-1", "10.0.0.1,fd00::1"))
    async with backends(client, selector="app=web", port=80, family=family) as pool:
        assert keys(pool) == [found]


async def test_a_port_of_a_sidecar_is_found_and_a_missing_one_is_reported(server: APIServer, client: Client) -> None:
    sidecar = {
        "name": "proxy",
        "image": "i",
        "restartPolicy": "Always",
        "ports": [{"name": "mtls", "containerPort": 1}],
    }
    document = backend_pod("web-1", "10.0.0.1")
    document["spec"]["initContainers"] = [sidecar]
    server.create(document)
    async with backends(client, selector="app=web", port="mtls") as pool:
        assert keys(pool) == ["10.0.0.1:1"]
    async with backends(client, selector="app=web", port="grpc") as pool:
        assert (keys(pool), pool.health().reason) == ([], "no port 'grpc'; ports: http, mtls")


# --- readers --------------------------------------------------------------------------------------------------------


async def test_versions_count_changes_of_the_snapshot_alone(server: APIServer, client: Client) -> None:
    server.create(endpoint_slice("web-1", endpoint("10.0.0.1")))
    async with backends(client) as pool:
        snapshot, version = pool.snapshot(), pool.version
        server.update(endpoint_slice("web-1", endpoint("10.0.0.1"), endpoint("10.0.0.2", ready=False)))
        await until(lambda: len(pool.known()) == 2)
        assert (pool.snapshot(), pool.version) == (snapshot, version)
        server.update(endpoint_slice("web-1", endpoint("10.0.0.2")))
        await holds(pool, "10.0.0.2:8080")
        assert pool.version == version + 1
        assert [backend.key for backend in snapshot] == ["10.0.0.1:8080"]  # what a reader holds does not change


async def test_another_pod_with_the_same_address_is_another_backend(server: APIServer, client: Client) -> None:
    server.create(endpoint_slice("web-1", endpoint("10.0.0.1", pod="a", uid="first")))
    async with backends(client) as pool:
        before, version = pool.snapshot(), pool.version
        server.update(endpoint_slice("web-1", endpoint("10.0.0.1", pod="a", uid="second")))
        await until(lambda: pool.version == version + 1)
        assert pool.snapshot() != before
        assert keys(pool) == ["10.0.0.1:8080"]


async def test_changes_yield_the_current_snapshot_and_later_ones_until_the_exit(
    server: APIServer, client: Client
) -> None:
    server.create(endpoint_slice("web-1", endpoint("10.0.0.1")))
    async with backends(client) as pool:
        changes = pool.changes()
        assert [backend.host for backend in await anext(changes)] == ["10.0.0.1"]
        for host in ("10.0.0.2", "10.0.0.3"):
            server.update(endpoint_slice("web-1", endpoint(host)))
            assert [backend.host for backend in await anext(changes)] == [host]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(changes), 0.05)
        server.update(endpoint_slice("web-1", endpoint("10.0.0.4")))
        assert [backend.host for backend in await anext(changes)] == ["10.0.0.4"]
        waiting = asyncio.ensure_future(anext(changes, "end"))
        await asyncio.sleep(0)
    assert await waiting == "end"
    assert [snapshot async for snapshot in pool.changes()] == []


async def test_snapshots_are_read_in_other_threads(server: APIServer, client: Client) -> None:
    server.create(endpoint_slice("web-1", endpoint("10.0.0.1"), endpoint("10.0.0.2")))
    async with backends(client) as pool:

        def read() -> None:
            hosts = [backend.host for backend in pool.snapshot()]
            assert hosts in (["10.0.0.1", "10.0.0.2"], ["10.0.0.3"])

        with reading_threads(read):
            for _ in range(20):
                server.update(endpoint_slice("web-1", endpoint("10.0.0.3")))
                await holds(pool, "10.0.0.3:8080")
                server.update(endpoint_slice("web-1", endpoint("10.0.0.1"), endpoint("10.0.0.2")))
                await holds(pool, "10.0.0.1:8080", "10.0.0.2:8080")


# --- health and life ------------------------------------------------------------------------------------------------


async def test_health_says_that_the_cache_is_not_live_and_the_snapshot_stays(server: APIServer, client: Client) -> None:
    server.create(endpoint_slice("web-1", endpoint("10.0.0.1")))
    async with backends(client) as pool:
        assert pool.health().live
        away = asyncio.create_task(server.restart(0.5))
        health: BackendsHealth = await until(pool.health, holds=lambda one: not one.live)
        assert health.reason.startswith("the cache does not follow the API server: backing_off (")
        assert health.cache.last_error is not None
        assert (keys(pool), health.backends) == (["10.0.0.1:8080"], 1)
        await away
        health = await until(pool.health, 20, holds=lambda one: one.live)
        assert health.reason == ""


@pytest.mark.virtual_time
async def test_a_wait_that_times_out_says_why(server: APIServer, client: Client) -> None:
    server.faults.add(status(403), resource="discovery.k8s.io/v1/endpointslices")
    async with backends(client, synced=False) as pool:
        with pytest.raises(NotSyncedError, match=r"the first list is missing: forbidden \(ForbiddenError\)") as caught:
            await pool.wait_synced(3)
        assert [type(error).__name__ for error in caught.value.unsynced.values()] == ["ForbiddenError"]
        assert not pool.health().synced
        assert pool.snapshot() == ()


async def test_a_pool_is_entered_before_its_factory_and_empty_after_its_exit(server: APIServer, client: Client) -> None:
    server.create(endpoint_slice("web-1", endpoint("10.0.0.1")))
    factory = SharedInformerFactory(client)
    pool = Backends(factory, service="default/web")
    assert (pool.snapshot(), pool.health().live, pool.health().reason) == ((), False, "it has not been entered")
    async with pool:
        async with factory:
            await factory.wait_for_cache_sync(10)
            await pool.wait_synced(10)
            assert keys(pool) == ["10.0.0.1:8080"]
        assert not pool.health().live  # the factory was exited first
        await until(lambda: "its informer was exited" in pool.health().reason)
        with pytest.raises(StopAsyncIteration):
            await anext(pool.changes())
    assert (pool.snapshot(), pool.known(), pool.health().live) == ((), (), False)
    with pytest.raises(RuntimeError, match="only once"):
        async with pool:
            pass


async def test_a_wait_for_a_pool_that_is_exited_ends(server: APIServer, client: Client) -> None:
    server.faults.add(status(503), resource="discovery.k8s.io/v1/endpointslices")
    async with backends(client, synced=False) as pool:
        waiting = asyncio.ensure_future(pool.wait_synced())
        await asyncio.sleep(0)
    with pytest.raises(StoppedError):
        await waiting


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either service="),
        ({"service": "a/b", "selector": "x=y"}, "either service="),
        ({"service": "web"}, "expected 'namespace/name', got 'web'"),
        ({"service": "default/web,app"}, "expected 'namespace/name'"),
        ({"service": "default/web", "namespace": "x"}, "namespace: only with selector="),
        ({"service": "default/web", "port": 0}, "port: expected"),
        ({"service": "default/web", "port": ""}, "port: expected"),
        ({"service": "default/web", "family": "ipv4"}, "family: expected one of IPv4, IPv6, FQDN, got 'ipv4'"),
    ],
)
async def test_an_invalid_argument_is_an_error_that_names_it(
    client: Client, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Backends(SharedInformerFactory(client), **options)
    with pytest.raises(SelectorError):
        Backends(SharedInformerFactory(client), selector="app in (")
