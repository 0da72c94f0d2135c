"""The exploration: what it finds, how it tells it, and that it does the same each time.

Internals: single histories, since an exploration chooses its schedules itself; and the clocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from kinformer import AlreadyExistsError, Client, ConfigError
from kinformer._runtime.clock import SYSTEM
from kinformer.testing.explore import (
    ALL,
    ClusterState,
    ExplorationError,
    LostAnswer,
    Refused,
    Slow,
    Stale,
    World,
    explore,
    reproduce,
)
from kinformer.testing.explore.exploration import quietly
from kinformer.testing.explore.history import History
from kinformer.testing.explore.schedule import Point, Schedule, Strike
from kinformer.testing.simulation.calls import calls_simulated
from tests.explore.programs import CONFIG_MAPS, CRD, WEBSITES, Main, careful, careless, declare, forever, website

pytest.importorskip("time_machine")

LOST = Strike("LostAnswer", "cut", Point(1, "create", CONFIG_MAPS, 0), 5.0)


def exploring(main: Main, **options: Any) -> Callable[[], None]:
    async def test(world: World) -> None:
        declare(world, main)

    return explore(**options)(test)


def found(main: Main, **options: Any) -> ExplorationError:
    with pytest.raises(ExplorationError) as caught:
        exploring(main, **options)()
    return caught.value


def played(schedule: Schedule, main: Main = careful) -> History:
    world = World(lambda strategy: [])
    declare(world, main)
    history = History(world.plan, schedule)
    with quietly():
        history.play()
    return history


# --- what it finds -------------------------------------------------------------------------------------------


def test_a_careless_operator_is_found_and_the_story_names_the_lost_answer_and_the_second_create() -> None:
    error = found(careless, schedules=100)
    assert [strike.fault for strike in error.schedule.strikes] == ["LostAnswer"]
    story = str(error).splitlines()
    assert story[0].startswith("at_most_one_config_map_per_website does not hold: ['a', 'a']")
    told = [number for number, line in enumerate(story) if "creates v1/configmaps default/a-" in line]
    assert len(told) == 2
    (lost,) = (line for line in story if "there is no answer" in line)
    assert "programs.py:" in lost, "the place in the program"
    assert "in reconcile" in lost
    assert len(story) < 25


def test_a_careful_operator_survives() -> None:
    exploring(careful, schedules=40)()


def test_the_text_at_the_end_of_a_story_plays_the_same_history_again() -> None:
    error = found(careless, schedules=100)
    text = str(error).rpartition('@reproduce("')[2].partition('"')[0]

    async def test(world: World) -> None:
        declare(world, careless)

    for decorated in (reproduce(text)(explore(schedules=500)(test)), explore(schedules=500)(reproduce(text)(test))):
        with pytest.raises(ExplorationError) as again:
            decorated()
        assert again.value.schedule.strikes == error.schedule.strikes
        assert again.value.tried == 1


def test_only_the_faults_that_are_named_strike() -> None:
    exploring(careless, schedules=60, faults={Refused})()
    assert found(careless, schedules=60, faults={Refused, LostAnswer}).finding.rule == "always"


async def stubborn(client: Client) -> None:
    """Make a ConfigMap, whose name says how many requests were refused before."""
    await asyncio.sleep(3)
    for name in ("first", "second", "third"):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        try:
            await client.request("POST", "/api/v1/namespaces/default/configmaps", body=body, retries=0)
        except Exception:
            continue
        break
    await forever()


def made_it_through_two_refusals(state: ClusterState) -> None:
    assert not any(one["metadata"]["name"] == "third" for one in state.list(CONFIG_MAPS))


async def explored_stubborn(world: World) -> None:
    world.run(stubborn)
    world.always(made_it_through_two_refusals)


def test_faults_are_combined_and_shrunk_to_those_that_matter() -> None:
    with pytest.raises(ExplorationError) as caught:
        explore(schedules=200, faults={Refused, Slow, LostAnswer}, seed=1)(explored_stubborn)()
    strikes = caught.value.schedule.strikes
    assert sorted(strike.at.number for strike in strikes) == [0, 1]
    assert {strike.fault for strike in strikes} <= {"Refused", "LostAnswer"}


def test_a_program_that_lists_from_a_cache_which_is_behind_is_found_only_by_stale_reads() -> None:
    async def trusting(client: Client) -> None:
        path, query = "/api/v1/namespaces/default/configmaps", {"resourceVersion": "0"}
        for _ in range(3):
            await asyncio.sleep(5)
            found = await client.request("GET", path, params=query)
            if not found["items"]:
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "only-"}}
                await client.request("POST", path, body=body)
        await forever()

    def only_one(state: ClusterState) -> bool:
        return len(state.list(CONFIG_MAPS, "default")) < 2

    async def test(world: World) -> None:
        world.run(trusting)
        world.always(only_one)

    with pytest.raises(ExplorationError) as caught:
        explore(schedules=60, faults={Slow, Stale}, seed=1)(test)()
    assert [strike.fault for strike in caught.value.schedule.strikes] == ["Stale"]
    assert "answered by a cache that is behind" in str(caught.value)


def test_a_script_may_be_a_strategy_and_is_part_of_what_is_reproduced() -> None:
    async def test(world: World) -> None:
        declare(world, careless)
        world.script(
            st.lists(st.sampled_from(["c", "d", "e"]).map(lambda name: world.create(website(name))), max_size=3)
        )

    with pytest.raises(ExplorationError) as caught:
        explore(schedules=200)(test)()
    text = str(caught.value).rpartition('@reproduce("')[2].partition('"')[0]
    with pytest.raises(ExplorationError) as again:
        reproduce(text)(explore()(test))()
    assert str(again.value).splitlines()[0] == str(caught.value).splitlines()[0]


# --- what is found without being asked -----------------------------------------------------------------------


def finding_of(main: Main, *script: Any, **options: Any) -> str:
    async def test(world: World) -> None:
        world.apply(CRD)
        world.run(main, **options)
        world.script(*(step(world) for step in script))

    with pytest.raises(ExplorationError) as caught:
        explore(schedules=1)(test)()
    return f"{caught.value.finding.rule}: {caught.value.finding.text}"


def create_a(world: World) -> Any:
    return world.create(website("a"))


def delete_a(world: World) -> Any:
    return world.delete(WEBSITES, "default/a")


def test_an_error_that_ends_the_program_is_found() -> None:
    async def broken(client: Client) -> None:
        await client.request("GET", "/api/v1/namespaces/default/configmaps/none")

    assert finding_of(broken).startswith("errors: replica 1 ended with NotFoundError")


def test_an_error_of_a_task_that_is_never_awaited_is_found_and_told() -> None:
    async def fail() -> None:
        raise ValueError("of its own")

    async def careless_of_tasks(client: Client) -> None:
        asyncio.get_running_loop().create_task(fail())
        await forever()

    assert finding_of(careless_of_tasks).startswith("errors: replica 1: Task exception was never retrieved: ValueError")


def test_a_program_that_writes_for_ever_is_found() -> None:
    async def restless(client: Client) -> None:
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        await client.request("POST", "/api/v1/namespaces/default/configmaps", body=body)
        while True:
            await asyncio.sleep(1)
            body["data"] = {"at": datetime.now(UTC).isoformat()}
            await client.request("PUT", "/api/v1/namespaces/default/configmaps/a", body=body)

    assert finding_of(restless).startswith("rest: the program never comes to rest")


def test_a_finalizer_that_is_never_removed_is_found() -> None:
    async def holding(client: Client) -> None:
        await asyncio.sleep(10)
        body = {"metadata": {"finalizers": ["example.com/hold"]}}
        await client.request("PATCH", "/apis/example.com/v1/namespaces/default/websites/a", body=body)
        await forever()

    text = finding_of(holding, create_a, lambda world: world.patch(WEBSITES, "default/a", {"spec": {"x": 1}}), delete_a)
    assert text.startswith("finalizers: example.com/v1/websites default/a is deleted, and its finalizers example.com/h")


def test_what_is_left_behind_after_its_owner_is_found() -> None:
    async def forgetful(client: Client) -> None:
        await asyncio.sleep(8)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-pages"}}
        await client.request("POST", "/api/v1/namespaces/default/configmaps", body=body)
        await forever()

    text = finding_of(forgetful, create_a, delete_a)
    assert text.startswith("leftovers: v1/configmaps default/a-pages, made by replica 1, is left behind")


def test_a_rule_may_be_left_out() -> None:
    async def broken(client: Client) -> None:
        raise ValueError

    async def test(world: World) -> None:
        world.run(broken)

    explore(schedules=1, ignore={"errors"})(test)()
    with pytest.raises(ConfigError, match="unknown rule: error;"):
        explore(ignore={"error"})


def test_a_check_that_fails_with_another_error_is_a_finding() -> None:
    def broken(state: ClusterState) -> bool:
        return state.list(WEBSITES)[0]["status"]["ready"]

    async def test(world: World) -> None:
        declare(world, careful)
        world.always(broken)

    with pytest.raises(ExplorationError, match="broken raised KeyError: 'status'"):
        explore(schedules=1)(test)()


# --- the same each time --------------------------------------------------------------------------------------


def test_a_run_without_a_seed_tries_the_same_as_the_one_before() -> None:
    errors = []
    for _ in range(2):
        random.seed()
        with pytest.raises(ExplorationError) as caught:
            explore(schedules=200, faults={Refused, Slow, LostAnswer})(explored_stubborn)()
        errors.append(caught.value)
    assert errors[0].tried == errors[1].tried > 1
    assert errors[0].schedule == errors[1].schedule


def test_a_success_prints_what_was_tried_and_what_was_not(capsys: pytest.CaptureFixture[str]) -> None:
    async def test_two_replicas(world: World) -> None:
        async def main(client: Client) -> None:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
            with contextlib.suppress(AlreadyExistsError):
                await client.request("POST", "/api/v1/namespaces/default/configmaps", body=body)
                await client.request("DELETE", "/api/v1/namespaces/default/configmaps/a")
            await forever()

        world.run(main, replicas=2)

    explore(schedules=1, faults={Slow})(test_two_replicas)()
    first, spared, missed = capsys.readouterr().out.splitlines()
    assert (
        first == "explored test_two_replicas: 1 history (0 with one fault, 0 with several), 0 faults at 0 of 3 points"
    )
    assert spared.startswith("  no fault struck at: replica 1 create v1/configmaps (1 of 1), replica 1 delete v1/c")
    assert missed == "  never reached: replica 2 delete v1/configmaps"

    explore(schedules=12, faults={Slow})(test_two_replicas)()
    first, *_ = capsys.readouterr().out.splitlines()
    assert re.match(r"explored .*: 12 histories \(\d+ with one fault, \d+ with several\), \d+ faults at \d+ of ", first)


@pytest.mark.slow
def test_a_hundred_schedules_give_the_same_traces_twice_byte_for_byte() -> None:
    points = list(played(Schedule()).points)
    with calls_simulated():  # once, because it takes longer than a history
        for number in range(100):
            fault, point = ALL[number % len(ALL)], points[number % len(points)]
            strike = Strike(fault.name, fault.variants[0], point, fault.seconds[0])
            schedule = Schedule(number, (strike, LOST), (0.05, 5.0))
            assert played(schedule).trace.text() == played(schedule).trace.text(), schedule


HASHES = """
from tests.explore.test_explore import LOST, played
from kinformer.testing.explore.schedule import Schedule
import hashlib
print(hashlib.sha256("".join(played(Schedule(n, (LOST,))).trace.text() for n in range(5)).encode()).hexdigest())
"""


@pytest.mark.process
def test_other_processes_with_other_hashes_give_the_same_traces() -> None:
    here = "".join(played(Schedule(number, (LOST,))).trace.text() for number in range(5))
    for seed in ("1", "2"):
        other = subprocess.run(
            [sys.executable, "-c", HASHES],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=110,
            check=True,
        )
        assert other.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()


def test_dates_names_and_random_numbers_are_those_of_the_schedule() -> None:
    def looked(seed: int) -> list[Any]:
        seen: list[Any] = []

        async def looking(client: Client) -> None:
            await asyncio.sleep(5)
            seen.extend([datetime.now(UTC), time.time(), uuid.uuid4(), random.random(), os.urandom(4)])
            await forever()

        world = World(lambda strategy: [])
        world.run(looking)
        History(world.plan, Schedule(seed)).play()
        return seen

    first = looked(1)
    assert first[0] == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert first == looked(1)
    assert first[2:] != looked(2)[2:]
    assert abs(time.time() - datetime.now(UTC).timestamp()) < 1
    assert datetime.now(UTC).year > 2025


def test_a_check_reads_the_clocks_of_the_simulation_whoever_writes() -> None:
    times: set[tuple[float, float]] = set()

    def read(state: ClusterState) -> None:
        times.add((SYSTEM.wall() - SYSTEM.boot(), SYSTEM.boot() - SYSTEM.loop()))

    async def test(world: World) -> None:
        declare(world, careful)
        world.always(read)
        world.eventually(read)

    explore(schedules=1)(test)()
    assert {(round(wall, 3), round(loop, 3)) for wall, loop in times} == {(1_767_225_600.0 - 5000.0, 0.0)}


# --- how it is used ------------------------------------------------------------------------------------------


def test_a_test_without_a_world_or_that_awaits_is_told_so() -> None:
    async def nothing() -> None: ...

    with pytest.raises(ConfigError, match="nothing has no parameter `world`"):
        explore()(nothing)

    async def waits(world: World) -> None:
        await asyncio.sleep(1)

    with pytest.raises(ConfigError, match="must not await"):
        explore(schedules=1)(waits)()


def test_a_text_that_is_no_schedule_is_refused_where_it_is_written() -> None:
    with pytest.raises(ConfigError, match="'nonsense' is not an encoded schedule"):
        reproduce("nonsense")


@pytest.fixture
def answer() -> int:
    return 42


@explore(schedules=1)
async def test_fixtures_are_passed_beside_the_world(world: World, answer: int) -> None:
    assert answer == 42
    declare(world, careful)
