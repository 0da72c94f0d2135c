"""A candidacy: a replica's wait for a free part, until it has taken the Lease of one."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re

from kinformer._runtime.clock import Clock
from kinformer._runtime.logs import cluster_of, get_logger
from kinformer._runtime.signatures import options_of
from kinformer.exceptions import ConfigError, KinformerError
from kinformer.leaderelection.leader_election import default_identity
from kinformer.leaderelection.lease import JITTER, Lease, LeaseKeywords, LeaseObservation, LeaseOptions
from kinformer.leaderelection.lease_client import LeaseClient, Requester
from kinformer.leaderelection.listed_elector import ListedElector
from kinformer.metrics import Metrics

__all__ = ["ShardCandidacy"]

log = get_logger("kinformer.sharding", resource="coordination.k8s.io/v1/leases")

_SPREAD = 4.0  # the maximum factor for the wait after two counts have met, so that they soon miss each other


class ShardCandidacy:
    """The Leases of all parts as a candidate sees them: one list shows them, and those of other counts.

    A Lease is free if the observations of all lists show that its holder has ended. So the part of a holder that has
    crashed is taken as soon as its Lease has expired, even if another part is watched more closely.

    Args:
        client, namespace, name, count, identity, metrics, clock, durations: See `Shard.claim`.

    Raises:
        ConfigError: An option is invalid. The message names it.
    """

    def __init__(
        self,
        client: Requester,
        namespace: str,
        name: str,
        count: int,
        identity: str | None,
        metrics: Metrics | None,
        clock: Clock,
        durations: LeaseKeywords,
    ) -> None:
        if not name:
            raise ConfigError(f"Shard.claim: invalid name={name!r}: expected a non-empty string")
        identity = default_identity() if identity is None else identity
        self.count = count
        self._options = options_of(LeaseOptions, "Shard.claim", durations)
        self._leases = LeaseClient(client, namespace)
        self._electors = {
            f"{name}-{index}-of-{count}": ListedElector(
                client,
                namespace=namespace,
                name=f"{name}-{index}-of-{count}",
                identity=identity,
                metrics=metrics,
                clock=clock,
                **durations,
            )
            for index in range(count)
        }
        self._others: dict[str, LeaseObservation] = {}  # Leases of other counts
        self._expires: dict[str, float] = {}  # when each Lease expires, on the boot clock
        self._is_part = re.compile(rf"{re.escape(name)}-(0|[1-9]\d*)-of-([1-9]\d*)").fullmatch
        self._clock = clock
        self._identity = identity
        self._group = f"{namespace}/{name}"
        self._cluster = cluster_of(client)
        self._told = ""

    async def take(self) -> tuple[int, ListedElector]:
        """Wait until a part is free, and take it. Returns its index, and the elector that has taken its Lease.

        Cancelling gives a Lease back that has been taken, or may have been.
        """
        while True:
            asked = self._clock.boot()
            try:
                taken, pause = await self._try(asked)
            except KinformerError as error:
                self._tell(logging.WARNING, error, f"cannot read or take the Leases: {error}")
                taken, pause = None, self._pause(asked)
            if taken is not None:
                return taken
            await asyncio.sleep(pause)

    async def _try(self, asked: float) -> tuple[tuple[int, ListedElector] | None, float]:
        """Take the first free part. Returns it, or None and the seconds until the next try."""
        leases = await self._list()
        if self._is_other_count_held(asked):
            return None, self._pause(asked)
        for index, (name, elector) in enumerate(self._electors.items()):
            if await elector.try_acquire(leases.get(name), asked):
                if await self._is_alone(elector, asked):
                    return (index, elector), 0.0
                return None, self._pause(asked, _SPREAD)
        self._tell(logging.INFO, "waiting", f"all {self.count} are held")
        return None, self._pause(asked)

    async def _is_alone(self, elector: ListedElector, began: float) -> bool:
        """Return True if no Lease of another count is held after a part was taken, and else give the part up.

        Of two replicas with different counts, each writes its Lease before it lists, so at least one sees the other's.
        """
        is_alone = False
        try:
            asked = self._clock.boot()
            await self._list()
            too_late = self._clock.boot() - began >= self._options.renew_deadline
            is_alone = not self._is_other_count_held(asked) and not too_late
        finally:
            if not is_alone:
                await elector.give_up()
        return is_alone

    async def _list(self) -> dict[str, Lease]:
        """Return the Leases of all parts by name, and observe these and those of other counts."""
        leases: dict[str, Lease] = {}
        for lease in await self._leases.list(self._options.request_timeout):
            if lease.name in self._electors:
                leases[lease.name] = lease
                self._expires[lease.name] = self._electors[lease.name].observe(lease)
            elif (part := self._is_part(lease.name)) and int(part[2]) != self.count:
                other = self._others.setdefault(lease.name, LeaseObservation(self._options.lease_duration))
                other.observe(lease, self._clock.boot())
                self._expires[lease.name] = other.expires
        return leases

    def _is_other_count_held(self, asked: float) -> bool:
        """Return True if a Lease of another count may have been held when a list was asked for."""
        held = next((name for name, other in self._others.items() if asked < other.expires), None)
        if held is not None:
            self._tell(logging.INFO, "other_count", f"{held}, of another count than {self.count}, is held")
        return held is not None

    def _pause(self, asked: float, jitter: float = JITTER) -> float:
        """Return the seconds until the next try: `retry_period`, or less if a Lease that counted as held expires."""
        pause = self._options.retry_period * random.uniform(1.0, jitter)
        held_until = min((expires for expires in self._expires.values() if expires > asked), default=math.inf)
        return min(pause, max(0.0, held_until - self._clock.boot()) + pause / 100)

    def _tell(self, level: int, reason: str | KinformerError, why: str) -> None:
        # A reason is news when it differs in kind from the last one, so that an outage logs one line.
        kind = reason if isinstance(reason, str) else type(reason).__name__
        if kind == self._told:
            level = logging.DEBUG
        self._told = kind
        message, about = "%s waits for a shard of %s: %s", (self._identity, self._group, why)
        log.log(level, message, *about, key=self._group, reason=reason, cluster=self._cluster)
