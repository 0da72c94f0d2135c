"""Leads that are entered in one task and left in another, and candidates that are cancelled, in virtual time."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from kinformer import Client, LeaderElector
from kinformer.exceptions import LeadershipLostError
from kinformer.leaderelection import check_fences
from kinformer.testing import APIServer, faults
from tests.support.waiting import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RESOURCE = "coordination.k8s.io/v1/leases"

pytestmark = pytest.mark.virtual_time


def elector(client: Client, name: str = "lock", identity: str = "a", **options: Any) -> LeaderElector:
    return LeaderElector(client, namespace="default", name=name, identity=identity, **options)


async def holder(client: Client) -> str:
    lease = await client.request("GET", f"{LEASES}/lock")
    return str(lease["spec"].get("holderIdentity", ""))


async def leave(leading: Any) -> None:
    await leading.__aexit__(None, None, None)


# --- left in another task ------------------------------------------------------------------------------------


async def test_the_task_that_entered_leads_again_after_another_task_has_left(client: Client) -> None:
    one = elector(client)
    leading = one.leading()
    await leading.__aenter__()
    await asyncio.create_task(leave(leading))
    check_fences()
    async with one.leading():
        assert one.is_leader
        check_fences()
        await asyncio.create_task(checked())
    check_fences()


async def test_tasks_that_the_first_one_starts_after_another_has_left_are_not_refused(client: Client) -> None:
    leading = elector(client).leading()
    await leading.__aenter__()
    await asyncio.create_task(leave(leading))
    await asyncio.create_task(checked())  # without any check in the task itself before


async def test_a_task_of_the_body_stays_refused_after_another_task_has_left(client: Client) -> None:
    one, go_on = elector(client), asyncio.Event()

    async def abandoned() -> None:
        await go_on.wait()
        check_fences()

    leading = one.leading()
    await leading.__aenter__()
    task = asyncio.create_task(abandoned())
    await asyncio.create_task(leave(leading))
    async with one.leading():
        go_on.set()
        with pytest.raises(LeadershipLostError):
            await task


async def test_a_lead_that_is_left_while_its_first_task_waits_for_another_lead_is_gone_there_too(
    server: APIServer, client: Client
) -> None:
    leading = elector(client).leading()
    await leading.__aenter__()
    stalled = server.faults.add(faults.delay(3.0), verb="get", resource=RESOURCE)

    async def leave_meanwhile() -> None:
        await until(lambda: bool(stalled.hits))
        await leave(leading)

    task = asyncio.create_task(leave_meanwhile())
    async with elector(client, "other").leading():
        assert task.done()
        check_fences()


async def test_two_leads_may_be_left_in_the_order_in_which_they_were_entered(client: Client) -> None:
    first, second = elector(client).leading(), elector(client, "other").leading()
    await first.__aenter__()
    await second.__aenter__()
    await asyncio.create_task(leave(first))
    check_fences()  # the second lead is still there
    await asyncio.create_task(leave(second))
    check_fences()


async def test_setup_and_teardown_in_tasks_with_one_context_leave_nothing_behind(client: Client) -> None:
    one, context = elector(client), contextvars.copy_context()
    leading = one.leading()
    await in_context(leading.__aenter__, context)
    assert one.is_leader
    await in_context(lambda: leave(leading), context)
    await in_context(checked, context)


# --- cancelled while the Lease is written --------------------------------------------------------------------


class LateAnswers:
    """A client whose writes are done at once and answered a second later."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.written = asyncio.Event()

    async def request(self, method: str, path: str, **options: Any) -> Any:
        answer = await self._client.request(method, path, **options)
        if method != "GET":
            self.written.set()
            await asyncio.sleep(1.0)
        return answer


