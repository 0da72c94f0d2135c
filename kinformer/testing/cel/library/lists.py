"""Functions of lists and sets: sums, extremes, sorting, slices, and set operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from kinformer.testing.cel.functions import Library
from kinformer.testing.cel.library.standard import whole
from kinformer.testing.cel.values import CELError, CostExceeded, Duration, Timestamp, UInt, equal, kind_of, no_overload

__all__ = ["add_lists"]

_LONGEST = 1_000_000  # items of a range, each of which costs at least 1
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _order(one: Any, two: Any) -> int:
    if isinstance(one, (Timestamp, Duration)) and type(one) is type(two):
        return _order(one.nanos, two.nanos)
    if kind_of(one) != kind_of(two) and not {kind_of(one), kind_of(two)} <= {"int", "uint", "double"}:
        raise no_overload()
    return int(one > two) - int(one < two)


def _order_if_any(one: Any, two: Any) -> int:
    """Compare two items. Returns 0 if they have no order, as cel-go does here."""
    try:
        return _order(one, two)
    except (CELError, TypeError):
        return 0


def _is_sorted(items: list[Any]) -> bool:
    return all(_order_if_any(one, two) <= 0 for one, two in pairwise(items))


def _extreme(name: str, wanted: int) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise CELError(f"{name} called on empty list")
        found = items[0]
        for item in items[1:]:
            if _order_if_any(item, found) == wanted:
                found = item
        return found

    return run


def _sum_of_ints(items: list[Any]) -> Any:
    kinds = {kind_of(item) for item in items}
    if "double" in kinds:
        return float(sum(items))
    if kinds & {"google.protobuf.Duration"}:
        return _sum_of_durations(items)
    return UInt(sum(items)) if kinds == {"uint"} else whole(sum(items))


def _sum_of_durations(items: list[Any]) -> Duration:
    return Duration(whole(sum(item.nanos for item in items)))


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if equal(items[index], wanted)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CELError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CELError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise CELError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CELError("level must be non-negative")
    found: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth:
            found += _flatten(item, depth - 1)
        else:
            found.append(item)
    return found


def _range(count: int) -> list[int]:
    if count > _LONGEST:
        raise CostExceeded("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if _index_of(found, item) < 0:
            found.append(item)
    return found


def _sorted(items: list[Any]) -> list[Any]:
    return sorted(items, key=cmp_to_key(_order))


def _sorted_by(items: list[Any], keys: list[Any]) -> list[Any]:
    if len(items) != len(keys):
        raise CELError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got"
            f" {len(items)} and {len(keys)} elements respectively."
        )
    by_key = cmp_to_key(_order)
    order = sorted(range(len(items)), key=lambda index: by_key(keys[index]))
    return [items[index] for index in order]


def _product(sizes: Sequence[int]) -> int:
    return sizes[0] * sizes[1]


def _length(sizes: Sequence[int]) -> int:
    return sizes[0]


def _squared(sizes: Sequence[int]) -> int:
    return sizes[0] * sizes[0]


def _contains_all(items: list[Any], wanted: list[Any]) -> bool:
    return all(_index_of(items, one) >= 0 for one in wanted)


def add_lists(library: Library) -> None:
    """Add Kubernetes' list functions, and cel-go's list and set functions."""
    of_all = tuple(f"list({one})" for one in _COMPARABLE)
    library.add("isSorted", *(f"{one}.() -> bool" for one in of_all), run=_is_sorted, cost=_length)
    for one in ("int", "uint", "double"):
        empty: Any = {"int": 0, "uint": UInt(0), "double": 0.0}[one]
        library.add("sum", f"list({one}).() -> {one}", run=_sum_from(empty), cost=_length)
    library.add("sum", "list(duration).() -> duration", run=_sum_of_durations, cost=_length)
    for name, wanted in (("min", -1), ("max", 1)):
        signatures = (f"list({one}).() -> {one}" for one in _COMPARABLE)
        library.add(name, *signatures, run=_extreme(name, wanted), cost=_length)
    library.add("indexOf", "list(A).(A) -> int", run=_index_of, cost=_length)
    library.add("lastIndexOf", "list(A).(A) -> int", run=_last_index_of, cost=_length)
    library.add("slice", "list(T).(int, int) -> list(T)", run=_slice, cost=_length)
    library.add("flatten", "list(list(T)).() -> list(T)", "list(dyn).(int) -> list(dyn)", run=_flatten, cost=_length)
    library.add("sort", *(f"{one}.() -> {one}" for one in of_all), run=_sorted, cost=_squared)
    by_keys = (f"list(T).({one}) -> list(T)" for one in of_all)
    library.add("@sortByAssociatedKeys", *by_keys, run=_sorted_by, cost=_squared)
    library.add("lists.range", "(int) -> list(int)", run=_range)
    library.add("reverse", "list(T).() -> list(T)", run=lambda one: list(reversed(one)), cost=_length)
    library.add("distinct", "list(T).() -> list(T)", run=_distinct, cost=_squared)
    library.add("sets.contains", "(list(T), list(T)) -> bool", run=_contains_all, cost=_product)
    library.add(
        "sets.equivalent",
        "(list(T), list(T)) -> bool",
        run=lambda one, two: _contains_all(one, two) and _contains_all(two, one),
        cost=_product,
    )
    library.add(
        "sets.intersects",
        "(list(T), list(T)) -> bool",
        run=lambda one, two: any(_index_of(two, item) >= 0 for item in one),
        cost=_product,
    )


def _sum_from(empty: Any) -> Callable[[list[Any]], Any]:
    return lambda items: _sum_of_ints(items) if items else empty
