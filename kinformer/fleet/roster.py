"""The roster of a fleet: its wanted clusters and its connected clusters."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kinformer._runtime.backoff import Backoff
from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.tasks import OneByOne, Tasks
from kinformer._runtime.waiters import Latch
from kinformer.derived.union_engine import check_member
from kinformer.exceptions import ConfigError, StoppedError, describe
from kinformer.fleet.keeper import Cluster, ClusterHealth, ClusterKeeper
from kinformer.fleet.sources import ClusterSource, Desired, GivenClusters, WantedCluster

__all__ = ["FleetStatistics", "Roster", "RosterOwner"]

log = get_logger("kinformer.fleet")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatistics:
    """Counts since the fleet was entered, except that `clusters` and `broken` are current values.

    Attributes:
        clusters: Connected clusters.
        joined: Clusters that were connected, except replacements.
        replaced: Clusters that replaced one with the same name, because their configuration had changed.
        left: Connected clusters that were removed.
        failures: All failures: to connect a cluster, to read a configuration, or to add a cluster to a union.
        unconnected: Failed attempts to connect, which are part of `failures`.
        refused: Configurations that could not be used, each counted once, however often it is tried.
        broken: Configurations that cannot be used at present. A cluster may run with the previous one.
    """

    clusters: int = 0
    joined: int = 0
    replaced: int = 0
    left: int = 0
    failures: int = 0
    unconnected: int = 0
    refused: int = 0
    broken: int = 0


class RosterOwner(Protocol):
    """The owner of a roster. Each method is called in the step in which the event happens."""

    def cluster_joined(self, roster: Roster, keeper: ClusterKeeper, cluster: Cluster, /) -> None: ...
    def cluster_left(self, name: str, /) -> None: ...
    def first_known(self, roster: Roster, /) -> None: ...


class _FirstClusters:
    """Waits for the first clusters, for a limited time.

    Args:
        away_after: Seconds after which clusters that are not connected are no longer waited for.
        on_settled: Called once each cluster has been connected, has failed, or is away.
    """

    def __init__(self, away_after: float, on_settled: Callable[[], None]) -> None:
        self.settled = Latch()
        self._away_after = away_after
        self._on_settled = on_settled
        self._opening: set[str] = set()  # neither connected nor failed yet
        self._patience: asyncio.TimerHandle | None = None  # set by the first `expect`

    def expect(self, names: Iterable[str]) -> None:
        """Start waiting. Only the first call has an effect."""
        if self._patience is None and not self.settled.is_open:
            self._opening = set(names)
            self._patience = asyncio.get_running_loop().call_later(self._away_after, self._settle)

    def forget(self, name: str) -> None:
        """Stop waiting for this cluster."""
        self._opening.discard(name)

    def check(self) -> None:
        """Settle if there is no cluster left to wait for."""
        if self._patience is not None and not self._opening:
            self._settle()

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._patience is not None:
            self._patience.cancel()

    def _settle(self) -> None:
        self.cancel()
        if not self.settled.is_open:
            self.settled.open()
            self._on_settled()


class Roster:
    """The clusters of a fleet. It follows a source, and owns the keepers of the clusters.

    The source and `add` decide which clusters are wanted. The keepers report to `opened` and `failed`.

    Args:
        name: The name of the fleet.
        source: The source of the wanted clusters, besides those that the program adds.
        defaults: Options of the factories.
        away_after: Seconds after which a cluster that is not connected is no longer waited for.
        owner: Notified of changes.

    Attributes:
        open: The keepers of the connected clusters, by name. It changes as clusters join and leave.
        source: The source, which may be set before the start.
        source_error: The error that prevents reading the source at present, or None.
        tasks: The tasks of the clusters.
    """

    def __init__(
        self, name: str, source: ClusterSource, defaults: Mapping[str, Any], away_after: float, owner: RosterOwner
    ) -> None:
        self.open: dict[str, ClusterKeeper] = {}
        self.source_error: BaseException | None = None
        self._name = name
        self.source = source
        self._defaults = defaults
        self._owner = owner
        self._wanted: dict[str, ClusterKeeper] = {}  # the newest keeper of each wanted cluster
        self._of_program: set[str] = set()  # the names that were passed to `add`
        self._failed: Mapping[str, Exception] = {}  # the errors that the source reported, by name
        self._counts: Counter[str] = Counter()
        self._logged = LogOnce()
        self.tasks = Tasks(self._crashed)
        self._starting = OneByOne(self._start, self.tasks, f"kinformer fleet {name}: clusters")
        self._following: asyncio.Task[None] | None = None
        self._first = _FirstClusters(away_after, lambda: owner.first_known(self))
        self._is_left = False

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start following the source."""
        if isinstance(self.source, GivenClusters):
            given = self.source.desired.clusters
            self._first.expect(given)
            self._starting.add([self._want(name, wanted) for name, wanted in given.items()])
            self._first.check()
            return
        with unfenced():  # it may be started in a leader's body, and outlive it
            self._following = self.tasks.start(self._follow(), f"kinformer fleet {self._name}", vital=True)

    async def stop_following(self) -> None:
        """Stop following the source. No cluster joins from here on."""
        self._is_left = True
        self._starting.clear()
        self._first.cancel()
        if self._following is not None:
            await self.tasks.cancel([self._following])

    def refuse_leaving(self) -> None:
        """Raise RuntimeError if the caller is a handler of a cluster, which would wait for itself."""
        for keeper in self.open.values():
            keeper.refuse_ending()

    async def leave_clusters(self, deadline: float) -> None:
        """Disconnect all clusters, within `deadline` on the loop's clock."""
        keepers = {*self._wanted.values(), *self.open.values()}
        try:
            for keeper in keepers:
                keeper.end(deadline=deadline)
            await self.tasks.finish(self.tasks.running, deadline)
        finally:
            await self.tasks.cancel()
            self.open.clear()
            error = StoppedError(f"{self._name} was exited")
            self.settled.fail(error)
            for keeper in keepers:
                keeper.tell(error)

    def _crashed(self, task: str, error: BaseException) -> None:
        log.error("%s ended with %s", task, describe(error), exc_info=error, resource=self._name, reason=error)

    # --- clusters of the program ------------------------------------------------------------------

    async def add(self, name: str, wanted: WantedCluster) -> Cluster:
        """Connect a cluster, and return it. See `Fleet.add`."""
        if check_member(name) in self._wanted:
            raise ConfigError(f"{self._name} already has a cluster {name!r}")
        keeper = self._want(name, wanted)
        self._start(keeper)
        self._of_program.add(name)
        try:
            return await keeper.connected()
        except BaseException:
            if self._wanted.get(name) is keeper:
                self._drop(name)
            raise

    def remove(self, name: str) -> list[asyncio.Task[None]]:
        """Disconnect a cluster, and return the tasks that do so. See `Fleet.remove`."""
        if name not in self._wanted:
            raise KeyError(name)
        if name not in self._of_program and not isinstance(self.source, GivenClusters):
            raise ConfigError(f"{self._name}: cluster {name!r} comes from {self.source.description}; remove it there")
        if name in self.open:
            self.open[name].refuse_ending()
        return self._drop(name)

    # --- clusters of the source -------------------------------------------------------------------

    async def _follow(self) -> None:
        """Follow the source until it ends. After an error, it is read again from the beginning, with a backoff."""
        delays = Backoff().start()
        while True:
            try:
                async for state in self.source.states():
                    if isinstance(state, Exception):
                        self._source_failed(state)
                    else:
                        self.source_error = None
                        await self._apply(state)
                        delays.reset()
            except StoppedError as error:
                self._source_failed(error)
                return
            except Exception as error:  # noqa: BLE001 - the clusters stay as they are, and later states may be read
                self._source_failed(error)
                await asyncio.sleep(delays.next())
            else:
                text = f"{self.source.description} were exited, so they are no longer followed"
                self._source_failed(StoppedError(text))
                return

    def _source_failed(self, error: Exception) -> None:
        self.source_error = error
        self._counts["failures"] += 1
        self._counts["refused"] += isinstance(error, ConfigError)
        if self._logged.is_news("", str(error)):
            message = "%s: %s cannot be read, so the present clusters are kept: %s"
            log.error(message, self._name, self.source.description, describe(error), resource=self._name, reason=error)

    async def _apply(self, desired: Desired) -> None:
        """Connect the clusters that are new or have changed, and disconnect removed ones, one by one."""
        self._first.expect(desired.clusters)
        budget = YieldBudget()
        bad = dict(desired.failures)
        for name, wanted in desired.clusters.items():
            if budget.exhausted():
                await budget.pause()
            if (error := self._refusal(name)) is not None:
                bad[name] = error
                self._first.forget(name)
                continue
            keeper = self._wanted.get(name)
            if keeper is None or keeper.wanted.fingerprint != wanted.fingerprint:
                self._start(self._want(name, wanted))
                await asyncio.sleep(0)
        self._note_failures(bad)
        for name in list(self._wanted):
            gone = name not in desired.clusters and name not in bad
            if gone and name in self._wanted and name not in self._of_program:
                self._drop(name)
                await asyncio.sleep(0)
        self._first.check()

    def _refusal(self, name: str) -> ConfigError | None:
        try:
            check_member(name)
        except ConfigError as error:
            return error
        if name in self._of_program:
            return ConfigError(f"cluster {name!r} of {self.source.description}: the program has already added it")
        return None

    def _note_failures(self, bad: Mapping[str, Exception]) -> None:
        for name, failure in bad.items():
            if str(self._failed.get(name)) != str(failure):
                self._counts["failures"] += 1
                self._counts["refused"] += 1
                about = (self._name, describe(failure))
                log.error("cannot be connected to %s: %s", *about, resource=name, reason=failure, cluster=name)
        self._failed = bad

    def _want(self, name: str, wanted: WantedCluster) -> ClusterKeeper:
        before = self._wanted.get(name)
        if before is not None and before is not self.open.get(name):
            before.end()  # it was being connected with an outdated configuration
        keeper = self._wanted[name] = ClusterKeeper(name, wanted, self._defaults, self)
        return keeper

    def _start(self, keeper: ClusterKeeper) -> None:
        if self._wanted.get(keeper.name) is keeper and not self._is_left:
            keeper.start(self.tasks)

    def _drop(self, name: str) -> list[asyncio.Task[None]]:
        """Disconnect a cluster, and return the tasks that do so."""
        was_open = name in self.open
        keepers = {self._wanted.pop(name), self.open.pop(name, None)}
        self._of_program.discard(name)
        self._first.forget(name)
        self._owner.cluster_left(name)
        if was_open:
            self._counts["left"] += 1
            log.info("has left %s", self._name, resource=name, reason="left", cluster=name)
        ending = [keeper for keeper in keepers if keeper is not None]
        for keeper in ending:
            keeper.end(departs=True)
            keeper.tell(StoppedError(f"{self._name}: cluster {name!r} was removed"))
        self._first.check()
        return [keeper.task for keeper in ending if keeper.task is not None]

    # --- notifications from keepers ---------------------------------------------------------------

    def opened(self, keeper: ClusterKeeper, cluster: Cluster) -> None:
        """Record that a cluster was connected."""
        name = keeper.name
        if self._is_left or self._wanted.get(name) is not keeper:
            keeper.end()
            return
        before = self.open.get(name)
        self.open[name] = keeper
        self._logged.forget(name)
        self._counts["joined" if before is None else "replaced"] += 1
        message = "has joined %s: %s"
        log.info(message, self._name, cluster.client.server, resource=name, reason="joined", cluster=name)
        self._owner.cluster_joined(self, keeper, cluster)
        if before is not None:
            before.end(departs=True)
        keeper.tell(cluster)
        self._first.forget(name)
        self._first.check()

    def failed(self, keeper: ClusterKeeper, error: Exception) -> None:
        """Record that a cluster could not be connected."""
        name = keeper.name
        self._counts["failures"] += 1
        self._counts["unconnected"] += 1
        self._counts["refused"] += isinstance(error, ConfigError) and keeper.failures == 1
        if self._logged.is_news(name, str(error)):
            message = "cannot be connected to %s: %s"
            log.error(message, self._name, describe(error), resource=name, reason=error, cluster=name)
        keeper.tell(error)
        self._first.forget(name)
        self._first.check()

    def note(self, keeper: ClusterKeeper, error: Exception, what: str) -> None:
        """Count, record and log a failure of a connected cluster."""
        keeper.note(error)
        self._counts["failures"] += 1
        about, name = (self._name, what, describe(error)), keeper.name
        log.error("in %s: %s: %s", *about, exc_info=error, resource=name, reason=error, cluster=name)

    # --- reports ----------------------------------------------------------------------------------

    @property
    def settled(self) -> Latch:
        """A latch that opens once each of the first clusters has been connected, has failed, or is away."""
        return self._first.settled

    def unsettled_reason(self) -> str:
        """Return why the first clusters are not known."""
        if self.source_error is not None:
            return f"the clusters are not known: {describe(self.source_error)}"
        if self.settled.is_open:
            return "the clusters are being connected"
        return f"the clusters of {self.source.description} are not known yet"

    def health(self) -> dict[str, ClusterHealth]:
        """Return the health of each wanted cluster by name, including clusters that have failed."""
        healths = {name: self._health_of(name, keeper) for name, keeper in dict(self._wanted).items()}
        for name, error in self._failed.items():
            health = healths.get(name, ClusterHealth(state="failed", live=False, last_error=error, failures=1))
            healths[name] = replace(health, last_error=error)
        return healths

    def _health_of(self, name: str, newest: ClusterKeeper) -> ClusterHealth:
        running = self.open.get(name)
        if running is None or running is newest:
            return newest.health()
        health = running.health()  # it runs until the new one is connected
        return replace(health, last_error=newest.error or health.last_error, failures=newest.failures)

    def statistics(self) -> FleetStatistics:
        """Return counts of clusters that joined, left and failed."""
        unusable = {name for name, keeper in dict(self._wanted).items() if keeper.is_broken}
        return FleetStatistics(clusters=len(self.open), broken=len(unusable.union(self._failed)), **self._counts)
