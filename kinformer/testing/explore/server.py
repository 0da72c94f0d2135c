"""The API server of an exploration: the embedded server with a garbage collector, whose requests pass a director."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

from kinformer._runtime.clock import Clock
from kinformer.apiserver.storage import Storage
from kinformer.exceptions import NotFoundError
from kinformer.testing.http.call import HTTPCall
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.server import APIServer
from kinformer.testing.simulation.processes import API_SERVER

__all__ = ["ACTOR", "CLUSTER", "COLLECTOR", "PORT", "URL", "ExploredServer"]

PORT = 443
URL = f"http://{API_SERVER}:{PORT}"
COLLECTOR = "garbage collector"
CLUSTER = "cluster"
ACTOR: ContextVar[str] = ContextVar("ACTOR", default=CLUSTER)
"""The actor of the current write."""

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
Object = dict[str, Any]
Place = tuple[ResourceType, str, str]  # resource, namespace, name


class ExploredServer(APIServer):
    """An API server in a simulation.

    Args:
        clock: The clocks of its process.
        serve: Answers each request. It is called with the call and its default handler.
        later: Calls a function after a number of seconds.
    """

    def __init__(
        self,
        clock: Clock,
        serve: Callable[[HTTPCall, Callable[[], Awaitable[None]]], Awaitable[None]],
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        super().__init__(host=API_SERVER, port=PORT, clock=clock)
        self.lost: set[str] = set()  # resources whose definition a fault has deleted. The history adds and removes them
        self._serve_by = serve
        self._collector = _GarbageCollector(self, later)
        self._ledger.on_change.append(self._collector.note)

    @property
    def storage(self) -> Storage:
        """The server's storage, for reads."""
        return self._storage

    def on_change(self, listener: Callable[[ResourceType, Object | None, Object | None], None]) -> None:
        """Call a function with (resource, old, new) after each write."""
        self._ledger.on_change.append(listener)

    def find(self, resource: Any) -> ResourceType:
        """Return the type of a resource."""
        return self._registry.find(resource)

    def serves(self, resource: str) -> bool:
        """Return True if the resource is served. It still is while its definition is being deleted."""
        return any(served.name == resource for served in self._registry)

    def revision_of(self, resource: ResourceType) -> int:
        """Return the revision of the last change of a resource."""
        return self._ledger.collection(resource).revision

    def resources(self) -> list[ResourceType]:
        """Return the resources that have objects."""
        return [kind for kind in self._registry if kind.is_storage and self._ledger.collection(kind).objects]

    async def _serve(self, call: HTTPCall) -> None:
        await self._serve_by(call, lambda: super(ExploredServer, self)._serve(call))


class _GarbageCollector:
    """Deletes objects whose owners are gone, like kube-controller-manager (pkg/controller/garbagecollector)."""

    def __init__(self, server: ExploredServer, later: Callable[[float, Callable[[], None]], None]) -> None:
        self._server = server
        self._later = later
        self._owned: dict[str, dict[Place, None]] = {}  # by the owner's uid
        self._living: set[str] = set()  # uids of all objects

    def note(self, resource: ResourceType, old: Object | None, new: Object | None) -> None:
        """Record a write."""
        obj = new or old
        assert obj is not None, "a write has an object"
        metadata = obj["metadata"]
        place = (resource, metadata.get("namespace", ""), metadata["name"])
        uid = metadata.get("uid", "")
        before = () if old is None else _owners(old)
        now = () if new is None else _owners(new)
        for owner in before:
            if owner not in now:
                self._owned.get(owner, {}).pop(place, None)
        for owner in now:
            self._owned.setdefault(owner, {})[place] = None
        if new is None:
            self._living.discard(uid)
            if self._owned.get(uid):
                self._later(0.02, lambda: self._collect(uid))
            for owner in before:
                self._later(0.02, partial(self._finish, owner))
            return
        self._living.add(uid)
        if old is None and now and not self._living.intersection(now):
            for owner in now:  # none of the owners exists any more
                self._later(1.0, partial(self._collect, owner))
        marks = metadata.get("finalizers") or () if metadata.get("deletionTimestamp") else ()
        if _FOREGROUND in marks or _ORPHAN in marks:
            self._later(0.02, lambda: self._release(place, uid, orphan=_ORPHAN in marks))

    def _collect(self, uid: str) -> None:
        for place in list(self._owned.get(uid, ())):
            obj = self._get(place)
            if obj is not None and uid not in self._living and not self._living.intersection(_owners(obj)):
                self._delete(place)

    def _release(self, place: Place, uid: str, *, orphan: bool) -> None:
        for owned in list(self._owned.get(uid, ())):
            obj = self._get(owned)
            if obj is None:
                continue
            if orphan:
                references = obj["metadata"]["ownerReferences"]
                obj["metadata"]["ownerReferences"] = [owner for owner in references if owner.get("uid") != uid]
                self._write(obj)
            elif not obj["metadata"].get("deletionTimestamp"):
                self._delete(owned)
        obj = self._get(place)
        if obj is not None and obj["metadata"]["uid"] == uid and (orphan or not self._owned.get(uid)):
            held = obj["metadata"].get("finalizers") or []
            obj["metadata"]["finalizers"] = [finalizer for finalizer in held if finalizer not in (_FOREGROUND, _ORPHAN)]
            self._write(obj)

    def _finish(self, uid: str) -> None:
        """Release an owner in foreground deletion whose last dependent has gone."""
        if uid in self._living and not self._owned.get(uid):
            for resource in self._server.resources():
                for obj in self._server.list(resource.name):
                    metadata = obj["metadata"]
                    if metadata["uid"] == uid and _FOREGROUND in (metadata.get("finalizers") or ()):
                        self._release((resource, metadata.get("namespace", ""), metadata["name"]), uid, orphan=False)

    def _get(self, place: Place) -> Object | None:
        resource, namespace, name = place
        return self._server.get(resource.name, namespace, name)

    def _write(self, obj: Object) -> None:
        token = ACTOR.set(COLLECTOR)
        try:
            self._server.update(obj)
        finally:
            ACTOR.reset(token)

    def _delete(self, place: Place) -> None:
        resource, namespace, name = place
        token = ACTOR.set(COLLECTOR)
        try:
            self._server.delete(resource.name, namespace, name)
        except NotFoundError:
            pass  # it was deleted directly
        finally:
            ACTOR.reset(token)


def _owners(obj: Object) -> tuple[str, ...]:
    return tuple(reference.get("uid", "") for reference in obj["metadata"].get("ownerReferences") or ())
