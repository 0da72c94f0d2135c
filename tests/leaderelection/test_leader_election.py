"""LeaderElector over HTTP, in virtual time; random schedules are in test_leader_election_schedules.py."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp.http import StreamWriter

from kinformer import Client, ConfigError, LeaderElector, ListWatch, SharedInformer
from kinformer.exceptions import LeadershipLostError
from kinformer.testing import APIServer, faults
from tests.support.log_records import Said, said
from tests.support.machine_clock import NOON, MachineClock
from tests.support.waiting import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made-by-a-leader"}}
RESOURCE = "coordination.k8s.io/v1/leases"

pytestmark = pytest.mark.virtual_time


def elector(client: Client, identity: str = "a", **options: Any) -> LeaderElector:
    options.setdefault("clock", MachineClock(NOON).clock)
    return LeaderElector(client, namespace="default", name="lock", identity=identity, **options)


async def spec(client: Client) -> dict[str, Any]:
    return dict((await client.request("GET", f"{LEASES}/lock"))["spec"])


async def lead_for_ever(one: LeaderElector, led: asyncio.Event | None = None) -> None:
    async with one.leading():
        if led is not None:
            led.set()
        await asyncio.Event().wait()


async def end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def seconds_until(event: asyncio.Event) -> float:
    start = asyncio.get_running_loop().time()
    await event.wait()
    return asyncio.get_running_loop().time() - start


async def test_the_first_candidate_leads_at_once_and_the_lease_says_so(client: Client) -> None:
    one = elector(client)
    assert not one.is_leader
    async with one.leading():
        assert one.is_leader
        lease = await spec(client)
        assert (lease["holderIdentity"], lease["leaseDurationSeconds"], lease["leaseTransitions"]) == ("a", 15, 0)
        assert lease["acquireTime"] == lease["renewTime"] == "2023-11-14T22:13:20.000000Z"
        assert one.health().state == "leading"
        assert one.health().live
    assert not one.is_leader
    assert one.health().state == "idle"


async def test_leaving_gives_the_lease_back_and_the_next_need_not_wait_for_it_to_expire(client: Client) -> None:
    async with elector(client).leading():
        led = asyncio.Event()
        other = asyncio.create_task(lead_for_ever(elector(client, "b"), led))
        await asyncio.sleep(30)
        assert not led.is_set()
    assert (await spec(client)).get("holderIdentity", "") == ""
    assert await seconds_until(led) <= 2.4 + 0.1  # one look
    lease = await spec(client)
    assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("b", 1)
    await end(other)


async def test_giving_the_lease_back_takes_no_longer_than_the_renew_deadline(server: APIServer, client: Client) -> None:
    loop = asyncio.get_running_loop()
    async with elector(client, identity="a").leading():
        lease = await client.request("GET", f"{LEASES}/lock")
        await client.request("PATCH", f"{LEASES}/lock", body={"metadata": {"labels": {"by": "somebody"}}})
        server.faults.add(faults.delay(4.9), resource=RESOURCE)  # each request just within its limit
        began = loop.time()
    assert loop.time() - began <= 10.1
    assert lease["spec"]["holderIdentity"] == "a"


async def test_without_release_on_exit_the_next_waits_for_the_whole_lease(client: Client) -> None:
    async with elector(client, release_on_exit=False).leading():
        pass
    led = asyncio.Event()
    other = asyncio.create_task(lead_for_ever(elector(client, "b"), led))
    assert 15 <= await seconds_until(led) < 16
    await end(other)


async def test_a_leader_renews_every_two_seconds_and_keeps_what_others_wrote_into_the_lease(
    server: APIServer, client: Client
) -> None:
    async with elector(client).leading():
        patch = {"metadata": {"labels": {"team": "storage"}}}
        await client.request("PATCH", f"{LEASES}/lock", body=patch)
        server.requests.clear()
        await asyncio.sleep(60)
        puts = [entry for entry in server.requests if entry.method == "PUT" and entry.status == 200]
        assert 29 <= len(puts) <= 30
        lease = await client.request("GET", f"{LEASES}/lock")
        assert dict(lease.labels) == {"team": "storage"}


async def test_a_lost_lease_cancels_the_body_and_comes_out_as_an_error(server: APIServer, client: Client) -> None:
    one = elector(client)
    ended: list[str] = []

    async def body() -> None:
        start = asyncio.get_running_loop().time()
        try:
            async with one.leading():
                server.faults.add(faults.status(500), verb="update", resource=RESOURCE)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    ended.append("cancelled")
                    assert not one.is_leader
                    assert asyncio.get_running_loop().time() - start == pytest.approx(10, abs=0.1)
                    raise
        finally:
            ended.append("left")

    with pytest.raises(LeadershipLostError, match=r"a no longer leads default/lock: no renewal within 10 s"):
        await body()
    assert ended == ["cancelled", "left"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_the_body_has_ended_before_another_leads(server: APIServer, client: Client) -> None:
    one, other = elector(client), elector(client, "b")
    ended_at = 0.0
    led = asyncio.Event()
    follower = asyncio.create_task(lead_for_ever(other, led))

    async def body() -> None:
        nonlocal ended_at
        try:
            await asyncio.Event().wait()
        finally:
            ended_at = asyncio.get_running_loop().time()

    # What the leader writes does not arrive; what the other writes does.
    await end(follower)
    leading = asyncio.create_task(one.run(body))
    await until(lambda: one.is_leader)
    server.faults.add(faults.stall(), verb="update", resource=RESOURCE, times=3)
    follower = asyncio.create_task(lead_for_ever(other, led))
    await led.wait()
    assert 0 < ended_at < asyncio.get_running_loop().time() - 4
    with pytest.raises(LeadershipLostError):
        await leading
    await end(follower)


async def test_one_renewal_that_hangs_does_not_lose_the_lead(server: APIServer, client: Client) -> None:
    one = elector(client)
    async with one.leading():
        handle = server.faults.add(faults.stall(), verb="update", resource=RESOURCE, times=1)
        await asyncio.sleep(40)
        assert handle.hits == 1
        assert one.is_leader


async def test_a_suspended_machine_has_lost_the_lead_before_any_timer_fires(server: APIServer, client: Client) -> None:
    machine = MachineClock(NOON)
    one = elector(client, clock=machine.clock)

    async def body() -> None:
        async with one.leading():
            await asyncio.sleep(1)
            machine.slept += 30
            assert not one.is_leader
            assert one.health().state == "lost"
            assert not one.health().live
            await asyncio.Event().wait()

    with pytest.raises(LeadershipLostError, match="no renewal within 10 s"):
        await body()


async def test_a_jump_of_the_wall_clock_changes_nothing(client: Client) -> None:
    machine, elsewhere = MachineClock(NOON), MachineClock(NOON)
    one, led = elector(client, clock=machine.clock), asyncio.Event()
    async with one.leading():
        follower = asyncio.create_task(lead_for_ever(elector(client, "b", clock=elsewhere.clock), led))
        for jump in (1e6, -5e6, 3600, 0):
            machine.wall += jump
            elsewhere.wall -= jump
            await asyncio.sleep(40)
            assert one.is_leader
            assert not led.is_set()
        await end(follower)


async def test_a_request_in_the_body_is_not_sent_once_the_lead_is_lost(server: APIServer, client: Client) -> None:
    machine = MachineClock(NOON)
    one = elector(client, clock=machine.clock)
    refused: list[str] = []

    async def write() -> None:
        try:
            await client.request("POST", CONFIG_MAPS, body=CONFIG_MAP)
        except LeadershipLostError as error:
            refused.append(str(error))

    async def body() -> None:
        async with one.leading():
            await asyncio.sleep(0.01)
            server.requests.clear()
            machine.slept += 11
            await asyncio.create_task(write())  # a task that the body starts has its fence too
            await write()
            await asyncio.Event().wait()

    with pytest.raises(LeadershipLostError):
        await body()
    await write()  # outside it is a program like any other
    assert refused == ["a no longer leads default/lock"] * 2
    assert [entry.method for entry in server.requests if entry.path == CONFIG_MAPS] == ["POST"]


async def test_a_task_that_outlives_the_body_sends_nothing_although_the_lead_was_given_back_in_order_or_is_back(
    server: APIServer, client: Client
) -> None:
    one = elector(client)
    refused: list[str] = []

    async def abandoned(go_on: asyncio.Event) -> None:
        await go_on.wait()
        with pytest.raises(LeadershipLostError) as error:
            await client.request("POST", CONFIG_MAPS, body=CONFIG_MAP)
        refused.append(str(error.value))

    first, second = asyncio.Event(), asyncio.Event()
    async with one.leading():
        tasks = [asyncio.create_task(abandoned(first)), asyncio.create_task(abandoned(second))]
    first.set()
    await tasks[0]
    async with one.leading():
        second.set()
        await tasks[1]
    await client.request("POST", CONFIG_MAPS, body=CONFIG_MAP)  # outside it is a program like any other
    assert refused == ["a no longer leads default/lock"] * 2
    assert [entry.method for entry in server.requests if entry.path == CONFIG_MAPS] == ["POST"]


async def test_a_task_that_outlives_the_body_sends_nothing_after_the_lead_was_lost(
    server: APIServer, client: Client
) -> None:
    machine = MachineClock(NOON)
    tasks: list[asyncio.Task[Any]] = []

    async def abandoned() -> None:
        await asyncio.sleep(100)
        await client.request("POST", CONFIG_MAPS, body=CONFIG_MAP)

    async def body() -> None:
        async with elector(client, clock=machine.clock).leading():
            tasks.append(asyncio.create_task(abandoned()))
            machine.slept += 11
            await asyncio.Event().wait()

    with pytest.raises(LeadershipLostError):
        await body()
    with pytest.raises(LeadershipLostError):
        await tasks[0]
    assert not [entry for entry in server.requests if entry.path == CONFIG_MAPS]


async def test_an_informer_that_a_body_started_goes_on_with_all_that_it_asks(server: APIServer, client: Client) -> None:
    learned: list[str | None] = []
    asked = asyncio.Event()

    class Source(ListWatch):
        async def cluster(self) -> str | None:
            learned.append(await super().cluster())
            asked.set()
            return learned[-1]

    async with AsyncExitStack() as stack:
        async with elector(client).leading():
            source = Source(client, "v1/configmaps")
            await stack.enter_async_context(SharedInformer(source))
        await asyncio.wait_for(asked.wait(), 60)
    assert learned == [server.get("v1/namespaces", None, "kube-system")["metadata"]["uid"]]


async def test_a_request_that_waits_for_its_connection_is_not_sent_after_the_right_has_lapsed(
    server: APIServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = MachineClock(NOON)
    loop = asyncio.get_running_loop()
    create = loop.create_connection

    async def slow_connection(*arguments: Any, **options: Any) -> Any:
        answer = await create(*arguments, **options)
        machine.slept += 30
        return answer

    async with server.client() as fresh:

        async def body() -> None:
            async with elector(client, clock=machine.clock).leading():
                monkeypatch.setattr(loop, "create_connection", slow_connection)
                await fresh.request("POST", CONFIG_MAPS, body=CONFIG_MAP)

        with pytest.raises(LeadershipLostError):
            await body()
    assert not [entry for entry in server.requests if entry.path == CONFIG_MAPS]


async def test_a_request_whose_right_lapses_between_its_head_and_its_body_is_not_sent(
    server: APIServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to Python 3.11 aiohttp writes both in a later turn of the loop, before which anything may block."""
    machine = MachineClock(NOON)
    write_headers = StreamWriter.write_headers

    async def slow_head(self: Any, *arguments: Any) -> None:
        await write_headers(self, *arguments)
        machine.slept += 30

    async def body() -> None:
        async with elector(client, clock=machine.clock).leading():
            monkeypatch.setattr(StreamWriter, "write_headers", slow_head)
            with pytest.raises(LeadershipLostError):
                await client.request("POST", CONFIG_MAPS, body=CONFIG_MAP)
            monkeypatch.undo()

    with pytest.raises(LeadershipLostError):
        await body()
    await client.request("GET", CONFIG_MAPS)  # nothing of it is left on a connection
    assert [entry.method for entry in server.requests if entry.path == CONFIG_MAPS] == ["GET"]


