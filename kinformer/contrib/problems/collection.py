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
from kinformer.contrib.problems.board import INFORMER, MOMENTS, Board
from kinformer.contrib.problems.fields import one_line
from kinformer.contrib.problems.findings import Examiner
from kinformer.contrib.problems.look import evidence_of, member_of
from kinformer.contrib.problems.problem import Problem
from kinformer.contrib.problems.rows import owner_key, rows_of
from kinformer.derived import UnionCollection

__all__ = ["Problems"]

_NAMESPACED = (
    "v1/pods",
    "apps/v1/deployments",
    "apps/v1/statefulsets",
    "apps/v1/daemonsets",
    "apps/v1/replicasets",
    "batch/v1/jobs",
    "v1/persistentvolumeclaims",
)
_CLUSTER = ("v1/nodes", "v1/namespaces", "v1/persistentvolumes", "storage.k8s.io/v1/storageclasses")
_EVENTS = "v1/events"

# If a status has no times of its own, that of its last write is in managedFields.
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "apps/v1/statefulsets": {"keep_managed_fields": True},
    "apps/v1/daemonsets": {"keep_managed_fields": True},
    _EVENTS: {"field_selector": "type=Warning"},
}
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
        self._factory = factory
        self._namespace = namespace
        self._resources = tuple(str(GroupVersionResource.parse(one)) for one in resources)
        self._clock = clock
        self._informers: dict[str, SharedInformer] = {}
        self._requested: list[SharedInformer] = []
        self._stack = AsyncExitStack()
        self._troubled: dict[str, float] = {}
        self._board = Board(clock, self._look)
        self._moments = SharedInformer(self._board, name="problems: moments", watch_list=False)
        self._objects = union({MOMENTS: self._moments}, name="problems: objects", away_after=_AWAY_AFTER)
        self._events: UnionCollection[KubeObject] = union({}, name="problems: events", away_after=_AWAY_AFTER)
        self._evidence = derive(
            self._events,
            lambda event, fetch: evidence_of(event),
            name="problems: evidence",
            indexers={"about": lambda one: [one.about]},
        )
        examiner = Examiner(
            self._board, self._objects, self._moments, self._evidence, self._informers, grace=grace, clock=clock
        )
        self._examiner = examiner
        self._findings = derive(self._objects, examiner.examine, name="problems: findings", many=True)
        self._by_owner = group_by(self._findings, lambda one: owner_key(one.owner), name="problems: by owner")
        self._rows = derive(self._by_owner, lambda found, fetch: rows_of(found), name="problems", many=True)
        self.name = self._rows.name
        self.lister: Lister[Problem] = self._rows.lister
        self.by_key: Mapping[str, Problem] = self._rows.by_key

    # --- life -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._release)
            self._request()
            for part in (
                self._moments,
                self._events,
                self._evidence,
                self._objects,
                self._findings,
                self._by_owner,
                self._rows,
            ):
                await stack.enter_async_context(part)
            self._follow(self._informers.items())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _request(self) -> None:
        """Request the informers that the factory does not have."""
        scoped = {} if self._namespace is None else {"namespace": self._namespace}
        for resource in (*_NAMESPACED, _EVENTS):
            self._take(resource, **scoped, **_OPTIONS.get(resource, {}))
        for resource in self._resources:
            self._take(resource, **scoped, keep_managed_fields=True)
        if self._namespace is None:
            for resource in _CLUSTER:
                self._take(resource, namespace=None)
        self._take_others()

    def _take(self, resource: str, **options: Any) -> None:
        if resource in self._informers:
            return
        found = self._find(resource)
        if found is None:
            found = self._factory.for_resource(resource, **{"fields": None, "metadata_only": False, **options})
            self._requested.append(found)
        self._informers[resource] = found

    def _find(self, resource: str) -> SharedInformer | None:
        wanted = None if self._namespace is None else (self._namespace,)
        fitting = (one for one in self._factory.informers if one.name == resource)
        return next((one for one in fitting if wanted is None or one.namespaces == wanted), None)

    def _take_others(self) -> list[tuple[str, SharedInformer]]:
        """Take informers that the program has requested for other resources."""
        others = [(one.name, one) for one in self._factory.informers if one.name not in self._informers]
        self._informers.update(others)
        return others

    def _follow(self, informers: Iterable[tuple[str, SharedInformer]]) -> None:
        for name, informer in informers:
            members = self._events if name == _EVENTS else self._objects
            members.add(member_of(name), informer)

    async def _release(self) -> None:
        for informer in self._requested:
            await self._factory.release(informer)
        self._requested.clear()
        self._informers.clear()

    # --- informers --------------------------------------------------------------------------------

    def _look(self) -> None:
        """Follow informers that are new, let those go that have ended, and note those that do not follow."""
        present = set(self._factory.informers)
        for name, informer in list(self._informers.items()):
            if informer not in present:
                members = self._events if name == _EVENTS else self._objects
                if member_of(name) in members.members:  # one that has ended leaves by itself
                    members.remove(member_of(name))
                del self._informers[name]
                self._examiner.kinds.forget(name)
                self._note(name, None)
        self._follow(self._take_others())
        for name, informer in self._informers.items():
            health = informer.health()
            self._note(name, None if health.live else health)
        self._examiner.prune()

    def _note(self, name: str, health: InformerHealth | None) -> None:
        if health is None or health.last_error is None:
            self._troubled.pop(name, None)
            self._board.drop(f"informer:{member_of(name)}")
            return
        since = self._troubled.setdefault(name, self._clock())
        message = f"{name}: {health.state.replace('_', ' ')}: {one_line(str(health.last_error))}"
        self._board.put(
            f"informer:{member_of(name)}", INFORMER, state=health.state, error=message, since=int(since), resource=name
        )

    def unread(self) -> dict[str, BaseException]:
        """Return the resources that could not be read yet, with the error of each."""
        errors = {name: (one.has_synced, one.health().last_error) for name, one in self._informers.items()}
        return {name: error for name, (has_synced, error) in errors.items() if not has_synced and error is not None}

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that are looked at."""
        return tuple(self._informers)

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
