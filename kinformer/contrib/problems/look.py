"""The look of a rule beyond its object: events, owners, nodes, and the resources of kinds."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kinformer import Collection, GroupVersionResource, KubeObject, SharedInformer
from kinformer.contrib.problems.board import KIND, ProblemBoard
from kinformer.contrib.problems.problem import Owner
from kinformer.derived import Fetch
from kinformer.objects import controller_of
from kinformer.objects.accessors import moment_at, string_at
from kinformer.objects.meta import OwnerReference

__all__ = ["Evidence", "KindResources", "evidence_of", "member_of", "newest", "top_owner"]

_DEEPEST = 8  # owners above an object. More would be a circle


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


def newest(warnings: Iterable[Evidence]) -> Evidence | None:
    """Return the newest evidence, or None."""
    return max(warnings, key=lambda warning: (warning.last, warning.reason, warning.message), default=None)


def member_of(resource: str) -> str:
    """Return the name of a resource without slashes, as the member of a union: `pods.v1`, `deployments.v1.apps`."""
    gvr = GroupVersionResource.parse(resource)
    return ".".join(part for part in (gvr.resource, gvr.version, gvr.group) if part)


class KindResources:
    """The resources of kinds, by the informers that have objects of them.

    Args:
        informers: The followed informers by resource, which may change.
        board: Where a kind becomes an object, so that a function that has asked in vain runs again.
    """

    def __init__(self, informers: dict[str, SharedInformer], board: ProblemBoard) -> None:
        self._informers = informers
        self._board = board
        self._known: dict[tuple[str, str], str] = {}  # grows as informers get objects

    def resource(self, api_version: str, kind: str) -> str:
        """Return the resource of a kind, or "" if no informer has objects of it."""
        if (api_version, kind) not in self._known:
            for name, informer in self._informers.items():
                for sample in informer.indexer.sample(1):
                    self._learn(sample.api_version, sample.kind, name)
        return self._known.get((api_version, kind), "")

    def resource_of_owner(self, reference: OwnerReference, fetch: Fetch, moments: SharedInformer) -> str:
        """Return the resource of an owner, now and again as soon as its kind is followed."""
        fetch(moments, key=_name_of_kind(reference.api_version, reference.kind))
        return self.resource(reference.api_version, reference.kind)

    def _learn(self, api_version: str, kind: str, resource: str) -> None:
        if self._known.setdefault((api_version, kind), resource) == resource:
            self._board.put(_name_of_kind(api_version, kind), KIND, resource=resource)

    def forget(self, resource: str) -> None:
        """Forget a resource that is no longer followed."""
        for (api_version, kind), name in list(self._known.items()):
            if name == resource:
                del self._known[api_version, kind]
                self._board.drop(_name_of_kind(api_version, kind))


def _name_of_kind(api_version: str, kind: str) -> str:
    return f"{KIND}:{api_version.replace('/', ':')}:{kind}"


def top_owner(
    obj: KubeObject, fetch: Fetch, objects: Collection[KubeObject], moments: SharedInformer, kinds: KindResources
) -> Owner:
    """Return the owner at the top of an object, or the object itself."""
    top = Owner(obj.kind, obj.namespace, obj.name, obj.api_version.rpartition("/")[0])
    seen = {obj.uid}
    current: KubeObject | None = obj
    for _ in range(_DEEPEST):
        if current is None:
            break
        reference = controller_of(current) or next(iter(current.owner_references), None)
        if reference is None or reference.uid in seen or reference.kind == "Node":  # a static pod is its own owner
            break
        seen.add(reference.uid)
        resource = kinds.resource_of_owner(reference, fetch, moments)
        place = current.namespace
        above = None
        if resource:
            member = member_of(resource)
            for namespace in dict.fromkeys((place, "")):
                above = above or fetch(objects, key=f"{member}/{namespace}/{reference.name}")
        if above is not None and above.uid == reference.uid:
            place = above.namespace
        else:
            above = None
        group = reference.api_version.rpartition("/")[0]
        top = Owner(reference.kind, place, reference.name, group)
        current = above
    return top