async def test_api_objects_of_kubernetes_asyncio_are_held_back_too(server: APIServer, client: Client) -> None:
    from kubernetes_asyncio.client import CoreV1Api

    machine = MachineClock(NOON)
    core = CoreV1Api(client.api_client)

    async def body() -> None:
        async with elector(client, clock=machine.clock).leading():
            machine.slept += 11
            await core.create_namespaced_config_map("default", CONFIG_MAP)

    with pytest.raises(LeadershipLostError):
        await body()
    assert not [entry for entry in server.requests if entry.path == CONFIG_MAPS]


async def test_a_lease_that_somebody_deletes_is_made_again_and_counts_as_held_until_it_would_have_expired(
    server: APIServer, client: Client
) -> None:
    one, led = elector(client), asyncio.Event()
    async with one.leading():
        follower = asyncio.create_task(lead_for_ever(elector(client, "b"), led))
        await asyncio.sleep(5)
        for _ in range(5):
            server.delete(RESOURCE, "default", "lock")
            await asyncio.sleep(7.3)
            assert one.is_leader
            assert not led.is_set()
        assert (await spec(client))["holderIdentity"] == "a"
        await end(follower)


async def test_a_lease_that_another_wrote_over_is_lost_at_once(server: APIServer, client: Client) -> None:
    async def body() -> None:
        async with elector(client).leading():
            patch = {"spec": {"holderIdentity": "intruder"}}
            await client.request("PATCH", f"{LEASES}/lock", body=patch)
            await asyncio.sleep(3)
            raise AssertionError("it still leads")

    with pytest.raises(LeadershipLostError, match="intruder holds the Lease"):
        await body()


