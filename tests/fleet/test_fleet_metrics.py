"""The metrics of fleets, and what `/statusz` and `kinformer stats` show of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from kinformer import Client, Fleet, Manager, SharedInformerFactory
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.testing import APIServer
from tests.fleet.clusters import CONFIG_MAPS, clusters, kubeconfig, secret, write
from tests.support.cli import CommandLine
from tests.support.waiting import until

SECRETS = "v1/secrets"


class Exported:
    """What a registry exports of the fleet `fleet`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sink = PrometheusMetrics(self.registry)

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"kinformer_fleet_{name}", {"fleet": "fleet", **labels})

    @property
    def clusters(self) -> dict[str, int]:
        """The clusters by state, those of no state left out."""
        states = ("live", "away", "connecting", "failed")
        found = {state: self("clusters", state=state) for state in states}
        return {state: int(number) for state, number in found.items() if number}


@pytest.fixture
def exported() -> Exported:
    return Exported()


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_clusters_are_exported_by_state_with_what_came_and_went(exported: Exported) -> None:
    async with clusters("east", "west") as servers:
        east = servers["east"].client()
        async with Fleet({"east": east}, metrics=exported.sink) as fleet:
            assert exported("synced") == 0
            assert exported.clusters == {"connecting": 1}
            maps = fleet.union(CONFIG_MAPS)
            await fleet.wait_synced(10)
            await fleet.add("west", servers["west"].client())
            await until(lambda: len(maps.lister) == 2 and all(health.live for health in fleet.health().values()))
            assert exported("synced") == 1
            assert exported.clusters == {"live": 2}
            servers["west"].pause()
            await until(lambda: not fleet.health()["west"].live, 1000)
            assert exported.clusters == {"live": 1, "away": 1}
            assert (exported("live", cluster="east"), exported("live", cluster="west")) == (1, 0)
            servers["west"].resume()
            await fleet.remove("west")
            assert exported.clusters == {"live": 1}
            assert exported("live", cluster="west") is None
            assert (exported("joins_total"), exported("leaves_total"), exported("replacements_total")) == (2, 1, 0)
    assert exported("joins_total") is None, "it has been left"


async def test_the_informers_of_a_cluster_are_exported_under_its_name(exported: Exported) -> None:
    async with clusters("east", "west") as servers:
        given = {name: server.client() for name, server in servers.items()}
        async with Fleet(given, metrics=exported.sink) as fleet:
            maps = fleet.union(CONFIG_MAPS)
            await fleet.wait_synced(10)
            assert len(maps.lister) == 2
            for name in ("east", "west"):
                resource = {"resource": f"{name}/{CONFIG_MAPS}"}
                assert exported.registry.get_sample_value("kinformer_objects", resource) == 1
        assert exported.registry.get_sample_value("kinformer_objects", {"resource": f"east/{CONFIG_MAPS}"}) is None


async def test_configurations_that_are_refused_are_exported(exported: Exported, tmp_path: Path) -> None:
    file = tmp_path / "config"
    async with clusters("east", "west") as servers:
        write(file, kubeconfig(servers))
        fleet = Fleet.from_kubeconfig(file, poll=0.05, metrics=exported.sink)
        async with fleet:
            await until(lambda: len(fleet) == 2)
            assert (exported("broken_configurations"), exported("refusals_total")) == (0, 0)
            broken = kubeconfig(servers)
            broken["contexts"][1]["context"]["user"] = "nobody"
            write(file, broken)
            await until(lambda: exported("broken_configurations") == 1)
            assert exported("refusals_total") == fleet.statistics().refused == 1
            assert exported.clusters == {"live": 2}, "it goes on with the configuration before"
            assert exported("source_failed") == 0
            write(file, "this is: [no kubeconfig")
            await until(lambda: exported("source_failed") == 1)
            assert exported("refusals_total") == 2
            write(file, kubeconfig(servers))
            await until(lambda: exported("broken_configurations") == 0 == exported("source_failed"))


async def test_a_cluster_that_cannot_be_connected_is_counted_as_failed(exported: Exported) -> None:
    def broken() -> Client:
        raise OSError("no such machine")

    async with Fleet({"east": broken}, metrics=exported.sink) as fleet:
        await until(lambda: exported.clusters == {"failed": 1})
        assert exported("connection_failures_total") == fleet.statistics().failures >= 1
        assert exported("refusals_total") == 0


async def test_a_fleet_of_secrets_is_exported_by_the_sink_of_the_secrets(
    exported: Exported, server: APIServer, client: Client
) -> None:
    async with clusters("east") as servers, SharedInformerFactory(client, metrics=exported.sink) as factory:
        server.create(secret("east", kubeconfig({"it": servers["east"]})))
        async with Fleet.from_secrets(factory.for_resource(SECRETS)):
            await until(lambda: exported.clusters == {"live": 1})


async def test_the_status_and_kinformer_stats_show_the_clusters_of_a_fleet(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    kinformer = CommandLine(capsys)

    def broken() -> Client:
        raise OSError("no such machine")

    async with clusters("east") as servers, Manager(client, listen="127.0.0.1:0") as manager:
        fleet = manager.add(Fleet({"east": servers["east"].client(), "west": broken}))
        fleet.union(CONFIG_MAPS)
        await fleet.wait_synced(20)
        await until(lambda: fleet.health()["west"].state == "failed")
        url = f"http://127.0.0.1:{manager.port}"
        table = await kinformer("stats", url, "--once")
        document = await kinformer("stats", url, "--once", "-o", "json")
    lines = [line.split() for line in table.out.splitlines() if line]
    place = lines.index(["CLUSTER", "STATE", "INFORMERS", "FAILURES", "ERROR"])
    assert lines[place + 1] == ["fleet/east", "live", "1", "0"]
    assert lines[place + 2][:3] == ["fleet/west", "failed", "0"]
    assert lines[place + 2][4:] == ["OSError"]
    shown = json.loads(document.out)["fleets"]["fleet"]
    assert shown["statistics"]["joined"] == 1
    assert shown["clusters"]["east"]["live"] is True
    assert shown["clusters"]["east"]["resources"][CONFIG_MAPS]["state"] == "watching"
    assert shown["clusters"]["west"]["last_error"] == "OSError"
    assert (shown["source_error"], table.status, document.status) == (None, 0, 0)
