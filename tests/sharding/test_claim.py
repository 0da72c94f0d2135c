"""Claims of shards over HTTP, in virtual time; crashes and random schedules are in test_claim_schedules.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
import pytest_asyncio

from kinformer import Client, ConfigError, Manager
from kinformer.exceptions import LeadershipLostError
from kinformer.sharding import Shard
from kinformer.testing import APIServer, faults
from tests.support.log_records import Said, said
from tests.support.machine_clock import MachineClock
from tests.support.manager_run import page, running
from tests.support.metrics_sink import MemoryMetrics
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

RESOURCE = "coordination.k8s.io/v1/leases"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ONE_TRY = 2.4 + 0.1  # seconds: a retry period at its longest, and its requests
OLD, NEW = 2, 3


class Replica:
    """A process that holds a shard as soon as it can, until it is told to leave or has lost it."""

    def __init__(self, client: Client, identity: str, count: int = NEW, **options: Any) -> None:
        self.identity = identity
        self.machine = MachineClock()
        self.shard: Shard | None = None
        self.claim = Shard.claim(
            client, name="work", count=count, identity=identity, clock=self.machine.clock, **options
        )
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        async with self.claim as self.shard:
            try:
                await asyncio.Event().wait()
            finally:
                self.shard = None

    @property
    def part(self) -> tuple[int, int] | None:
        return None if self.shard is None else (self.shard.index, self.shard.count)

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


class Replicas:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.all: list[Replica] = []

    def start(self, *identities: str, count: int = NEW, **options: Any) -> list[Replica]:
        started = [Replica(self.client, identity, count, **options) for identity in identities]
        self.all += started
        return started

    def parts(self) -> list[tuple[int, int]]:
        """Return the parts that are held, each of which has one holder."""
        held = sorted(replica.part for replica in self.all if replica.part is not None)
        assert len(held) == len(set(held)), held
        assert len({count for _, count in held}) < 2, held
        return held

    async def until(self, number: int, seconds: float) -> list[tuple[int, int]]:
        await until(lambda: len(self.parts()) == number, seconds)
        return self.parts()


@pytest_asyncio.fixture
async def replicas(client: Client) -> AsyncIterator[Replicas]:
    replicas = Replicas(client)
    yield replicas
    for replica in replicas.all:
        await replica.leave()


def all_of(count: int) -> list[tuple[int, int]]:
    return [(index, count) for index in range(count)]


async def holders(client: Client) -> dict[str, str]:
    """Return the holder of each Lease."""
    leases = (await client.request("GET", LEASES))["items"]
    return {lease["metadata"]["name"]: lease["spec"].get("holderIdentity", "") for lease in leases}


async def test_each_replica_takes_the_first_free_part_and_its_lease_says_so(replicas: Replicas, client: Client) -> None:
    for number, identity in enumerate(("a", "b", "c")):
        [replica] = replicas.start(identity)
        await until(lambda replica=replica: replica.shard, 0.1)
        assert replica.shard == Shard(number, 3)
    assert await holders(client) == {"work-0-of-3": "a", "work-1-of-3": "b", "work-2-of-3": "c"}


async def test_replicas_that_start_together_take_different_parts_at_once(replicas: Replicas) -> None:
    replicas.start(*"abcdefgh", count=8)
    assert await replicas.until(8, 0.5) == all_of(8)


async def test_spares_wait_with_one_list_in_each_period_and_write_nothing(
    replicas: Replicas, server: APIServer
) -> None:
    replicas.start("a", "b")
    await replicas.until(2, 1)
    replicas.start("c", "d", count=NEW)
    await replicas.until(3, 1)
    server.requests.clear()
    await asyncio.sleep(60)
    lists = [entry for entry in server.requests if entry.method == "GET"]
    assert 25 <= len(lists) <= 30
    assert {entry.path for entry in lists} == {LEASES}
    writes = [entry.path.rpartition("/")[2] for entry in server.requests if entry.method == "PUT"]
    assert set(writes) == {f"work-{index}-of-3" for index in range(3)}
    assert len(writes) <= 90


async def test_a_spare_takes_the_part_of_a_replica_that_leaves_within_one_try(replicas: Replicas) -> None:
    first, *_ = replicas.start("a", "b", "c")
    await replicas.until(3, 1)
    [spare] = replicas.start("d")
    await asyncio.sleep(20)
    assert spare.part is None
    left = first.part
    await first.leave()
    await until(lambda: spare.part, ONE_TRY)
    assert spare.part == left


async def test_a_replica_of_another_count_waits_for_the_end_of_all_before(replicas: Replicas) -> None:
    old = replicas.start("a", "b", count=OLD)
    await replicas.until(2, 1)
    replicas.start("c", "d", "e", count=NEW)
    await asyncio.sleep(40)
    assert replicas.parts() == all_of(OLD)
    await old[0].leave()
    await asyncio.sleep(40)
    assert replicas.parts() == [(1, OLD)]
    await old[1].leave()
    assert await replicas.until(3, ONE_TRY + 0.5) == all_of(NEW)


async def test_spares_of_the_old_count_hold_its_parts_until_they_end_too(replicas: Replicas) -> None:
    old = replicas.start("a", "b", "c", count=OLD)
    await replicas.until(2, 1)
    replicas.start("d", "e", "f", count=NEW)
    await asyncio.sleep(5)
    await old[0].leave()
    assert await replicas.until(2, ONE_TRY) == all_of(OLD)
    await asyncio.gather(*(replica.leave() for replica in old[1:]))
    assert await replicas.until(3, ONE_TRY + 0.5) == all_of(NEW)


@pytest.mark.parametrize("number", range(5))
async def test_of_two_counts_that_start_together_one_holds_and_the_other_waits(replicas: Replicas, number: int) -> None:
    for identity in "abc":
        replicas.start(f"old-{identity}", count=OLD)
        replicas.start(f"new-{identity}", count=NEW)
        await asyncio.sleep(number * 0.0007)
    for _ in range(300):
        replicas.parts()
        await asyncio.sleep(0.1)
    held = replicas.parts()
    assert held in (all_of(OLD), all_of(NEW))


async def test_other_leases_do_not_matter(replicas: Replicas, client: Client) -> None:
    for name in ("work-blue-0-of-2", "work-0-of-02", "work-0-of-2x", "a-work-0-of-2", "work"):
        spec = {"holderIdentity": "another", "leaseDurationSeconds": 600, "renewTime": "2026-01-01T00:00:00.000000Z"}
        await client.request("POST", LEASES, body={"metadata": {"name": name}, "spec": spec})
    replicas.start("a", "b", "c")
    assert await replicas.until(3, 1) == all_of(NEW)


async def test_two_replicas_of_one_name_hold_two_parts(replicas: Replicas) -> None:
    replicas.start("same", "same", "same", "same")
    await replicas.until(3, 1)
    await asyncio.sleep(40)
    assert replicas.parts() == all_of(NEW)


async def test_what_goes_wrong_while_it_waits_is_logged_once_for_each_kind_and_tried_again(
    replicas: Replicas, server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="kinformer.sharding")
    server.faults.add(faults.status(403), verb="list", resource=RESOURCE)
    replicas.start("a")
    await asyncio.sleep(30)
    server.faults.clear()
    await replicas.until(1, ONE_TRY)
    replicas.start("b", "c", "d")
    replicas.start("e", count=OLD)
    await asyncio.sleep(30)
    about = ("kinformer.sharding", RESOURCE, "default/work")
    for reason, level in (("forbidden", "WARNING"), ("waiting", "INFO"), ("other_count", "INFO")):
        first, *again = said(caplog, reason)
        assert first == Said(level, *about)
        assert len(again) > 5
        assert set(again) == {Said("DEBUG", *about)}


@pytest.mark.parametrize("verb", ["create", "list"])
async def test_a_claim_that_is_cancelled_halfway_gives_the_lease_back(
    replicas: Replicas, server: APIServer, client: Client, verb: str
) -> None:
    server.faults.add(faults.delay(1), verb=verb, resource=RESOURCE)
    [replica] = replicas.start("a")
    # Of three requests the second one creates the Lease, and the third one looks for other counts.
    await asyncio.sleep(0.5 if verb == "create" else 1.5)
    assert replica.shard is None
    await replica.leave()
    server.faults.clear()
    assert await holders(client) == {"work-0-of-3": ""}
    replicas.start("b")
    assert await replicas.until(1, 0.1) == [(0, 3)]


async def test_a_claim_in_a_scope_that_is_cancelled_gives_the_lease_back(client: Client) -> None:
    with anyio.move_on_after(5) as scope:
        async with Shard.claim(client, name="work", count=3):
            await asyncio.Event().wait()
    assert scope.cancelled_caught
    assert set((await holders(client)).values()) == {""}


async def test_a_lease_whose_answer_was_lost_is_not_left_behind(replicas: Replicas, server: APIServer) -> None:
    server.faults.add(faults.close_mid_line(), verb="create", resource=RESOURCE, times=1)
    replicas.start("a", "b", "c")
    await replicas.until(3, 2 * ONE_TRY)


async def test_a_part_that_took_too_long_to_take_is_given_back(
    replicas: Replicas, server: APIServer, client: Client
) -> None:
    server.faults.add(faults.delay(4.9), resource=RESOURCE)  # each request just within its limit, three of them not
    [replica] = replicas.start("a")
    await asyncio.sleep(60)
    assert replica.part is None
    server.faults.clear()
    assert await replicas.until(1, 20) == [(0, 3)]


@pytest.mark.parametrize("edit", ["deleted", "without a holder", "of another holder"])
async def test_a_part_whose_lease_others_change_is_lost_at_its_next_renewal(
    replicas: Replicas, server: APIServer, client: Client, edit: str
) -> None:
    [replica] = replicas.start("a")
    await replicas.until(1, 1)
    if edit == "deleted":
        server.delete(RESOURCE, "default", "work-0-of-3")
    else:
        holder = None if edit == "without a holder" else "another"
        await client.request("PATCH", f"{LEASES}/work-0-of-3", body={"spec": {"holderIdentity": holder}})
    await until(lambda: replica.task.done(), ONE_TRY)
    assert isinstance(replica.task.exception(), LeadershipLostError)
    if edit == "deleted":
        assert await holders(client) == {}


async def test_a_label_on_its_lease_changes_nothing(replicas: Replicas, client: Client) -> None:
    replicas.start("a")
    await replicas.until(1, 1)
    for number in range(5):
        await client.request("PATCH", f"{LEASES}/work-0-of-3", body={"metadata": {"labels": {"n": str(number)}}})
        await asyncio.sleep(7)
    assert replicas.parts() == [(0, 3)]


async def test_a_replica_that_was_suspended_sends_nothing_more_for_its_part(client: Client, server: APIServer) -> None:
    machine = MachineClock()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}

    async def work() -> None:
        async with Shard.claim(client, name="work", count=3, clock=machine.clock):
            machine.slept += 30
            await client.request("POST", CONFIG_MAPS, body=body)

    with pytest.raises(LeadershipLostError):
        await work()
    assert not [entry for entry in server.requests if entry.path == CONFIG_MAPS]


async def test_metrics_are_those_of_a_leader_election_for_each_part(client: Client) -> None:
    metrics = MemoryMetrics()
    async with Shard.claim(client, name="work", count=3, metrics=metrics):
        figures = metrics.values(name="default/work-0-of-3")
        assert figures["leader_election_master_status"] == 1
        assert len(figures["kinformer_leader_election_renewal_seconds"]) == 1
    assert "leader_election_master_status" not in metrics.values(name="default/work-0-of-3")


async def test_a_manager_is_ready_while_its_function_waits_for_a_part(client: Client, replicas: Replicas) -> None:
    [holder] = replicas.start("a", count=1)
    await replicas.until(1, 1)
    worked: list[Shard] = []

    async def work() -> None:
        async with Shard.claim(client, name="work", count=1) as shard:
            worked.append(shard)
            await asyncio.Event().wait()

    async with Manager(client, listen="127.0.0.1:0", signals=()) as manager:
        manager.add(work)
        async with running(manager):
            await asyncio.sleep(10)
            assert (await page(manager, "/readyz"))[0] == 200
            assert not worked
            await holder.leave()
            await until(lambda: worked == [Shard(0, 1)], ONE_TRY)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, "name=''"),
        ({"name": "a/b"}, "a/b-0-of-3"),
        ({"count": 0}, "count=0"),
        ({"count": "3"}, "count='3'"),
        ({"namespace": "a/b"}, "a/b"),
        ({"identity": ""}, "identity=''"),
        ({"renew_deadline": 20}, "renew_deadline=20"),
    ],
)
async def test_an_option_that_cannot_be_is_refused_by_name(client: Client, options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Shard.claim(client, **{"name": "work", "count": 3, **options})


async def test_a_namespace_and_known_options_are_needed(client: Client) -> None:
    class WithoutNamespace:
        request = client.request

    with pytest.raises(ConfigError, match="namespace="):
        Shard.claim(WithoutNamespace(), name="work", count=3)
    with pytest.raises(TypeError, match=r"Shard.claim: unexpected keyword 'retries'"):
        Shard.claim(client, name="work", count=3, retries=3)  # type: ignore[call-arg]