async def test_another_process_of_the_same_name_is_another(client: Client) -> None:
    led = asyncio.Event()
    async with elector(client).leading():
        twin = asyncio.create_task(lead_for_ever(elector(client), led))
        await asyncio.sleep(40)
        assert not led.is_set()
    await led.wait()
    await end(twin)


async def test_a_write_whose_answer_was_lost_is_known_as_our_own(server: APIServer, client: Client) -> None:
    # Each answer is cut after the server has done what it was asked: a create, then updates.
    one = elector(client)
    server.faults.add(faults.close_mid_line(), verb="create", resource=RESOURCE, times=1)
    start = asyncio.get_running_loop().time()
    async with one.leading():
        assert asyncio.get_running_loop().time() - start < 6
        server.faults.add(faults.close_mid_line(), verb="update", resource=RESOURCE, times=1)
        await asyncio.sleep(30)
        assert one.is_leader


async def test_the_result_of_run_is_that_of_its_coroutine_and_other_errors_come_out_as_they_are(client: Client) -> None:
    async def work() -> str:
        return "done"

    async def fails() -> None:
        raise ValueError("of its own")

    one = elector(client)
    assert await one.run(work) == "done"
    with pytest.raises(ValueError, match="of its own"):
        await one.run(fails)
    assert (await spec(client)).get("holderIdentity", "") == ""