async def cancelled_when_written(client: Client, **options: Any) -> float:
    """Cancel a candidate whose write is done and not answered yet. Return the seconds until it has ended."""
    late = LateAnswers(client)
    one = LeaderElector(late, namespace="default", name="lock", identity="a", **options)
    task = asyncio.create_task(one.run(asyncio.Event().wait))
    await late.written.wait()
    assert await holder(client) == "a"
    began = asyncio.get_running_loop().time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one.health().state == "idle"
    return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_a_candidate_that_is_cancelled_while_its_write_is_under_way_gives_the_lease_back(
    client: Client, verb: str
) -> None:
    if verb == "update":
        async with elector(client).leading():
            pass
    assert await cancelled_when_written(client) < 2.1
    assert await holder(client) == ""
    began = asyncio.get_running_loop().time()
    async with elector(client, identity="b").leading():
        assert asyncio.get_running_loop().time() - began < 1


async def test_without_release_on_exit_it_keeps_the_lease_and_ends_at_once(client: Client) -> None:
    assert await cancelled_when_written(client, release_on_exit=False) == 0
    assert await holder(client) == "a"


async def test_an_earlier_write_whose_answer_was_lost_is_given_back_too(server: APIServer, client: Client) -> None:
    lost = server.faults.add(faults.close_mid_line(), verb="create", resource=RESOURCE, times=1)
    task = asyncio.create_task(elector(client).run(asyncio.Event().wait))
    await until(lambda: bool(lost.hits))
    await asyncio.sleep(1)  # it waits until its next attempt
    assert await holder(client) == "a"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await holder(client) == ""


async def test_a_server_that_does_not_answer_holds_a_cancelled_candidate_for_the_renew_deadline_at_most(
    server: APIServer, client: Client
) -> None:
    stalled = server.faults.add(faults.stall(), resource=RESOURCE, verb="create")
    task = asyncio.create_task(elector(client).run(asyncio.Event().wait))
    await until(lambda: bool(stalled.hits))
    server.faults.add(faults.stall(), resource=RESOURCE)
    began = asyncio.get_running_loop().time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 5 <= asyncio.get_running_loop().time() - began <= 10.1


async def test_a_second_cancellation_ends_it_at_once_and_leaves_no_task(server: APIServer, client: Client) -> None:
    stalled = server.faults.add(faults.stall(), resource=RESOURCE, verb="create")
    task = asyncio.create_task(elector(client).run(asyncio.Event().wait))
    await until(lambda: bool(stalled.hits))
    began = asyncio.get_running_loop().time()
    task.cancel()
    await asyncio.sleep(1)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() - began == pytest.approx(1, abs=0.01)
    assert not [one for one in asyncio.all_tasks() if "acquisition" in one.get_name()]


@pytest.mark.parametrize("limit", ["asyncio", "anyio"])
async def test_a_limit_around_the_wait_ends_in_its_own_error(client: Client, limit: str) -> None:
    one = LeaderElector(LateAnswers(client), namespace="default", name="lock", identity="a")

    async def lead() -> None:
        if limit == "asyncio":
            async with asyncio.timeout(0.5), one.leading():
                raise AssertionError("it leads")
        with anyio.fail_after(0.5):
            async with one.leading():
                raise AssertionError("it leads")

    with pytest.raises(TimeoutError):
        await lead()
    assert await holder(client) == ""
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_candidate_whose_writes_were_all_refused_asks_for_nothing_when_it_is_cancelled(
    server: APIServer, client: Client
) -> None:
    refused = server.faults.add(faults.status(403), verb="create", resource=RESOURCE)
    task = asyncio.create_task(elector(client).run(asyncio.Event().wait))
    await until(lambda: bool(refused.hits))
    await asyncio.sleep(1)
    server.requests.clear()
    task.cancel()
    await asyncio.wait({task})
    assert not server.requests


@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio starts no task eagerly")
async def test_an_eager_task_that_leaves_while_the_first_one_runs_takes_the_fence_from_it(client: Client) -> None:
    leading = elector(client).leading()
    await leading.__aenter__()
    await asyncio.Task(leave(leading), loop=asyncio.get_running_loop(), eager_start=True)
    check_fences()


async def checked() -> None:
    check_fences()


def in_context(start: Callable[[], Coroutine[Any, Any, Any]], context: contextvars.Context) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(start(), context=context)
