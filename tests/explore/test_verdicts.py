"""The verdicts of the built-in rules: a correct program is not blamed, and the same program with a mistake is."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kinformer import Client, LeaderElector, Manager
from kinformer.exceptions import LeadershipLostError
from kinformer.testing.explore import (
    ClusterState,
    DefinitionDeleted,
    ExplorationError,
    Fault,
    ForeignChange,
    Pause,
    World,
    explore,
)
from tests.explore.operators import two_leaders
from tests.explore.operators.custom import custom, definition
from tests.explore.programs import forever

pytest.importorskip("time_machine")

pytestmark = pytest.mark.slow  # explorations, one or more a test

MAPS, SITES = "v1/configmaps", "example.com/v1/sites"
PATH = "/api/v1/namespaces/default/configmaps"
SITES_PATH = "/apis/example.com/v1/namespaces/default/sites"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
Main = Callable[[Client], Awaitable[None]]


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def explored(
    main: Main, *script: Callable[[World], Any], faults: set[Fault] | None = None, schedules: int = 1, **options: Any
) -> ExplorationError | None:
    """Explore a program, and return what is found."""

    async def test(world: World) -> None:
        world.apply(definition("Site"))
        world.run(main, **options)
        world.script(*(step(world) for step in script))

    try:
        explore(schedules=schedules, faults=faults or set(), seed=1)(test)()
    except ExplorationError as error:
        return error
    return None


# --- fields: a write from a state that is no longer true -----------------------------------------------------


def make_map(world: World) -> Any:
    return world.create(config_map("a", size="1", color="red"))


def change_size(world: World) -> Any:
    return world.patch(MAPS, "default/a", {"data": {"size": "9"}})


def test_a_change_may_be_reverted_by_a_get_and_a_put_with_that_version() -> None:
    async def main(client: Client) -> None:
        await asyncio.sleep(9)
        while True:
            found = (await client.request("GET", f"{PATH}/a")).to_dict()  # type: ignore[union-attr]
            if found["data"]["size"] != "1":
                await client.request("PUT", f"{PATH}/a", body={**found, "data": {**found["data"], "size": "1"}})
            await asyncio.sleep(10)

    assert explored(main, make_map, change_size) is None


def test_a_change_may_be_reverted_by_an_apply_that_reads_nothing() -> None:
    async def main(client: Client) -> None:
        while True:
            await asyncio.sleep(9)
            params = {"fieldManager": "m", "force": "true"}
            body = config_map("a", size="1")
            await client.request("PATCH", f"{PATH}/a", body=body, params=params, headers=APPLY)

    assert explored(main, make_map, change_size) is None


def test_a_change_may_be_reverted_by_a_patch_of_a_program_that_watches_if_it_reverts_it_each_time() -> None:
    async def main(client: Client) -> None:
        async with Manager(client) as manager:
            maps = manager.factory.for_resource(MAPS)
            await manager.factory.wait_for_cache_sync()

            async def patch(*_: Any) -> None:
                if "default/a" in maps.by_key:
                    await client.request("PATCH", f"{PATH}/a", body={"data": {"size": "1"}})

            maps.add_event_handler(on_add=patch, on_update=patch)
            await manager.run()

    assert explored(main, make_map, change_size) is None
    assert explored(main, make_map, change_size, faults={ForeignChange}, schedules=20) is None


@pytest.mark.parametrize("read", ["GET", "LIST"])
def test_a_read_makes_known_what_others_have_changed(read: str) -> None:
    async def main(client: Client) -> None:
        await asyncio.sleep(8)
        await client.request("GET", PATH)
        await asyncio.sleep(6)
        await client.request("GET", f"{PATH}/a" if read == "GET" else PATH)
        await client.request("PATCH", f"{PATH}/a", body={"data": {"size": "1"}})
        await forever()

    assert explored(main, make_map, change_size) is None


def test_a_write_of_what_was_read_before_the_change_is_found_with_and_without_a_fault() -> None:
    async def main(client: Client) -> None:
        await asyncio.sleep(8)
        found = (await client.request("GET", f"{PATH}/a")).to_dict()  # type: ignore[union-attr]
        await asyncio.sleep(6)
        body = {**found, "metadata": {"name": "a"}, "data": {**found["data"], "color": "blue"}}
        await client.request("PUT", f"{PATH}/a", body=body)
        await forever()

    error = explored(main, make_map, change_size)
    assert error is not None
    assert error.finding.rule == "fields"
    assert "undid the change of data.size" in str(error)
    assert "another client changes v1/configmaps default/a" in str(error)  # again, and it stays
    error = explored(main, make_map, faults={ForeignChange}, schedules=5)
    assert error is not None
    assert "undid the change of metadata.annotations" in str(error)


# --- lead: a write of a process that has lost its Lease ------------------------------------------------------


async def report(client: Client, name: str, value: str) -> None:
    params = {"fieldManager": name, "force": "true"}
    await client.request("PATCH", f"{PATH}/{name}", body=config_map(name, value=value), params=params, headers=APPLY)


def exploring_leases(main: Main, schedules: int = 12) -> ExplorationError | None:
    return explored(main, faults={Pause}, schedules=schedules, replicas=2, may_raise=Exception)


def test_a_replica_without_the_lead_may_write_what_every_replica_does() -> None:
    async def main(client: Client) -> None:
        elector = LeaderElector(client, namespace="default", name="sites")
        async with Manager(client, elector=elector) as manager:

            async def everywhere() -> None:
                for number in range(8):
                    await report(client, "everywhere", str(number))
                    await asyncio.sleep(4)

            async def leading() -> None:
                await report(client, "leading", elector.identity)

            manager.add(everywhere, needs_leadership=False)
            manager.add(leading)
            await manager.run()

    assert exploring_leases(main) is None


def test_a_lost_lease_takes_nothing_from_another_one_that_is_held() -> None:
    async def main(client: Client) -> None:
        async def lead(name: str) -> None:
            with contextlib.suppress(LeadershipLostError):
                async with LeaderElector(client, namespace="default", name=name).leading():
                    for number in range(60):
                        await report(client, name, str(number))
                        await asyncio.sleep(0.7)
            await forever()

        async with asyncio.TaskGroup() as group:
            group.create_task(lead("one"))
            group.create_task(lead("two"))

    def taken_by_hand(world: World) -> Any:
        return world.patch("coordination.k8s.io/v1/leases", "default/one", {"spec": {"holderIdentity": "somebody"}})

    assert explored(main, taken_by_hand, replicas=2) is None


def test_a_write_of_a_program_with_a_lease_of_its_own_needs_it_unless_replicas_without_it_write_so_too() -> None:
    async def hand_made(client: Client, *, everywhere: bool) -> None:
        lease = two_leaders.Lease(client, identity=uuid.uuid4().hex)
        async with asyncio.TaskGroup() as group:
            group.create_task(lease.keep())
            if not everywhere:
                await lease.held.wait()
            for number in range(12):
                await report(client, f"map-{number % 2}", str(number))
                await asyncio.sleep(3)
            await forever()

    assert exploring_leases(lambda client: hand_made(client, everywhere=True)) is None
    error = exploring_leases(lambda client: hand_made(client, everywhere=False))
    assert error is not None
    assert error.finding.rule == "lead"


# --- leftovers, finalizers, definitions ----------------------------------------------------------------------


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def service(name: str) -> dict[str, Any]:
    metadata, spec = {"name": name, "namespace": "default"}, {"ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    "living", [service("a"), custom("Site", "a"), custom("Site", "a-page")], ids=lambda one: one["kind"]
)
def test_what_a_living_object_explains_is_not_left_behind(living: dict[str, Any]) -> None:
    async def main(client: Client) -> None:
        await asyncio.sleep(13)
        await client.request("POST", PATH, body=config_map("a-page-1"))
        await forever()

    script = (lambda world: world.create(pod("a")), lambda world: world.create(living))
    assert explored(main, *script, lambda world: world.delete("v1/pods", "default/a")) is None
    error = explored(main, script[0], lambda world: world.delete("v1/pods", "default/a"))
    assert error is not None
    assert error.finding.rule == "leftovers"


def test_what_has_been_adopted_is_not_left_behind() -> None:
    async def main(client: Client) -> None:
        await asyncio.sleep(13)
        await client.request("POST", PATH, body=config_map("a-page"))
        owner = await client.request("GET", f"{SITES_PATH}/other")
        uid = owner["metadata"]["uid"]
        reference = {"apiVersion": "example.com/v1", "kind": "Site", "name": "other", "uid": uid}
        await client.request("PATCH", f"{PATH}/a-page", body={"metadata": {"ownerReferences": [reference]}})
        await forever()

    script = (lambda world: world.create(pod("a")), lambda world: world.create(custom("Site", "other")))
    assert explored(main, *script, lambda world: world.delete("v1/pods", "default/a")) is None


def test_a_finalizer_of_others_is_not_the_programs_to_remove() -> None:
    async def main(client: Client) -> None:
        await forever()

    held = custom("Site", "a")
    held["metadata"]["finalizers"] = ["example.net/of-others"]
    assert explored(main, lambda world: world.create(held), lambda world: world.delete(SITES, "default/a")) is None


def test_objects_with_finalizers_are_there_while_their_definition_is_being_deleted() -> None:
    seen: list[tuple[int, bool]] = []

    async def main(client: Client) -> None:
        await asyncio.sleep(10)
        await client.request("PATCH", f"{SITES_PATH}/a", body={"metadata": {"labels": {"x": "y"}}})
        await asyncio.sleep(20)
        body = {"metadata": {"finalizers": None}}
        await client.request("PATCH", f"{SITES_PATH}/a", body=body, timeout=5)
        await forever()

    def look(state: ClusterState) -> None:
        found = state.get(SITES, "default/a")
        assert len(state.list(SITES)) == (found is not None)
        seen.append((len(state.list(SITES)), bool(found and found["metadata"].get("deletionTimestamp"))))

    held = custom("Site", "a")
    held["metadata"]["finalizers"] = ["example.net/hold"]

    async def test(world: World) -> None:
        world.apply(definition("Site"))
        world.run(main)
        world.script(world.create(held))
        world.always(look)

    explore(schedules=4, faults={DefinitionDeleted}, ignore={"errors", "finalizers"})(test)()
    assert (1, True) in seen
    assert (0, False) in seen[seen.index((1, True)) :]
