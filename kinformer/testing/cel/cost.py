"""Estimates the maximum cost of an expression, for the largest values that schemas allow (cel-go's checker/cost.go)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinformer.testing.cel.functions import UNBOUNDED
from kinformer.testing.cel.syntax import (
    Bind,
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)

__all__ = ["most"]

_SCALARS = frozenset(
    ("bool", "int", "uint", "double", "null_type", "type", "google.protobuf.Timestamp", "google.protobuf.Duration")
)
_LIST, _MAP = 10, 30


def most(root: Node) -> int:
    """Return the maximum cost of one evaluation of a checked tree."""
    return _Estimate().cost(root)


def _sum(*costs: int) -> int:
    return min(UNBOUNDED, sum(costs))


class _Estimate:
    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}  # by id of the node
        self._named: dict[str, int] = {}  # sizes of accumulators and bound names

    def cost(self, node: Node) -> int:
        return _ESTIMATES[type(node)](self, node)

    def size(self, node: Node) -> int:
        """Return the maximum size of a node's value."""
        found = self._sizes.get(id(node))
        if found is not None:
            return found
        if node.type.limit is not None:
            return node.type.limit
        if node.type.kind in _SCALARS or node.type.kind == "opaque":
            return 1
        return UNBOUNDED

    def literal(self, node: Literal) -> int:
        if isinstance(node.value, (str, bytes)):
            self._sizes[id(node)] = len(node.value)
        return 0

    def ident(self, node: Ident) -> int:
        if node.name in self._named:
            self._sizes[id(node)] = self._named[node.name]
        return 1

    def select(self, node: Select) -> int:
        below = self.cost(node.operand)
        priced = not node.test and node.operand.type.kind in ("map", "object", "param")
        return _sum(below, 1) if priced else below

    def call(self, node: Call) -> int:
        costs = [self.cost(one) for one in node.operands]
        sizes = [self.size(one) for one in node.operands]
        if node.function in ("_&&_", "_||_"):
            return _sum(*costs)
        if node.function == "lists.range":
            count = node.args[0]
            self._sizes[id(node)] = max(0, count.value) if isinstance(count, Literal) else UNBOUNDED
        results = [one.size(sizes) for one in node.overloads if one.size is not None]
        if results:
            self._sizes[id(node)] = min(UNBOUNDED, *results) if len(results) == 1 else max(results)
        if node.function == "_?_:_":
            return _sum(costs[0], max(costs[1:]))
        own = max((1 if one.cost is None else one.cost(sizes) for one in node.overloads), default=0)
        return _sum(own, *costs)

    def list(self, node: ListLiteral) -> int:
        self._sizes[id(node)] = len(node.items)
        return _sum(_LIST, *(self.cost(one) for one in node.items))

    def map(self, node: MapLiteral) -> int:
        self._sizes[id(node)] = len(node.entries)
        return _sum(_MAP, *(self.cost(key) + self.cost(value) for key, value, _ in node.entries))

    def comprehension(self, node: Comprehension) -> int:
        before = _sum(self.cost(node.range), self.cost(node.initial))
        count = self.size(node.range)
        saved = self._named.get(node.accumulator)
        self._named[node.accumulator] = self.size(node.initial)
        loop = 0 if node.condition is None else self.cost(node.condition)
        loop = _sum(loop, self.cost(node.step))
        after = self.cost(node.result)
        self._forget(node.accumulator, saved)
        if isinstance(node.initial, (ListLiteral, MapLiteral)):
            self._sizes[id(node)] = count
        return _sum(before, after, min(UNBOUNDED, count * loop))

    def bind(self, node: Bind) -> int:
        before = self.cost(node.value)
        saved = self._named.get(node.name)
        self._named[node.name] = self.size(node.value)
        body = self.cost(node.body)
        self._forget(node.name, saved)
        self._sizes[id(node)] = self.size(node.body)
        return _sum(before, body, _LIST)

    def _forget(self, name: str, before: int | None) -> None:
        if before is None:
            del self._named[name]
        else:
            self._named[name] = before


_ESTIMATES: dict[type, Callable[[_Estimate, Any], int]] = {
    Literal: _Estimate.literal,
    Ident: _Estimate.ident,
    Select: _Estimate.select,
    Call: _Estimate.call,
    ListLiteral: _Estimate.list,
    MapLiteral: _Estimate.map,
    Comprehension: _Estimate.comprehension,
    Bind: _Estimate.bind,
}
