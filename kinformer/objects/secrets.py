"""The parts of an object that may be shown: on a page, in a terminal, in a recording or in an error.

Everything that writes an object for people gets it from `showable`, which removes the values of Secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

from kinformer.exceptions import DecodeError
from kinformer.objects.models.typed import read_like
from kinformer.objects.object import KubeObject

__all__ = ["HIDDEN", "showable"]

HIDDEN = "(hidden)"

_OPEN = frozenset({"apiVersion", "kind", "type", "immutable"})  # the fields of a Secret that are shown
_VALUES = frozenset({"data", "stringData"})
# The annotations of kubectl, kapp, Rancher, kustomize and others have a copy of a Secret. So only annotations are shown
# that are known to be names and settings.
_HARMLESS = frozenset(
    {
        "argocd.argoproj.io/sync-wave",
        "argocd.argoproj.io/tracking-id",
        "cert-manager.io/certificate-name",
        "cert-manager.io/common-name",
        "cert-manager.io/issuer-group",
        "cert-manager.io/issuer-kind",
        "cert-manager.io/issuer-name",
        "helm.sh/hook",
        "helm.sh/hook-weight",
        "helm.sh/resource-policy",
        "kubernetes.io/service-account.name",
        "kubernetes.io/service-account.uid",
        "meta.helm.sh/release-name",
        "meta.helm.sh/release-namespace",
    }
)
_LONGEST = 253  # characters of a harmless annotation, as many as the name of an object


@overload
def showable(obj: KubeObject) -> KubeObject: ...
@overload
def showable(obj: dict[str, Any]) -> dict[str, Any]: ...
def showable(obj: KubeObject | dict[str, Any]) -> KubeObject | dict[str, Any]:
    """Return what may be shown of an object: all of it, or a Secret without its values.

    A Secret keeps its metadata, its type and the names of its keys. The values of `data` and `stringData` are
    `"(hidden)"`. So are those of its annotations, except for a few harmless ones, because many tools keep a copy of the
    whole object in one. The entries of managedFields lose their fields. Plain metadata and objects without a kind may
    be Secrets, so the same parts of them are hidden.

    Args:
        obj: An object, or a dict. Neither is changed.

    Returns:
        The object itself if nothing is hidden, or a new one with its model. For a dict, a new dict.
    """
    if not isinstance(obj, KubeObject):
        return _without_values(obj) if _may_be_secret(str(obj.get("kind") or "")) else dict(obj)
    if not _may_be_secret(obj.kind):
        return obj
    try:
        return read_like(obj, KubeObject.from_dict(_without_values(obj.to_dict())))
    except DecodeError:  # nested too deeply, so only its identity is shown
        metadata = {"name": obj.name, "uid": obj.uid, "resourceVersion": obj.resource_version}
        if obj.namespace:
            metadata["namespace"] = obj.namespace
        return KubeObject.from_dict({"apiVersion": obj.api_version, "kind": obj.kind, "metadata": metadata})


def _may_be_secret(kind: str) -> bool:
    return kind in ("Secret", "PartialObjectMetadata", "")


def _without_values(document: Mapping[str, Any]) -> dict[str, Any]:
    closed = document.keys() - _OPEN if document.get("kind") == "Secret" else _VALUES
    shown = {
        name: _hidden(value) if name in closed or (name in _OPEN and not isinstance(value, str | bool)) else value
        for name, value in document.items()
    }
    if isinstance(document.get("metadata"), dict):
        shown["metadata"] = _metadata(document["metadata"])
    return shown


def _hidden(value: object) -> dict[str, object] | str | None:
    """Hide a value, except for the names of its keys."""
    if isinstance(value, dict):
        return dict.fromkeys(value, HIDDEN)
    return None if value is None else HIDDEN


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(metadata)
    if "annotations" in shown:
        shown["annotations"] = _annotations(shown["annotations"])
    if isinstance(shown.get("managedFields"), list):
        entries = [entry for entry in shown["managedFields"] if isinstance(entry, dict)]
        shown["managedFields"] = [{k: v for k, v in entry.items() if k != "fieldsV1"} for entry in entries]
    return shown


def _annotations(given: object) -> object:
    if not isinstance(given, dict):
        return _hidden(given)
    return {name: value if _is_harmless(name, value) else HIDDEN for name, value in given.items()}


def _is_harmless(name: str, value: object) -> bool:
    return name in _HARMLESS and isinstance(value, str) and len(value) <= _LONGEST
