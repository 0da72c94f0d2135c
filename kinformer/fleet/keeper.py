"""The keeper of one cluster: its client and its factory, from when it is wanted until it is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kinformer._runtime.backoff import Backoff
from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import Tasks
from kinformer.client.client import Client
from kinformer.exceptions import ConfigError, describe
from kinformer.fleet.sources import Wanted
from kinformer.informer.factory import SharedInformerFactory
from kinformer.metrics import MetricFamily, Metrics
from kinformer.reflector.health import InformerHealth

__all__ = ["Cluster", "ClusterHealth", "ClusterKeeper", "KeeperOwner"]

log = get_logger("kinformer.fleet")


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """A cluster of a fleet, connected.

    Attributes:
        name: In the fleet.
        client: The connection, which the fleet closes.
        factory: The informers of this cluster, which the fleet leaves.
    """

    name: str
    client: Client
    factory: SharedInformerFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """The health of a cluster at one moment.

    Attributes:
        state: `"connecting"`, `"running"`, or `"failed"`: it could not be connected, and is tried again.
        live: True if it runs and each of its informers follows the server.
        last_error: Why it could not be connected, or changed; else that of an informer that is not live; None if all
            is well.
        failures: The number of times that it could not be connected.
        resources: The health of its informers, by resource.
    """

    state: Literal["connecting", "running", "failed"]
    live: bool
    last_error: BaseException | None
    failures: int
    resources: Mapping[str, InformerHealth] = field(default_factory=dict)


class KeeperOwner(Protocol):
    """What a keeper tells, each in the step in which it happens."""

    def opened(self, keeper: ClusterKeeper, cluster: Cluster, /) -> None: ...
    def failed(self, keeper: ClusterKeeper, error: Exception, /) -> None: ...


class ClusterKeeper:
    """Connects one cluster, trying again until it succeeds, and leaves it when it is told to `end`.

    Args:
        name: Of the cluster.
        wanted: How to connect.
        defaults: The options of the factory.
        owner: Is told.

    Attributes:
        cluster: Once it is connected.
        error: Why it could not be connected the last time.
        failures: The number of times that it could not.
    """

    def __init__(self, name: str, wanted: Wanted, defaults: Mapping[str, Any], owner: KeeperOwner) -> None:
        self.name = name
        self.wanted = wanted
        self.cluster: Cluster | None = None
        self.error: BaseException | None = None
        self.failures = 0
        self.task: asyncio.Task[None] | None = None
        self._defaults = defaults
        self._owner = owner
        self._ending = asyncio.Event()
        self._waiter: asyncio.Future[Cluster] | None = None

    def start(self, tasks: Tasks) -> None:
        """Connect, in a task of `tasks`."""
        with unfenced():  # it may be started by a leader's body, and outlive that
            self.task = tasks.start(self._run(), f"kinformer fleet: cluster {self.name}")

    def end(self) -> None:
        """Leave the cluster soon; `task` is done when that has been done."""
        self._ending.set()
        if self.cluster is None and self.task is not None:
            self.task.cancel()

    async def connected(self) -> Cluster:
        """Wait for the cluster, and return it; raises the error that its owner tells. One waiter at a time."""
        self._waiter = asyncio.get_running_loop().create_future()
        return await self._waiter

    def tell(self, outcome: Cluster | Exception) -> None:
        """Have the waiter, if there is one, go on with the cluster or an error."""
        if self._waiter is None or self._waiter.done():
            return
        if isinstance(outcome, Exception):
            self._waiter.set_exception(outcome)
        else:
            self._waiter.set_result(outcome)

    def note(self, error: BaseException) -> None:
        """Count a failure, and show it."""
        self.error = error
        self.failures += 1

    @property
    def is_broken(self) -> bool:
        """True if it cannot be connected because of its configuration."""
        return self.cluster is None and isinstance(self.error, ConfigError)

    def health(self) -> ClusterHealth:
        """Return the health at this moment."""
        cluster = self.cluster
        if cluster is None:
            state: Literal["connecting", "failed"] = "connecting" if self.error is None else "failed"
            return ClusterHealth(state=state, live=False, last_error=self.error, failures=self.failures)
        resources = cluster.factory.health()
        unwell = [one.last_error for one in resources.values() if not one.live and one.last_error is not None]
        return ClusterHealth(
            state="running",
            live=all(one.live for one in resources.values()),
            last_error=self.error or next(iter(unwell), None),
            failures=self.failures,
            resources=resources,
        )

    async def _run(self) -> None:
        delays = Backoff().start()
        while not self._ending.is_set():
            try:
                async with self.wanted.client() as client:
                    await self._hold(client)
                    return
            except Exception as error:  # noqa: BLE001 - shown, counted and logged; the other clusters go on
                if self._ending.is_set():
                    log.debug("cluster %s was left with %s", self.name, describe(error), reason=error)
                    return
                self.cluster = None
                self.note(error)
                self._owner.failed(self, error)
                if self.wanted.once:
                    return
            await asyncio.sleep(delays.next())

    async def _hold(self, client: Client) -> None:
        options = dict(self._defaults)
        if (metrics := options.get("metrics")) is not None:
            options["metrics"] = _ClusterSink(metrics, self.name)
        async with SharedInformerFactory(client, **options) as factory:
            self.cluster = Cluster(self.name, client, factory)
            self.error = None
            self._owner.opened(self, self.cluster)
            await self._ending.wait()


class _ClusterSink:
    """A sink that puts the name of a cluster before those of the owners: `east/v1/pods`.

    Args:
        sink: Of the fleet.
        cluster: The name of the cluster.
    """

    def __init__(self, sink: Metrics, cluster: str) -> None:
        self._sink = sink
        self._cluster = cluster

    def collector(self, owner: str, read: Callable[[str], Iterable[MetricFamily]]) -> Callable[[], None]:
        """Export the readings of an owner, under its name in the fleet."""
        return self._sink.collector(f"{self._cluster}/{owner}", read)

    def counter(self, name: str, text: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        """Make a counter of the fleet's sink."""
        return self._sink.counter(name, text, labels)

    def histogram(
        self, name: str, text: str, labels: Mapping[str, str], buckets: Sequence[float]
    ) -> Callable[[float], None]:
        """Make a histogram of the fleet's sink."""
        return self._sink.histogram(name, text, labels, buckets)

    def gauge(self, name: str, text: str, labels: Mapping[str, str], read: Callable[[], float]) -> Callable[[], None]:
        """Make a gauge of the fleet's sink."""
        return self._sink.gauge(name, text, labels, read)
