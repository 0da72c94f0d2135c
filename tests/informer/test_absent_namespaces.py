"""A namespace that cannot exist is refused, and one that does not exist is named once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kinformer import Client, ConfigError, ListWatch, SharedInformer, SharedInformerFactory
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.log_records import Said, message_of, said
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

MAPS = "v1/configmaps"
WARNED = [Said("WARNING", "kinformer.list_watch", MAPS, "team-a")]


def asked(server: APIServer, namespace: str = "team-a") -> int:
    return sum(request.path == f"/api/v1/namespaces/{namespace}" for request in server.requests)


@pytest.mark.parametrize("name", ["Team-A", "team_a", "-a", "a-", "a.b", "a" * 64, "über", " a", "*"])
async def test_a_name_that_no_namespace_can_have_is_refused_at_once(client: Client, name: str) -> None:
    async with SharedInformerFactory(client) as factory:
        with pytest.raises(ConfigError, match=r"invalid namespace .* for v1/configmaps: use lowercase letters"):
            factory.for_resource(MAPS, namespace=name)
        with pytest.raises(ConfigError, match="invalid namespace"):
            factory.for_resource(MAPS, namespaces=["default", name])
        assert factory.informers == ()
    with pytest.raises(ConfigError, match="invalid namespace"):
        ListWatch(client, MAPS, namespace=name)


@pytest.mark.parametrize("name", ["a", "a-b", "0", "a" * 63, "kube-system"])
async def test_other_names_are_taken(client: Client, name: str) -> None:
    assert ListWatch(client, MAPS, namespace=name).namespace == name


@pytest.mark.slow
async def test_a_namespace_that_does_not_exist_is_named_once(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with SharedInformerFactory(client) as factory:
        for resource in (MAPS, "v1/pods", "v1/secrets"):
            factory.for_resource(resource, namespace="team-a")
        factory.for_resource("v1/services", namespaces=["default", "team-a"])
        await factory.wait_for_cache_sync(60)
        await asyncio.sleep(3600)
        assert factory.health()["v1/pods"].live
    async with SharedInformer(ListWatch(client, MAPS, namespace="team-a")) as informer:
        await informer.wait_synced(60)
        await asyncio.sleep(10)
    assert asked(server) == 1
    assert len(said(caplog, "no_namespace")) == 1
    assert "'team-a' does not exist" in message_of(caplog, "no_namespace")


async def test_it_is_followed_when_it_is_created(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource(MAPS, namespace="team-a")
        await until(lambda: said(caplog, "no_namespace") == WARNED)
        server.create(config_map("a", namespace="team-a"))
        await until(lambda: list(maps.by_key) == ["team-a/a"])


@pytest.mark.parametrize("case", ["exists", "has objects", "all namespaces", "cluster-scoped"])
async def test_nothing_is_said_of_a_namespace_that_exists_and_nothing_asked_if_it_has_objects(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    options: dict[str, Any] = {} if case in ("all namespaces", "cluster-scoped") else {"namespace": "team-a"}
    resource = "v1/nodes" if case == "cluster-scoped" else MAPS
    if case in ("exists", "has objects"):
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    if case == "has objects":
        server.create(config_map("a", namespace="team-a"))
    async with SharedInformerFactory(client) as factory:
        await factory.for_resource(resource, **options).wait_synced(60)
        await asyncio.sleep(60)
    assert caplog.records == []
    assert asked(server) == (case == "exists")


@pytest.mark.parametrize("fault", [faults.status(403), faults.status(503), faults.reset(), faults.stall()])
async def test_a_server_that_does_not_say_is_not_asked_again(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture, fault: Any
) -> None:
    server.faults.add(fault, verb="get", resource="v1/namespaces", namespace="team-a")
    async with SharedInformerFactory(client) as factory:
        for resource in (MAPS, "v1/pods"):
            await factory.for_resource(resource, namespace="team-a").wait_synced(60)
        await asyncio.sleep(600)
        assert all(health.live for health in factory.health().values())
    assert caplog.records == []
    assert asked(server) <= 2


async def test_leaving_does_not_wait_for_the_answer(server: APIServer, client: Client) -> None:
    server.faults.add(faults.stall(), verb="get", resource="v1/namespaces", namespace="team-a")
    loop = asyncio.get_running_loop()
    async with SharedInformerFactory(client) as factory:
        await factory.for_resource(MAPS, namespace="team-a").wait_synced(60)
        await asyncio.sleep(1)
        began = loop.time()
    assert loop.time() - began < 1
