"""The look of a rule beyond its object: events, owners, nodes, and the resources of kinds."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kinformer import GroupVersionResource, KubeObject, SharedInformer
from kinformer.contrib.problems.problem import Owner
from kinformer.derived import Fetch
from kinformer.objects import controller_of
from kinformer.objects.accessors import moment_at, string_at

__all__ = ["Evidence", "Kinds", "evidence_of", "member_of", "newest", "top_owner"]

_DEEPEST = 8  # owners above an object. More is a circle


class Evidence(msgspec.Struct, frozen=True):
    """The part of an Event of type Warning that explains a problem."""

    about: str
    reason: str
    message: str
    last: float


def evidence_of(event: KubeObject) -> Evidence | None:
    """Return the evidence in an Event, or None if it is no warning."""
    if event.get("type") != "Warning":
        return None
    about = event.get("involvedObject") or event.get("regarding")
    last = (
        moment_at(event, "series", "lastObservedTime")
        or moment_at(event, "lastTimestamp")
        or moment_at(event, "deprecatedLastTimestamp")
        or moment_at(event, "eventTime")
        or moment_at(event, "metadata", "creationTimestamp")
    )
    message = string_at(event, "message") or string_at(event, "note")
    return Evidence(about_of(about), string_at(event, "reason"), message, last or 0.0)


def about_of(reference: object) -> str:
    """Return the place of the object of an Event, without its uid, which is the name for nodes."""
    return f"{string_at(reference, 'kind')}/{string_at(reference, 'namespace')}/{string_at(reference, 'name')}"


def newest(found: Iterable[Evidence]) -> Evidence | None:
    """Return the newest evidence, or None."""
    return max(found, key=lambda one: (one.last, one.reason, one.message), default=None)


def member_of(resource: str) -> str:
    """Return the name of a resource without slashes, as the member of a union: `pods.v1`, `deployments.v1.apps`."""
    gvr = GroupVersionResource.parse(resource)
    return ".".join(part for part in (gvr.resource, gvr.version, gvr.group) if part)


class Kinds:
    """The resources of kinds, by the informers that have objects of them.

    Args:
        informers: The followed informers by resource, which may change.
    """

    def __init__(self, informers: dict[str, SharedInformer]) -> None:
        self._informers = informers
        self._known: dict[tuple[str, str], str] = {}

    def resource(self, api_version: str, kind: str) -> str:
        """Return the resource of a kind, or "" if no informer has objects of it."""
        found = self._known.get((api_version, kind))
        if found is None:
            for name, informer in self._informers.items():
                for one in informer.indexer.sample(1):
                    self._known.setdefault((one.api_version, one.kind), name)
            found = self._known.get((api_version, kind), "")
        return found

    def forget(self, resource: str) -> None:
        """Forget a resource that is no longer followed."""
        self._known = {kind: name for kind, name in self._known.items() if name != resource}


def top_owner(obj: KubeObject, fetch: Fetch, objects: object, kinds: Kinds) -> Owner:
    """Return the owner at the top of an object, or the object itself."""
    top = Owner(obj.kind, obj.namespace, obj.name, obj.api_version.rpartition("/")[0])
    seen = {obj.uid}
    one: KubeObject | None = obj
    for _ in range(_DEEPEST):
        if one is None:
            break
        reference = controller_of(one) or next(iter(one.owner_references), None)
        if reference is None or reference.uid in seen or reference.kind == "Node":  # a static pod is its own owner
            break
        seen.add(reference.uid)
        resource = kinds.resource(reference.api_version, reference.kind)
        place = one.namespace
        above = None
        if resource:
            member = member_of(resource)
            for namespace in dict.fromkeys((place, "")):
                above = above or fetch(objects, key=f"{member}/{namespace}/{reference.name}")  # type: ignore[call-overload]
        if above is not None and above.uid == reference.uid:
            place = above.namespace
        else:
            above = None
        group = reference.api_version.rpartition("/")[0]
        top = Owner(reference.kind, place, reference.name, group)
        one = above
    return top
