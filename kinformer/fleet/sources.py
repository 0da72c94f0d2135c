"""The source of a fleet's clusters, and the clusters that it wants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar, runtime_checkable

from kinformer.client.client import Client
from kinformer.exceptions import ConfigError
from kinformer.metrics import Metrics

__all__ = ["ClusterNames", "ClusterSource", "Desired", "GivenClusters", "WantedCluster"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WantedCluster:
    """A cluster that a source wants.

    Attributes:
        client: Creates a client that has not been entered.
        fingerprint: Equal for clusters that are connected in the same way.
        once: True if there is only one client, so that a failure to connect is final.
    """

    client: Callable[[], Client]
    fingerprint: object
    once: bool = False

    @classmethod
    def by_program(cls, client: Client | Callable[[], Client]) -> Self:
        """Return the wanted cluster for a client, or for a function that creates one.

        Raises:
            ConfigError: `client` is neither.
        """
        if isinstance(client, Client):
            return cls(lambda: client, object(), once=True)
        if not callable(client):
            raise ConfigError(f"Fleet: expected a Client, or a function that returns one, got {type(client).__name__}")
        return cls(client, object())


@dataclass(frozen=True, slots=True)
class Desired:
    """All clusters of a source at one moment.

    Attributes:
        clusters: The wanted clusters, by name.
        failures: The errors of other clusters, by name. One that runs stays as it is.
    """

    clusters: Mapping[str, WantedCluster]
    failures: Mapping[str, Exception] = field(default_factory=dict)


class ClusterNames(Generic[T]):
    """Names the clusters of a source, one item after another. What is wrong with one item leaves the others unaffected.

    Args:
        cluster_of: The program's function. It returns the cluster name for an item, or None to leave it out.

    Attributes:
        failures: The errors of items, by the key of the item.
    """

    def __init__(self, cluster_of: Callable[[T], str | None]) -> None:
        self.failures: dict[str, Exception] = {}
        self._cluster_of = cluster_of
        self._titles: dict[str, str] = {}

    def name_of(self, item: T, key: str, title: str) -> str | None:
        """Return the name of an item's cluster. Returns None if it has none, after noting an error if there is one.

        Args:
            item: The argument of `cluster_of`.
            key: The key of the item in `failures`.
            title: The item in words, for errors.
        """
        try:
            name: object = self._cluster_of(item)
        except Exception as error:  # noqa: BLE001 - it is this item's
            self.failures[key] = ConfigError(f"{title}: cluster_of raised {type(error).__name__}: {error}")
            return None
        if name is None:
            return None
        if not isinstance(name, str):
            returned = type(name).__name__
            self.failures[key] = ConfigError(f"{title}: cluster_of returned {returned}, expected a string or None")
        elif name in self._titles:
            self.failures[key] = ConfigError(f"{title}: {self._titles[name]} already defines cluster {name!r}")
        else:
            self._titles[name] = title
            return name
        return None


@runtime_checkable
class ClusterSource(Protocol):
    """A source of the clusters that a fleet wants."""

    @property
    def description(self) -> str:
        """The source in words, for the log and errors."""
        ...

    @property
    def metrics(self) -> Metrics | None:
        """The metrics sink of the source, if it has one."""
        ...

    def states(self) -> AsyncIterator[Desired | Exception]:
        """Yield all clusters at first and after each change, or an error (changing none) if they cannot be read."""
        ...


class GivenClusters:
    """The clusters that a program passes when it creates the fleet."""

    description = "the program"
    metrics = None

    def __init__(self, clusters: Mapping[str, Client | Callable[[], Client]]) -> None:
        self.desired = Desired({name: WantedCluster.by_program(client) for name, client in clusters.items()})

    async def states(self) -> AsyncIterator[Desired | Exception]:
        """Yield the clusters once."""
        yield self.desired
