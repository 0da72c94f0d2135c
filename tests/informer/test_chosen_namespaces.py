"""Namespaces that are chosen by label, or by a collection, and come and go in one cache."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import (
    Client,
    ConfigError,
    KubeObject,
    LabelSelector,
    ListWatch,
    NotSyncedError,
    SharedInformer,
    SharedInformerFactory,
    StoppedError,
)
from kinformer.derived import filtered
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.log_records import Said, message_of, said
from tests.support.mirror import Mirror
from tests.support.waiting import settle, until

CONFIG_MAPS = "v1/configmaps"
TEAM_A = LabelSelector.parse("team=a")
MINE: dict[str, Any] = {"field_selector": "metadata.name!=kube-root-ca.crt", "namespaces": TEAM_A}


def namespace(name: str, team: str = "a") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}}


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    objects = [namespace("one"), namespace("two"), namespace("other", "b")]
    return [*objects, *(config_map("x", namespace=name) for name in ("one", "two", "other"))]


async def test_namespaces_that_get_and_lose_a_label_come_and_go(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource(CONFIG_MAPS, **MINE)
        mirror = Mirror()
        maps.add_event_handler(mirror)
        await factory.wait_for_cache_sync(10)
        assert set(maps.by_key) == {"one/x", "two/x"}
        assert set(maps.namespaces or ()) == {"one", "two"}
        server.update(namespace("other", "a"))
        await until(lambda: "other/x" in maps.by_key)
        server.create(config_map("y", namespace="other"))
        server.update(namespace("one", "b"))
        await until(lambda: set(maps.by_key) == {"other/x", "other/y", "two/x"})
        server.create(config_map("late", namespace="one"))
        server.create(config_map("z", namespace="two"))
        await until(lambda: "two/z" in maps.by_key)
        await settle()
        assert set(mirror.objects) == set(maps.by_key) == {"other/x", "other/y", "two/x", "two/z"}
        assert mirror.wrong == []
        assert maps.health().live
        assert set(maps.namespaces or ()) == {"other", "two"}
        server.update(namespace("one", "a"))
        await until(lambda: {"one/x", "one/late"} <= set(maps.by_key))
        assert maps.statistics().bytes > 0


async def test_a_namespace_that_is_forbidden_is_seen_and_holds_up_no_other() -> None:
    rules = [("me", "*", "v1/namespaces"), ("me", "*", CONFIG_MAPS)]
    async with APIServer(users={"token": "me"}, rules=rules) as server:
        for name in ("one", "two"):
            server.create(namespace(name))
            server.create(config_map("x", namespace=name))
        denied = server.faults.add(faults.status(403), resource=CONFIG_MAPS, namespace="two")
        async with server.client("me") as client, SharedInformerFactory(client) as factory:
            maps = factory.for_resource(CONFIG_MAPS, **MINE)
            await factory.wait_for_cache_sync(10)
            assert set(maps.by_key) == {"one/x"}
            health = maps.health()
            assert (health.state, health.live, health.synced) == ("forbidden", False, True)
            server.create(config_map("y", namespace="one"))
            await until(lambda: "one/y" in maps.by_key)
            denied.remove()
            await until(lambda: "two/x" in maps.by_key)
            await until(lambda: maps.health().live)


async def test_it_is_synced_when_the_namespaces_are_known_and_each_is_listed(server: APIServer, client: Client) -> None:
    server.pause()
    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource(CONFIG_MAPS, **MINE)
        with pytest.raises(NotSyncedError, match="the namespaces of v1/namespaces are not known: no response yet"):
            await maps.wait_synced(0.1)
        server.resume()
        await maps.wait_synced(10)
        none = factory.for_resource(CONFIG_MAPS, namespaces=LabelSelector.parse("team=nobody"))
        await none.wait_synced(10)
        assert (len(none.lister), none.health().live, none.namespaces) == (0, True, ())
        assert none.last_sync_resource_version == ""


async def test_a_namespace_that_loses_its_label_and_gets_it_back_before_the_sync_is_told_in_order(
    server: APIServer, client: Client
) -> None:
    never = server.faults.add(faults.stall(), resource=CONFIG_MAPS, namespace="two")
    entered, gate = asyncio.Event(), asyncio.Event()

    class Slow(Mirror):
        async def on_add(self, obj: KubeObject, *, is_in_initial_list: bool) -> None:
            super().on_add(obj, is_in_initial_list=is_in_initial_list)
            entered.set()
            await gate.wait()

    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource(CONFIG_MAPS, **MINE)
        slow = Slow()
        registration = maps.add_event_handler(slow)
        await asyncio.wait_for(entered.wait(), 10)
        for team in ("b", "a", "b", "a"):
            server.update(namespace("one", team))
            await until(lambda team=team: ("one/x" in maps.by_key) == (team == "a"))
        never.remove()
        server.update(namespace("two", "b"))
        await maps.wait_synced(10)
        assert not registration.has_synced
        gate.set()
        await registration.wait_synced(10)
        assert slow.wrong == []
        assert set(slow.objects) == {"one/x"}
        assert [call[0] for call in slow.calls][-1] == "add"


async def test_namespaces_of_a_collection(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        namespaces = factory.for_resource("v1/namespaces")
        chosen = factory.add(filtered(namespaces, lambda one: one.name.startswith("o"), name="with o"))
        maps = factory.for_resource(CONFIG_MAPS, namespaces=chosen)
        assert factory.for_resource(CONFIG_MAPS, namespaces=chosen) is maps
        await maps.wait_synced(10)
        assert {key.partition("/")[0] for key in maps.by_key} == {"one", "other"}
        server.create(namespace("omega"))
        server.create(config_map("x", namespace="omega"))
        await until(lambda: "omega/x" in maps.by_key)
        server.delete("v1/namespaces", "", "omega")
        await until(lambda: "omega/x" not in maps.by_key)


async def test_the_last_holder_gives_the_namespaces_back(client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource(CONFIG_MAPS, **MINE)
        assert factory.for_resource(CONFIG_MAPS, **MINE) is maps
        other = factory.for_resource("v1/secrets", namespaces=TEAM_A)
        await factory.wait_for_cache_sync(10)
        assert [one.name for one in factory.informers] == ["v1/namespaces", CONFIG_MAPS, "v1/secrets"]
        await factory.release(maps)
        await factory.release(maps)
        assert [one.name for one in factory.informers] == ["v1/namespaces", "v1/secrets"]
        await factory.release(other)
        assert factory.informers == ()


async def test_a_write_is_waited_for_in_its_namespace_and_not_in_one_that_has_left(
    server: APIServer, client: Client
) -> None:
    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource(CONFIG_MAPS, **MINE)
        await factory.wait_for_cache_sync(10)
        written = await client.request(
            "POST", "/api/v1/namespaces/one/configmaps", body=config_map("w", namespace="one")
        )
        assert isinstance(written, KubeObject)
        await maps.wait_for_resource_version(written, timeout=10)
        assert "one/w" in maps.by_key
        waiting = asyncio.ensure_future(maps.wait_for_resource_version("999999", namespace="one"))
        await settle()
        server.update(namespace("one", "b"))
        with pytest.raises(StoppedError, match="namespace one is no longer followed"):
            await asyncio.wait_for(waiting, 10)
        with pytest.raises(ValueError, match="follows the namespaces two"):
            await maps.wait_for_resource_version("1", namespace="one")


async def test_many_namespaces_that_come_or_go_at_once_do_so_one_by_one(server: APIServer, client: Client) -> None:
    names = [f"many-{number}" for number in range(120)]
    for name in names:
        server.create(namespace(name))
    source = ListWatch(client, "v1/namespaces")
    async with SharedInformerFactory(client) as factory, SharedInformer(source, name="namespaces") as namespaces:
        await namespaces.wait_synced(10)
        chosen = factory.add(filtered(namespaces, lambda one: one.labels.get("team") == "a"))
        await chosen.wait_synced(10)
        maps = factory.for_resource(CONFIG_MAPS, namespaces=chosen)  # all of them are there already
        assert await most_in_a_turn(maps, 122) <= 2
        await maps.wait_synced(60)
        for name in names:
            server.update(namespace(name, "b"))
        assert await most_in_a_turn(maps, 2) <= 2
        assert set(maps.namespaces or ()) == {"one", "two"}


async def most_in_a_turn(informer: SharedInformer[Any], until_there_are: int) -> int:
    """Return the largest number of namespaces by which an informer has more or fewer after one turn of the loop."""
    before, most = len(informer.namespaces or ()), 0
    async with asyncio.timeout(60):
        while before != until_there_are:
            await asyncio.sleep(0)
            now = len(informer.namespaces or ())
            most, before = max(most, abs(now - before)), now
    return most


async def test_options_that_contradict_are_refused(client: Client, tmp_path: Any) -> None:
    factory = SharedInformerFactory(client)
    with pytest.raises(ConfigError, match="namespace or namespaces, not both"):
        factory.for_resource(CONFIG_MAPS, namespace="one", namespaces=TEAM_A)
    with pytest.raises(ConfigError, match="a snapshot of changing namespaces is not possible"):
        factory.for_resource(CONFIG_MAPS, namespaces=TEAM_A, snapshot=tmp_path)


async def test_counts_do_not_go_back_when_a_namespace_leaves(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource(CONFIG_MAPS, **MINE)
        await factory.wait_for_cache_sync(10)
        before = maps.statistics().bytes
        server.update(namespace("one", "b"))
        await until(lambda: set(maps.by_key) == {"two/x"})
        assert maps.statistics().bytes >= before > 0


async def test_namespaces_that_were_left_cannot_be_followed_and_no_task_is_left(client: Client) -> None:
    namespaces: SharedInformer[Any] = SharedInformer(ListWatch(client, "v1/namespaces"))
    async with namespaces:
        await namespaces.wait_synced(10)
    async with SharedInformerFactory(client) as factory:
        before = asyncio.all_tasks()
        with pytest.raises(StoppedError, match="informer v1/namespaces was exited"):
            factory.for_resource(CONFIG_MAPS, namespaces=namespaces)
        assert asyncio.all_tasks() == before
        assert factory.informers == ()


async def test_namespaces_that_are_left_first_stay_as_they_are(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    namespaces: SharedInformer[Any] = SharedInformer(ListWatch(client, "v1/namespaces", label_selector="team=a"))
    async with SharedInformerFactory(client) as factory:
        async with namespaces:
            maps = factory.for_resource(CONFIG_MAPS, namespaces=namespaces)
            await maps.wait_synced(10)
        server.create(config_map("y", namespace="one"))
        await until(lambda: "one/y" in maps.by_key)
        assert not maps.health().live
    assert said(caplog, "stopped") == [Said("WARNING", "kinformer.informer", CONFIG_MAPS)]
    assert "v1/namespaces" in message_of(caplog, "stopped")


STEPS = st.tuples(
    st.sampled_from(["label", "unlabel", "set", "set", "delete", "compact"]),
    st.sampled_from(["one", "two", "other"]),
    st.sampled_from("xyz"),
    st.booleans(),
)


async def live_through(steps: list[Any]) -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        teams = dict.fromkeys(("one", "two", "other"), "a")
        for name in teams:
            server.create(namespace(name))
        truth: dict[str, dict[str, int]] = {name: {} for name in teams}
        maps: SharedInformer[Any] = factory.for_resource(CONFIG_MAPS, **MINE)
        mirror = Mirror()
        maps.add_event_handler(mirror)
        for number, (step, name, key, pause) in enumerate(steps):
            if step in ("label", "unlabel"):
                teams[name] = "a" if step == "label" else "b"
                server.update(namespace(name, teams[name]))
            elif step == "set":
                write = server.update if key in truth[name] else server.create
                write(config_map(key, namespace=name, data={"v": str(number)}))
                truth[name][key] = number
            elif step == "delete" and key in truth[name]:
                del truth[name][key]
                server.delete(CONFIG_MAPS, name, key)
            elif step == "compact":
                await server.compact()
            if pause:
                await asyncio.sleep(0.005)

        def expected() -> dict[str, str]:
            mine = [name for name, team in teams.items() if team == "a"]
            return {f"{name}/{key}": str(value) for name in mine for key, value in truth[name].items()}

        await maps.wait_synced(10)
        await until(lambda: {key: one.path("data.v") for key, one in maps.by_key.items()} == expected())
        await settle()
        await until(lambda: set(mirror.objects) == set(expected()))
        assert mirror.wrong == []


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=25))
def test_any_history_of_labels_ends_in_the_truth(steps: list[Any]) -> None:
    asyncio.run(live_through(steps))
