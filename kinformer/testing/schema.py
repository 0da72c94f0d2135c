"""Which lists are maps in disguise: by merge key in built-in kinds, by schema in CRDs.

For built-in kinds the keys come from the field's name and what stands around it (the `+listMapKey` and
`patchMergeKey` tags of k8s.io/api): the names are used with one meaning throughout, but for `ports`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kinformer.testing.resources import ResourceType

__all__ = ["KeyedLists"]

_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "secrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
    "conditions": ("type",),
    "addresses": ("type",),
    "ownerReferences": ("uid",),
    "webhooks": ("name",),
}
_CONTAINER_LISTS = {"containers", "initContainers", "ephemeralContainers"}
_SETS = {"finalizers"}
# Strategic merge patches merge fewer lists than apply does: those with patchStrategy=merge, by a single key.
_STRATEGIC: Mapping[str, str] = {
    **{name: keys[0] for name, keys in _KEYS.items() if name != "schedulingGates"},
    "podIPs": "ip",
    "taints": "key",
}
_DEFAULTS = {"protocol": "TCP"}


class KeyedLists:
    """Answers for one kind, by the path of field names to a list."""

    def __init__(self, resource: ResourceType) -> None:
        self._resource = resource
        self._builtin = resource.builtin

    def keys(self, path: Sequence[str], items: Sequence[Any]) -> tuple[str, ...]:
        """The fields that identify an item of a list; `()` for a list that is one value."""
        name = path[-1] if path else ""
        if not self._builtin and path[:1] != ("metadata",):
            keys = self._resource.list_maps.get(".".join(path), ())
        elif name == "ports":
            keys = self._port_keys(path)
        else:
            keys = _KEYS.get(name, ())
        if keys and all(isinstance(item, dict) and _has(item, keys) for item in items):
            return keys
        return ()

    def is_set(self, path: Sequence[str]) -> bool:
        """True for a list of scalars that is a set, such as finalizers."""
        return path[-1] in _SETS and path[0] == "metadata" if path else False

    def merge_key(self, path: Sequence[str]) -> str:
        """The merge key of a strategic merge patch, "" where the list is replaced."""
        name = path[-1] if path else ""
        if name == "ports":
            return "containerPort" if _in_container(path) else "port"
        return _STRATEGIC.get(name, "")

    def _port_keys(self, path: Sequence[str]) -> tuple[str, ...]:
        if _in_container(path):
            return ("containerPort", "protocol")
        return ("port", "protocol") if tuple(path) == ("spec", "ports") and self._resource.kind == "Service" else ()


def _in_container(path: Sequence[str]) -> bool:
    return len(path) > 1 and path[-2] in _CONTAINER_LISTS


def _has(item: Mapping[str, Any], keys: Sequence[str]) -> bool:
    return all(key in item or key in _DEFAULTS for key in keys)


def key_of(item: Mapping[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    """The identity of an item."""
    return tuple(item.get(key, _DEFAULTS.get(key)) for key in keys)
