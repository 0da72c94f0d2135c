"""Each log line about a cluster of a fleet begins with its name, and no other line does."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kinformer import Client, Fleet, LeaderElector, NotSyncedError, SharedInformerFactory, derive
from kinformer.testing import APIServer, faults
from tests.fleet.clusters import CONFIG_MAPS, clusters
from tests.support.kube import config_map
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time


def lines(caplog: pytest.LogCaptureFixture, reason: str) -> list[tuple[str, str]]:
    """Return the cluster and the first word of each record with a reason."""
    found = [record for record in caplog.records if vars(record)["reason"] == reason]
    return [(vars(record)["cluster"], record.getMessage().split()[0]) for record in found]


async def test_lines_of_informers_begin_with_their_cluster(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kinformer")
    async with (
        clusters("east", "west") as servers,
        Fleet({name: Client.from_url(server.url) for name, server in servers.items()}) as fleet,
    ):
        maps = fleet.union(CONFIG_MAPS)
        await fleet.wait_synced(60)
        east = fleet["east"].factory
        later = east.for_resource("v1/secrets")  # by the program, when the fleet runs
        await later.wait_synced(60)
        fault = servers["east"].faults.add(faults.status(503))
        await servers["east"].restart()
        await until(lambda: all(not one.live for one in east.health().values()))
        fault.remove()
        await until(lambda: all(one.live for one in east.health().values()), 60)
        assert maps.has_synced
    begun = {line for cause in ("server", "connect", "lost") for line in lines(caplog, cause)}
    assert begun == {("east", "east:")}
    assert lines(caplog, "following") == [("east", "east:")] * 2
    assert {line.split()[1] for line in _messages(caplog, "following")} == {f"{CONFIG_MAPS}:", "v1/secrets:"}


def _messages(caplog: pytest.LogCaptureFixture, reason: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if vars(record)["reason"] == reason]


async def test_lines_of_handlers_and_derived_collections_begin_with_the_cluster_that_they_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("lost")

    async with clusters("east") as servers, Fleet({"east": Client.from_url(servers["east"].url)}) as fleet:
        maps = fleet.union(CONFIG_MAPS)
        await fleet.wait_synced(60)
        factory = fleet["east"].factory
        of_east = factory.for_resource(CONFIG_MAPS)
        of_east.add_event_handler(on_add=fail, name="one")
        factory.add(derive(of_east, fail, name="values of one"))
        maps.add_event_handler(on_add=fail, name="all")
        async with derive(maps, fail, name="values of all"):
            await until(lambda: len(caplog.records) >= 4)
            servers["east"].create(config_map("later"))
            await asyncio.sleep(1)
    assert lines(caplog, "handler_failed").count(("east", "east:")) >= 1
    assert {cluster for cluster, _ in lines(caplog, "handler_failed")} == {"east", ""}
    told = {(vars(record)["cluster"], vars(record)["resource"]) for record in caplog.records}
    assert ("east", "values of one") in told
    assert ("", "values of all") in told
    assert ("east", "values of all") not in told


async def test_waits_elections_and_requests_begin_with_the_cluster(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kinformer")
    async with clusters("main") as servers, Fleet({"100%": Client.from_url(servers["main"].url)}) as fleet:
        await fleet.wait_synced(60)
        cluster = fleet["100%"]
        elector = LeaderElector(cluster.client, namespace="default", name="hub", identity="me")
        async with elector.leading():
            pass
        servers["main"].faults.add(faults.status(429, retry_after=1), verb="get", times=1)
        await cluster.client.request("GET", "/api/v1/namespaces/default")
        servers["main"].faults.add(faults.status(503), resource="v1/pods")
        pods = cluster.factory.for_resource("v1/pods")
        with pytest.raises(NotSyncedError):
            await pods.wait_synced(6)
        with pytest.raises(NotSyncedError):
            await cluster.factory.wait_for_cache_sync(6)
    for reason in ("joined", "left", "leading", "released", "request_retried", "unsynced"):
        assert set(lines(caplog, reason)) <= {("100%", "100%:")}, reason
    assert len(lines(caplog, "unsynced")) == 2
    assert {line.split()[1] for line in _messages(caplog, "unsynced")} == {"v1/pods", "the"}
    assert lines(caplog, "leading")
    assert lines(caplog, "request_retried")


async def test_lines_outside_of_a_fleet_have_no_cluster(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults.add(faults.status(503), resource="v1/pods")
    async with clusters("east") as servers, Fleet({"east": Client.from_url(servers["east"].url)}) as fleet:
        await fleet.wait_synced(60)
        async with SharedInformerFactory(client) as factory:
            with pytest.raises(NotSyncedError):
                await factory.for_resource("v1/pods").wait_synced(6)
    assert {cluster for cluster, _ in lines(caplog, "unsynced") + lines(caplog, "server")} == {""}
