"""The Lease of a replica itself: its heartbeat, which shows its slots to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from hashlib import blake2b

from kinformer._runtime.clock import Clock
from kinformer.exceptions import AlreadyExistsError, ConflictError, NotFoundError
from kinformer.leaderelection.lease import Lease, LeaseObservation, LeaseOptions, OwnRenewals, new_lease
from kinformer.leaderelection.lease_client import LeaseClient, Requester
from kinformer.sharding.members import GROUP, annotations_of

__all__ = ["LEASE_CHANGED", "OwnLease"]

LEASE_CHANGED = (ConflictError, AlreadyExistsError, NotFoundError)
"""The errors of a write to a Lease that was changed since it was last read."""


class OwnLease:
    """The Lease that one replica writes, and no other process should.

    Its methods raise the same errors as `Client.request`.

    Args:
        client: Makes the requests.
        namespace: The namespace of the Lease.
        group: The label of the Leases, and the prefix of their names.
        identity: The replica's name, whose hash completes the Lease's name.
        options: The durations.
        clock: Its `boot` is used for durations, and its `wall` is written into the Lease.

    Attributes:
        name: The name of the Lease.
    """

    def __init__(
        self, client: Requester, namespace: str, group: str, identity: str, options: LeaseOptions, clock: Clock
    ) -> None:
        self.name = f"{group}-{blake2b(identity.encode(), digest_size=5).hexdigest()}"
        self._leases = LeaseClient(client, namespace)
        self._namespace = namespace
        self._group = group
        self._identity = identity
        self._options = options
        self._clock = clock
        self._lease: Lease | None = None  # as last written, or None if it must be read first
        self._renewals = OwnRenewals(identity)
        self._former = LeaseObservation(options.lease_duration)  # as a former process of the same name wrote it

    def forget(self) -> None:
        """Forget the state of the Lease, so that it is read again before the next write."""
        self._lease = None

    async def take_over(self, timeout: float) -> bool:
        """Read the Lease. Return False if another process with this name may still rely on it."""
        asked = self._clock.boot()
        lease = await self._leases.get(self.name, timeout)
        if lease is not None and not self._renewals.wrote(lease):
            self._former.observe(lease, self._clock.boot())
            if asked < self._former.expires:
                return False
        self._lease = lease
        return True

    async def read_if_unknown(self, timeout: float) -> str | None:
        """Read the Lease if its state is unknown. Return its holder if another client wrote it, and otherwise None.

        The state is unknown if another client changed or deleted it, or after a write whose response was lost.
        """
        if self._lease is None:
            lease = await self._leases.get(self.name, timeout)
            if lease is not None and not self._renewals.wrote(lease):
                return lease.holder
            self._lease = lease
        return None

    async def write(self, slots: Iterable[int], epoch: int, seen: int | None, timeout: float) -> float:
        """Create or renew the Lease with these slots, epoch and version seen, and return the time of sending."""
        duration, wall = self._options.lease_duration, self._clock.wall()
        if self._lease is None:
            document = new_lease(self._namespace, self.name, self._identity, duration, wall)
            send = self._leases.create
        else:
            document = self._lease.renewed(self._identity, duration, wall)
            send = self._leases.update
        annotations = annotations_of(self._identity, document.renew_time, slots, epoch, seen)
        self._renewals.note(document)
        sent = self._clock.boot()
        try:
            self._lease = await send(document.annotated({GROUP: self._group}, annotations), timeout)
        except (*LEASE_CHANGED, asyncio.CancelledError):  # cancelled: it may have been written
            self._lease = None
            raise
        return sent

    async def give_back(self, epoch: int, timeout: float) -> None:
        """Write the Lease without slots and holder, so that other replicas need not wait until it expires."""
        lease = self._lease
        if lease is None:  # a renewal without a response, or another client's write
            lease = await self._leases.get(self.name, timeout)
            if lease is None or not self._renewals.wrote(lease):
                return
        document = lease.released(self._clock.wall())
        annotations = annotations_of("", document.renew_time, (), epoch, None)
        await self._leases.update(document.annotated({}, annotations), timeout)

    # --- the Leases of the others ---------------------------------------------------------------------------------

    async def list_group(self, timeout: float) -> list[Lease]:
        """List the Leases of all replicas of the group."""
        return await self._leases.list(f"{GROUP}={self._group}", timeout)

    async def delete_dead(self, lease: Lease, timeout: float) -> None:
        """Delete the Lease of a dead replica."""
        await self._leases.delete(lease, timeout)