async def test_cancelling_the_program_is_no_lost_lead(client: Client) -> None:
    led = asyncio.Event()
    task = asyncio.create_task(lead_for_ever(elector(client), led))
    await led.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await spec(client)).get("holderIdentity", "") == ""


async def test_a_body_that_swallows_its_cancellation_still_ends_in_an_error_and_does_nothing_meanwhile(
    server: APIServer, client: Client
) -> None:
    machine = MachineClock(NOON)
    one = elector(client, clock=machine.clock)

    async def body() -> None:
        async with one.leading():
            machine.slept += 20
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                with pytest.raises(LeadershipLostError):
                    await client.request("GET", f"{LEASES}/lock")

    with pytest.raises(LeadershipLostError):
        await body()
    await asyncio.sleep(0)  # no cancellation is left over
    assert one.health().state == "idle"


async def test_a_lead_that_was_lost_unnoticed_by_a_body_that_never_waited_is_an_error(client: Client) -> None:
    machine = MachineClock(NOON)

    async def body() -> None:
        async with elector(client, clock=machine.clock).leading():
            machine.slept += 20

    with pytest.raises(LeadershipLostError):
        await body()
    await asyncio.sleep(0.01)


async def test_leading_is_entered_once_at_a_time_and_any_number_of_times(client: Client) -> None:
    one = elector(client)
    async with one.leading():
        with pytest.raises(RuntimeError, match="already entered"):
            async with one.leading():
                raise AssertionError("entered twice")
    async with one.leading():
        assert one.is_leader


