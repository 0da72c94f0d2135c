"""The coverage of a look for problems: its resources, those of them that are not read, and the words for both.

`kinformer problems` and the page look at the same resources, and use the same words.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from kinformer import (
    Client,
    ConnectError,
    ForbiddenError,
    InformerHealth,
    KinformerError,
    NotFoundError,
    SharedInformer,
    SharedInformerFactory,
    UnauthorizedError,
)
from kinformer.cli.output.amounts import count
from kinformer.client import APIResource, discover
from kinformer.contrib.problems import Problem, Problems
from kinformer.kinds.builtin import is_custom

__all__ = ["UNKNOWN_SINCE", "Coverage", "Scope", "followable", "is_withheld", "withheld_words"]

UNKNOWN_SINCE = "Problems are unknown since "
"""The words before an age, while the server does not answer."""

_MOST = 60  # custom resources to follow: each is a list and a watch
_PAUSE = 60.0  # seconds between two discoveries


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a cluster is looked at.

    Attributes:
        resources: The number of resources.
        read: The number of those that are read.
        withheld: Those that the user has no right to read.
        unread: The others that are not read, with the error of each.
        is_unknown: True if the server as a whole does not answer.
    """

    resources: int
    read: int
    withheld: Mapping[str, BaseException]
    unread: Mapping[str, BaseException]
    is_unknown: bool

    @classmethod
    def of(cls, healths: Mapping[str, InformerHealth], *, once: bool) -> Coverage:
        """Return the coverage by these informers. For a look that is made once, a list is enough."""
        read = sum(health.synced if once else health.live for health in healths.values())
        errors = {
            name: health.last_error
            for name, health in healths.items()
            if health.last_error is not None and not (health.synced if once else health.live)
        }
        withheld = {name: error for name, error in errors.items() if is_withheld(healths[name])}
        unread = {name: error for name, error in errors.items() if name not in withheld}
        is_away = any(isinstance(error, (ConnectError, TimeoutError, UnauthorizedError)) for error in unread.values())
        return cls(len(healths), read, withheld, unread, is_away or (bool(unread) and not read))

    @property
    def verdict(self) -> str:
        """The words if no problem is found, unless `is_unknown`."""
        if not self.read:
            return f"None of {count(self.resources, 'resource')} could be read."
        if self.read == self.resources:
            return f"No problems in {count(self.read, 'resource')}."
        readable = "only resource" if self.read == 1 else count(self.read, "resource")
        return f"No problems in the {readable} that could be read."


def is_withheld(health: InformerHealth) -> bool:
    """Return True if a resource could never be followed, because the user has no right to."""
    return isinstance(health.last_error, ForbiddenError) and not health.live and not health.watches


def withheld_words(withheld: int, resources: int) -> str:
    """Say how many resources the user has no right to read."""
    return f"{withheld} of {count(resources, 'resource')} {'is' if withheld == 1 else 'are'} not yours to read"


def followable(served: Iterable[APIResource]) -> list[APIResource]:
    """Return the resources that can be listed and watched, each in the preferred version of its group."""
    preferred: dict[tuple[str, str], APIResource] = {}
    for resource in served:
        if {"list", "watch"} <= set(resource.verbs):
            preferred.setdefault((resource.group, resource.name), resource)
    return list(preferred.values())


class Scope:
    """The resources in which problems are looked for: those of `Problems`, and the custom ones that the server has.

    Args:
        client: The connection to the server.
        factory: The factory of the informers.
        namespace: The namespace to look in, or None for all, and for resources without namespaces.

    Attributes:
        custom: The number of custom resources that could be followed.
        left_out: The custom resources beyond the bound. `update` sets both anew.
    """

    def __init__(self, client: Client, factory: SharedInformerFactory, namespace: str | None) -> None:
        self._client = client
        self._factory = factory
        self._namespace = namespace
        self._served: frozenset[str] = frozenset()
        self._followed: dict[str, SharedInformer] = {}
        self.custom = 0
        self.left_out: Sequence[APIResource] = ()

    async def update(self) -> None:
        """Follow the custom resources that the server has now, each in its preferred version.

        Raises:
            APIError, ConnectError, DecodeError: Discovery failed.
        """
        served = await discover(self._client)
        self._served = frozenset(map(str, served))
        is_whole = self._namespace is None
        possible = [
            resource
            for resource in followable(served)
            if is_custom(resource.group) and (resource.namespaced or is_whole)
        ]
        self.custom, self.left_out = len(possible), possible[_MOST:]
        to_follow = {str(resource): resource for resource in possible[:_MOST]}
        for name in self._followed.keys() - to_follow.keys():
            await self._factory.release(self._followed.pop(name))
        for name, resource in to_follow.items():
            if name not in self._followed:
                self._followed[name] = self._factory.for_resource(
                    resource.gvr, namespace=self._namespace, keep_managed_fields=True
                )

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Follow custom resources that are defined while the context is open."""

        async def keep() -> None:
            while True:
                await asyncio.sleep(_PAUSE)
                with suppress(
                    KinformerError
                ):  # the informers say that the server does not answer, and the next round tries again
                    await self.update()

        task = asyncio.create_task(keep(), name="kinformer: custom resources")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    def informers(self, problems: Problems) -> dict[str, SharedInformer]:
        """Return the informers in which problems are looked for, by resource, if the server has the resource."""
        informers = {informer.name: informer for informer in self._factory.informers}
        return {
            name: informers[name]
            for name in problems.resources
            if name in informers and (name in self._served or not _is_absent(informers[name]))
        }

    def coverage(self, problems: Problems, *, once: bool = False) -> Coverage:
        """Return how much is looked at."""
        informers = self.informers(problems)
        return Coverage.of({name: informer.health() for name, informer in informers.items()}, once=once)

    def found(self, problems: Problems) -> list[Problem]:
        """Return the problems, without those of informers whose resource is withheld or does not exist."""
        informers = self.informers(problems)
        return [
            problem
            for problem in problems.lister.list()
            if problem.rule != "informer"
            or (problem.resource in informers and not is_withheld(informers[problem.resource].health()))
        ]

    @property
    def left_out_words(self) -> str:
        """The custom resources that are left out, in words, or ""."""
        if not self.left_out:
            return ""
        names = ", ".join(map(str, self.left_out[:5])) + (", ..." if len(self.left_out) > 5 else "")
        return f"left out {len(self.left_out)} of {self.custom} custom resources: {names}"


def _is_absent(informer: SharedInformer) -> bool:
    return isinstance(informer.health().last_error, NotFoundError)
