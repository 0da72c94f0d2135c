"""A fleet that follows the contexts of a kubeconfig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinformer import ConfigError, Fleet, NotSyncedError
from tests.derived.test_derived_properties import Told
from tests.fleet.clusters import CONFIG_MAPS, clusters, kubeconfig, write
from tests.support.log_records import Said, message_of, said
from tests.support.turns import Turns
from tests.support.waiting import until

POLL = 0.02


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config"


async def test_contexts_that_come_and_go_are_clusters_that_come_and_go(file: Path) -> None:
    async with clusters("east", "west", "north") as servers:
        write(file, kubeconfig({name: servers[name] for name in ("east", "west")}))
        async with Fleet.from_kubeconfig(file, poll=POLL, namespace="default") as fleet:
            maps = fleet.union(CONFIG_MAPS, field_selector="metadata.name!=kube-root-ca.crt")
            await fleet.wait_synced(10)
            assert set(maps.by_key) == {"east/default/east", "west/default/west"}
            east = fleet["east"]
            write(file, kubeconfig({name: servers[name] for name in ("north", "east")}))
            await until(lambda: set(maps.by_key) == {"east/default/east", "north/default/north"})
            assert fleet["east"] is east  # one that has not changed goes on
            assert fleet.statistics().left == 1
            with pytest.raises(ConfigError, match="remove it there"):
                await fleet.remove("east")


async def test_a_context_that_changes_is_connected_anew_and_told_by_differences(file: Path) -> None:
    async with clusters("old", "new") as servers:
        write(file, kubeconfig({"east": servers["old"]}))
        async with Fleet.from_kubeconfig(file, poll=POLL, namespace="default") as fleet:
            maps = fleet.union(CONFIG_MAPS, field_selector="metadata.name!=kube-root-ca.crt")
            await fleet.wait_synced(10)
            told = Told()
            maps.add_event_handler(told)
            await until(lambda: told.values)
            before = fleet["east"]
            write(file, kubeconfig({"east": servers["old"]}, user={"token": "new"}))
            await until(lambda: fleet["east"] is not before and fleet.health()["east"].live)
            assert maps.members == ("east",)
            assert set(told.values) == {"east/default/old"}
            write(file, kubeconfig({"east": servers["new"]}))
            await until(lambda: set(told.values) == {"east/default/new"})
            assert told.wrong == []
            assert fleet.statistics().replaced == 2
            assert fleet.statistics().left == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("contexts: [", "not YAML"),
        ('contexts: !!int ""', "a value is not of its type"),
        ("a: &a [*a]", "an alias contains itself"),
    ],
)
async def test_a_file_that_cannot_be_read_changes_nothing_and_is_shown(
    file: Path, caplog: pytest.LogCaptureFixture, content: str, reason: str
) -> None:
    async with clusters("east") as servers:
        write(file, kubeconfig(servers))
        async with Fleet.from_kubeconfig(file, poll=POLL) as fleet:
            await until(lambda: "east" in fleet)
            write(file, content)
            await until(lambda: fleet.source_error)
            assert reason in str(fleet.source_error)
            assert "east" in fleet
            write(file, kubeconfig({**servers, "west": servers["east"]}))
            await until(lambda: "west" in fleet)
            assert fleet.source_error is None
    assert said(caplog, "config") == [Said("ERROR", "kinformer.fleet", "fleet")]
    assert str(file) in message_of(caplog, "config")


async def test_a_context_that_is_broken_hides_no_other(file: Path) -> None:
    async with clusters("east") as servers:
        content: dict[str, Any] = kubeconfig(servers)
        content["contexts"].append({"name": "west", "context": {"cluster": "nowhere", "user": "me"}})
        write(file, content)
        async with Fleet.from_kubeconfig(file, poll=POLL) as fleet:
            maps = fleet.union(CONFIG_MAPS)
            await fleet.wait_synced(10)
            assert "east/default/east" in maps.by_key
            health = fleet.health()["west"]
            assert health.state == "failed"
            assert "'nowhere' is not in clusters" in str(health.last_error)
            write(file, kubeconfig({**servers, "west": servers["east"]}))
            await until(lambda: fleet.health()["west"].state == "running")


async def test_a_context_that_becomes_broken_keeps_its_connection_of_before(file: Path) -> None:
    async with clusters("east") as servers:
        content: dict[str, Any] = kubeconfig(servers)
        write(file, content)
        async with Fleet.from_kubeconfig(file, poll=POLL) as fleet:
            maps = fleet.union(CONFIG_MAPS)
            await fleet.wait_synced(10)
            content["contexts"][0]["context"]["cluster"] = "nowhere"
            write(file, content)
            await until(lambda: fleet.health()["east"].last_error)
            health = fleet.health()["east"]
            assert (health.state, health.live) == ("running", True)
            servers["east"].create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "namespace": "default"}}
            )
            await until(lambda: "east/default/n" in maps.by_key)


async def test_a_file_that_comes_later_is_waited_for(file: Path) -> None:
    async with clusters("east") as servers, Fleet.from_kubeconfig(file, poll=POLL) as fleet:
        maps = fleet.union(CONFIG_MAPS)

        async def reason() -> str:
            with pytest.raises(NotSyncedError) as caught:
                await fleet.wait_synced(0.1)
            return str(caught.value)

        await until(reason, holds=lambda text: "No such file" in text)
        assert not maps.has_synced
        write(file, kubeconfig(servers))
        await fleet.wait_synced(10)
        assert "east/default/east" in maps.by_key


async def test_names_of_contexts_are_mapped_left_out_and_not_confused(file: Path) -> None:
    async with clusters("east") as servers:
        names = ("arn:aws:eks:eu/east", "arn:aws:eks:eu_east", "other")
        write(file, kubeconfig(dict.fromkeys(names, servers["east"])))
        async with Fleet.from_kubeconfig(file, poll=POLL) as fleet:
            await until(lambda: len(fleet) == 2)
            assert set(fleet) == {"arn:aws:eks:eu_east", "other"}
            error = str(fleet.health()["arn:aws:eks:eu_east"].last_error)
            assert "context 'arn:aws:eks:eu/east' already defines cluster 'arn:aws:eks:eu_east'" in error

        def only_eks(context: str) -> str | None:
            if context == "other":
                raise ZeroDivisionError("a bug of the program")
            if context.endswith("eu_east"):
                return {"unhashable": "eu"}  # type: ignore[return-value]
            return "eu" if context.startswith("arn") and "/" in context else None

        async with Fleet.from_kubeconfig(file, poll=POLL, cluster_of=only_eks) as fleet:
            await until(lambda: list(fleet) == ["eu"])
            assert "cluster_of raised ZeroDivisionError: a bug" in str(fleet.health()["other"].last_error)
            assert "returned dict" in str(fleet.health()["arn:aws:eks:eu_east"].last_error)


async def test_many_contexts_hold_the_loop_for_a_slice_of_them_at_most(file: Path) -> None:
    write(file, kubeconfig({f"c{number}": "http://127.0.0.1:1" for number in range(20)}))
    turns = Turns()
    async with Fleet.from_kubeconfig(file, poll=POLL, cluster_of=turns.seen_slowly):
        await until(lambda: len(turns.seen) >= 20)
    assert len(set(turns.seen[:20])) > 10
