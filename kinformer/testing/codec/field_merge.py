"""Merges and compares documents of one type, and finds the fields that a document sets.

A port of structured-merge-diff (typed/merge.go, compare.go, remove.go, tofieldset.go). Empty maps, empty lists and
nulls are handled as there: a null or an empty map counts as a set field, and an empty list of items does not. Neither
removes anything from the document that it is merged into.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kinformer.testing.codec.field_sets import Path, item_element, member_element
from kinformer.testing.kinds.schema import ANY, SchemaNode

__all__ = ["FieldComparison", "compare", "merge", "remove", "set_fields", "with_named_fields"]

Object = dict[str, Any]

ABSENT: Final = object()  # unlike null, which is a value


class FieldComparison:
    """The paths that differ between two documents. `compare` adds each path to at most one of the sets."""

    def __init__(self) -> None:
        self.removed: set[Path] = set()
        self.modified: set[Path] = set()
        self.added: set[Path] = set()

    @property
    def written(self) -> set[Path]:
        """The paths that were added or modified."""
        return self.modified | self.added


def _kind(node: SchemaNode, value: Any) -> str:
    """Return the form of a value: `map`, `list`, `scalar`, or `""` if the type leaves it to the value."""
    if node.kind != "any":
        return {"struct": "map", "map": "map", "list": "list"}.get(node.kind, "scalar")
    if isinstance(value, dict):
        return "map"
    if isinstance(value, list):
        return "list"
    return "" if value is ABSENT or value is None else "scalar"


def _forms(node: SchemaNode, left: Any, right: Any) -> list[str]:
    """Return the forms in which to treat two values, in order. The last one decides."""
    if right is ABSENT:
        return [_kind(node, left) or "map"]
    form = _kind(node, right)
    before = form if left is ABSENT else _kind(node, left)
    return [form or "map"] if before == form else [before or "map", form or "map"]


def _items(node: SchemaNode, values: list[Any]) -> list[str] | None:
    """Return the path elements of a list's items, or None for a list that is a single value."""
    if node.kind != "list":
        return None
    if node.keys_of(values):
        return [item_element(node, item) for item in values]
    if node.list_type == "set":
        return [member_element(item) for item in values]
    return [] if node.list_type == "map" and not values else None


# -- the fields that a document sets ----------------------------------------------------------------------------------


def set_fields(node: SchemaNode, value: Any) -> set[Path]:
    """Return the paths that a document sets, which an applied configuration owns."""
    paths: set[Path] = set()
    _collect(node, value, (), paths)
    return paths


def _collect(node: SchemaNode, value: Any, path: Path, paths: set[Path]) -> None:
    form = _kind(node, value) or "map"
    if form == "scalar" or (form == "map" and node.atomic):
        paths.add(path)
    elif form == "map":
        fields = node.fields
        for name, inner in (value if isinstance(value, dict) else {}).items():
            below = (*path, f"f:{name}")
            _collect(node.child(name), inner, below, paths)
            if inner is None or inner == {} or name not in fields:
                paths.add(below)
    else:
        values = value if isinstance(value, list) else []
        elements = _items(node, values)
        if elements is None:
            paths.add(path)
            return
        item = node.item or ANY
        for element, inner in zip(elements, values, strict=True):
            below = (*path, element)
            paths.add(below)
            if elements.count(element) == 1:
                _collect(item, inner, below, paths)


def with_named_fields(node: SchemaNode, paths: Iterable[Path]) -> set[Path]:
    """Return the paths, with the struct fields leading to them, which have no separate owner."""
    named = set(paths)
    for path in list(named):
        at: SchemaNode | None = node
        for length, element in enumerate(path[:-1], start=1):
            if at is None:
                break
            name = element[2:] if element.startswith("f:") else None
            if name is not None:
                if name in at.fields:
                    named.add(path[:length])
                at = at.child(name)
            else:
                at = at.item if element.startswith("k:") else None
    return named


# -- merging ----------------------------------------------------------------------------------------------------------


def merge(node: SchemaNode, live: Any, applied: Any) -> Any:
    """Merge the applied document into the live one. The result may share parts with both."""
    merged = _merge(node, live, applied)
    return {} if merged is ABSENT else merged


def _merge(node: SchemaNode, left: Any, right: Any) -> Any:
    form = _forms(node, left, right)[-1]
    if form == "map":
        lefts, rights = (value if isinstance(value, dict) else {} for value in (left, right))
        if not node.atomic and (lefts or rights):
            merged = {}
            for name in [*lefts, *(name for name in rights if name not in lefts)]:
                both = _merge(node.child(name), lefts.get(name, ABSENT), rights.get(name, ABSENT))
                if both is not ABSENT:
                    merged[name] = both
            return merged or ABSENT
    elif form == "list":
        before, after = (value if isinstance(value, list) else [] for value in (left, right))
        elements = _items(node, [*before, *after])
        if elements is not None and (before or after):
            return _merge_items(node, before, after, elements) or ABSENT
    return left if right is ABSENT else right


def _merge_items(node: SchemaNode, before: list[Any], after: list[Any], elements: list[str]) -> list[Any]:
    """Merge the items of two lists. Common items are in the order of the applied list."""
    lefts, rights = elements[: len(before)], elements[len(before) :]
    # Duplicate items of the live list are not merged. The applied item replaces them.
    left_values = {
        element: None if lefts.count(element) > 1 else value for element, value in zip(lefts, before, strict=True)
    }
    right_values = dict(zip(rights, after, strict=True))
    shared = [element for element in rights if element in left_values]
    item = node.item or ANY
    merged: list[Any] = []
    done: set[str] = set()

    def take(left: Any, right: Any) -> None:
        both = _merge(item, left, right)
        if both is not ABSENT:
            merged.append(both)

    def take_applied(element: str) -> None:
        done.add(element)
        take(left_values.get(element, ABSENT), right_values[element])

    at_left = at_right = 0
    while at_left < len(lefts) or at_right < len(rights):
        left = lefts[at_left] if at_left < len(lefts) else None
        if left is not None and at_right < len(rights):
            if left == rights[at_right]:
                take_applied(left)
                at_left, at_right, shared = at_left + 1, at_right + 1, shared[1:]
                continue
            if left in right_values and shared and shared[0] != left:
                at_left += 1  # it follows with the applied list
                continue
        if left is not None:
            if left not in right_values:
                take(before[at_left], ABSENT)
                at_left += 1
                continue
            if left in done:
                at_left += 1
        if at_right < len(rights):
            element = rights[at_right]
            take_applied(element)
            at_right += 1
            if shared and shared[0] == element:
                shared = shared[1:]
    return merged


# -- removing fields --------------------------------------------------------------------------------------------------


class _Branch:
    """A set of paths as a tree, which `remove` builds. `member` is True where a path of the set ends."""

    __slots__ = ("below", "member")

    def __init__(self) -> None:
        self.member = False
        self.below: dict[str, _Branch] = {}


def remove(node: SchemaNode, value: Any, paths: Iterable[Path]) -> Any:
    """Return the document without these fields and items. A map or list that becomes empty turns into null."""
    root = _Branch()
    for path in paths:
        branch = root
        for element in path:
            branch = branch.below.setdefault(element, _Branch())
        branch.member = True
    return _remove(node, value, root)


def _remove(node: SchemaNode, value: Any, branch: _Branch) -> Any:
    if isinstance(value, dict):
        if node.atomic:
            return None
        kept = {}
        for name, inner in value.items():
            below = branch.below.get(f"f:{name}")
            if below is None:
                kept[name] = inner
            elif not below.member:
                kept[name] = _remove(node.child(name), inner, below)
        return kept or None
    if isinstance(value, list):
        elements = _items(node, value)
        if elements is None:
            return None
        left = []
        for element, inner in zip(elements, value, strict=True):
            below = branch.below.get(element)
            if below is None:
                left.append(inner)
            elif not below.member:
                left.append(_remove(node.item or ANY, inner, below))
        return left or None
    return value


# -- the difference of two documents ----------------------------------------------------------------------------------


def compare(node: SchemaNode, old: Any, new: Any) -> FieldComparison:
    """Return the paths that a change from `old` to `new` removes, modifies and adds."""
    difference = FieldComparison()
    _compare(node, old, new, (), difference)
    return difference


def _compare(node: SchemaNode, left: Any, right: Any, path: Path, difference: FieldComparison) -> None:
    if left == right:
        return
    is_leaf = False
    for form in _forms(node, left, right):
        if form == "map":
            is_leaf = not _compare_maps(node, left, right, path, difference)
        elif form == "list":
            is_leaf = not _compare_lists(node, left, right, path, difference)
        else:
            is_leaf = True
        if is_leaf and left is not ABSENT and right is not ABSENT:
            difference.modified.add(path)
    if left is ABSENT:
        difference.added.add(path)
    elif right is ABSENT:
        difference.removed.add(path)


def _compare_maps(node: SchemaNode, left: Any, right: Any, path: Path, difference: FieldComparison) -> bool:
    """Compare field by field. Returns False if both are atomic values."""
    lefts, rights = (value if isinstance(value, dict) else {} for value in (left, right))
    if node.atomic or not (lefts or rights):
        return False
    for name in lefts.keys() | rights.keys():
        below = (*path, f"f:{name}")
        _compare(node.child(name), lefts.get(name, ABSENT), rights.get(name, ABSENT), below, difference)
    return True


def _compare_lists(node: SchemaNode, left: Any, right: Any, path: Path, difference: FieldComparison) -> bool:
    """Compare item by item. Returns False if both are atomic values."""
    lefts, rights = (value if isinstance(value, list) else [] for value in (left, right))
    elements = _items(node, [*lefts, *rights])
    if elements is None or not (lefts or rights):
        return False
    before = _grouped(elements[: len(lefts)], lefts)
    after = _grouped(elements[len(lefts) :], rights)
    item = node.item or ANY
    for element in [*before, *(added for added in after if added not in before)]:
        below = (*path, element)
        old, new = before.get(element, []), after.get(element, [])
        if len(old) < 2 and len(new) < 2:
            _compare(item, old[0] if old else ABSENT, new[0] if new else ABSENT, below, difference)
        elif len(old) > 1 and len(new) > 1:
            if old != new:
                difference.modified.add(below)
        elif len(old) > 1:
            if new:
                _compare(item, ABSENT, new[0], below, difference)
            difference.removed.add(below)
        else:
            if old:
                _compare(item, old[0], ABSENT, below, difference)
            difference.added.add(below)
    return True


def _grouped(elements: list[str], values: list[Any]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for element, value in zip(elements, values, strict=True):
        grouped.setdefault(element, []).append(value)
    return grouped
