"""Partial validation of pods and pod templates (pkg/apis/core/validation/validation.go)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kinformer.apiserver.selecting.names import dns_label, label_value, qualified_name
from kinformer.apiserver.status import Causes, cause
from kinformer.objects.units import amount
from kinformer.testing.rules.metadata_rules import invalid_value, label_causes

__all__ = [
    "container_causes",
    "duplicate",
    "not_found",
    "pod_causes",
    "pod_update_causes",
    "required",
    "template_causes",
    "unsupported",
]

Object = Mapping[str, Any]

_ENV_NAME = re.compile(r"[ -<>-~]+")  # printable, except "="
_ENV_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_ONE_OF: Mapping[str, tuple[str, ...]] = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_PULL = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TERMINATION = ("FallbackToLogsOnError", "File")
MAX_INT32 = 2**31 - 1


def required(field: str, text: str = "") -> dict[str, str]:
    """Return the cause `spec.x: Required value`."""
    return cause("FieldValueRequired", f"Required value: {text}" if text else "Required value", field)


def unsupported(field: str, value: Any, supported: tuple[str, ...]) -> dict[str, str]:
    """Return the cause `spec.x: Unsupported value: "a": supported values: "b", "c"`."""
    listed = ", ".join(json.dumps(choice) for choice in supported)
    return cause("FieldValueNotSupported", f"Unsupported value: {json.dumps(value)}: supported values: {listed}", field)


def duplicate(field: str, value: Any) -> dict[str, str]:
    """Return the cause `spec.x: Duplicate value: "a"`."""
    return cause("FieldValueDuplicate", f"Duplicate value: {json.dumps(value)}", field)


def not_found(field: str, value: Any) -> dict[str, str]:
    """Return the cause `spec.x: Not found: "a"`."""
    return cause("FieldValueNotFound", f"Not found: {json.dumps(value)}", field)


def pod_causes(spec: Object, field: str) -> Causes:
    """Return the errors of the spec of a pod or a pod template."""
    volumes = {volume.get("name", "") for volume in spec.get("volumes") or []}
    causes = list(_volume_causes(spec.get("volumes") or [], f"{field}.volumes"))
    containers = spec.get("containers")
    if not containers:
        causes.append(required(f"{field}.containers"))
    names: set[str] = set()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or []):
            causes += container_causes(container, f"{field}.{kind}[{index}]", volumes, names)
    for name, allowed in _ONE_OF.items():
        if spec.get(name) and spec[name] not in allowed:
            causes.append(unsupported(f"{field}.{name}", spec[name], allowed))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        causes.append(
            invalid_value(f"{field}.activeDeadlineSeconds", deadline, f"must be between 1 and {MAX_INT32}, inclusive")
        )
    causes += label_causes(spec.get("nodeSelector") or {}, f"{field}.nodeSelector")
    for index, toleration in enumerate(spec.get("tolerations") or []):
        causes += _toleration_causes(toleration, f"{field}.tolerations[{index}]")
    return causes


def _volume_causes(volumes: list[Object], field: str) -> Iterator[dict[str, str]]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        name, at = volume.get("name", ""), f"{field}[{index}].name"
        if not name:
            yield required(at)
        for problem in dns_label(name) if name else ():
            yield invalid_value(at, name, problem)
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)


def container_causes(container: Object, at: str, volumes: set[str], names: set[str]) -> Causes:
    """Return the errors of a container. `names` collects the names of the containers before it."""
    causes = []
    name, image = container.get("name", ""), container.get("image", "")
    if not name:
        causes.append(required(f"{at}.name"))
    else:
        causes += [invalid_value(f"{at}.name", name, problem) for problem in dns_label(name)]
        if name in names:
            causes.append(duplicate(f"{at}.name", name))
        names.add(name)
    if not image:
        causes.append(required(f"{at}.image"))
    elif image != image.strip():
        causes.append(invalid_value(f"{at}.image", image, "must not have leading or trailing whitespace"))
    for field, allowed in (("terminationMessagePolicy", _TERMINATION), ("imagePullPolicy", _PULL)):
        if container.get(field) and container[field] not in allowed:
            causes.append(unsupported(f"{at}.{field}", container[field], allowed))
    for index, port in enumerate(container.get("ports") or []):
        causes += _port_causes(port, f"{at}.ports[{index}]")
    for index, variable in enumerate(container.get("env") or []):
        causes += _env_causes(variable, f"{at}.env[{index}]")
    for index, mount in enumerate(container.get("volumeMounts") or []):
        causes += _mount_causes(mount, f"{at}.volumeMounts[{index}]", volumes)
    return causes + _resource_causes(container.get("resources") or {}, f"{at}.resources")


def _port_causes(port: Object, at: str) -> Causes:
    causes = []
    name, number, protocol = port.get("name"), port.get("containerPort", 0), port.get("protocol", "TCP")
    if name and (not _PORT_NAME.fullmatch(name) or len(name) > 15):
        if len(name) > 15:
            causes.append(invalid_value(f"{at}.name", name, "must be no more than 15 characters"))
        else:
            message = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
            causes.append(invalid_value(f"{at}.name", name, message))
    if not number:
        causes.append(required(f"{at}.containerPort"))
    elif not 0 < number < 65536:
        causes.append(invalid_value(f"{at}.containerPort", number, "must be between 1 and 65535, inclusive"))
    if protocol not in _PROTOCOLS:
        causes.append(unsupported(f"{at}.protocol", protocol, _PROTOCOLS))
    return causes


def _env_causes(variable: Object, at: str) -> Causes:
    name = variable.get("name", "")
    if not name:
        return [required(f"{at}.name")]
    causes = [] if _ENV_NAME.fullmatch(name) else [invalid_value(f"{at}.name", name, _ENV_TEXT)]
    if variable.get("value") and variable.get("valueFrom"):
        causes.append(invalid_value(f"{at}.valueFrom", "", "may not be specified when `value` is not empty"))
    return causes


def _mount_causes(mount: Object, at: str, volumes: set[str]) -> Causes:
    causes = []
    if not mount.get("name"):
        causes.append(required(f"{at}.name"))
    elif mount["name"] not in volumes:
        causes.append(not_found(f"{at}.name", mount["name"]))
    if not mount.get("mountPath"):
        causes.append(required(f"{at}.mountPath"))
    return causes


def _resource_causes(resources: Object, at: str) -> Causes:
    causes = []
    limits = resources.get("limits") or {}
    for kind in ("limits", "requests"):
        for name, quantity in (resources.get(kind) or {}).items():
            if amount(quantity) < 0:
                causes.append(invalid_value(f"{at}.{kind}[{name}]", quantity, "must be greater than or equal to 0"))
    for name, quantity in (resources.get("requests") or {}).items():
        if name in limits and amount(quantity) > amount(limits[name]):
            message = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{at}.requests", quantity, message))
    return causes


def _toleration_causes(toleration: Object, at: str) -> Causes:
    causes = []
    key, operator = toleration.get("key"), toleration.get("operator", "Equal")
    if key:
        causes += [invalid_value(f"{at}.key", key, problem) for problem in qualified_name(key)]
    elif operator != "Exists":
        message = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(invalid_value(f"{at}.operator", operator, message))
    value = toleration.get("value", "")
    if operator == "Exists" and value:
        causes.append(invalid_value(f"{at}.operator", value, "value must be empty when `operator` is 'Exists'"))
    elif operator == "Equal":
        causes += [invalid_value(f"{at}.operator", value, problem) for problem in label_value(value)]
    return causes


def template_causes(template: Object, field: str) -> Causes:
    """Return the errors of a workload's template."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    return label_causes(labels, f"{field}.labels") + pod_causes(template.get("spec") or {}, f"{field}.spec")


_MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_SAME_CONTAINERS = "pod updates may not add or remove containers"


def pod_update_causes(new: Object, old: Object) -> Causes:
    """Return the errors of a change to a pod's spec, most of which is immutable."""
    for name in ("containers", "initContainers"):
        if len(new.get(name) or ()) != len(old.get(name) or ()):
            return [cause("FieldValueForbidden", f"Forbidden: {_SAME_CONTAINERS}", f"spec.{name}")]
    before, after = _fixed_part(old), _fixed_part(new)
    if before.get("schedulingGates") and not after.get("nodeName"):
        for part in (before, after):  # a gated pod's scheduling may still be changed
            for name in ("schedulingGates", "nodeSelector", "affinity"):
                part.pop(name, None)
    if before == after:
        given = new.get("tolerations") or []
        removed = [toleration for toleration in old.get("tolerations") or [] if toleration not in given]
        if not removed:
            return []
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    # A real server prints the difference of its internal structs line by line. Here only the fields are named.
    return [cause("FieldValueForbidden", f"Forbidden: {_MUTABLE}\n{', '.join(changed)}\n", "spec")]


def _fixed_part(spec: Object) -> dict[str, Any]:
    fixed = {name: value for name, value in spec.items() if name not in ("activeDeadlineSeconds", "tolerations")}
    for kind in ("containers", "initContainers"):
        if fixed.get(kind):
            fixed[kind] = [
                {name: value for name, value in container.items() if name != "image"} for container in fixed[kind]
            ]
    if (fixed.get("terminationGracePeriodSeconds") or 0) == 1:
        fixed.pop("terminationGracePeriodSeconds")
    return fixed
