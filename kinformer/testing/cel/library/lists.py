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


def _order(left: Any, right: Any) -> int:
    if isinstance(left, (Timestamp, Duration)) and type(left) is type(right):
        return _order(left.nanos, right.nanos)
    if kind_of(left) != kind_of(right) and not {kind_of(left), kind_of(right)} <= {"int", "uint", "double"}:
        raise no_overload()
    return int(left > right) - int(left < right)


def _order_if_any(left: Any, right: Any) -> int:
    """Compare two items. Returns 0 if they have no order, as cel-go does here."""
    try:
        return _order(left, right)
    except (CELError, TypeError):
        return 0


def _is_sorted(items: list[Any]) -> bool:
    return all(_order_if_any(left, right) <= 0 for left, right in pairwise(items))


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise CELError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if _order_if_any(item, best) == sign:
                best = item
        return best

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


def _index_of(items: list[Any], sought: Any) -> int:
    return next((index for index, item in enumerate(items) if equal(item, sought)), -1)


def _last_index_of(items: list[Any], sought: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if equal(items[index], sought)), -1)


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
    flat: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth:
            flat += _flatten(item, depth - 1)
        else:
            flat.append(item)
    return flat


def _range(count: int) -> list[int]:
    if count > _LONGEST:
        raise CostExceeded("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def _distinct(items: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    for item in items:
        if _index_of(distinct, item) < 0:
            distinct.append(item)
    return distinct


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


def _contains_all(items: list[Any], members: list[Any]) -> bool:
    return all(_index_of(items, member) >= 0 for member in members)


def add_lists(library: Library) -> None:
    """Add Kubernetes' list functions, and cel-go's list and set functions."""
    of_all = tuple(f"list({kind})" for kind in _COMPARABLE)
    library.add("isSorted", *(f"{list_type}.() -> bool" for list_type in of_all), run=_is_sorted, cost=_length)
    for kind in ("int", "uint", "double"):
        empty: Any = {"int": 0, "uint": UInt(0), "double": 0.0}[kind]
        library.add("sum", f"list({kind}).() -> {kind}", run=_sum_from(empty), cost=_length)
    library.add("sum", "list(duration).() -> duration", run=_sum_of_durations, cost=_length)
    for name, sign in (("min", -1), ("max", 1)):
        signatures = (f"list({kind}).() -> {kind}" for kind in _COMPARABLE)
        library.add(name, *signatures, run=_extreme(name, sign), cost=_length)
    library.add("indexOf", "list(A).(A) -> int", run=_index_of, cost=_length)
    library.add("lastIndexOf", "list(A).(A) -> int", run=_last_index_of, cost=_length)
    library.add("slice", "list(T).(int, int) -> list(T)", run=_slice, cost=_length)
    library.add("flatten", "list(list(T)).() -> list(T)", "list(dyn).(int) -> list(dyn)", run=_flatten, cost=_length)
    library.add("sort", *(f"{list_type}.() -> {list_type}" for list_type in of_all), run=_sorted, cost=_squared)
    by_keys = (f"list(T).({list_type}) -> list(T)" for list_type in of_all)
    library.add("@sortByAssociatedKeys", *by_keys, run=_sorted_by, cost=_squared)
    library.add("lists.range", "(int) -> list(int)", run=_range)
    library.add("reverse", "list(T).() -> list(T)", run=lambda items: list(reversed(items)), cost=_length)
    library.add("distinct", "list(T).() -> list(T)", run=_distinct, cost=_squared)
    library.add("sets.contains", "(list(T), list(T)) -> bool", run=_contains_all, cost=_product)
    library.add(
        "sets.equivalent",
        "(list(T), list(T)) -> bool",
        run=lambda left, right: _contains_all(left, right) and _contains_all(right, left),
        cost=_product,
    )
    library.add(
        "sets.intersects",
        "(list(T), list(T)) -> bool",
        run=lambda left, right: any(_index_of(right, item) >= 0 for item in left),
        cost=_product,
    )


def _sum_from(empty: Any) -> Callable[[list[Any]], Any]:
    return lambda items: _sum_of_ints(items) if items else empty
