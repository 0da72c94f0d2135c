"""Status conditions: a controller's report about its object, in the standard form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer.objects.accessors import number_at, tables_at
from kinformer.objects.object import KubeObject

__all__ = ["Condition", "Narrowing", "condition_is", "condition_of", "is_current", "is_observed", "with_conditions"]

# The server's validation rules (apimachinery, pkg/apis/meta/v1/types.go, Condition).
_TYPE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_STATUS = {True: "True", False: "False", None: "Unknown"}
_MESSAGE = 32768


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition.

    Args:
        type: The type in CamelCase, such as `"Ready"`.
        status: True, False, or None for unknown.
        reason: The reason as one word in CamelCase, for programs. It is part of an API.
        message: The reason for people. It may be empty.

    Raises:
        ValueError: The server would reject a field. The message names it.
    """

    type: str
    status: bool | None
    reason: str
    message: str = ""

    def __post_init__(self) -> None:
        if not _TYPE.fullmatch(self.type) or len(self.type) > 316:
            raise ValueError(f"Condition(type={self.type!r}): must be a word such as 'Ready'")
        if self.status not in (True, False, None):
            raise ValueError(f"Condition(status={self.status!r}): must be True, False or None")
        if not _REASON.fullmatch(self.reason) or len(self.reason) > 1024:
            raise ValueError(f"Condition(reason={self.reason!r}): must be a word such as 'MinimumReplicasAvailable'")
        if len(self.message) > _MESSAGE:
            raise ValueError(f"Condition(message=...): {len(self.message)} characters, must be at most {_MESSAGE}")


def condition_of(obj: Mapping[str, object], type: str) -> dict[str, Any] | None:  # noqa: A002 - the field's word
    """Return the condition of this type in `status.conditions` as a dict, or None if there is none."""
    return next((condition for condition in _conditions(obj) if condition.get("type") == type), None)


def condition_is(obj: Mapping[str, object] | None, type: str, status: bool | None = True) -> bool:  # noqa: A002
    """Return True if the object has the condition with this status, for its current generation.

    A condition without an observedGeneration counts as current.
    """
    entry = None if obj is None else condition_of(obj, type)
    if entry is None or obj is None:
        return False
    return entry.get("status") == _STATUS[status] and entry.get("observedGeneration", 0) in (0, _generation(obj))


def is_current(condition: Mapping[str, object], obj: Mapping[str, object] | None) -> bool:
    """Return True unless a condition, or the status that it is in, is for an earlier generation of its object."""
    observed = number_at(condition, "observedGeneration") or number_at(obj, "status", "observedGeneration")
    return not observed or observed >= number_at(obj, "metadata", "generation")


def is_observed(obj: Mapping[str, object]) -> bool:
    """Return True if the status is that of the newest spec, according to the observedGeneration of the status."""
    return number_at(obj, "status", "observedGeneration") >= number_at(obj, "metadata", "generation")


def with_conditions(obj: Mapping[str, object], *conditions: Condition, clock: Clock = SYSTEM) -> list[dict[str, Any]]:
    """Return the conditions of an object with these set, for its next status.

    (apimachinery, pkg/api/meta/conditions.go)

    Each gets the generation of `obj` as its observedGeneration. `lastTransitionTime` is kept if the status stays the
    same, and is set to now if it changes. So if nothing has changed, the list equals the current one, and there is
    nothing to write. Other conditions and additional fields are kept, in order. New conditions are added at the end.
    """
    result = _conditions(obj)
    generation = _generation(obj)
    for condition in conditions:
        entry: dict[str, Any] = {
            "type": condition.type,
            "status": _STATUS[condition.status],
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": datetime.fromtimestamp(clock.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if generation:
            entry["observedGeneration"] = generation
        for index, old in enumerate(result):
            if old.get("type") == condition.type:
                if old.get("status") == entry["status"] and old.get("lastTransitionTime"):
                    entry["lastTransitionTime"] = old["lastTransitionTime"]
                result[index] = {**old, **entry}
                if not condition.message and "message" not in old:
                    del result[index]["message"]  # the server omits empty messages in pod conditions
                break
        else:
            result.append(entry)
    return result


def _conditions(obj: Mapping[str, object]) -> list[dict[str, Any]]:
    return [dict(condition) for condition in tables_at(obj, "status", "conditions")]


def _generation(obj: Mapping[str, object]) -> int:
    if isinstance(obj, KubeObject):
        return obj.generation
    return number_at(obj, "metadata", "generation")


class _FalseOfNone(Protocol):
    """A condition of `kinformer.conditions` that is false for None."""

    false_of_none: Literal[True]

    def __call__(self, obj: Mapping[str, Any] | None, /) -> bool: ...


Narrowing: TypeAlias = _FalseOfNone | Callable[[KubeObject | None], TypeGuard[KubeObject]]
"""A condition that is false for None, so that it only holds for an object."""
