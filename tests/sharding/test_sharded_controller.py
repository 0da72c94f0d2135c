"""ShardedController over HTTP, in virtual time; random schedules are in test_sharding_schedules.py."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
import pytest_asyncio

from kinformer import Client, ConfigError, ListWatch, Request, Result
from kinformer.exceptions import ShardLostError
from kinformer.sharding import ShardedController
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.lagging_source import LaggingSource
from tests.support.machine_clock import MachineClock

pytestmark = pytest.mark.virtual_time

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Replica:
    """One replica with what it has reconciled; a key in `hold` stays in its reconcile until it is let go."""

    def __init__(self, client: Client, identity: str, **options: Any) -> None:
        self.client = client
        self.seen: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.hold: dict[str, asyncio.Event] = {}
        self.machine = MachineClock()
        self.controller = ShardedController(
            self.reconcile,
            client,
            "v1/configmaps",
            namespace="default",
            identity=identity,
            workers=10,
            clock=self.machine.clock,
            **options,
        )
        self.task: asyncio.Task[None] | None = None

    async def reconcile(self, request: Request) -> Result | None:
        self.seen.append(request.name)
        try:
            if request.name in self.hold:
                await self.hold[request.name].wait()
        except asyncio.CancelledError:
            self.ended.append((request.name, "cancelled"))
            raise
        self.ended.append((request.name, "done"))
        return None

    @property
    def names(self) -> set[str]:
        return {obj.name for obj in self.controller.informer.lister}

    def start(self) -> None:
        self.task = asyncio.create_task(self.controller.run())

    async def leave(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait({self.task})
        assert self.task.cancelled() or self.task.exception() is None


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map(f"m{number}") for number in range(40)]


@pytest_asyncio.fixture
async def replicas(client: Client) -> AsyncIterator[Any]:
    started: list[Replica] = []

    async def start(identity: str, **options: Any) -> Replica:
        replica = Replica(client, identity, **options)
        replica.start()
        started.append(replica)
        return replica

    yield start
    for replica in started:
        if replica.task is not None and not replica.task.done():
            for event in replica.hold.values():
                event.set()
            await replica.leave()


ALL = {f"m{number}" for number in range(40)}


async def test_alone_a_replica_has_everything_within_seconds(replicas: Any) -> None:
    one = await replicas("one")
    await asyncio.sleep(5)
    assert one.names == set(one.seen) == ALL
    health = one.controller.health()
    assert (health.live, health.state, health.slots, health.members, health.balanced) == (True, "member", 256, 1, True)


async def test_two_replicas_share_the_objects_and_each_reconciles_its_own(replicas: Any) -> None:
    one, two = await replicas("one"), await replicas("two")
    await asyncio.sleep(30)
    assert one.names | two.names == ALL
    assert not one.names & two.names
    assert min(len(one.names), len(two.names)) > 5
    assert two.names <= set(two.seen)
    assert one.controller.health().balanced
    assert two.controller.health().balanced
    assert one.controller.health().slots + two.controller.health().slots == 256


async def test_who_leaves_gives_its_share_back_at_once(replicas: Any, client: Client) -> None:
    one, two = await replicas("one"), await replicas("two")
    await asyncio.sleep(30)
    await two.leave()
    await asyncio.sleep(6)  # a heartbeat to see it, one to claim it, one to be sure; far from a lease
    assert one.names == ALL
    assert set(one.seen) >= ALL
    leases = (await client.request("GET", LEASES))["items"]
    assert sorted(lease["spec"].get("holderIdentity", "") for lease in leases) == ["", "one"]


async def test_who_leaves_in_a_cancelled_scope_of_anyio_gives_its_share_back_too(replicas: Any, client: Client) -> None:
    one, other = await replicas("one"), Replica(client, "other")
    with anyio.move_on_after(30):
        await other.controller.run()
    assert other.seen
    await asyncio.sleep(6)
    assert one.names == ALL
    leases = (await client.request("GET", LEASES))["items"]
    assert sorted(lease["spec"].get("holderIdentity", "") for lease in leases) == ["", "one"]


async def test_the_lease_of_one_who_has_left_is_swept_away_some_leases_later(replicas: Any, client: Client) -> None:
    one, two = await replicas("one"), await replicas("two")
    await asyncio.sleep(20)
    await two.leave()
    await asyncio.sleep(100)
    leases = (await client.request("GET", LEASES))["items"]
    assert [lease["spec"]["holderIdentity"] for lease in leases] == ["one"]
    assert one.controller.health().live


async def test_a_share_is_given_away_only_when_its_reconciles_have_ended(replicas: Any) -> None:
    one = await replicas("one", shutdown_timeout=4)
    one.hold = {name: asyncio.Event() for name in ALL}
    await asyncio.sleep(5)
    running = set(one.seen)
    assert len(running) == 10
    two = await replicas("two")
    await asyncio.sleep(3)
    assert not set(two.seen) & running
    await asyncio.sleep(30)
    cancelled = {name for name, how in one.ended if how == "cancelled"}
    assert cancelled == {name for name in running if name in two.names}
    assert cancelled <= set(two.seen)
    assert not {name for name in two.names if name in running - cancelled}


async def test_work_that_ignores_its_cancellation_holds_up_the_end_no_longer_than_the_right_lasts(
    replicas: Any, client: Client
) -> None:
    end = asyncio.Event()

    class Stubborn(Replica):
        async def reconcile(self, request: Request) -> Result | None:
            while not end.is_set():
                try:
                    await end.wait()
                except asyncio.CancelledError:
                    self.ended.append((request.name, "cancelled"))
            return None

    one = Stubborn(client, "one")
    one.start()
    try:
        await asyncio.sleep(5)
        began = asyncio.get_running_loop().time()
        await one.leave()
        # The grace of reconciles, then what is left of the right, and a second each for what is cancelled.
        assert asyncio.get_running_loop().time() - began < 5 + 10 + 2
        assert len({name for name, _ in one.ended}) == 10
        assert not one.controller.membership.holds
        (lease,) = (await client.request("GET", LEASES))["items"]
        assert lease["spec"]["holderIdentity"] == "one", "what is not known to have ended is not given to others"
    finally:
        end.set()
        await asyncio.sleep(0.1)


async def test_a_suspended_replica_has_lost_its_share_and_joins_anew(replicas: Any) -> None:
    one = await replicas("one")
    await asyncio.sleep(5)
    one.hold["m1"] = asyncio.Event()
    one.controller.trigger("default/m1")
    await asyncio.sleep(0.1)
    one.machine.slept += 60
    health = one.controller.health()
    assert (health.state, health.live, health.slots) == ("lost", False, 0)
    await asyncio.sleep(0.6)  # the timers of a loop stand still in suspend; it looks at the clock twice a second
    assert one.ended[-1] == ("m1", "cancelled")
    del one.hold["m1"]
    await asyncio.sleep(30)
    assert one.controller.health().live
    assert one.names == ALL
    assert one.ended[-1] == ("m1", "done")  # what was cut off is done by whoever has it then


async def test_a_reconcile_of_a_share_that_has_lapsed_sends_nothing(
    server: APIServer, client: Client, replicas: Any
) -> None:
    machine = MachineClock()
    refused: list[str] = []

    async def reconcile(request: Request) -> None:
        if request.name == "m1" and not refused:
            machine.slept += 60
            try:
                await client.request("PATCH", f"{CONFIG_MAPS}/m1", body={"data": {"by": "one"}})
            except ShardLostError as error:
                refused.append(str(error))
                raise

    controller = ShardedController(
        reconcile, client, "v1/configmaps", namespace="default", identity="one", clock=machine.clock
    )
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(30)
    assert len(refused) == 1
    assert not [entry for entry in server.requests if entry.method == "PATCH"]
    task.cancel()
    await asyncio.wait({task})


async def test_an_object_made_again_under_its_name_waits_for_the_one_who_is_still_busy_with_it(
    server: APIServer, replicas: Any
) -> None:
    one, two = await replicas("one"), await replicas("two")
    await asyncio.sleep(30)
    name = next(iter(one.names))
    one.hold[name] = asyncio.Event()
    server.update({**config_map(name), "data": {"now": "busy"}})
    await asyncio.sleep(1)
    begun = two.seen.count(name)
    # Until the new uid is of the other's share.
    for _ in range(100):
        server.delete("v1/configmaps", "default", name)
        server.create(config_map(name))
        await asyncio.sleep(0.5)
        if name in two.names:
            break
    await asyncio.sleep(4)
    assert name in two.names
    assert two.seen.count(name) == begun  # it has it, and waits: the other is not done
    one.hold[name].set()
    await asyncio.sleep(6)
    assert two.seen.count(name) > begun


@pytest.mark.parametrize("late", ["ledger", "share"])
async def test_each_deletion_is_reconciled_whichever_of_the_two_watches_hears_of_it_last(
    server: APIServer, client: Client, replicas: Any, late: str
) -> None:
    def source(resource: Any, metadata_only: bool) -> LaggingSource:
        inner = ListWatch(client, resource, namespace="default", metadata_only=metadata_only)
        return LaggingSource(inner, lag=0.05 if metadata_only is (late == "ledger") else 0.0)

    one = await replicas("one", source=source)
    await asyncio.sleep(5)
    assert set(one.seen) == ALL
    one.seen.clear()
    for name in ALL:
        server.delete("v1/configmaps", "default", name)
        await asyncio.sleep(0.02)
    await asyncio.sleep(5)
    assert set(one.seen) == ALL


async def test_owned_objects_follow_the_uid_of_their_owner(server: APIServer, replicas: Any, client: Client) -> None:
    one, two = Replica(client, "one"), Replica(client, "two")
    owned = [replica.controller.owns("v1/secrets", "ConfigMap") for replica in (one, two)]
    with pytest.raises(ConfigError, match="already owned"):
        one.controller.owns("v1/secrets", "ConfigMap")
    one.start()
    two.start()
    await asyncio.sleep(30)
    before = len(one.seen)
    for number in range(40):
        uid = (await client.request("GET", f"{CONFIG_MAPS}/m{number}"))["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"m{number}", "uid": uid, "controller": True}
        secret = {"name": f"of-m{number}", "namespace": "default", "ownerReferences": [owner]}
        server.create({"apiVersion": "v1", "kind": "Secret", "metadata": secret})
    server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "of-nobody", "namespace": "default"}})
    await asyncio.sleep(5)
    for replica, informer in ((one, owned[0]), (two, owned[1])):
        assert {obj.name for obj in informer.lister} == {f"of-{name}" for name in replica.names}
    assert len(one.seen) > before
    await two.leave()
    await asyncio.sleep(10)
    assert {obj.name for obj in owned[0].lister} == {f"of-{name}" for name in ALL}
    await one.leave()


@pytest.mark.parametrize("watch_list", [False, None], ids=["lists", "streams"])
async def test_a_share_that_was_taken_is_not_worked_on_before_the_cache_has_all_that_it_owns(
    server: APIServer, client: Client, watch_list: bool | None
) -> None:
    for number in range(40):
        uid = (await client.request("GET", f"{CONFIG_MAPS}/m{number}"))["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"m{number}", "uid": uid, "controller": True}
        secret = {"name": f"of-m{number}", "namespace": "default", "ownerReferences": [owner]}
        server.create({"apiVersion": "v1", "kind": "Secret", "metadata": secret})
    alone: list[tuple[str, str]] = []

    async def start(identity: str) -> tuple[ShardedController, asyncio.Task[None]]:
        async def reconcile(request: Request) -> None:
            if controller.informer.lister.get(request.name, namespace="default") is not None:
                owned = secrets.lister.get(f"of-{request.name}", namespace="default")
                alone.extend([(identity, request.name)] if owned is None else [])

        controller = ShardedController(
            reconcile, client, "v1/configmaps", namespace="default", identity=identity, workers=10
        )
        secrets = controller.owns("v1/secrets", "ConfigMap", watch_list=watch_list)
        return controller, asyncio.create_task(controller.run())

    handle = server.faults.add(faults.delay(3), resource="v1/secrets")
    one, one_runs = await start("one")
    await asyncio.sleep(30)
    assert one.statistics().reconciles["success"] >= 40
    two, two_runs = await start("two")
    await asyncio.sleep(40)
    assert two.health().balanced
    one_runs.cancel()
    await asyncio.sleep(40)
    assert len(two.informer.lister) == 40
    assert handle.hits > 3
    assert not alone
    two_runs.cancel()
    await asyncio.wait({one_runs, two_runs})


async def test_health_says_what_keeps_a_replica_from_joining(server: APIServer, replicas: Any) -> None:
    server.faults.add(faults.status(403), resource="coordination.k8s.io/v1/leases")
    one = await replicas("one")
    await asyncio.sleep(14)
    health = one.controller.health()
    assert (health.live, health.state, health.slots) == (False, "joining", 0)
    assert str(health.last_error).startswith("403")
    assert not one.seen
    server.faults.clear()
    await asyncio.sleep(10)
    assert one.names == ALL


async def test_two_processes_of_one_name_do_not_share_a_share(replicas: Any, client: Client) -> None:
    one = await replicas("same")
    twin = await replicas("same")
    await asyncio.sleep(60)
    assert one.names == ALL
    assert twin.names == set()
    assert twin.controller.health().state == "joining"


async def nothing(request: Request) -> None:
    """A reconcile."""


def group_of(client: Client, resource: str = "example.com/v1/widgets", **options: Any) -> str:
    return ShardedController(nothing, client, resource, lease_namespace="leases", **options).membership.group


async def test_controllers_that_differ_are_of_different_groups_and_the_replicas_of_one_are_of_the_same(
    client: Client,
) -> None:
    differing: list[dict[str, Any]] = [
        {},
        {"resource": "other.org/v1/widgets"},
        {"resource": "v1/widgets"},
        {"namespace": "one"},
        {"namespace": "two"},
        {"label_selector": "app=a"},
        {"field_selector": "app=a"},
        {"name": "another"},
    ]
    groups = [group_of(client, **options) for options in differing]
    assert len(set(groups)) == len(differing)
    assert groups == [group_of(client, **options, identity="other", workers=2) for options in differing]
    assert group_of(client, "example.com/v2/widgets") == groups[0]  # the same objects
    assert group_of(client, group="mine") == "mine"


@pytest.mark.parametrize("resource", ["example.com/v1/widgets", f"{'a-' * 25}a.example.com/v1/{'b' * 45}-c", "v1/pods"])
async def test_a_default_group_can_be_a_label_and_begin_the_name_of_a_lease(client: Client, resource: str) -> None:
    group = group_of(client, resource, name="Some.<locals>.reconcile", label_selector="app in (a, b)")
    assert re.fullmatch(r"[a-z0-9]+([-.][a-z0-9]+)*", group)
    assert len(group) <= 63
    assert group.startswith(resource.rpartition("/")[2])


async def test_two_controllers_of_one_resource_have_all_of_it_each(replicas: Any) -> None:
    one, two = await replicas("one", name="first"), await replicas("two", name="second")
    await asyncio.sleep(10)
    assert set(one.seen) == set(two.seen) == ALL


async def test_a_shutdown_longer_than_the_right_is_refused(client: Client) -> None:
    with pytest.raises(ConfigError, match="shutdown_timeout=10 must be below renew_deadline=10"):
        Replica(client, "one", shutdown_timeout=10)
