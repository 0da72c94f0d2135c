"""A fleet that the program changes: what joins, what leaves, and what is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinformer import (
    Client,
    ConfigError,
    Controller,
    Fleet,
    NotSyncedError,
    Request,
    SharedInformerFactory,
    StoppedError,
)
from kinformer.derived import UnionCollection, filtered, mapped
from kinformer.fleet import Cluster, FleetStatistics
from tests.derived.test_derived_properties import Told
from tests.fleet.clusters import CONFIG_MAPS, clusters, kubeconfig, write
from tests.support.kube import config_map
from tests.support.log_records import Said, message_of, said
from tests.support.ports import reserved_port
from tests.support.waiting import settle, until


def named(union: UnionCollection[Any]) -> set[str]:
    """The keys of a union, without those that each cluster has of its own."""
    return {key for key in union.by_key if not key.endswith("kube-root-ca.crt")}


async def test_clusters_come_and_go_in_every_union_also_one_that_is_asked_for_later() -> None:
    async with clusters("east", "west", "north") as servers:
        given = {name: servers[name].client() for name in ("east", "west")}
        async with Fleet(given) as fleet:
            first = fleet.union(CONFIG_MAPS)
            await fleet.wait_synced(10)
            assert named(first) == {"east/default/east", "west/default/west"}
            told = Told()
            first.add_event_handler(told)
            added = await fleet.add("north", servers["north"].client())
            assert fleet["north"] is added
            second = fleet.union("v1/namespaces")
            await until(lambda: named(first) == {"east/default/east", "west/default/west", "north/default/north"})
            await second.wait_synced(10)
            assert {key.partition("/")[0] for key in second.by_key} == {"east", "west", "north"}
            assert "north//default" in second.by_key
            await fleet.remove("west")
            await until(lambda: named(first) == {"east/default/east", "north/default/north"})
            await settle()
            assert {key for key in told.values if "kube-root-ca" not in key} == named(first)
            assert told.wrong == []
            assert list(fleet) == ["east", "north"]
            assert "west" not in fleet
            assert fleet.statistics() == FleetStatistics(clusters=2, joined=3, left=1)


async def test_each_cluster_has_its_client_and_its_factory() -> None:
    async with clusters("east") as servers, Fleet({"east": servers["east"].client()}) as fleet:
        await fleet.wait_synced(10)
        cluster = fleet["east"]
        assert isinstance(cluster, Cluster)
        assert cluster.name == "east"
        assert cluster.client.server == servers["east"].url
        informer = cluster.factory.for_resource("v1/namespaces")
        await informer.wait_synced(10)
        assert fleet.health()["east"].live
        assert list(fleet.health()["east"].resources) == ["v1/namespaces"]
    assert informer.health().state == "stopped"


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_a_cluster_that_is_away_holds_up_no_other_and_comes_back() -> None:
    async with clusters("east", "west") as servers:
        servers["west"].pause()
        given = {name: server.client() for name, server in servers.items()}
        loop = asyncio.get_running_loop()
        async with Fleet(given, away_after=5) as fleet:
            started = loop.time()
            maps = fleet.union(CONFIG_MAPS)
            await fleet.wait_synced(60)
            assert loop.time() - started < 35  # a request without an answer has failed after 30 s
            assert named(maps) == {"east/default/east"}
            health = fleet.health()
            assert (health["east"].live, health["west"].live) == (True, False)
            assert "no response" in str(health["west"].last_error)
            servers["west"].resume()
            await until(lambda: len(named(maps)) == 2, 120)
            await until(lambda: fleet.health()["west"].live, 10)
            servers["west"].pause()
            await until(lambda: not fleet.health()["west"].live, 1000)
            assert len(named(maps)) == 2
            servers["west"].resume()


async def test_a_cluster_that_cannot_be_connected_is_shown_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tried: list[int] = []

    def broken() -> Client:
        tried.append(1)
        if len(tried) == 1:
            raise ConfigError("no such cluster, for now")
        return servers["west"].client()

    async with clusters("east", "west") as servers, Fleet({"east": servers["east"].client(), "west": broken}) as fleet:
        maps = fleet.union(CONFIG_MAPS)
        await fleet.wait_synced(10)
        assert named(maps) == {"east/default/east"}
        health = fleet.health()["west"]
        assert (health.state, health.live, health.failures) == ("failed", False, 1)
        assert str(health.last_error) == "no such cluster, for now"
        assert fleet.statistics().failures == 1
        await until(lambda: "west/default/west" in maps.by_key)
        assert fleet.health()["west"].last_error is None
    assert said(caplog, "config") == [Said("ERROR", "kinformer.fleet", "west")]
    assert "no such cluster, for now" in message_of(caplog, "config")


async def test_adding_a_cluster_that_cannot_be_connected_raises_and_leaves_nothing() -> None:
    async with Fleet() as fleet:
        await fleet.wait_synced(1)
        with pytest.raises(ConfigError, match="no such context"):
            await fleet.add("east", Client.from_kubeconfig({"no": "kubeconfig"}, context="no such context"))
        assert fleet.health() == {}
        with pytest.raises(ConfigError, match="expected a Client"):
            await fleet.add("east", "https://east")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="invalid member name 'a/b'"):
            await fleet.add("a/b", Client.from_url("http://127.0.0.1:1"))
        with pytest.raises(KeyError):
            await fleet.remove("east")


async def test_a_name_that_is_taken_is_refused() -> None:
    async with clusters("east") as servers, Fleet({"east": servers["east"].client()}) as fleet:
        with pytest.raises(ConfigError, match="already has a cluster 'east'"):
            await fleet.add("east", servers["east"].client())


async def test_asking_twice_returns_the_same_union_and_the_last_holder_ends_it() -> None:
    async with clusters("east") as servers, Fleet({"east": servers["east"].client()}) as fleet:
        maps = fleet.union(CONFIG_MAPS)
        assert fleet.union(CONFIG_MAPS, indexers={"name": "metadata.name"}) is maps
        assert fleet.union(CONFIG_MAPS, namespace="default") is not maps
        with pytest.raises(ConfigError, match="unknown option 'colour'"):
            fleet.union(CONFIG_MAPS, colour="red")  # type: ignore[call-arg]
        await fleet.wait_synced(10)
        assert [one.key for one in maps.lister.by_index("name", "east")] == ["default/east"]
        assert len(fleet["east"].factory.informers) == 2
        await fleet.release(maps)
        assert maps.health().live
        await fleet.release(maps)
        assert maps.health().state == "stopped"
        assert len(fleet["east"].factory.informers) == 1
        with pytest.raises(ValueError, match="is not held"):
            await fleet.release(maps)


async def test_a_union_of_what_a_function_makes_of_each_cluster() -> None:
    def labelled(cluster: Cluster) -> Any:
        if cluster.name == "north":
            raise ZeroDivisionError("a bug of the program")
        maps = cluster.factory.for_resource(CONFIG_MAPS)
        return cluster.factory.add(filtered(maps, lambda one: "app" in one.labels))

    async with clusters("east", "west", "north") as servers:
        for name in ("east", "west"):
            servers[name].create(config_map("labelled", labels={"app": name}))
        async with Fleet({name: server.client() for name, server in servers.items()}) as fleet:
            union = fleet.union_of(labelled, name="labelled", indexers={"app": lambda one: [one.labels["app"]]})
            await fleet.wait_synced(10)
            assert set(union.by_key) == {"east/default/labelled", "west/default/labelled"}
            assert [one.labels["app"] for one in union.lister.by_index("app", "west")] == ["west"]
            assert isinstance(fleet.health()["north"].last_error, ZeroDivisionError)
            assert fleet.statistics().failures == 1


async def test_leaving_ends_the_unions_then_the_clusters_and_tells_no_delete() -> None:
    told = Told()
    async with clusters("east", "west") as servers:
        async with Fleet({name: server.client() for name, server in servers.items()}) as fleet:
            maps = fleet.union(CONFIG_MAPS)
            await fleet.wait_synced(10)
            maps.add_event_handler(told)
            await settle()
            client = fleet["east"].client
        assert len(told.values) == len(maps.lister)
        assert maps.health().state == "stopped"
        assert len(fleet) == 0
        with pytest.raises(RuntimeError):
            await client.request("GET", "/version")
        with pytest.raises(StoppedError, match="fleet was exited"):
            fleet.union(CONFIG_MAPS)
        with pytest.raises(StoppedError, match="fleet was exited"):
            await fleet.add("north", servers["east"].client())
        with pytest.raises(RuntimeError, match="has already been entered"):
            await fleet.__aenter__()


async def test_leaving_while_a_cluster_is_being_connected_ends_that_too() -> None:
    started = asyncio.Event()

    class Slow(Client):
        async def __aenter__(self) -> Any:
            started.set()
            await asyncio.Event().wait()

    async with Fleet({"east": Slow()}) as fleet:
        adding = asyncio.ensure_future(fleet.add("west", Slow()))
        maps = fleet.union(CONFIG_MAPS)
        await started.wait()
        with pytest.raises(NotSyncedError, match="the clusters of the program are not known yet"):
            await maps.wait_synced(0.05)
    with pytest.raises(StoppedError, match="was exited"):
        await adding


async def test_a_cluster_that_is_removed_while_it_is_being_connected_ends_its_add() -> None:
    started = asyncio.Event()

    class Slow(Client):
        async def __aenter__(self) -> Any:
            started.set()
            await asyncio.Event().wait()

    async with Fleet() as fleet:
        adding = asyncio.ensure_future(fleet.add("west", Slow()))
        await started.wait()
        await fleet.remove("west")
        with pytest.raises(StoppedError, match="'west' was removed"):
            await adding
        assert "west" not in fleet.health()


@pytest.mark.virtual_time
async def test_a_cluster_that_connects_for_ever_holds_up_no_union() -> None:
    class Slow(Client):
        async def __aenter__(self) -> Any:
            await asyncio.Event().wait()

    async with clusters("east") as servers, Fleet({"east": servers["east"].client(), "west": Slow()}) as fleet:
        maps = fleet.union(CONFIG_MAPS)
        await fleet.wait_synced(11)
        assert named(maps) == {"east/default/east"}
        assert fleet.health()["west"].state == "connecting"


async def test_a_cancelled_program_leaves_the_fleet_and_no_task() -> None:
    async with clusters("east") as servers:
        running = asyncio.Event()

        async def main() -> None:
            async with Fleet({"east": servers["east"].client()}) as fleet:
                fleet.union(CONFIG_MAPS)
                await fleet.wait_synced(10)
                running.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(main())
        await running.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


async def test_leaving_from_inside_a_handler_is_refused() -> None:
    refused: list[BaseException] = []
    async with clusters("east") as servers, Fleet({"east": servers["east"].client()}) as fleet:

        async def on_add(_: Any) -> None:
            try:
                await fleet.__aexit__(None, None, None)
            except RuntimeError as error:
                refused.append(error)

        fleet.union(CONFIG_MAPS).add_event_handler(on_add=on_add)
        await until(lambda: refused)
    assert "cannot be exited" in str(refused[0])


async def test_a_controller_over_a_union_knows_the_cluster_and_writes_to_it() -> None:
    seen: list[Request] = []
    async with clusters("east", "west") as servers, Fleet({"east": servers["east"].client()}) as fleet:
        maps = fleet.union(CONFIG_MAPS, namespace="default", field_selector="metadata.name!=kube-root-ca.crt")

        async def reconcile(request: Request) -> None:
            cluster = fleet.get(request.cluster)
            if cluster is None or maps.by_key.get(request.key) is None:
                return
            seen.append(request)
            path = f"/api/v1/namespaces/{request.namespace}/configmaps/{request.name}"
            merge = {"Content-Type": "application/merge-patch+json"}
            await cluster.client.request("PATCH", path, body={"data": {"from": request.cluster}}, headers=merge)

        controller = Controller(reconcile, name="marks").for_(maps)
        task = asyncio.ensure_future(controller.run())
        await until(lambda: len(seen) >= 1)
        await fleet.add("west", servers["west"].client())
        wanted = {"east/default/east": "east", "west/default/west": "west"}
        await until(lambda: {key: maps.by_key[key].path("data.from") for key in named(maps)} == wanted)
        await until(lambda: len(seen) == 4 and not controller.statistics().active)
        figures = controller.statistics()
        task.cancel()
        await asyncio.wait({task})
    assert sorted(request.key for request in seen) == ["east/default/east"] * 2 + ["west/default/west"] * 2
    assert figures.reconciles == {"success": 4}


async def test_a_write_to_one_cluster_is_not_waited_for_in_another() -> None:
    runs: list[float] = []
    async with clusters("east", "west") as servers:
        for number in range(20):  # so that the versions of the other are behind
            servers["east"].create(config_map(f"more-{number}", namespace="kube-system"))
        async with Fleet({name: server.client() for name, server in servers.items()}) as fleet:
            maps = fleet.union(CONFIG_MAPS, namespace="default")
            await fleet.wait_synced(10)

            async def reconcile(request: Request) -> None:
                if request.key == "east/default/east":
                    runs.append(asyncio.get_running_loop().time())
                    path = f"/api/v1/namespaces/{request.namespace}/configmaps/{request.name}"
                    body = {**maps.by_key[request.key].to_dict(), "data": {"run": str(min(len(runs), 3))}}
                    await fleet["east"].client.request("PUT", path, body=body)

            controller = Controller(reconcile, name="writes").for_(maps)
            task = asyncio.ensure_future(controller.run())
            await until(lambda: len(runs) == 4)
            await until(lambda: not controller.statistics().active)
            figures = controller.statistics()
            task.cancel()
            await asyncio.wait({task})
    assert figures.own_write_timeouts == 0
    assert runs[-1] - runs[0] < 4  # a wait that is in vain takes 5 s at least


async def test_a_factory_enters_a_fleet_and_leaves_it_before_its_informers(client: Client) -> None:
    async with clusters("east") as servers, SharedInformerFactory(client) as factory:
        fleet = factory.add(Fleet({"east": servers["east"].client()}))
        maps = fleet.union(CONFIG_MAPS)
        keys = factory.add(mapped(maps, lambda one: one.name))
        await keys.wait_synced(10)
        assert keys.by_key["east/default/east"] == "east"
    assert keys.health().state == maps.health().state == "stopped"
    assert len(fleet) == 0


async def test_a_log_line_says_what_joined_and_left(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kinformer.fleet")
    async with clusters("east") as servers, Fleet(name="prod") as fleet:
        await fleet.add("east", servers["east"].client())
        await fleet.remove("east")
    for reason in ("joined", "left"):
        assert said(caplog, reason) == [Said("INFO", "kinformer.fleet", "east")]
        assert message_of(caplog, reason).startswith("east: ")
        assert "prod" in message_of(caplog, reason)
    assert servers["east"].url in message_of(caplog, "joined")


async def test_a_cluster_whose_server_refuses_connections_is_away() -> None:
    with reserved_port() as port:
        async with clusters("east") as servers:
            given = {"east": servers["east"].client(), "west": Client.from_url(f"http://127.0.0.1:{port}")}
            async with Fleet(given, away_after=0.2) as fleet:
                maps = fleet.union(CONFIG_MAPS)
                await fleet.wait_synced(10)
                assert named(maps) == {"east/default/east"}
                assert not maps.member_health()["west"].live
                with pytest.raises(NotSyncedError, match="is not reachable"):
                    await fleet["west"].factory.wait_for_cache_sync(0.1)


@pytest.mark.slow
async def test_many_clusters_that_join_at_once_do_so_one_by_one(tmp_path: Path) -> None:
    async with clusters("one") as servers:
        file = tmp_path / "config"
        names = [f"cluster-{number}" for number in range(60)]
        write(file, kubeconfig(dict.fromkeys(names, servers["one"])))
        given = Fleet({name: servers["one"].client() for name in names})
        for fleet in (given, Fleet.from_kubeconfig(file, poll=0.05)):
            async with fleet:
                early = fleet.union(CONFIG_MAPS, namespace="default")
                assert await most_in_a_turn(lambda: len(tasks_of_clusters()), 60) <= 2
                await fleet.wait_synced(60)
                assert len(named(early)) == 60
                late = fleet.union("v1/secrets")
                assert not late.has_synced
                assert await most_in_a_turn(lambda union=late: len(union.members), 60) <= 2
                await late.wait_synced(60)
                assert late.has_synced
                if fleet is not given:
                    write(file, kubeconfig({"one": servers["one"]}))
                    assert await most_in_a_turn(lambda union=late: len(union.members), 1) <= 2


def tasks_of_clusters() -> list[Any]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("kinformer fleet: cluster cluster-")]


async def most_in_a_turn(number: Callable[[], int], until_there_are: int) -> int:
    """Return the largest difference that one turn of the loop makes."""
    before, most = number(), 0
    async with asyncio.timeout(60):
        while before != until_there_are:
            await asyncio.sleep(0)
            now = number()
            most, before = max(most, abs(now - before)), now
    return most


async def test_a_union_that_is_left_while_clusters_join_it_takes_no_more() -> None:
    async with clusters("one") as servers:
        given = {f"cluster-{number}": servers["one"].client() for number in range(20)}
        fleet = Fleet(given)
        async with fleet:
            await until(lambda: len(fleet) == 20)
            maps = fleet.union(CONFIG_MAPS)
            await fleet.release(maps)
            again = fleet.union(CONFIG_MAPS)
            await fleet.remove("cluster-19")
            await again.wait_synced(30)
            assert len(again.members) == 19
            assert "cluster-19" not in again.members
            fleet.union("v1/secrets")
    left = [task for task in asyncio.all_tasks() if "fleet" in task.get_name()]
    assert not left
