"""The collection of problems: derived from informers by the rules, and followed like any other collection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from kinformer import (
    EventStream,
    GroupVersionResource,
    HandlerRegistration,
    InformerHealth,
    KubeObject,
    Lister,
    SharedInformer,
    SharedInformerFactory,
    derive,
    group_by,
    union,
)
from kinformer.contrib.problems.board import INFORMER, MOMENTS, ProblemBoard
from kinformer.contrib.problems.findings import Examiner
from kinformer.contrib.problems.followed import EVENTS, Followed
from kinformer.contrib.problems.look import KindResources, evidence_of, member_of
from kinformer.contrib.problems.problem import Problem
from kinformer.contrib.problems.rows import owner_key, rows_of
from kinformer.derived import UnionCollection
from kinformer.kinds.health.diagnosis import one_line

__all__ = ["Problems"]

_AWAY_AFTER = 3.0  # seconds after which a resource that cannot be read no longer delays the others


class Problems:
    """The problems of the objects of a factory's informers, by the rules in `RULES`.

    ``async with`` starts and stops it, inside of the factory's. It uses the factory's informers, requests those for
    pods, workloads, nodes, volumes, namespaces and Events that the factory does not have, and gives these back. It is a
    `Collection` of `Problem`s, so handlers, streams, listers and `derive` work. A key begins with the namespace of the
    owner, so `lister.list(namespace="shop")` has the problems of one namespace.

    A problem is added when the grace time of its rule ends, and deleted as soon as the rule no longer applies. A
    resource that cannot be read is in `unread`, and hides nothing of the others.

    Args:
        factory: The factory, which may also follow custom resources, now or later.
        namespace: Look in this namespace only, without nodes, volumes and namespaces. By default, look where the
            factory does.
        resources: Further resources to follow, such as custom ones.
        grace: Seconds for which anything may be wrong, instead of the grace times of the rules.
        clock: Returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        factory: SharedInformerFactory,
        *,
        namespace: str | None = None,
        resources: Iterable[str | GroupVersionResource] = (),
        grace: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._followed = Followed(factory, namespace, resources)
        self._clock = clock
        self._board = ProblemBoard(clock, self._look)
        moments = SharedInformer(self._board, name="problems: moments", watch_list=False)
        self._objects = union({MOMENTS: moments}, name="problems: objects", away_after=_AWAY_AFTER)
        self._events: UnionCollection[KubeObject] = union({}, name="problems: events", away_after=_AWAY_AFTER)
        evidence = derive(
            self._events,
            lambda event, fetch: evidence_of(event),
            name="problems: evidence",
            indexers={"about": lambda warning: [warning.about]},
        )
        kinds = KindResources(self._followed.informers, self._board)
        self._examiner = Examiner(self._board, self._objects, moments, evidence, kinds, grace=grace, clock=clock)
        findings = derive(self._objects, self._examiner.examine, name="problems: findings", many=True)
        by_owner = group_by(findings, lambda finding: owner_key(finding.owner), name="problems: by owner")
        self._rows = derive(by_owner, lambda group, fetch: rows_of(group), name="problems", many=True)
        self._parts = (moments, self._events, evidence, self._objects, findings, by_owner, self._rows)
        self._stack = AsyncExitStack()
        self._troubled: dict[str, float] = {}  # since when a resource is not followed
        self.name = self._rows.name
        self.lister: Lister[Problem] = self._rows.lister
        self.by_key: Mapping[str, Problem] = self._rows.by_key

    # --- life -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._followed.release)
            for part in self._parts:
                await stack.enter_async_context(part)
            self._follow()  # in the same step of the loop, so that the first sync waits for all of them
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    # --- informers --------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Follow informers that are new, and let those go that have ended."""
        new, ended = self._followed.update()
        for name, _ in ended:
            members = self._members(name)
            if member_of(name) in members.members:  # one that has ended leaves by itself
                members.remove(member_of(name))
            self._examiner.kinds.forget(name)
            self._note(name, None)
        for name, informer in new:
            self._members(name).add(member_of(name), informer)

    def _members(self, resource: str) -> UnionCollection[KubeObject]:
        return self._events if resource == EVENTS else self._objects

    def _look(self) -> None:
        """Follow the informers that there are now, and note those that do not follow."""
        self._follow()
        for name, informer in self._followed.informers.items():
            health = informer.health()
            self._note(name, None if health.live else health)
        self._examiner.prune()

    def _note(self, resource: str, health: InformerHealth | None) -> None:
        name = f"{INFORMER}:{member_of(resource)}"
        if health is None or health.last_error is None:
            self._troubled.pop(resource, None)
            self._board.drop(name)
            return
        since = self._troubled.setdefault(resource, self._clock())
        message = f"{resource}: {health.state.replace('_', ' ')}: {one_line(str(health.last_error))}"
        self._board.put(name, INFORMER, state=health.state, error=message, since=int(since), resource=resource)

    def unread(self) -> dict[str, BaseException]:
        """Return the resources that could not be read yet, with the error of each."""
        return self._followed.unread()

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that are looked at."""
        return tuple(self._followed.informers)

    # --- the members of a collection --------------------------------------------------------------

    def add_event_handler(self, handler: Any = None, **options: Any) -> HandlerRegistration:
        """Call callbacks for the present problems, as adds, and for every change. See `Collection`."""
        return self._rows.add_event_handler(handler, **options)

    async def remove_event_handler(self, registration: HandlerRegistration, *, drain: bool = False) -> None:
        """Stop calling a handler."""
        await self._rows.remove_event_handler(registration, drain=drain)

    def events(self, **options: Any) -> EventStream:
        """Return a stream of the changes: an async context manager and iterator over `InformerEvent`s."""
        return self._rows.events(**options)

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until every resource has been looked at, except for those in `unread`.

        Raises:
            NotSyncedError: `timeout` seconds have passed.
            StoppedError: It was exited.
        """
        await self._rows.wait_synced(timeout)

    def health(self) -> InformerHealth:
        """Return how well it follows its sources. It is the worst of the informers'."""
        return self._rows.health()
