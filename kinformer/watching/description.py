"""The state of an object in a few words, for the error of a wait that came to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kinformer.objects.object import KubeObject
from kinformer.objects.pod_status import PodState

__all__ = ["describe_object"]

_MOST = 6  # conditions
_LONGEST = 120  # characters of a message


def describe_object(obj: KubeObject | None) -> str:
    """Return the state of an object as the end of a sentence: `is Pending, Ready=False (...), at resourceVersion 7`."""
    if obj is None:
        return "is absent"
    return "is " + ", ".join(_parts(obj))


def _parts(obj: KubeObject) -> Iterator[str]:
    status: Any = obj.get("status")
    status = status if isinstance(status, Mapping) else {}
    if obj.kind == "Pod":
        state = PodState.of(obj)
        yield f"{state.reason or 'without a phase'} ({state.ready}/{state.total} containers ready)"
    elif isinstance(status.get("phase"), str):
        yield status["phase"]
    conditions = status.get("conditions")
    for one in (conditions if isinstance(conditions, list) else [])[:_MOST]:
        yield _condition(one)
    metadata: Any = obj.get("metadata") or {}
    if metadata.get("deletionTimestamp"):
        finalizers = ", ".join(metadata.get("finalizers") or ())
        yield f"being deleted since {metadata['deletionTimestamp']}" + (f" (waits for {finalizers})" * bool(finalizers))
    yield f"at resourceVersion {obj.resource_version}"


def _condition(one: Mapping[str, Any]) -> str:
    status, reason, message = one.get("status"), one.get("reason") or "", one.get("message") or ""
    if status == "True" or not (reason or message):
        return f"{one.get('type')}={status}"
    text = f"{reason}: {message}" if reason and message else reason or message
    return f"{one.get('type')}={status} ({text if len(text) <= _LONGEST else text[:_LONGEST] + '...'})"
