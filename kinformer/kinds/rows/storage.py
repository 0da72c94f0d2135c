"""Rows of volumes and storage classes."""

from __future__ import annotations

from kinformer.kinds.rows.cells import UNSET, age_of, name_of, scalar_at
from kinformer.kinds.state import phase
from kinformer.objects.accessors import flag_at, string_at, strings_at, table_at
from kinformer.objects.types import Object

__all__ = ["claim", "storage_class", "volume"]

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _class(obj: Object) -> str:
    legacy = string_at(obj, "metadata", "annotations", "volume.beta.kubernetes.io/storage-class")
    return legacy or string_at(obj, "spec", "storageClassName")


def _attributes_class(obj: Object) -> str:
    return string_at(obj, "spec", "volumeAttributesClassName") or UNSET


def _mode(obj: Object) -> str:
    return string_at(obj, "spec", "volumeMode") or UNSET


def volume(obj: Object) -> list[object]:
    claim = table_at(obj, "spec", "claimRef")
    return [
        *(
            name_of(obj),
            str(scalar_at(obj, "spec", "capacity", "storage")),
            _modes(strings_at(obj, "spec", "accessModes")),
        ),
        *(string_at(obj, "spec", "persistentVolumeReclaimPolicy"), phase(obj)),
        f"{string_at(claim, 'namespace')}/{string_at(claim, 'name')}" if claim else "",
        *(_class(obj), _attributes_class(obj), string_at(obj, "status", "reason"), age_of(obj), _mode(obj)),
    ]


def claim(obj: Object) -> list[object]:
    bound = bool(string_at(obj, "spec", "volumeName"))
    capacity = str(scalar_at(obj, "status", "capacity", "storage")) if bound else ""
    modes = _modes(strings_at(obj, "status", "accessModes")) if bound else ""
    return [
        *(name_of(obj), phase(obj), string_at(obj, "spec", "volumeName"), capacity, modes),
        *(_class(obj), _attributes_class(obj), age_of(obj), _mode(obj)),
    ]


def storage_class(obj: Object) -> list[object]:
    name, annotations = name_of(obj), table_at(obj, "metadata", "annotations")
    if "true" in (
        string_at(annotations, f"storageclass.{beta}kubernetes.io/is-default-class") for beta in ("", "beta.")
    ):
        name += " (default)"
    policy = string_at(obj, "reclaimPolicy") or "Delete"
    binding = string_at(obj, "volumeBindingMode") or "Immediate"
    return [name, string_at(obj, "provisioner"), policy, binding, flag_at(obj, "allowVolumeExpansion"), age_of(obj)]
