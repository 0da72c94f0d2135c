"""Built-in rules that every operator must follow, checked in each history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kinformer.testing.explore.replica import Replica
from kinformer.testing.explore.server import COLLECTOR, ExploredServer
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["Finding", "Rules", "is_bookkeeping"]

Object = dict[str, Any]
_LEASES = "coordination.k8s.io/v1/leases"
_BOOKKEEPING = (_LEASES, "v1/events", "events.k8s.io/v1/events")
_UNDER_WAY = 0.001  # seconds for a request to reach the server
_STORM = 400  # writes after the last disturbance. An operator that comes to rest makes only a few


@dataclass(frozen=True)
class Finding:
    """A rule that was broken.

    Attributes:
        rule: Its name, as used in `explore(ignore=...)`.
        text: A description.
        objects: The objects concerned, as "resource namespace/name".
        error: The exception, if any.
    """

    rule: str
    text: str
    objects: tuple[str, ...] = ()
    error: BaseException | None = None


def is_bookkeeping(resource: str) -> bool:
    """Return True for Leases and Events, which are written continually."""
    return resource in _BOOKKEEPING


@dataclass
class _Foreign:
    revision: int
    before: Object
    after: Object


class Rules:
    """Checks each write of one history, and its final state.

    Args:
        server: The server whose state it reads.
        replicas: The replicas by name.
        ignored: The names of rules to skip.
    """

    def __init__(self, server: ExploredServer, replicas: dict[str, Replica], ignored: frozenset[str]) -> None:
        self._server = server
        self._replicas = replicas
        self._ignored = ignored
        self._holders: dict[str, str] = {}  # lease -> the replica that holds it
        self._taken: dict[str, tuple[str, str, float]] = {}  # replica -> lost lease, new holder, time
        self._foreign: dict[tuple[str, str], _Foreign] = {}  # object -> its last change by others
        self._made: dict[tuple[str, str], tuple[str, Object]] = {}  # created by replicas: object -> creator and content
        self._removed: dict[tuple[str, str], Object] = {}  # removed by people: object -> content
        self.writes = 0  # writes by replicas since the last disturbance, without bookkeeping

    def note(
        self, resource: ResourceType, old: Object | None, new: Object | None, actor: str, now: float, arrived: float
    ) -> Iterator[Finding]:
        """Yield the rules broken by a write at `now`, from a request that arrived at `arrived`."""
        obj = new or old
        assert obj is not None, "a write has an object"
        key = (resource.name, _key(obj))
        if resource.name == _LEASES:
            self._note_lease(key[1], new, actor, now)
            return
        if actor in self._replicas and not is_bookkeeping(resource.name):
            self.writes += 1
            yield from self._check_lead(key, actor, arrived)
            if new is not None and old is not None:
                yield from self._check_fields(key, old, new, actor)
        if old is None and new is not None:
            self._removed.pop(key, None)
            if actor in self._replicas:
                self._made[key] = (actor, new)
        elif new is None and old is not None:
            self._made.pop(key, None)
            self._foreign.pop(key, None)
            if actor not in self._replicas and actor != COLLECTOR:
                self._removed[key] = old
        elif actor not in self._replicas and old is not None and new is not None:
            if new["metadata"].get("deletionTimestamp"):
                self._removed[key] = old
            else:
                self._foreign[key] = _Foreign(int(new["metadata"]["resourceVersion"]), old, new)

    # -- the lead -------------------------------------------------------------------------------------------------

    def _note_lease(self, lease: str, new: Object | None, actor: str, now: float) -> None:
        holder = ((new or {}).get("spec") or {}).get("holderIdentity") or ""
        before = self._holders.get(lease, "")
        if actor not in self._replicas:
            return
        if holder and before and before != actor:
            self._taken[before] = (lease, actor, now)
        if holder:
            self._holders[lease] = actor
            self._taken.pop(actor, None)
        else:
            self._holders.pop(lease, None)

    def _check_lead(self, key: tuple[str, str], actor: str, arrived: float) -> Iterator[Finding]:
        lost = self._taken.get(actor)
        if lost is not None and "lead" not in self._ignored:
            lease, other, at = lost
            if arrived <= at + _UNDER_WAY:
                return  # a client cannot recall a request
            message = f"{actor} wrote {key[0]} {key[1]} after {other} had taken the Lease {lease} from it"
            yield Finding("lead", message, (" ".join(key), f"{_LEASES} {lease}"))

    # -- fields of others -----------------------------------------------------------------------------------------

    def _check_fields(self, key: tuple[str, str], old: Object, new: Object, actor: str) -> Iterator[Finding]:
        foreign = self._foreign.get(key)
        if foreign is None or "fields" in self._ignored:
            return
        base = key[0]
        if self._replicas[actor].seen.get(base, 0) >= foreign.revision:
            return  # it had seen the change, and may have reverted it on purpose
        lost = [
            path
            for path in _changed(foreign.before, foreign.after)
            if _at(old, path) == _at(foreign.after, path) and _at(new, path) == _at(foreign.before, path)
        ]
        if lost:
            path = ".".join(lost[0])
            message = (
                f"{actor} wrote {key[0]} {key[1]} from a state before {foreign.revision}, and so undid the change of "
                f"{path} that another client had made"
            )
            yield Finding("fields", message, (" ".join(key),))

    # -- the end --------------------------------------------------------------------------------------------------

    def storm(self) -> Finding | None:
        """Return a finding if the replicas never stop writing."""
        if self.writes < _STORM or "rest" in self._ignored:
            return None
        return Finding("rest", f"the program never comes to rest: {self.writes} writes after the last change by others")

    def at_rest(self) -> Iterator[Finding]:
        """Yield the rules that the final state breaks, when nothing happens any more."""
        kinds = [one for one in self._server.resources() if not is_bookkeeping(one.name)]
        objects = {(one.name, _key(obj)): obj for one in kinds for obj in self._server.list(one.name)}
        if "finalizers" not in self._ignored:
            for key, obj in objects.items():
                held = obj["metadata"].get("finalizers")
                if held and obj["metadata"].get("deletionTimestamp"):
                    message = f"{key[0]} {key[1]} is deleted, and its finalizers {', '.join(held)} are never removed"
                    yield Finding("finalizers", message, (" ".join(key),))
        if "leftovers" not in self._ignored:
            yield from self._left_behind(objects)

    def _left_behind(self, objects: dict[tuple[str, str], Object]) -> Iterator[Finding]:
        uids = {obj["metadata"]["uid"] for obj in objects.values()}
        for key, (actor, made) in self._made.items():
            if key not in objects:
                continue
            for (resource, removed), gone in self._removed.items():
                if (resource, removed) in objects or resource == key[0]:
                    continue
                owned = any(one.get("uid") in uids for one in made["metadata"].get("ownerReferences") or ())
                if not owned and _is_named_after(objects[key], gone):
                    message = (
                        f"{key[0]} {key[1]}, made by {actor}, is left behind by {resource} {removed}, which is gone"
                    )
                    yield Finding("leftovers", message, (" ".join(key), f"{resource} {removed}"))


def _key(obj: Object) -> str:
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _is_named_after(obj: Object, owner: Object) -> bool:
    """Return True if the object has the owner's name: as its own name, before a dash, or as a label."""
    name, metadata = owner["metadata"]["name"], obj["metadata"]
    if owner["metadata"].get("namespace", metadata.get("namespace")) != metadata.get("namespace"):
        return False
    own = metadata["name"]
    return own == name or own.startswith(f"{name}-") or name in (metadata.get("labels") or {}).values()


_SERVERS = ("resourceVersion", "managedFields", "generation")


def _changed(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            if not (path == ("metadata",) and name in _SERVERS):
                yield from _changed(before.get(name), after.get(name), (*path, name))
    elif before != after:
        yield path


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj
