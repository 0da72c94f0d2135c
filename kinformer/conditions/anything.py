"""Conditions of objects of any kind: a status condition, a value, a deletion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, cast

from kinformer.objects.accessors import uid_of
from kinformer.objects.json_path import parse_path

__all__ = ["Check", "Object", "condition_status", "false_of_none", "has_condition", "is_deleted", "matches"]

Object: TypeAlias = Mapping[str, Any]


class Check(Protocol):
    """A condition that is false of None, which is not an object: so `wait_for` with it returns an object."""

    false_of_none: Literal[True]

    def __call__(self, obj: Object | None, /) -> bool:
        """Return True if the condition holds."""
        ...


def false_of_none(check: Callable[[Object | None], bool]) -> Check:
    """Mark a condition as one that is false of None, for type checkers."""
    marked = cast("Check", check)
    marked.false_of_none = True
    return marked


_TEXTS = {True: "True", False: "False", None: "Unknown"}
_ANY: Any = object()


def has_condition(type: str, status: bool | str | None = True) -> Check:  # noqa: A002 - the field's word
    """Return the condition that a status condition has this status, as `kubectl wait --for=condition=Ready` takes it.

    (kubectl, pkg/cmd/wait/condition.go, `checkCondition`)

    Type and status are compared without regard to case. A status that was written for an earlier generation of the
    object does not count, if its observedGeneration, or that of `status`, says so.
    (`kinformer.objects.condition_is(obj, "Ready")` answers for one object.)

    Args:
        type: Such as `"Ready"`.
        status: True, False, None for `Unknown`, or the text.

    Raises:
        TypeError: The type is not text, such as an object: that is how `kinformer.objects.condition_is` is called.
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
    """Return the status of a condition, `"True"`, `"False"` or `"Unknown"`; "" if there is none that is current."""
    if obj is None:
        return ""
    status = _table(obj, "status")
    for one in status.get("conditions") or ():
        if isinstance(one, Mapping) and str(one.get("type")).casefold() == type.casefold():
            generation = _table(obj, "metadata").get("generation") or 0
            observed = one.get("observedGeneration") or status.get("observedGeneration")
            if isinstance(observed, int) and observed < generation:
                return ""
            return str(one.get("status") or "")
    return ""


def is_deleted(uid: str | None = None) -> Callable[[Object | None], bool]:
    """Return the condition that there is no object or, with `uid`, that another one has its name by now.

    (kube-rs, kube-runtime/src/wait.rs, `is_deleted`)

    Raises:
        ValueError: The uid is empty or not a string: every object would count as deleted.
    """
    if uid is not None and (not isinstance(uid, str) or not uid):
        raise ValueError(f"is_deleted({uid!r}): pass the uid of the object, `obj.uid`, or none for any object")

    def check(obj: Object | None) -> bool:
        return obj is None or (uid is not None and uid_of(obj) != uid)

    check.__name__ = "deletion"
    return check


def matches(path: str, value: object = _ANY) -> Check:
    """Return the condition that the value at a JSON path is this one; without `value`, that there is one.

    `kubectl wait --for=jsonpath='{.spec.nodeName}'=node-1` is `matches("spec.nodeName", "node-1")` (kubectl,
    pkg/cmd/wait/json.go, `compareResults`). A text matches a number or a boolean that prints like it, as there. Of a
    path with a wildcard, `"spec.containers[*].image"`, one value has to match.

    Raises:
        ConfigError: The path does not parse; the text names the position.
    """
    parsed = parse_path(path)

    def check(obj: Object | None) -> bool:
        if obj is None:
            return False
        found: Any = parsed.value(obj, None)
        values = found if parsed.is_multiple else [found]
        return any(one is not None and (value is _ANY or _is(one, value)) for one in values)

    return _named(check, path if value is _ANY else f"{path}={value}")


def _is(found: object, wanted: object) -> bool:
    if isinstance(wanted, str) and not isinstance(found, (str, list, dict)):
        found = str(found).lower() if isinstance(found, bool) else str(found)
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return found == wanted


def _table(obj: Object, key: str) -> Object:
    found = obj.get(key)
    return found if isinstance(found, Mapping) else {}


def _named(check: Callable[[Object | None], bool], name: str) -> Check:
    """Give a condition the name that errors have."""
    check.__name__ = name
    return false_of_none(check)
