"""Differences between two states of an object, path by path."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kinformer import KubeObject
from kinformer.objects import showable

__all__ = ["ABSENT", "NOISE", "Difference", "differences", "in_words", "object_differences"]

NOISE: Final = frozenset({"metadata.resourceVersion", "metadata.managedFields", "metadata.generation"})
"""Paths that change with every write and carry no information."""

_LONGEST = 120  # maximum characters of a value to show
_HIDDEN = "(hidden)"  # as in `showable`
_BEFORE = 20  # equal characters to keep before the first difference


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""Placeholder for a value that does not exist."""


class Difference(NamedTuple):
    """One place that differs. `old` is ABSENT if it was added, and `new` is ABSENT if it was removed."""

    path: str
    old: Any
    new: Any


class _Value(NamedTuple):
    """A value of an object, and what may be shown of it."""

    real: Any
    shown: Any

    def members(self) -> dict[str, _Value] | None:
        """Return the values of a dict by key, or the items of a list by name. None for any other value."""
        real = self.real if isinstance(self.real, dict) else _by_name(self.real)
        if real is None:
            return None
        shown = self.shown if isinstance(self.shown, dict) else _by_name(self.shown) or {}
        return {key: _Value(value, shown.get(key, _HIDDEN)) for key, value in real.items()}


def object_differences(
    old: KubeObject,
    new: KubeObject,
    noise: Collection[str] = NOISE,
    *,
    shown: Callable[[KubeObject], KubeObject] = showable,
) -> list[Difference]:
    """Return the places in which two states of an object differ, with what may be shown of the values.

    Changed values of a Secret are `"(hidden)"` on both sides.

    Args:
        old, new: The states.
        noise: Paths to leave out.
        shown: Returns what may be shown of an object.
    """
    return list(_differences(_value_of(old, shown), _value_of(new, shown), noise, ""))


def _value_of(obj: KubeObject, shown_of: Callable[[KubeObject], KubeObject]) -> _Value:
    real, shown = obj.to_dict(), shown_of(obj)
    return _Value(real, real if shown is obj else shown.to_dict())


def differences(old: Any, new: Any, noise: Collection[str] = NOISE, path: str = "") -> Iterator[Difference]:
    """Yield the deepest places in which two JSON values differ. List items are matched by name or type.

    Args:
        old, new: The values.
        noise: Paths to leave out.
        path: The path of the two values: `"spec.containers[web].image"`.
    """
    return _differences(_Value(old, old), _Value(new, new), noise, path)


def _differences(old: _Value, new: _Value, noise: Collection[str], path: str) -> Iterator[Difference]:
    if path in noise or _are_equal(old.real, new.real):
        return
    was, now = old.members(), new.members()
    if was is not None and now is not None and type(old.real) is type(new.real):
        for key in [*was, *(key for key in now if key not in was)]:
            is_item = isinstance(old.real, list) or "." in key or "/" in key
            place = f"{path}[{key}]" if is_item else f"{path}.{key}" if path else key
            yield from _member(was, now, key, noise, place)
    else:
        yield Difference(path, old.shown, new.shown)


def _are_equal(old: Any, new: Any) -> bool:
    """True if two values are the same JSON. 1 equals True in Python, but not in JSON."""
    return old == new and _text(old) == _text(new)


def in_words(difference: Difference) -> tuple[str, str, str]:
    """Describe a difference as a sign (`+` added, `-` removed, `~` changed), its path, and its values.

    Long values are cut to the part that differs.
    """
    path, old, new = difference
    if old is ABSENT:
        return "+", path, _cut(_shown(new))
    if new is ABSENT:
        return "-", path, _cut(_shown(old))
    was, is_now = _shown(old), _shown(new)
    same = next((n for n, (a, b) in enumerate(zip(was, is_now, strict=False)) if a != b), 0)
    if max(len(was), len(is_now)) > _LONGEST and same > 2 * _BEFORE:
        was, is_now = (f"…{value[same - _BEFORE :]}" for value in (was, is_now))
    return "~", path, f"{_cut(was)} → {_cut(is_now)}"


def _member(
    old: Mapping[str, _Value], new: Mapping[str, _Value], key: str, noise: Collection[str], place: str
) -> Iterator[Difference]:
    if place in noise:
        return
    if key not in new:
        yield Difference(place, old[key].shown, ABSENT)
    elif key not in old:
        yield Difference(place, ABSENT, new[key].shown)
    else:
        yield from _differences(old[key], new[key], noise, place)


def _by_name(value: Any) -> dict[str, Any] | None:
    """Return the items of a list by their name or type, or None unless all items have a unique one."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    for field in ("name", "type"):
        names = [item.get(field) for item in value]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return dict(zip(names, value, strict=True))
    return None


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shown(value: Any) -> str:
    return value if value == _HIDDEN else _text(value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
