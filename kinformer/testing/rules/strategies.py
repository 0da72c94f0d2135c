"""Restores the parts of an object that a write of it, or of a subresource, cannot change.

A write that would change them is no error (PrepareForUpdate in pkg/registry/*/strategy.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kinformer.testing.kinds.crds import stored_versions
from kinformer.testing.kinds.reset_fields import METADATA, kept_by_status
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["keep_rest"]

Object = dict[str, Any]

_NO_SPEC = ("apiVersion", "kind", "metadata", "status")


def keep_rest(resource: ResourceType, subresource: str, old: Object, new: Object, now: str) -> None:
    """Restore, in place, what a write of a subresource ("" for the object itself) cannot change.

    A write of /status changes only the status. Other writes keep the status if the kind has that subresource.
    """
    if subresource == "status":
        for name in [name for name in new if name not in _NO_SPEC]:
            del new[name]
        new.update({name: value for name, value in old.items() if name not in _NO_SPEC})
        _carry_over(kept_by_status(resource), old["metadata"], new["metadata"])
    elif resource.has_status and subresource in ("", "scale", "finalize"):
        _carry_over(("status",), old, new)
    if resource.builtin:
        rest = _REST.get((resource.kind, subresource))
        if rest is not None:
            rest(old, new, now)


def _carry_over(names: Iterable[str], old: Object, new: Object) -> None:
    """Restore fields to their old values. A field that was absent is removed."""
    for name in names:
        new.pop(name, None)
        if name in old:
            new[name] = old[name]


# -- pods -------------------------------------------------------------------------------------------------------------


def _pod_status(old: Object, new: Object, now: str) -> None:
    """Keep fields that an old kubelet does not know, and so leaves out."""
    before = old.get("status") or {}
    status = new.setdefault("status", {})
    for name in ("qosClass", "observedGeneration"):
        if before.get(name) and not status.get(name):
            status[name] = before[name]
    generations: dict[str, list[int]] = {}
    for condition in before.get("conditions") or []:
        generations.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions") or []:
        remaining = generations.get(condition.get("type", ""))
        generation = remaining.pop(0) if remaining else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def _ephemeral_containers(old: Object, new: Object, now: str) -> None:
    """Keep everything but the ephemeral containers."""
    added = (new.get("spec") or {}).get("ephemeralContainers")
    _carry_over(("status",), old, new)
    _carry_over(METADATA, old["metadata"], new["metadata"])
    new["spec"] = dict(old.get("spec") or {})
    new["spec"].pop("ephemeralContainers", None)
    if added:
        new["spec"]["ephemeralContainers"] = added


def _resize(old: Object, new: Object, now: str) -> None:
    """Keep everything but resources and resize policies."""
    before, given = old.get("spec") or {}, new.get("spec") or {}
    parts = ("containers", "initContainers")
    if any(len(before.get(part) or ()) != len(given.get(part) or ()) for part in parts):
        return  # validation refuses it
    spec = dict(before)
    for part in parts:
        if before.get(part):
            spec[part] = _resized(before[part], given[part])
    spec.pop("resources", None)
    if given.get("resources"):
        spec["resources"] = given["resources"]
    new["spec"] = spec
    _carry_over(("status",), old, new)
    _carry_over(METADATA, old["metadata"], new["metadata"])


def _resized(before: list[Object], given: list[Object]) -> list[Object]:
    resized = []
    for old, new in zip(before, given, strict=True):
        if old.get("name") != new.get("name"):
            return given  # validation refuses it
        container = {name: value for name, value in old.items() if name not in ("resources", "resizePolicy")}
        container.update({name: new[name] for name in ("resources", "resizePolicy") if name in new})
        resized.append(container)
    return resized


# -- other kinds ------------------------------------------------------------------------------------------------------


def _namespace(old: Object, new: Object, now: str) -> None:
    """Keep the finalizers of the spec, which only /finalize changes."""
    _carry_over(("finalizers",), old.get("spec") or {}, new.setdefault("spec", {}))


def _volume_status(old: Object, new: Object, now: str) -> None:
    """Set the time of a phase unless the writer has set another."""
    before, status = old.get("status") or {}, new.setdefault("status", {})
    at, was = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
    if before.get("phase") == status.get("phase"):
        at = at or was
    elif not at or at == was:
        at = now
    if at:
        status["lastPhaseTransitionTime"] = at


def _signing_request(old: Object, new: Object, now: str) -> None:
    """Keep the spec, because a request is never changed."""
    _carry_over(("spec",), old, new)


def _certificate_status(old: Object, new: Object, now: str) -> None:
    """Keep the decisions of an approver, and set times."""
    conditions = (new.get("status") or {}).get("conditions") or []
    before = (old.get("status") or {}).get("conditions") or []
    for kind in ("Approved", "Denied"):
        kept = [condition for condition in before if condition.get("type") == kind]
        places = [index for index, condition in enumerate(conditions) if condition.get("type") == kind]
        if len(kept) == len(places):  # otherwise validation refuses it
            for index, condition in zip(places, kept, strict=True):
                conditions[index] = condition
    _date_conditions(before, conditions, now)


def _approval(old: Object, new: Object, now: str) -> None:
    """Keep everything but the conditions, and set times."""
    conditions = (new.get("status") or {}).get("conditions")
    _date_conditions((old.get("status") or {}).get("conditions") or [], conditions or [], now)
    _carry_over(("spec", "status"), old, new)
    new["status"] = {**(new.get("status") or {})}
    new["status"].pop("conditions", None)
    if conditions:
        new["status"]["conditions"] = conditions


def _date_conditions(before: list[Object], conditions: list[Object], now: str) -> None:
    """Set the missing times of conditions. A condition that stays as it was keeps its transition."""
    for condition in conditions:
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            same = (
                earlier.get("lastTransitionTime")
                for earlier in before
                if (earlier.get("type"), earlier.get("status")) == (condition.get("type"), condition.get("status"))
            )
            condition["lastTransitionTime"] = next(filter(None, same), now)


def _definition(old: Object, new: Object, now: str) -> None:
    """Add the version in which objects are stored from now on."""
    new["status"] = {**(new.get("status") or {}), "storedVersions": stored_versions(new)}


_REST: Mapping[tuple[str, str], Callable[[Object, Object, str], None]] = {
    ("Pod", "status"): _pod_status,
    ("Pod", "ephemeralcontainers"): _ephemeral_containers,
    ("Pod", "resize"): _resize,
    ("Namespace", ""): _namespace,
    ("PersistentVolume", "status"): _volume_status,
    ("CustomResourceDefinition", ""): _definition,
    ("CertificateSigningRequest", ""): _signing_request,
    ("CertificateSigningRequest", "status"): _certificate_status,
    ("CertificateSigningRequest", "approval"): _approval,
}
