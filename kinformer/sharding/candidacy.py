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
from kinformer.exceptions import ConfigError, KinformerError, LeadershipLostError
from kinformer.leaderelection.lease import (
    JITTER,
    Lease,
    LeaseKeywords,
    LeaseObservation,
    LeaseOptions,
    default_identity,
)
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
        names = [f"{name}-{index}-of-{count}" for index in range(count)]
        self._electors = {
            name: ListedElector(
                client, namespace=namespace, name=name, identity=identity, metrics=metrics, clock=clock, **durations
            )
            for name in names
        }
        self._others: dict[str, LeaseObservation] = {}  # the Leases of other numbers of parts
        self._expires: dict[str, float] = {}  # when each Lease expires, on the boot clock
        self._is_part = re.compile(rf"{re.escape(name)}-(0|[1-9]\d*)-of-([1-9]\d*)").fullmatch
        self._clock = clock
        self._group = f"{namespace}/{name}"
        self._about = (identity, self._group)
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
                level, message = self._level(logging.WARNING, type(error).__name__), "%s cannot take a shard of %s: %s"
                log.log(level, message, *self._about, error, key=self._group, reason=error, cluster=self._cluster)
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
        level, message = self._level(logging.INFO, "waiting"), "%s waits for a shard of %s: all %d are held"
        log.log(level, message, *self._about, self.count, key=self._group, reason="waiting", cluster=self._cluster)
        return None, self._pause(asked)

    async def _is_alone(self, elector: ListedElector, began: float) -> bool:
        """Return True if no Lease of another count is held after a part was taken, and else give the part up.

        Of two replicas with different counts, each writes its Lease before it lists, so at least one sees the other's.

        Raises:
            KinformerError: The request failed, or all requests took too long.
        """
        is_alone = False
        try:
            asked = self._clock.boot()
            await self._list()
            if (seconds := self._clock.boot() - began) >= self._options.renew_deadline:
                raise LeadershipLostError(f"taking {elector.name} took {seconds:.1f} s, too long to rely on it")
            is_alone = not self._is_other_count_held(asked)
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
            level = self._level(logging.INFO, "other_count")
            message = "%s waits for a shard of %s: %s, of another count than %d, is held"
            about = (*self._about, held, self.count)
            log.log(level, message, *about, key=self._group, reason="other_count", cluster=self._cluster)
        return held is not None

    def _pause(self, asked: float, jitter: float = JITTER) -> float:
        """Return the seconds until the next try: `retry_period`, or less if a Lease that counted as held expires."""
        pause = self._options.retry_period * random.uniform(1.0, jitter)
        held_until = min((expires for expires in self._expires.values() if expires > asked), default=math.inf)
        return min(pause, max(0.0, held_until - self._clock.boot()) + pause / 100)

    def _level(self, level: int, kind: str) -> int:
        """Return the level of a record, or DEBUG if the last one was of the same kind, so that an outage logs one."""
        self._told, told = kind, self._told
        return logging.DEBUG if kind == told else level
