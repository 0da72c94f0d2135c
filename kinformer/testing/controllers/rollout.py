"""Arithmetic of rollouts: surge, unavailability, revisions, proportions (pkg/controller/deployment/util)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from kinformer.testing.controllers.cluster import Object

__all__ = [
    "DESIRED",
    "HASH_LABEL",
    "HISTORY",
    "MAXIMUM",
    "REVISION",
    "actual",
    "annotation",
    "available",
    "copied_annotations",
    "hash_of",
    "is_rolling",
    "limits",
    "new_size",
    "proportion",
    "replicas",
    "same_template",
    "wanted",
]

HASH_LABEL = "pod-template-hash"
_PREFIX = "deployment.kubernetes.io/"
REVISION, HISTORY = f"{_PREFIX}revision", f"{_PREFIX}revision-history"
DESIRED, MAXIMUM = f"{_PREFIX}desired-replicas", f"{_PREFIX}max-replicas"
_NOT_COPIED = {
    *(REVISION, HISTORY, DESIRED, MAXIMUM),
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
}
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # apimachinery/pkg/util/rand, SafeEncodeString


def hash_of(template: Mapping[str, Any], collisions: int) -> str:
    """Return the hash of a pod template. It looks like a real one, but has another value."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":")) + (str(collisions) if collisions else "")
    value = 2166136261  # FNV-1a, 32 bits
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))


def same_template(deployment: Object, replica_set: Object) -> bool:
    """Return True if a ReplicaSet has the template of a Deployment, apart from the hash."""
    return _plain(deployment["spec"]["template"]) == _plain(replica_set["spec"]["template"])


def _plain(template: Mapping[str, Any]) -> Object:
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    return {**template, "metadata": {key: value for key, value in metadata.items() if value}}


def replicas(replica_set: Object) -> int:
    """Return the wanted pods of a ReplicaSet, or of a Deployment."""
    return int(replica_set["spec"].get("replicas", 1))


def wanted(sets: Iterable[Object]) -> int:
    """Return the wanted pods of some ReplicaSets."""
    return sum(map(replicas, sets))


def actual(sets: Iterable[Object], field: str = "replicas") -> int:
    """Return the sum of a number in the status of some ReplicaSets."""
    return sum((rs.get("status") or {}).get(field, 0) for rs in sets)


def available(sets: Iterable[Object]) -> int:
    """Return the available pods of some ReplicaSets."""
    return actual(sets, "availableReplicas")


def is_rolling(deployment: Object) -> bool:
    """Return True for the strategy RollingUpdate."""
    return bool((deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


def limits(deployment: Object) -> tuple[int, int]:
    """Return the pods that a rollout may have above and below the wanted number (ResolveFenceposts)."""
    if not is_rolling(deployment):
        return 0, 0
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    count = replicas(deployment)
    surge = _part(rolling.get("maxSurge", "25%"), count, up=True)
    missing = _part(rolling.get("maxUnavailable", "25%"), count, up=False)
    if surge == 0 and missing == 0:
        missing = 1  # otherwise nothing could ever move
    return surge, min(missing, count)


def _part(value: int | str, whole: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * whole / 100
    return math.ceil(share) if up else math.floor(share)


def annotation(obj: Object, name: str) -> int:
    """Return an annotation that is a number, or 0."""
    text = (obj["metadata"].get("annotations") or {}).get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def copied_annotations(deployment: Object) -> dict[str, str]:
    """Return the annotations of a Deployment that its ReplicaSets have too."""
    given = deployment["metadata"].get("annotations") or {}
    return {key: value for key, value in given.items() if key not in _NOT_COPIED}


def new_size(deployment: Object, sets: Iterable[Object], newest: Object) -> int:
    """Return the size to which the newest ReplicaSet may grow now (NewRSNewReplicas)."""
    if not is_rolling(deployment):
        return replicas(deployment)
    room = replicas(deployment) + limits(deployment)[0] - wanted(sets)
    if room <= 0:
        return replicas(newest)
    return replicas(newest) + min(room, replicas(deployment) - replicas(newest))


def proportion(deployment: Object, replica_set: Object, to_add: int, added: int) -> int:
    """Return the share of a ReplicaSet in pods to add or remove (GetReplicaSetProportion)."""
    size = replicas(replica_set)
    if size == 0 or to_add in (0, added):
        return 0
    if replicas(deployment) == 0:
        share = -size
    else:
        before = annotation(replica_set, MAXIMUM) or (deployment.get("status") or {}).get("replicas", 0) or size
        share = math.floor(size * (replicas(deployment) + limits(deployment)[0]) / before + 0.5) - size
    left = to_add - added
    return min(share, left) if to_add > 0 else max(share, left)
