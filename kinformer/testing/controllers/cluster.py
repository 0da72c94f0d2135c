"""The reads and writes of the controllers. They go past HTTP, to the verbs that serve requests too."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kinformer.apiserver.storage import Stored
from kinformer.objects.selectors import LabelSelector
from kinformer.testing.api.delete import DeleteOptions, Deleter
from kinformer.testing.api.subresources import bind_pod
from kinformer.testing.api.write import Writer
from kinformer.testing.api.write_options import WriteOptions
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.store.ownership import FieldManager

__all__ = [
    "APIClient",
    "Actor",
    "Object",
    "condition_of",
    "controller_of",
    "is_active",
    "is_terminating",
    "labels_of",
    "matcher",
    "set_condition",
]

Object = dict[str, Any]

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"  # apimachinery/pkg/util/rand
_MOST_EVENTS = 1000  # a real cluster deletes them after an hour


@dataclass(frozen=True, slots=True)
class Actor:
    """The writer of a change: its field manager, and its user for admission."""

    name: str
    manager: str = "kube-controller-manager"

    @property
    def user(self) -> Mapping[str, Any]:
        """The UserInfo that admission sees."""
        if self.manager != "kube-controller-manager":
            return {"username": f"system:{self.name}", "groups": ["system:authenticated"]}
        groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]
        return {"username": f"system:serviceaccount:kube-system:{self.name}", "groups": groups}


class APIClient:
    """Reads and writes objects. What it returns is shared, and must not be changed.

    It keeps each object that it has decoded until the object changes or `forget` drops it, and the names of the Events
    that it has written.

    Args:
        writer, deleter: The server's. Writes go past HTTP, so faults do not strike them and no request is logged.
        seed: The seed of the names of pods.
    """

    def __init__(self, writer: Writer, deleter: Deleter, seed: int = 0) -> None:
        self.ledger = writer.ledger
        self._writer = writer
        self._deleter = deleter
        self._chance = random.Random(seed)
        self._decoded: dict[tuple[str, str], tuple[Stored, Object]] = {}
        self._events: deque[tuple[str, str]] = deque()
        self._events_written = 0

    # -- reads ----------------------------------------------------------------------------------------------------

    def type_of(self, resource: str) -> ResourceType:
        """Return a resource by its name."""
        return self.ledger.registry.find(resource)

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """Return an object, or None."""
        served = self.type_of(resource)
        return self.at(served, served.key(namespace, name))

    def at(self, resource: ResourceType, key: str) -> Object | None:
        """Return the object with a key, or None."""
        return self._object(resource, key) if key in self.ledger.collection(resource).objects else None

    def all_of(self, resource: str, namespace: str = "") -> list[Object]:
        """Return the objects of a namespace, or of all, in key order."""
        served = self.type_of(resource)
        return [self._object(served, key) for key in self.ledger.collection(served).snapshot().within(namespace).keys]

    def owned(self, resource: str, owner: Object) -> list[Object]:
        """Return the objects that an object controls."""
        uid = owner["metadata"]["uid"]
        return [
            obj
            for obj in self.all_of(resource, owner["metadata"]["namespace"])
            if (reference := controller_of(obj)) is not None and reference["uid"] == uid
        ]

    def _object(self, resource: ResourceType, key: str) -> Object:
        stored = self.ledger.collection(resource).objects[key]
        decoded = self._decoded.get((resource.name, key))
        if decoded is None or decoded[0] is not stored:  # a server that went back in time uses a revision twice
            decoded = self._decoded[resource.name, key] = (stored, self.ledger.read(resource, stored))
        return decoded[1]

    def forget(self, resource: ResourceType, obj: Object) -> None:
        """Drop what is kept of a deleted object."""
        self._decoded.pop((resource.name, resource.key(obj["metadata"].get("namespace", ""), _name(obj))), None)

    # -- writes ---------------------------------------------------------------------------------------------------

    def create(self, actor: Actor, obj: Object) -> Object:
        """Create an object. Raises the `StatusError` that a client would get."""
        resource = self.ledger.registry.of_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None, "controllers write built-in kinds"
        namespace = obj["metadata"].get("namespace", "")
        written = self._writer.create(resource, namespace, obj, self._options(actor))
        return self.ledger.read(resource, written.stored)

    def patch(
        self, actor: Actor, resource: str, obj: Object, change: Callable[[Object], None], *, subresource: str = ""
    ) -> Object:
        """Change the newest state of an object with a function. Raises the `StatusError` that a client would get."""

        def changed(newest: Object) -> Object:
            change(newest)
            return newest

        served, metadata = self.type_of(resource), obj["metadata"]
        written = self._writer.patch(
            served,
            metadata.get("namespace", ""),
            metadata["name"],
            changed,
            self._options(actor),
            subresource=subresource,
        )
        return self.ledger.read(served, written.stored)

    def bind(self, actor: Actor, pod: Object, node: str) -> Object:
        """Assign a pod to a node."""
        pods, metadata = self.type_of("v1/pods"), pod["metadata"]
        binding = {"target": {"kind": "Node", "name": node}}
        bind_pod(self._writer, pods, metadata["namespace"], metadata["name"], binding, self._options(actor))
        return self._object(pods, pods.key(metadata["namespace"], metadata["name"]))

    def set_status(self, actor: Actor, resource: str, obj: Object, status: Object) -> Object:
        """Write the status of an object, unless it is the same."""
        if obj.get("status") == status:
            return obj

        def change(newest: Object) -> None:
            newest["status"] = copy.deepcopy(status)

        return self.patch(actor, resource, obj, change, subresource="status")

    def delete(
        self, resource: ResourceType | str, obj: Object, *, grace: int | None = None, propagation: str = "Background"
    ) -> None:
        """Delete an object if it is still the same one."""
        served = self.type_of(resource) if isinstance(resource, str) else resource
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        stored = self.ledger.collection(served).get(served.key(namespace, metadata["name"]))
        if stored is None or stored.uid != metadata["uid"]:
            return
        policy = "" if served.kind == "Pod" else propagation
        options = DeleteOptions(grace=grace, uid=metadata["uid"], propagation=policy)
        self._deleter.delete(served, namespace, metadata["name"], options)

    def _options(self, actor: Actor) -> WriteOptions:
        return WriteOptions(FieldManager(actor.manager), validation="Ignore", user=actor.user)

    def event(self, actor: Actor, about: Object, reason: str, message: str, kind: str = "Normal") -> None:
        """Write an Event about an object, and delete the oldest one if there are too many."""
        metadata, now = about["metadata"], self.timestamp()
        namespace = metadata.get("namespace") or "default"
        self._events_written += 1
        name = f"{metadata['name']}.{self._events_written:016x}"
        involved = {"apiVersion": about["apiVersion"], "kind": about["kind"], "name": metadata["name"]}
        involved |= {"namespace": metadata.get("namespace", ""), "uid": metadata["uid"]}
        space = self.get("v1/namespaces", "", namespace)
        if space is None or is_terminating(space):
            return
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "type": kind,
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": actor.name},
        }
        options = WriteOptions(FieldManager(actor.manager), internal=True)
        self._writer.create(self.type_of("v1/events"), namespace, event, options)
        self._events.append((namespace, name))
        if len(self._events) > _MOST_EVENTS:
            old = self.get("v1/events", *self._events.popleft())
            if old is not None:
                self.delete("v1/events", old)

    # -- names and times ------------------------------------------------------------------------------------------

    def timestamp(self) -> str:
        """Return the present time for metadata and status."""
        return self.ledger.timestamp()

    def fresh_name(self, resource: str, namespace: str, prefix: str) -> str:
        """Return a name that is free, with a random end."""
        while True:
            name = prefix[:58] + "".join(self._chance.choices(_SUFFIX, k=5))
            if self.get(resource, namespace, name) is None:
                return name


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def labels_of(obj: Object) -> Mapping[str, str]:
    """Return the labels of an object."""
    return obj["metadata"].get("labels") or {}


def controller_of(obj: Object) -> Object | None:
    """Return the reference to the controller of an object, or None."""
    references: list[Object] = obj["metadata"].get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), None)


def is_terminating(obj: Object) -> bool:
    """Return True if an object is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def is_active(pod: Object) -> bool:
    """Return True if a pod counts as a replica: it has not ended, and is not being deleted."""
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed") and not is_terminating(pod)


def matcher(selector: Mapping[str, Any] | None) -> Callable[[Object], bool]:
    """Return a function that tests labels against a LabelSelector. An empty one matches nothing here."""
    if not selector:
        return lambda _: False
    parsed = LabelSelector.from_object(selector)
    return lambda obj: parsed.matches(labels_of(obj))


def condition_of(status: Mapping[str, Any] | None, kind: str) -> Object | None:
    """Return a condition of a status, or None."""
    conditions: Iterator[Object] = iter((status or {}).get("conditions") or ())
    return next((condition for condition in conditions if condition["type"] == kind), None)


def set_condition(status: Object, new: Object) -> None:
    """Put a condition into a status. The time of the last transition stays if only the reason changes."""
    old = condition_of(status, new["type"])
    if old is not None:
        if (old["status"], old.get("reason")) == (new["status"], new.get("reason")):
            return
        if old["status"] == new["status"] and "lastTransitionTime" in old:
            new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    others = [condition for condition in status.get("conditions") or () if condition["type"] != new["type"]]
    status["conditions"] = [*others, new]
