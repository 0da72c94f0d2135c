"""A replica's membership over a network that loses answers; random schedules are in test_sharding_schedules.py.

Internals: the membership without a controller, whose requests a test can swallow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kinformer import Client
from kinformer.exceptions import ConnectError
from kinformer.leaderelection.lease import LeaseOptions
from kinformer.sharding.members import ShardMembers
from kinformer.sharding.membership import ShardMembership
from kinformer.testing import APIServer
from tests.support.machine_clock import MachineClock

pytestmark = pytest.mark.virtual_time


class DeafClient:
    """A client's requests, all of which take effect; the answers to some renewals are never heard."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.unheard = 0  # of the next renewals

    async def request(self, method: str, path: str, *, timeout: float = 30.0, **options: Any) -> Any:
        answer = await self._client.request(method, path, timeout=timeout, **options)
        if method == "PUT" and self.unheard:
            self.unheard -= 1
            await asyncio.sleep(timeout)
            raise ConnectError(f"{method} {path}: no response within {timeout:g} s")
        return answer


class Work:
    """Says what happened to the slots."""

    def __init__(self) -> None:
        self.happened: list[str] = []

    def begin_membership(self) -> None:
        self.happened.append("joined")

    def take_slots(self, slots: frozenset[int]) -> None:
        self.happened.append(f"took {len(slots)}")

    async def release_slots(self, slots: frozenset[int]) -> None:
        self.happened.append(f"left {len(slots)}")

    def drop_all_slots(self) -> None:
        self.happened.append("lapsed")

    async def wait_idle(self) -> None:
        """Nothing ever runs."""

    def update_members(self, members: ShardMembers) -> None:
        """Nothing to do."""

    def version_seen(self) -> int | None:
        return 1


class Replica:
    def __init__(self, client: Client) -> None:
        self.client = DeafClient(client)
        self.work = Work()
        self.membership = ShardMembership(
            self.client,
            namespace="default",
            group="g",
            identity="one",
            work=self.work,
            options=LeaseOptions(),
            clock=MachineClock().clock,
        )


@pytest_asyncio.fixture
async def replica(server: APIServer) -> AsyncIterator[Replica]:
    """One that has taken everything."""
    async with server.client() as client:
        replica = Replica(client)
        task = asyncio.create_task(replica.membership.run())
        await asyncio.sleep(20)
        assert replica.work.happened == ["joined", "took 256"]
        yield replica
        task.cancel()
        await asyncio.wait({task})


async def test_a_renewal_whose_answer_is_lost_costs_no_slot(replica: Replica) -> None:
    for _ in range(3):
        replica.client.unheard = 1
        await asyncio.sleep(20)
    assert replica.work.happened == ["joined", "took 256"]
    assert len(replica.membership.slots) == 256


async def test_when_no_answer_comes_the_right_lapses_although_renewals_are_written(replica: Replica) -> None:
    replica.client.unheard = 3
    await asyncio.sleep(12)
    assert replica.work.happened[2:] == ["lapsed"]
    assert not replica.membership.slots


LEASES = "coordination.k8s.io/v1/leases"


async def renewed(server: APIServer) -> dict[str, Any]:
    """The Lease when it has just been renewed: the next heartbeat is 2 s away."""
    (before,) = (lease,) = server.list(LEASES, "default")
    while lease["spec"]["renewTime"] == before["spec"]["renewTime"]:
        await asyncio.sleep(0.01)
        (lease,) = server.list(LEASES, "default")
    return lease


async def test_a_lease_that_somebody_else_has_written_is_not_written_over(server: APIServer, replica: Replica) -> None:
    lease = await renewed(server)
    server.update({**lease, "spec": {**lease["spec"], "renewTime": "2026-01-01T00:00:00.000000Z"}})
    await asyncio.sleep(2.5)
    assert replica.work.happened[2:] == ["lapsed"]
    (lease,) = server.list(LEASES, "default")
    assert lease["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
