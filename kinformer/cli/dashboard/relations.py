"""The relations of an object: its owners, the objects that it owns, and the node of a pod or the pods of a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from kinformer import GroupVersionResource, KubeObject, SharedInformer

__all__ = ["EVENT_INDEX", "NODE_INDEX", "OWNER_INDEX", "indexers_of", "occurrences_of", "relations_of"]

OWNER_INDEX = "kinformer dashboard: owner"
NODE_INDEX = "kinformer dashboard: node"
EVENT_INDEX = "kinformer dashboard: object of an event"

_DEEPEST = 4  # levels of owners. A CronJob, its Job and a Pod are two
_MOST = 200  # objects listed for each kind

_EVENTS = (GroupVersionResource("", "v1", "events"), GroupVersionResource("events.k8s.io", "v1", "events"))
_PODS = GroupVersionResource("", "v1", "pods")

Informers = Mapping[str, SharedInformer]


class ResourceOfKind(Protocol):
    """Finds the resource of a kind."""

    async def __call__(self, group: str, kind: str) -> str | None:
        """Return its name, or None if there is none."""
        ...


def indexers_of(name: str) -> dict[str, Any]:
    """Return the indexers that relations need on the informer with this name."""
    gvr = GroupVersionResource.parse(name.partition("#")[0])
    indexers: dict[str, Any] = {OWNER_INDEX: _owners}
    if gvr == _PODS:
        indexers[NODE_INDEX] = "spec.nodeName"
    if gvr in _EVENTS:
        indexers[EVENT_INDEX] = _about
    return indexers


async def relations_of(
    informers: Informers, name: str, obj: KubeObject, resource_of: ResourceOfKind
) -> list[dict[str, Any]]:
    """Return the relations of an object of the informer `name`, as groups of references.

    A group has a `title`, `items`, and `more`, the number of omitted items. An item has `kind`, `name`, `key`, the
    `resource` of its kind (None if the server has none), and `depth`, which is 1 for an object owned by an owned
    object.
    """
    groups = [
        _group("Owners", await _owners_above(informers, obj, resource_of)),
        _group("Owned", list(_owned_below(informers, obj, 0, set()))),
    ]
    if obj.kind == "Pod" and (node := obj.path("spec.nodeName")):
        resource = await resource_of("", "Node")
        groups.append(_group("Node", [_item("Node", str(node), str(node), resource)]))
    if obj.kind == "Node" and "v1/pods" in informers:
        pods = informers["v1/pods"].indexer.by_index(NODE_INDEX, obj.name)
        groups.append(_group("Pods", [_item("Pod", pod.name, pod.key, "v1/pods") for pod in sorted(pods, key=_key)]))
    return [group for group in groups if group["items"]]


def occurrences_of(events: SharedInformer, kind: str, key: str, uid: str) -> list[dict[str, Any]]:
    """Return the Events of an object, newest first.

    Events of an earlier object with its name only count if it has none.
    """
    namespace, _, name = key.rpartition("/")
    named = events.indexer.by_index(EVENT_INDEX, f"{namespace}/{kind}/{name}")
    # In Events, the uid of a node is its name (kubernetes, pkg/kubelet/kubelet.go).
    own = [event for event in named if _object_of(event).get("uid") in (None, "", uid, name)]
    shown = [_occurrence(event) for event in own or named]
    return sorted(shown, key=lambda occurrence: occurrence["last"] or "", reverse=True)[:_MOST]


def _occurrence(event: KubeObject) -> dict[str, Any]:
    series = event.get("series") or {}
    source = event.get("source") or event.get("deprecatedSource") or {}
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime")
    created = event.path("metadata.creationTimestamp")
    return {
        "type": event.get("type") or "",
        "reason": event.get("reason") or "",
        "message": event.get("message") or event.get("note") or "",
        "count": series.get("count") or event.get("count") or event.get("deprecatedCount") or 1,
        "first": first or created,
        "last": last or event.get("eventTime") or created,
        "source": event.get("reportingComponent") or event.get("reportingController") or source.get("component") or "",
    }


async def _owners_above(informers: Informers, obj: KubeObject, resource_of: ResourceOfKind) -> list[dict[str, Any]]:
    owners, seen = [], {obj.uid}
    above: list[KubeObject] = [obj]
    for depth in range(_DEEPEST):
        following: list[KubeObject] = []
        for owned in above:
            for reference in owned.owner_references:
                if reference.uid in seen:
                    continue
                seen.add(reference.uid)
                resource = await resource_of(reference.api_version.rpartition("/")[0], reference.kind)
                informer = informers.get(resource or "")
                owner = None
                for key in (f"{owned.namespace}/{reference.name}", reference.name):
                    owner = owner or (informer.indexer.get_by_key(key) if informer is not None else None)
                key = owner.key if owner is not None else f"{owned.namespace}/{reference.name}".lstrip("/")
                owners.append(_item(reference.kind, reference.name, key, resource, depth))
                if owner is not None and owner.uid == reference.uid:
                    following.append(owner)
        above = following
    return owners


def _owned_below(informers: Informers, obj: KubeObject, depth: int, seen: set[str]) -> Iterator[dict[str, Any]]:
    if depth >= _DEEPEST or not obj.uid or obj.uid in seen:
        return
    seen.add(obj.uid)
    for name, informer in informers.items():
        for owned in sorted(informer.indexer.by_index(OWNER_INDEX, obj.uid), key=_key):
            if owned.uid not in seen:
                yield _item(owned.kind, owned.name, owned.key, name, depth)
                yield from _owned_below(informers, owned, depth + 1, seen)
                seen.add(owned.uid)  # the call above does not, at the last level


def _item(kind: str, name: str, key: str, resource: str | None, depth: int = 0) -> dict[str, Any]:
    return {"kind": kind, "name": name, "key": key, "resource": resource, "depth": depth}


def _group(title: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"title": title, "items": items[:_MOST], "more": max(0, len(items) - _MOST)}


def _key(obj: KubeObject) -> str:
    return obj.key


def _owners(obj: KubeObject) -> Iterable[str]:
    for owner in obj.owner_references:
        yield owner.uid
        yield f"{obj.namespace}/{owner.kind}/{owner.name}"


def _object_of(event: KubeObject) -> dict[str, Any]:
    involved: dict[str, Any] = event.get("involvedObject") or event.get("regarding") or {}
    return involved


def _about(event: KubeObject) -> Iterable[str]:
    about = _object_of(event)
    yield f"{about.get('namespace') or ''}/{about.get('kind') or ''}/{about.get('name') or ''}"
