"""Status conditions: what an object's controller says of it, in the form that kubectl and people read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer.objects.object import KubeObject

__all__ = ["Condition", "condition_of", "has_condition", "with_conditions"]

# apimachinery, pkg/apis/meta/v1/types.go, Condition: what a server's validation asks for.
_TYPE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_STATUS = {True: "True", False: "False", None: "Unknown"}
_MESSAGE = 32768


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition.

    Args:
        type: In CamelCase, `"Ready"`.
        status: True, False, or None for unknown.
        reason: Why, as one word in CamelCase: it is part of an API, programs read it.
        message: Why, for people; may be empty.

    Raises:
        ValueError: A part that the server would not take, by name.
    """

    type: str
    status: bool | None
    reason: str
    message: str = ""

    def __post_init__(self) -> None:
        if not _TYPE.fullmatch(self.type) or len(self.type) > 316:
            raise ValueError(f"Condition(type={self.type!r}): a word such as 'Ready' is needed")
        if self.status not in (True, False, None):
            raise ValueError(f"Condition(status={self.status!r}): True, False or None")
        if not _REASON.fullmatch(self.reason) or len(self.reason) > 1024:
            raise ValueError(f"Condition(reason={self.reason!r}): a word such as 'MinimumReplicasAvailable' is needed")
        if len(self.message) > _MESSAGE:
            raise ValueError(f"Condition(message=...): {len(self.message)} characters; the server takes {_MESSAGE}")


def condition_of(obj: Mapping[str, Any], type: str) -> dict[str, Any] | None:  # noqa: A002 - the field's word
    """The condition of this type in `status.conditions`, as a dict; None where there is none."""
    return next((one for one in _conditions(obj) if one.get("type") == type), None)


def has_condition(obj: Mapping[str, Any] | None, type: str, status: bool | None = True) -> bool:  # noqa: A002
    """Whether the condition is there with this status, and speaks of the object's present generation.

    A condition without an observedGeneration is believed.
    """
    found = None if obj is None else condition_of(obj, type)
    if found is None or obj is None:
        return False
    return found.get("status") == _STATUS[status] and found.get("observedGeneration", 0) in (0, _generation(obj))


def with_conditions(obj: Mapping[str, Any], *conditions: Condition, clock: Clock = SYSTEM) -> list[dict[str, Any]]:
    """The object's list of conditions with these in it, for its next status (apimachinery, pkg/api/meta/conditions.go).

    Each gets the generation of `obj` as its observedGeneration. `lastTransitionTime` is kept where the status stays,
    and is now where it changes; so where nothing has changed the list equals the one that is there, and there is
    nothing to write. Other conditions stay, in their order, and so do further fields of one; new ones come last.
    """
    result = [dict(one) for one in _conditions(obj)]
    generation = _generation(obj)
    for condition in conditions:
        entry: dict[str, Any] = {
            "type": condition.type,
            "status": _STATUS[condition.status],
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": _timestamp(clock.wall()),
        }
        if generation:
            entry["observedGeneration"] = generation
        for index, old in enumerate(result):
            if old.get("type") == condition.type:
                if old.get("status") == entry["status"] and old.get("lastTransitionTime"):
                    entry["lastTransitionTime"] = old["lastTransitionTime"]
                result[index] = {**old, **entry}
                if not condition.message and "message" not in old:
                    del result[index]["message"]  # of a pod's conditions the server leaves out what is empty
                break
        else:
            result.append(entry)
    return result


def _conditions(obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    status = obj.get("status")
    found = status.get("conditions") if isinstance(status, Mapping) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _generation(obj: Mapping[str, Any]) -> int:
    if isinstance(obj, KubeObject):
        return obj.generation
    return (obj.get("metadata") or {}).get("generation") or 0


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
