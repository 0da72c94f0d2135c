"""Validation of writes of subresources: ephemeral containers, resizes, finalizers and decisions about certificates.

See pkg/apis/core/validation and pkg/apis/certificates/validation.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from kinformer.apiserver.selecting.names import qualified_name
from kinformer.apiserver.status import Causes, cause
from kinformer.testing.rules.builtin.pod_defaults import qos_class
from kinformer.testing.rules.builtin.pod_rules import (
    container_causes,
    duplicate,
    not_found,
    pod_causes,
    required,
    unsupported,
)
from kinformer.testing.rules.metadata_rules import invalid_value

__all__ = ["subresource_causes"]

Object = dict[str, Any]

_NOT_EPHEMERAL = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
_RESIZABLE = ("cpu", "memory")
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_DECISIONS = ("Approved", "Denied")
_ONLY_TRUE = (*_DECISIONS, "Failed")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def subresource_causes(kind: str, subresource: str, obj: Object, old: Object) -> Causes:
    """Return the errors of a write of a subresource of a built-in object, except for its metadata."""
    rule = _RULES.get((kind, subresource))
    return [] if rule is None else rule(obj, old)


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _forbidden(field: str, text: str) -> dict[str, str]:
    return cause("FieldValueForbidden", f"Forbidden: {text}", field)


# -- pods -------------------------------------------------------------------------------------------------------------


def _ephemeral_containers(obj: Object, old: Object) -> Causes:
    spec, at = _spec(obj), "spec.ephemeralContainers"
    causes = pod_causes(spec, "spec") + _all_ephemeral(spec, at)
    added = {container.get("name"): container for container in spec.get("ephemeralContainers") or []}
    for container in _spec(old).get("ephemeralContainers") or []:
        name = container.get("name")
        if name not in added:
            causes.append(_forbidden(at, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif added[name] != container:
            # A real server prints the difference of its internal structs line by line.
            causes.append(_forbidden(at, f'existing ephemeral containers "{name}" may not be changed\n'))
    return causes


def _all_ephemeral(spec: Object, at: str) -> Causes:
    causes: Causes = []
    volumes = {volume.get("name", "") for volume in spec.get("volumes") or []}
    others = {container.get("name") for kind in ("containers", "initContainers") for container in spec.get(kind) or []}
    names = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or []):
        here = f"{at}[{index}]"
        causes += container_causes(container, here, volumes, set())
        if container.get("name") in names:
            causes.append(duplicate(f"{here}.name", container["name"]))
        names.add(container.get("name"))
        target = container.get("targetContainerName")
        if target and target not in others:
            causes.append(not_found(f"{here}.targetContainerName", target))
        text = "cannot be set for an Ephemeral Container"
        causes += [_forbidden(f"{here}.{name}", text) for name in _NOT_EPHEMERAL if container.get(name)]
        for number, mount in enumerate(container.get("volumeMounts") or []):
            for name in ("subPath", "subPathExpr"):
                if mount.get(name):
                    causes.append(_forbidden(f"{here}.volumeMounts[{number}].{name}", text))
    return causes


def _resize(obj: Object, old: Object) -> Causes:
    spec, before = _spec(obj), _spec(old)
    causes = pod_causes(spec, "spec")
    if qos_class(before) != qos_class(spec):
        text = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid_value("spec", (obj.get("status") or {}).get("qosClass", ""), text))
    statuses = (old.get("status") or {}).get("containerStatuses") or []
    running = next((status for status in statuses if (status.get("state") or {}).get("running")), None)
    if running is not None and not running.get("resources"):
        causes.append(_forbidden("spec", "Pod running on node without support for resize"))
    moved = [*_other_containers(spec, before, "containers"), *_other_containers(spec, before, "initContainers")]
    if moved:
        return causes + moved
    for kind in ("initContainers", "containers"):
        for index, (new, old_container) in enumerate(zip(spec.get(kind) or [], before.get(kind) or [], strict=True)):
            causes += _removed_resources(new, old_container, f"spec.{kind}[{index}].resources")
            if _other_resources(new) != _other_resources(old_container):
                text = "only cpu and memory resources are mutable"
                if kind == "initContainers":
                    text = "only cpu and memory resources for init or sidecar containers are mutable"
                causes.append(_forbidden("spec" if kind == "containers" else f"spec.{kind}[{index}]", text))
    return causes


def _other_containers(spec: Object, before: Object, kind: str) -> Causes:
    new, old = spec.get(kind) or [], before.get(kind) or []
    if len(new) != len(old):
        return [_forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize")]
    return [
        _forbidden(f"spec.{kind}[{index}].name", f"{kind} may not be renamed or reordered on resize")
        for index, (new_container, old_container) in enumerate(zip(new, old, strict=True))
        if new_container.get("name") != old_container.get("name")
    ]


def _removed_resources(new: Object, old: Object, at: str) -> Causes:
    return [
        _forbidden(f"{at}.{part}", f"resource {part} cannot be removed")
        for part in ("requests", "limits")
        if ((old.get("resources") or {}).get(part) or {}).keys() - ((new.get("resources") or {}).get(part) or {}).keys()
    ]


def _other_resources(container: Object) -> Any:
    resources = container.get("resources") or {}
    return {
        part: {name: amount for name, amount in (resources.get(part) or {}).items() if name not in _RESIZABLE}
        for part in ("requests", "limits")
    }


# -- other kinds ------------------------------------------------------------------------------------------------------


def _finalize(obj: Object, old: Object) -> Causes:
    causes: Causes = []
    for index, name in enumerate(_spec(obj).get("finalizers") or []):
        at = f"spec.finalizers[{index}]"
        causes += [invalid_value(at, name, problem) for problem in qualified_name(name)]
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid_value(at, name, text))
    return causes


def _certificate_status(obj: Object, old: Object) -> Causes:
    return _conditions(obj, old) + _certificate(obj) + _kept_conditions(obj, old, decides=False) + _reissued(obj, old)


def _approval(obj: Object, old: Object) -> Causes:
    return _conditions(obj, old) + _kept_conditions(obj, old, decides=True)


def _conditions_of(obj: Object, kind: str | None = None) -> list[Object]:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return [condition for condition in conditions if kind is None or condition.get("type") == kind]


def _conditions(obj: Object, old: Object) -> Causes:
    causes: Causes = []
    at = "status.conditions"
    seen: set[str] = set()
    for index, condition in enumerate(_conditions_of(obj)):
        kind, status = condition.get("type", ""), condition.get("status", "")
        allowed = ("True",) if kind in _ONLY_TRUE else ("False", "True", "Unknown")
        if not kind:
            causes.append(required(f"{at}[{index}].type"))
        if not status:
            causes.append(required(f"{at}[{index}].status"))
        elif status not in allowed:
            causes.append(unsupported(f"{at}[{index}].status", status, allowed))
        if kind in _DECISIONS and seen & (set(_DECISIONS) - {kind}):
            causes.append(invalid_value(at, kind, "Approved and Denied conditions are mutually exclusive"))
        if kind in seen:
            causes.append(duplicate(f"{at}[{index}].type", kind))
        seen.add(kind)
    return causes


def _kept_conditions(obj: Object, old: Object, *, decides: bool) -> Causes:
    causes, added = [], []
    for kind in _ONLY_TRUE:
        before, after = len(_conditions_of(old, kind)), len(_conditions_of(obj, kind))
        if after < before:
            causes.append(_forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"'))
        elif after > before and kind in _DECISIONS and not decides:
            added.append(_forbidden("status.conditions", f'updates may not add a condition of type "{kind}"'))
    return causes + added


def _issued(obj: Object) -> str:
    return (obj.get("status") or {}).get("certificate") or ""


def _certificate(obj: Object) -> Causes:
    text = "must contain at least one CERTIFICATE PEM block"
    if not _issued(obj) or _CERTIFICATE.search(base64.b64decode(_issued(obj))):
        return []
    return [invalid_value("status.certificate", "<certificate data>", text)]


def _reissued(obj: Object, old: Object) -> Causes:
    if not _issued(old) or _issued(obj) == _issued(old):
        return []
    return [_forbidden("status.certificate", "updates may not modify existing certificate content")]


_RULES: Mapping[tuple[str, str], Callable[[Object, Object], Causes]] = {
    ("Pod", "ephemeralcontainers"): _ephemeral_containers,
    ("Pod", "resize"): _resize,
    ("Namespace", "finalize"): _finalize,
    ("CertificateSigningRequest", "status"): _certificate_status,
    ("CertificateSigningRequest", "approval"): _approval,
}
