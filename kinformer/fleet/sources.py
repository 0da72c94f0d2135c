"""The source of a fleet's clusters, and the clusters that it wants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

from kinformer.client.client import Client
from kinformer.exceptions import ConfigError
from kinformer.metrics import Metrics

__all__ = ["ClusterSource", "Desired", "GivenClusters", "Wanted"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A cluster as a source wants it.

    Attributes:
        client: Makes a client that has not been entered.
        fingerprint: Equal for two that connect in the same way.
        once: There is one client, so that a failure to connect is final.
    """

    client: Callable[[], Client]
    fingerprint: object
    once: bool = False

    @classmethod
    def by_program(cls, client: Client | Callable[[], Client]) -> Self:
        """Return the cluster of a client, or of a function that makes one.

        Raises:
            ConfigError: It is neither.
        """
        if isinstance(client, Client):
            return cls(lambda: client, object(), once=True)
        if not callable(client):
            raise ConfigError(f"Fleet: expected a Client, or a function that makes one, got {type(client).__name__}")
        return cls(client, object())


@dataclass(frozen=True, slots=True)
class Desired:
    """All clusters of a source at one moment.

    Attributes:
        clusters: By name.
        failures: What is wrong with others, by their names. One that runs goes on as it is.
    """

    clusters: Mapping[str, Wanted]
    failures: Mapping[str, Exception] = field(default_factory=dict)


@runtime_checkable
class ClusterSource(Protocol):
    """Tells a fleet which clusters there are."""

    @property
    def description(self) -> str:
        """The source in words, for the log and errors."""
        ...

    @property
    def metrics(self) -> Metrics | None:
        """The sink of what tells which clusters there are, if it has one."""
        ...

    def states(self) -> AsyncIterator[Desired | Exception]:
        """Yield all clusters at first and after each change; an error if they cannot be read, which changes none."""
        ...


class GivenClusters:
    """The clusters that a program names when it makes the fleet."""

    description = "the program"
    metrics = None

    def __init__(self, clusters: Mapping[str, Client | Callable[[], Client]]) -> None:
        self.desired = Desired({name: Wanted.by_program(client) for name, client in clusters.items()})

    async def states(self) -> AsyncIterator[Desired | Exception]:
        """Yield the clusters, once."""
        yield self.desired
