"""Estimates of single calls, from the sizes of their operands.

See cel-go, checker/cost.go, ext/lists.go and ext/sets.go, and apiserver/pkg/cel/library/cost.go. The estimate decides
which rules a definition may have, so it follows these files to the unit, even where they count too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kinformer.testing.cel.functions import UNBOUNDED, Overload
from kinformer.testing.cel.source.syntax import Call, Literal, Node

__all__ = ["ANY_SIZE", "Operand", "Price", "Size", "fixed", "price_of", "scaled", "total"]

_TRAVERSAL = 0.1  # cost of a character
_REGEX = 0.25  # cost of a character of a pattern
_LIST_CALL = 11  # a call that makes a list
_SIZED = ("string", "bytes")
_LONGEST_FORMAT_REGEX, _LONGEST_FORMAT = 128, 64
_ADDRESS = 16  # bytes of an IPv6 address


class Size(NamedTuple):
    """The minimum and the maximum size of a value: characters, bytes, items or entries."""

    least: int
    most: int

    def joined(self, other: Size) -> Size:
        """Return the size of either of two values."""
        return Size(min(self.least, other.least), max(self.most, other.most))


class Operand(NamedTuple):
    """An operand of a call: its node, its size, and the size of its items if it is a list."""

    node: Node
    size: Size
    item: Size
    is_sized: bool  # True if the size is an estimate, False if nothing is known


class Price(NamedTuple):
    """The maximum cost of a call, and the size of its result if the call determines it."""

    cost: int
    size: Size | None = None


ANY_SIZE = Size(0, UNBOUNDED)


def fixed(size: int) -> Size:
    """Return a size that is known."""
    return Size(size, size)


def scaled(size: int, factor: float) -> int:
    """Return a cost: a size times a factor, rounded up."""
    return min(UNBOUNDED, math.ceil(float(size) * factor))


def price_of(call: Call, overload: Overload, operands: Sequence[Operand]) -> Price:
    """Return the cost of one overload of a call, without the costs of its operands."""
    estimate = _ESTIMATES.get(call.function)
    found = None if estimate is None else estimate(overload, operands)
    return Price(1) if found is None else found


def _product(one: int, two: int) -> int:
    return min(UNBOUNDED, one * two)


def total(*costs: int) -> int:
    """Return a sum of costs or sizes."""
    return min(UNBOUNDED, sum(costs))


# -- strings ----------------------------------------------------------------------------------------------------------


def _walk(overload: Overload, operands: Sequence[Operand]) -> Price:
    return Price(scaled(operands[0].size.most, _TRAVERSAL))


def _walk_same(overload: Overload, operands: Sequence[Operand]) -> Price:
    size = operands[0].size
    return Price(scaled(size.most, _TRAVERSAL), size)


def _walk_twice(overload: Overload, operands: Sequence[Operand]) -> Price:
    return Price(scaled(operands[0].size.most, 2 * _TRAVERSAL))


def _starts(overload: Overload, operands: Sequence[Operand]) -> Price:
    return Price(scaled(operands[1].size.most, _TRAVERSAL))


def _contains(overload: Overload, operands: Sequence[Operand]) -> Price:
    text, part = operands
    return Price(_product(scaled(text.size.most, _TRAVERSAL), scaled(part.size.most, _TRAVERSAL)))


def _search(operands: Sequence[Operand]) -> int:
    text, pattern = operands[0].size.most, operands[1].size.most
    return _product(scaled(total(text, 1), _TRAVERSAL), scaled(pattern, _REGEX))


def _matches(overload: Overload, operands: Sequence[Operand]) -> Price | None:
    return Price(_search(operands)) if overload.member else None


def _find(overload: Overload, operands: Sequence[Operand]) -> Price:
    return Price(_search(operands), Size(0, operands[0].size.most))


def _replace(overload: Overload, operands: Sequence[Operand]) -> Price:
    text, old, new = (one.size for one in operands[:3])
    most_kept = least_kept = most_times = least_times = 0
    if not old.least:  # an empty text is found before and behind each character
        most_times, most_kept = total(text.most, 1), text.most
    elif new.most <= old.least:
        most_kept = text.most
    else:
        most_times = _divided(text.most, old.least)
    if not old.most:
        least_times, least_kept = total(text.least, 1), text.least
    elif old.most <= new.least:
        least_kept = text.least
    else:
        least_times = _divided(text.least, old.most)
    size = Size(
        total(_product(least_times, new.least), least_kept),
        total(_product(most_times, new.most), most_kept),
    )
    return Price(scaled(text.most, 2 * _TRAVERSAL), size)


def _divided(one: int, two: int) -> int:
    return min(UNBOUNDED, math.ceil(one / two))


def _split(overload: Overload, operands: Sequence[Operand]) -> Price:
    text = operands[0].size
    most = text.most
    if len(operands) > 2:
        limit = operands[2].node
        if isinstance(limit, Literal):
            most = limit.value % (UNBOUNDED + 1)
    return Price(scaled(text.most, 2 * _TRAVERSAL), Size(0, most))


def _join(overload: Overload, operands: Sequence[Operand]) -> Price:
    items = operands[0]
    least = most = 0
    if items.node.type.kind == "list":
        least = _product(items.size.least, items.item.least)
        most = _product(items.size.most, items.item.most)
    if len(operands) > 1:
        between = operands[1].size
        least = total(least, _product(between.least, max(0, items.size.least - 1)))
        most = total(most, _product(between.most, max(0, items.size.most - 1)))
    return Price(scaled(most, _TRAVERSAL), Size(least, most))


def _quote(overload: Overload, operands: Sequence[Operand]) -> Price:
    size = operands[0].size
    return Price(scaled(size.most, _TRAVERSAL), Size(size.least + 2, _wrapped(size.most * 2 + 2)))


def _to_bytes(overload: Overload, operands: Sequence[Operand]) -> Price | None:
    if overload.operands[0].kind != "string":
        return None
    size = operands[0].size
    return Price(scaled(size.most, _TRAVERSAL), Size(size.least, _wrapped(size.most * 4)))


def _to_string(overload: Overload, operands: Sequence[Operand]) -> Price | None:
    if overload.operands[0].kind != "bytes":
        return None
    size = operands[0].size
    return Price(scaled(size.most, _TRAVERSAL), Size(size.least // 4, size.most))


def _wrapped(size: int) -> int:
    """Return a size as 64 bits hold it, since these sizes overflow silently."""
    return size % (UNBOUNDED + 1)


# -- operators --------------------------------------------------------------------------------------------------------


def _compare(overload: Overload, operands: Sequence[Operand]) -> Price | None:
    kind = overload.operands[0].kind
    if kind not in _SIZED and kind != "param":
        return None
    return Price(scaled(min(one.size.most for one in operands), _TRAVERSAL))


def _equal(overload: Overload, operands: Sequence[Operand]) -> Price | None:
    one, two = (operand.node.type for operand in operands)
    if one.kind != "opaque" or not one.same(two):
        return _compare(overload, operands)
    if one.name == "kubernetes.NamedFormat":
        return Price(scaled(_LONGEST_FORMAT, _TRAVERSAL))
    if one.name == "kubernetes.URL":
        return Price(scaled(operands[1].size.most if operands[1].is_sized else 1, _TRAVERSAL))
    return Price(1)


def _add(overload: Overload, operands: Sequence[Operand]) -> Price | None:
    kind = overload.result.kind
    if kind not in (*_SIZED, "list"):
        return None
    one, two = (operand.size for operand in operands)
    size = Size(total(one.least, two.least), total(one.most, two.most))
    return Price(1 if kind == "list" else scaled(size.most, _TRAVERSAL), size)


def _in(overload: Overload, operands: Sequence[Operand]) -> Price | None:
    return Price(operands[1].size.most) if overload.operands[1].kind == "list" else None


def _logic(overload: Overload, operands: Sequence[Operand]) -> Price:
    return Price(0)


def _choice(overload: Overload, operands: Sequence[Operand]) -> Price:
    return Price(0, operands[1].size.joined(operands[2].size))


# -- lists ------------------------------------------------------------------------------------------------------------


def _traverse(overload: Overload, operands: Sequence[Operand]) -> Price:
    one = operands[0]
    if one.node.type.kind != "list":
        return Price(scaled(one.size.most, _TRAVERSAL))
    each = 1
    if one.node.type.params[0].kind in _SIZED:
        each = total(1, scaled(one.item.most, _TRAVERSAL))
    return Price(_product(one.size.most, each))


def _new_list(factor: float, size: Size) -> Price:
    return Price(total(_LIST_CALL, scaled(size.most, factor)), size)


def _number(node: Node, otherwise: int) -> int:
    if isinstance(node, Literal) and type(node.value) is int:
        return max(0, node.value)
    return otherwise


def _slice(overload: Overload, operands: Sequence[Operand]) -> Price:
    start = _number(operands[1].node, 0)
    end = _number(operands[2].node, operands[0].size.most)
    return _new_list(1, fixed(_wrapped(end - start)))


def _range(overload: Overload, operands: Sequence[Operand]) -> Price:
    return _new_list(1, fixed(_number(operands[0].node, UNBOUNDED)))


def _reverse(overload: Overload, operands: Sequence[Operand]) -> Price:
    return _new_list(1, operands[0].size)


def _flatten(overload: Overload, operands: Sequence[Operand]) -> Price:
    depth = _number(operands[1].node, UNBOUNDED) if len(operands) > 1 else 1
    return _new_list(depth, operands[0].size)


def _distinct(overload: Overload, operands: Sequence[Operand]) -> Price:
    return _new_list(2, _squared(operands[0].size))


def _sort(overload: Overload, operands: Sequence[Operand]) -> Price:
    """Price `sort`, or `sortBy`, whose last operand are the keys."""
    item = overload.operands[-1].params[0]
    return _new_list(2 + (_TRAVERSAL if item.kind in _SIZED else 0), _squared(operands[-1].size))


def _squared(size: Size) -> Size:
    return Size(_product(size.least, size.least), _product(size.most, size.most))


def _sets(factor: int) -> Callable[[Overload, Sequence[Operand]], Price]:
    def estimate(overload: Overload, operands: Sequence[Operand]) -> Price:
        pairs = _product(operands[0].size.most, operands[1].size.most)
        return Price(total(1, scaled(pairs, factor)))

    return estimate


# -- Kubernetes' types ------------------------------------------------------------------------------------------------


def _ip(overload: Overload, operands: Sequence[Operand]) -> Price | None:
    return None if overload.member else _walk(overload, operands)


def _contains_ip(overload: Overload, operands: Sequence[Operand]) -> Price:
    read = scaled(operands[1].size.most, _TRAVERSAL) if overload.operands[1].kind == "string" else 0
    return Price(total(scaled(2 * _ADDRESS, _TRAVERSAL), read))


def _contains_cidr(overload: Overload, operands: Sequence[Operand]) -> Price:
    masked = scaled(_ADDRESS, _TRAVERSAL) + 1
    return Price(total(masked, _contains_ip(overload, operands).cost))


def _validate(overload: Overload, operands: Sequence[Operand]) -> Price:
    return Price(scaled(scaled(operands[1].size.most, _TRAVERSAL), _LONGEST_FORMAT_REGEX * _REGEX))


_ESTIMATES: Mapping[str, Callable[[Overload, Sequence[Operand]], Price | None]] = {
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_", "_!=_"), _compare),
    **dict.fromkeys(("_&&_", "_||_"), _logic),
    **dict.fromkeys(("startsWith", "endsWith"), _starts),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "url"), _walk_same),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("isSorted", "sum", "min", "max", "indexOf", "lastIndexOf"), _traverse),
    **dict.fromkeys(("sort", "@sortByAssociatedKeys"), _sort),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver", "format"), _walk),
    "_==_": _equal,
    "_+_": _add,
    "_?_:_": _choice,
    "@in": _in,
    "bytes": _to_bytes,
    "contains": _contains,
    "containsCIDR": _contains_cidr,
    "containsIP": _contains_ip,
    "distinct": _distinct,
    "flatten": _flatten,
    "ip": _ip,
    "ip.isCanonical": _walk_twice,
    "join": _join,
    "lists.range": _range,
    "matches": _matches,
    "replace": _replace,
    "reverse": _reverse,
    "sets.contains": _sets(1),
    "sets.equivalent": _sets(2),
    "sets.intersects": _sets(1),
    "slice": _slice,
    "split": _split,
    "string": _to_string,
    "strings.quote": _quote,
    "validate": _validate,
}
