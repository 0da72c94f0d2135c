"""`kinformer stats`: the figures of informers, and their rates.

Internals: the gauges and the command, since the process has no clock of a test's.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kinformer import SharedInformerFactory
from kinformer.cli.commands.figures import Gauge
from kinformer.cli.commands.stats import stats
from kinformer.cli.target import ObjectSelection, Server
from kinformer.testing import APIServer, faults
from tests.support.cli import CommandLine
from tests.support.kube import config_map
from tests.support.waiting import until


@pytest.fixture
def kinformer(server: APIServer, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys, server.url)


async def test_once_prints_a_line_a_resource_and_ends(server: APIServer, kinformer: CommandLine) -> None:
    for number in range(3):
        server.create(config_map(f"cm-{number}"))
    ended = await kinformer("stats", "cm", "nodes", "-A", "--once", "--interval", "0.1")
    header, *rows = ended.out.splitlines()
    assert header.split()[:4] == ["RESOURCE", "STATE", "OBJECTS", "MEMORY"]
    assert [row.split()[:3] for row in rows] == [["v1/configmaps", "watching", "3"], ["v1/nodes", "watching", "0"]]
    assert (ended.status, ended.err) == (0, "")


async def test_once_as_json_has_every_figure(server: APIServer, kinformer: CommandLine) -> None:
    server.create(config_map("a"))
    ended = await kinformer("stats", "cm", "configmaps", "--once", "--interval", "0.1", "-o", "json")
    document = json.loads(ended.out)
    (informer,) = document["informers"]  # asked for twice, there once
    assert (informer["resource"], informer["objects"], informer["live"]) == ("v1/configmaps", 1, True)
    assert informer["events"] == {"ADDED": 1, "UPDATED": 0, "DELETED": 0}
    assert informer["rates"] == {"ADDED": 0, "UPDATED": 0, "DELETED": 0}
    assert 300 < informer["memory"] < 3000
    assert document["process"]["memory"] > 1_000_000
    assert datetime.fromisoformat(document["at"]).tzinfo is not None


async def test_a_named_object_has_an_informer_of_its_own(server: APIServer, kinformer: CommandLine) -> None:
    for number in range(3):
        server.create(config_map(f"cm-{number}"))
    ended = await kinformer("stats", "cm/cm-0", "cm/cm-1", "--once", "--interval", "0.1", "-o", "json")
    assert [informer["objects"] for informer in json.loads(ended.out)["informers"]] == [1, 1]


@pytest.mark.virtual_time
async def test_without_a_terminal_there_is_a_look_again_and_again(
    server: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    where, what = Server(url=server.url), [ObjectSelection(resource="cm")]
    assert await stats(where, what, output="json", once=False, interval=2, timeout=10, duration=15) == 0
    looks = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(looks) in (6, 7)
    assert looks[-1]["informers"][0]["synced"]


async def test_it_ends_after_its_duration(kinformer: CommandLine) -> None:
    ended = await kinformer("stats", "cm", "-o", "json", "--interval", "0.2", "--duration", "0.5")
    assert (ended.status, ended.err) == (0, "")


async def test_a_cache_that_does_not_sync_fails_and_the_others_are_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "config"
    rules = [("eve", "*", "v1/configmaps")]
    async with APIServer(users={"secret": "eve"}, rules=rules) as server:
        server.kubeconfig(path, user="eve")
        ended = await CommandLine(capsys)("stats", "cm", "secrets", "--once", "--kubeconfig", str(path))
    assert ended.status == 1
    rows = {row.split()[0]: row.split()[1] for row in ended.out.splitlines()[1:]}
    assert rows["v1/secrets"] == "forbidden"
    assert rows["v1/configmaps"] in ("watching", "listing", "starting")
    assert "secrets is forbidden" in ended.err
    assert ended.err.count("\n") == 1


async def test_a_timeout_names_what_has_not_come(server: APIServer, kinformer: CommandLine) -> None:
    server.faults.add(faults.stall(), resource="v1/configmaps")
    ended = await kinformer("stats", "cm", "--once", "--timeout", "0.3")
    assert ended.status == 1
    assert "v1/configmaps" in ended.err


@pytest.mark.parametrize(("options", "smaller"), [(["--compact"], 0.8), (["--metadata-only"], 0.5)])
async def test_what_is_kept_of_objects_can_be_tried(
    server: APIServer, kinformer: CommandLine, options: list[str], smaller: float
) -> None:
    list(server.generate("v1/pods", 100))
    sizes = []
    for extra in ([], options):
        ended = await kinformer("stats", "pods", "-A", "--once", "--interval", "0.1", "-o", "json", *extra)
        sizes.append(json.loads(ended.out)["informers"][0]["memory"])
    assert sizes[1] < smaller * sizes[0]


# --- the figures ---------------------------------------------------------------------------------------------


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


async def heard(informer: Any, key: str) -> None:
    async with asyncio.timeout(10), informer.events() as events:
        async for event in events:
            if event.object.key == key:
                return


async def test_rates_are_of_the_last_seconds_and_do_not_count_the_first_list(server: APIServer) -> None:
    server.create(config_map("there-before"))
    clock = Clock()
    async with server.client() as client, SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/configmaps")
        gauge = Gauge(informer, clock=clock)
        assert gauge.look().rates["ADDED"] == 0
        await factory.wait_for_cache_sync()
        assert gauge.look().rates["ADDED"] == 0
        for number in range(10):
            server.create(config_map(f"cm-{number}"))
        await heard(informer, "default/cm-9")
        clock.seconds += 2
        figures = gauge.look()
        assert figures.rates == {"ADDED": 5.0, "UPDATED": 0.0, "DELETED": 0.0}
        assert figures.objects == 11
        for _ in range(10):
            clock.seconds += 1
            figures = gauge.look()
        assert figures.rates["ADDED"] == 0, "what is long past is no rate"


async def test_the_lag_is_from_the_creation_to_the_handler(server: APIServer) -> None:
    created = datetime.now(UTC)
    clock = Clock()
    async with server.client() as client, SharedInformerFactory(client) as factory:
        server.create(config_map("there-before"))
        informer = factory.for_resource("v1/configmaps")
        gauge = Gauge(informer, clock=clock, now=lambda: created + timedelta(seconds=30))
        await factory.wait_for_cache_sync(handlers=True)
        assert gauge.look().lag is None, "what was there before says nothing"
        server.create(config_map("new"))
        await heard(informer, "default/new")
        # another handler, with a queue of its own
        lag = await until(lambda: gauge.look().lag, holds=lambda lag: lag is not None)
        assert lag == pytest.approx(30, abs=3)
        clock.seconds += 120
        assert gauge.look().lag is None, "it was a minute ago"
