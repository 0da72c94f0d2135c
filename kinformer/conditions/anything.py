"""Conditions for objects of any kind: a status condition, a value, a deletion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, cast

from kinformer.objects.accessors import number_at, tables_at, uid_of
from kinformer.objects.json_path import parse_path

__all__ = ["Check", "Object", "condition_status", "false_of_none", "has_condition", "is_deleted", "matches"]

Object: TypeAlias = Mapping[str, Any]


class Check(Protocol):
    """A condition that is false for None, so that `wait_for` with it returns an object."""

    false_of_none: Literal[True]

    def __call__(self, obj: Object | None, /) -> bool:
        """Return True if the condition holds."""
        ...


def false_of_none(check: Callable[[Object | None], bool]) -> Check:
    """Mark a condition as false for None, for type checkers."""
    marked = cast("Check", check)
    marked.false_of_none = True
    return marked


_TEXTS = {True: "True", False: "False", None: "Unknown"}
_ANY: Any = object()


def has_condition(type: str, status: bool | str | None = True) -> Check:  # noqa: A002 - the field's word
    """Return the condition that a status condition has this status, as in `kubectl wait --for=condition=Ready`.

    (kubectl, pkg/cmd/wait/condition.go, `checkCondition`)

    Type and status are compared case-insensitively. A status for an earlier generation of the object does not count,
    according to its observedGeneration or the observedGeneration of `status`. (`kinformer.objects.condition_is(obj,
    "Ready")` checks one object.)

    Args:
        type: The type, such as `"Ready"`.
        status: True, False, None for `Unknown`, or the status as a string.

    Raises:
        TypeError: The type is not a string, but for example an object, as for `kinformer.objects.condition_is`.
    """
    if not isinstance(type, str):
        raise TypeError(
            f"has_condition({type!r}): pass the type of a condition, such as 'Ready'; "
            "kinformer.objects.condition_is takes an object and a type"
        )
    wanted = status if isinstance(status, str) else _TEXTS[status]
    return _named(
        lambda obj: condition_status(obj, type).casefold() == wanted.casefold(),
        f"condition {type}" if wanted == "True" else f"condition {type}={wanted}",
    )


def condition_status(obj: Object | None, type: str) -> str:  # noqa: A002
    """Return the status of a condition, `"True"`, `"False"` or `"Unknown"`, or "" if there is no current one."""
    for one in tables_at(obj, "status", "conditions"):
        if str(one.get("type")).casefold() == type.casefold():
            observed = number_at(one, "observedGeneration") or number_at(obj, "status", "observedGeneration")
            if observed and observed < number_at(obj, "metadata", "generation"):
                return ""
            return str(one.get("status") or "")
    return ""


def is_deleted(uid: str | None = None) -> Callable[[Object | None], bool]:
    """Return the condition that there is no object or, with `uid`, that another object now has its name.

    (kube-rs, kube-runtime/src/wait.rs, `is_deleted`)

    Raises:
        ValueError: The uid is empty or not a string, so every object would count as deleted.
    """
    if uid is not None and (not isinstance(uid, str) or not uid):
        raise ValueError(f"is_deleted({uid!r}): pass the uid of the object, `obj.uid`, or no argument for any object")

    def check(obj: Object | None) -> bool:
        return obj is None or (uid is not None and uid_of(obj) != uid)

    check.__name__ = "deletion"
    return check


def matches(path: str, value: object = _ANY) -> Check:
    """Return the condition that a JSON path has this value or, without `value`, any value.

    `kubectl wait --for=jsonpath='{.spec.nodeName}'=node-1` is `matches("spec.nodeName", "node-1")` (kubectl,
    pkg/cmd/wait/json.go, `compareResults`). As there, a string matches a number or boolean with the same
    representation. For a path with a wildcard, `"spec.containers[*].image"`, at least one value must match.

    Raises:
        ConfigError: The path is invalid. The message names the position.
    """
    parsed = parse_path(path)

    def check(obj: Object | None) -> bool:
        if obj is None:
            return False
        actual: Any = parsed.value(obj, None)
        values = actual if parsed.is_multiple else [actual]
        return any(one is not None and (value is _ANY or _is(one, value)) for one in values)

    return _named(check, path if value is _ANY else f"{path}={value}")


def _is(found: object, wanted: object) -> bool:
    if isinstance(wanted, str) and not isinstance(found, (str, list, dict)):
        found = str(found).lower() if isinstance(found, bool) else str(found)
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return found == wanted


def _named(check: Callable[[Object | None], bool], name: str) -> Check:
    """Name a condition for errors."""
    check.__name__ = name
    return false_of_none(check)