async def test_it_may_be_left_in_another_task_than_it_was_entered_in(client: Client) -> None:
    one = elector(client)
    leading = one.leading()
    await asyncio.create_task(leading.__aenter__())
    assert one.is_leader
    await asyncio.create_task(leading.__aexit__(None, None, None))
    assert not one.is_leader
    assert (await spec(client)).get("holderIdentity", "") == ""


async def test_health_says_why_nobody_leads_and_that_a_candidate_is_not_ready(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    one = elector(client)
    server.faults.add(faults.status(403), resource=RESOURCE)
    task = asyncio.create_task(lead_for_ever(one))
    await asyncio.sleep(14)
    health = one.health()
    assert (health.state, health.live, health.holder) == ("waiting", False, "")
    assert str(health.last_error).startswith("403")
    assert said(caplog, "forbidden") == [Said("WARNING", "kinformer.leader_election", RESOURCE, "default/lock")]
    server.faults.clear()
    await asyncio.sleep(5)
    assert one.is_leader
    assert one.health().last_error is None
    await end(task)


async def test_a_candidate_that_waits_and_sees_the_lease_is_ready(client: Client) -> None:
    async with elector(client).leading():
        other = elector(client, "b")
        task = asyncio.create_task(lead_for_ever(other))
        await asyncio.sleep(60)
        health = other.health()
        assert (health.state, health.live, health.holder) == ("waiting", True, "a")
        await end(task)


class Sink:
    """A metrics sink that keeps everything."""

    def __init__(self) -> None:
        self.gauges: dict[str, Any] = {}
        self.counts: dict[str, float] = {}
        self.seen: dict[str, list[float]] = {}

    def counter(self, name: str, text: str, labels: Any) -> Any:
        self.counts.setdefault(name, 0.0)
        return lambda amount: self.counts.__setitem__(name, self.counts[name] + amount)

    def histogram(self, name: str, text: str, labels: Any, buckets: Any) -> Any:
        return self.seen.setdefault(name, []).append

    def gauge(self, name: str, text: str, labels: Any, read: Any) -> Any:
        assert labels == {"name": "default/lock"}
        self.gauges[name] = read
        return lambda: self.gauges.pop(name)


async def test_metrics_have_client_gos_names(server: APIServer, client: Client) -> None:
    sink, other_sink = Sink(), Sink()
    one, other = elector(client, metrics=sink), elector(client, "b", metrics=other_sink)
    async with one.leading():
        task = asyncio.create_task(lead_for_ever(other))
        await asyncio.sleep(0.1)
        assert sink.gauges["leader_election_master_status"]() == 1.0
        assert other_sink.gauges["leader_election_master_status"]() == 0.0
        server.faults.add(faults.status(500), verb="update", resource=RESOURCE, times=2)
        await asyncio.sleep(10)
        assert sink.counts["leader_election_slowpath_total"] == 2.0
        assert len(sink.seen["kinformer_leader_election_renewal_seconds"]) > 2
        await end(task)
    assert not sink.gauges
    assert not other_sink.gauges
    assert sink.counts["kinformer_leader_election_lost_total"] == 0.0


async def test_a_lead_that_is_lost_is_counted_once(server: APIServer, client: Client) -> None:
    sink = Sink()
    server.faults.add(faults.status(500), verb="update", resource=RESOURCE)
    with pytest.raises(LeadershipLostError):
        await elector(client, metrics=sink).run(asyncio.Event().wait)
    assert sink.counts["kinformer_leader_election_lost_total"] == 1.0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"identity": ""}, "identity=''"),
        ({"lease_duration": 10}, "lease_duration=10 must be above renew_deadline=10"),
        ({"renew_deadline": 2.3}, "renew_deadline=2.3 must be above"),
        ({"retry_period": 0}, "retry_period=0: expected a positive number"),
        ({"retry_period": float("nan")}, "retry_period=nan: expected a positive number"),
    ],
)
async def test_durations_that_cannot_work_are_refused_by_name(client: Client, options: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text.replace("(", r"\(")):
        LeaderElector(client, namespace="default", name="lock", **{"identity": "a", **options})


async def test_without_an_identity_each_candidate_has_one_of_its_own(client: Client) -> None:
    identities = {LeaderElector(client, namespace="default", name="lock").identity for _ in range(3)}
    assert len(identities) == 3
