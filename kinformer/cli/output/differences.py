"""Differences between two states of an object, path by path."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rich.text import Text

from kinformer import KubeObject
from kinformer.cli.output.text import clean
from kinformer.exceptions import DecodeError

__all__ = ["ABSENT", "NOISE", "Difference", "difference_lines", "differences", "in_words", "object_differences"]

NOISE: Final = frozenset({"metadata.resourceVersion", "metadata.managedFields", "metadata.generation"})
"""Paths that change with every write and carry no information."""

_LONGEST = 120  # maximum characters of a value to show
_BEFORE = 20  # equal characters to keep before the first difference
_HIDDEN = "(hidden)"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # an annotation that contains a Secret's data


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


def object_differences(old: KubeObject, new: KubeObject, noise: Collection[str] = NOISE) -> list[Difference]:
    """Return the places in which two states of an object differ."""
    return list(differences(old.to_dict(), new.to_dict(), noise))


def differences(old: Any, new: Any, noise: Collection[str] = NOISE, path: str = "") -> Iterator[Difference]:
    """Yield the deepest places in which two JSON values differ. List items are matched by name or type.

    Args:
        old, new: The values.
        noise: Paths to leave out.
        path: The path of the two values: `"spec.containers[web].image"`.
    """
    if path in noise:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            place = f"{path}.{key}" if path else key
            if "." in key or "/" in key:
                place = f"{path}[{key}]"
            yield from _member(old, new, key, noise, place)
        return
    by_name = _by_name(old), _by_name(new)
    if by_name[0] is not None and by_name[1] is not None:
        for key in [*by_name[0], *(key for key in by_name[1] if key not in by_name[0])]:
            yield from _member(by_name[0], by_name[1], key, noise, f"{path}[{key}]")
        return
    if old != new or _text(old) != _text(new):  # 1 equals True in Python, but not in JSON
        yield Difference(path, old, new)


def in_words(difference: Difference, obj: KubeObject) -> tuple[str, str, str]:
    """Describe a difference as a sign (`+` added, `-` removed, `~` changed), its path, and its values.

    Long values are cut to the part that differs. Values of Secrets are not shown.
    """
    path, old, new = difference
    if obj.kind == "Secret":
        old, new = _hidden(old, path), _hidden(new, path)
    if old is ABSENT:
        return "+", path, _cut(_shown(new))
    if new is ABSENT:
        return "-", path, _cut(_shown(old))
    was, is_now = _shown(old), _shown(new)
    same = next((n for n, (a, b) in enumerate(zip(was, is_now, strict=False)) if a != b), 0)
    if max(len(was), len(is_now)) > _LONGEST and same > 2 * _BEFORE:
        was, is_now = (f"…{value[same - _BEFORE :]}" for value in (was, is_now))
    return "~", path, f"{_cut(was)} → {_cut(is_now)}"


def _hidden(value: Any, path: str) -> Any:
    """Return a value of a Secret without its secret data."""
    if value is ABSENT:
        return value
    field = path.partition(".")[0].partition("[")[0]
    if field in ("data", "stringData") or path == f"metadata.annotations[{_LAST_APPLIED}]":
        return _HIDDEN
    if isinstance(value, dict) and _LAST_APPLIED in value:  # all annotations were added or removed together
        return {**value, _LAST_APPLIED: _HIDDEN}
    return value


def _member(
    old: Mapping[str, Any], new: Mapping[str, Any], key: str, noise: Collection[str], place: str
) -> Iterator[Difference]:
    if place in noise:
        return
    if key not in new:
        yield Difference(place, old[key], ABSENT)
    elif key not in old:
        yield Difference(place, ABSENT, new[key])
    else:
        yield from differences(old[key], new[key], noise, place)


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


_SIGNS = {"+": "green", "-": "red", "~": "yellow"}


def difference_lines(old: KubeObject, new: KubeObject, noise: frozenset[str]) -> Sequence[Text]:
    """Describe an update with a line for each difference, or one line if it is nested too deeply to be compared."""
    try:
        found = [in_words(difference, new) for difference in object_differences(old, new, noise)]
    except (DecodeError, RecursionError):
        return [Text("    <unreadable>", "bright_black")]
    if not found:
        return [Text("    only fields that are left out", "bright_black")]
    lines = []
    for sign, path, values in found:
        lines.append(Text.assemble(f"    {sign} ", (f"{clean(path)}: ", _SIGNS[sign]), clean(values)))
    return lines
