"""The keeper of one cluster: its client and its factory, from the request to connect it until its removal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kinformer._runtime.backoff import Backoff
from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import get_logger, logged_for, name_cluster
from kinformer._runtime.tasks import Tasks
from kinformer.client.client import Client
from kinformer.exceptions import ConfigError, describe
from kinformer.fleet.sources import WantedCluster
from kinformer.informer.collection import core_of
from kinformer.informer.factory import SharedInformerFactory
from kinformer.metrics import MetricFamily, Metrics
from kinformer.reflector.health import InformerHealth

__all__ = ["Cluster", "ClusterHealth", "ClusterKeeper", "KeeperOwner"]

log = get_logger("kinformer.fleet")


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """A connected cluster of a fleet.

    Attributes:
        name: The name in the fleet.
        client: The connection, which the fleet closes.
        factory: The informers of this cluster, which the fleet stops.
    """

    name: str
    client: Client
    factory: SharedInformerFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """The health of a cluster at one moment.

    Attributes:
        state: `"connecting"`, `"running"`, or `"failed"` (could not be connected, and is retried unless the program
            passed a client instead of a function).
        live: True if it runs and each of its informers follows the server.
        last_error: The last error in connecting or changing it, or in adding it to a union. Otherwise the error of an
            informer that is not live, or None.
        failures: The number of failed attempts to connect it, or to add it to a union.
        resources: The health of its informers, by resource.
    """

    state: Literal["connecting", "running", "failed"]
    live: bool
    last_error: BaseException | None
    failures: int
    resources: Mapping[str, InformerHealth] = field(default_factory=dict)


class KeeperOwner(Protocol):
    """The owner of a keeper. Each method is called in the step in which the event happens."""

    def opened(self, keeper: ClusterKeeper, cluster: Cluster, /) -> None: ...
    def failed(self, keeper: ClusterKeeper, error: Exception, /) -> None: ...


class ClusterKeeper:
    """Connects one cluster, retrying until it succeeds, and disconnects it on `end`.

    Args:
        name: The name of the cluster.
        wanted: Creates the client.
        defaults: The options of the factory.
        owner: Notified of success and failure.

    Attributes:
        cluster: The cluster, once it is connected.
        error: The last error in connecting it, or in adding it to a union.
        failures: The number of these errors.
        task: The task that connects it, once it was started. It sets the other attributes, and so does `note`.
    """

    def __init__(self, name: str, wanted: WantedCluster, defaults: Mapping[str, Any], owner: KeeperOwner) -> None:
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
        with unfenced():  # it may be started in a leader's body, and outlive it
            self.task = tasks.start(self._run(), f"kinformer fleet: cluster {self.name}")

    def end(self, *, departs: bool = False, deadline: float | None = None) -> None:
        """Start disconnecting the cluster. `task` is done once that has finished.

        Args:
            deadline: The time on the loop's clock by which its informers must end, instead of the time that they have.
            departs: True if the fleet goes on without the cluster, or with another connection to it. Then its objects
                are gone for collections that fetch them.
        """
        if departs and self.cluster is not None and not self._ending.is_set():
            factory = self.cluster.factory
            for collection in (*reversed(factory.derived), *factory.informers):  # what reads another leaves before it
                core_of(collection).depart()
        if deadline is not None and self.cluster is not None:
            left = max(0.0, deadline - asyncio.get_running_loop().time())
            core_of(self.cluster.factory).life.shutdown_timeout = left
        self._ending.set()
        if self.cluster is None and self.task is not None:
            self.task.cancel()

    def refuse_ending(self) -> None:
        """Raise RuntimeError if the caller is a handler of the cluster, which would wait for itself."""
        if self.cluster is not None:
            core_of(self.cluster.factory).life.refuse_leaving()

    async def connected(self) -> Cluster:
        """Wait for the cluster, and return it, or raise the error passed to `tell`. For one waiting task at a time."""
        self._waiter = asyncio.get_running_loop().create_future()
        return await self._waiter

    def tell(self, outcome: Cluster | Exception) -> None:
        """Pass the cluster or an error to the waiting task, if there is one."""
        if self._waiter is None or self._waiter.done():
            return
        if isinstance(outcome, Exception):
            self._waiter.set_exception(outcome)
        else:
            self._waiter.set_result(outcome)

    def note(self, error: BaseException) -> None:
        """Count and record a failure."""
        self.error = error
        self.failures += 1

    @property
    def is_broken(self) -> bool:
        """True if it cannot be connected because of its configuration."""
        return self.cluster is None and isinstance(self.error, ConfigError)

    def health(self) -> ClusterHealth:
        """Return the current health."""
        cluster = self.cluster
        if cluster is None:
            state: Literal["connecting", "failed"] = "connecting" if self.error is None else "failed"
            return ClusterHealth(state=state, live=False, last_error=self.error, failures=self.failures)
        resources = cluster.factory.health()
        errors = (health.last_error for health in resources.values() if not health.live)
        return ClusterHealth(
            state="running",
            live=not core_of(cluster.factory).life.has_ended and all(health.live for health in resources.values()),
            last_error=self.error or next((error for error in errors if error is not None), None),
            failures=self.failures,
            resources=resources,
        )

    async def _run(self) -> None:
        with logged_for(self.name):
            await self._connect()

    async def _connect(self) -> None:
        delays = Backoff().start()
        while not self._ending.is_set():
            try:
                client = self.wanted.client()
                name_cluster(client, self.name)
                async with client:
                    await self._hold(client)
                    return
            except Exception as error:  # noqa: BLE001 - reported, counted and logged, without effect on others
                if self._ending.is_set():
                    log.debug("was disconnected with %s", describe(error), resource=self.name, reason=error)
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
    """A sink that puts the name of a cluster before the names of owners: `east/v1/pods`.

    Args:
        sink: The fleet's sink.
        cluster: The name of the cluster.
    """

    def __init__(self, sink: Metrics, cluster: str) -> None:
        self._sink = sink
        self._cluster = cluster

    def collector(self, owner: str, read: Callable[[str], Iterable[MetricFamily]]) -> Callable[[], None]:
        """Export the readings of an owner under its name in the fleet."""
        return self._sink.collector(f"{self._cluster}/{owner}", read)

    def counter(self, name: str, text: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        """Create a counter in the fleet's sink."""
        return self._sink.counter(name, text, labels)

    def histogram(
        self, name: str, text: str, labels: Mapping[str, str], buckets: Sequence[float]
    ) -> Callable[[float], None]:
        """Create a histogram in the fleet's sink."""
        return self._sink.histogram(name, text, labels, buckets)

    def gauge(self, name: str, text: str, labels: Mapping[str, str], read: Callable[[], float]) -> Callable[[], None]:
        """Create a gauge in the fleet's sink."""
        return self._sink.gauge(name, text, labels, read)
