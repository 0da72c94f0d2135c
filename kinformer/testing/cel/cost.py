"""Estimates the maximum cost of an expression, for the largest values that schemas allow (cel-go's checker/cost.go).

A size comes from the schema at the path of a value, not from its type: an object and the key of a map have no maximum
there, so they count nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kinformer.testing.cel.estimates import ANY_SIZE, Operand, Price, Size, fixed, price_of, total
from kinformer.testing.cel.functions import UNBOUNDED, Overload
from kinformer.testing.cel.source.syntax import (
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
from kinformer.testing.cel.types import Type

__all__ = ["most"]

_SCALARS = frozenset(("bool", "int", "uint", "double", "google.protobuf.Timestamp", "google.protobuf.Duration"))
_LIST, _MAP = 10, 30
_NO_SIZE = fixed(0)


def most(root: Node, own: Type) -> int:
    """Return the maximum cost of one evaluation of a checked tree, for `self` and `oldSelf` of a type."""
    return _Estimate(own).cost(root)


class _Path:
    """The path of a value in the schema: a variable, then fields, and `@items`, `@keys` or `@values`.

    A path that grows shares its cells with the longer one while there is room, as a slice of Go does. In cel-go a loop
    over a field of an item therefore takes the size of another field of that item, if it reads that one within.
    """

    __slots__ = ("_cells", "_length")

    def __init__(self, cells: list[str], length: int) -> None:
        self._cells = cells
        self._length = length

    @property
    def steps(self) -> list[str]:
        """The variable and what follows, or nothing for a value that is not from the schema."""
        return self._cells[: self._length]

    def plus(self, name: str) -> _Path:
        """Return the path of a child."""
        cells, length = self._cells, self._length
        if length == len(cells):
            cells = [*cells, *([""] * max(1, length))]
        cells[length] = name
        return _Path(cells, length + 1)


_NO_PATH = _Path([], 0)


class _Entry(NamedTuple):
    """The sizes of the keys and values of a map, or of the items of a list."""

    kind: str
    key: Size
    value: Size


class _Local(NamedTuple):
    """A variable of a loop or a binding."""

    path: _Path
    size: Size | None
    entry: _Entry | None


class _Estimate:
    def __init__(self, own: Type) -> None:
        self._own = own
        self._paths: dict[int, _Path] = {}  # by id of the node, as the next two
        self._sizes: dict[int, Size] = {}
        self._entries: dict[int, _Entry] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> int:
        return _ESTIMATES[type(node)](self, node)

    # -- sizes ----------------------------------------------------------------------------------------------------

    def _local(self, node: Node) -> _Local | None:
        found = self._locals.get(node.name) if isinstance(node, Ident) else None
        return found[-1] if found else None

    def _path(self, node: Node) -> _Path:
        local = self._local(node)
        return self._paths.get(id(node), _NO_PATH) if local is None else local.path

    def _known_size(self, node: Node) -> Size | None:
        found = self._sizes.get(id(node)) or _written_size(node)
        if found is None:
            found = self._declared_size(self._path(node).steps)
            if found is not None:
                self._sizes[id(node)] = found
        if found is None and _is_scalar(node.type):
            found = fixed(1)
        if found is None:
            local = self._local(node)
            found = local.size if local is not None else None
        return found

    def _size(self, node: Node) -> Size:
        return self._known_size(node) or ANY_SIZE

    def _declared_size(self, steps: Sequence[str]) -> Size | None:
        """Return the size that the schema allows at a path."""
        if not steps:
            return None
        found: Type | None = self._own
        for step in steps[1:]:
            if found is None:
                return None
            if step in ("@items", "@values"):
                found = found.params[-1] if found.kind in ("list", "map") else None
            elif step == "@keys":
                found = found.params[0] if found.kind == "map" else None
            else:
                found = (found.fields or {}).get(step)
        return None if found is None else Size(0, found.limit or 0)

    def _entry(self, node: Node) -> _Entry | None:
        found = self._entries.get(id(node))
        if found is None:
            local = self._local(node)
            found = local.entry if local is not None else None
        return found

    def _take_sizes(self, node: Node, source: Node) -> None:
        """Give a node the sizes of another."""
        size, entry = self._known_size(source), self._entry(source)
        if size is not None:
            self._sizes[id(node)] = size
        if entry is not None:
            self._entries[id(node)] = entry

    # -- variables ------------------------------------------------------------------------------------------------

    def _push(self, name: str, path: _Path, size: Size | None, entry: _Entry | None = None) -> None:
        self._locals.setdefault(name, []).append(_Local(path, size, entry))

    def _pop(self, *names: str) -> None:
        for name in names:
            self._locals[name].pop()

    def _push_value(self, name: str, value: Node) -> None:
        path, entry = self._path(value), self._entry(value)
        self._push(name, path, self._known_size(value), entry)

    def _push_items(self, node: Comprehension) -> None:
        over, entry = node.range, self._entry(node.range)
        is_list = (over.type.kind if entry is None else entry.kind) == "list"
        key = None if entry is None else entry.key
        value = None if entry is None else entry.value
        path = self._path(over)
        if node.second:
            self._push(node.variable, path.plus("@indices" if is_list else "@keys"), key)
            self._push(node.second, path.plus("@items" if is_list else "@values"), value)
        elif is_list:
            self._push(node.variable, path.plus("@items"), value)
        else:
            self._push(node.variable, path.plus("@keys"), key)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def literal(self, node: Literal) -> int:
        return 0

    def ident(self, node: Ident) -> int:
        local = self._local(node)
        self._paths[id(node)] = local.path if local is not None else _Path([node.name], 1)
        return 1

    def select(self, node: Select) -> int:
        if node.type.kind == "type" and node.operand.type.kind == "error":  # the name of a type
            self._paths[id(node)] = _Path([node.type.params[0].name], 1)
            return 1
        below = self.cost(node.operand)
        if node.test:
            return below
        if node.optional:  # a call
            return total(below, 1)
        self._paths[id(node)] = self._path(node.operand).plus(node.field)
        return total(below, 1) if node.operand.type.kind in ("map", "object", "param") else below

    def call(self, node: Call) -> int:
        if node.function == "dyn":
            cost = total(1, self.cost(node.args[0]))
            self._take_sizes(node, node.args[0])
            return cost
        costs, found = [], []
        for one in node.args:
            costs.append(self.cost(one))
            found.append(self._operand(one))
        if node.target is not None:
            costs.append(self.cost(node.target))
            found.insert(0, self._operand(node.target))
        if node.function == "_?_:_":
            costs = [costs[0], max(costs[1:])]
        own = self._own_cost(node, found)
        return total(own, *costs)

    def _operand(self, node: Node) -> Operand:
        size, steps = self._known_size(node), self._path(node).steps
        item = self._declared_size([*steps, "@items"]) if steps else None
        return Operand(node, size or ANY_SIZE, item or ANY_SIZE, size is not None)

    def _own_cost(self, node: Call, operands: Sequence[Operand]) -> int:
        """Return the largest cost of all overloads, and note the size of the result."""
        cost, size = 0, None
        for overload in node.overloads:
            price = self._price(node, overload, operands)
            cost = max(cost, price.cost)
            if price.size is not None:
                size = price.size if size is None else size.joined(price.size)
            if node.function == "_[_]" and overload.operands[0].kind in ("list", "map"):
                entry = self._entry(node.args[0])
                size = None if entry is None else entry.value
                step = "@items" if overload.operands[0].kind == "list" else "@values"
                self._paths[id(node)] = self._path(node.args[0]).plus(step)
            size = size or self._known_size(node)
        if size is not None:
            self._sizes[id(node)] = size
        return cost

    def _price(self, node: Call, overload: Overload, operands: Sequence[Operand]) -> Price:
        price = price_of(node, overload, operands)
        joins = node.function == "_?_:_" or (node.function == "_+_" and price.size is not None)
        if joins:
            one, two = (self._entry(operand.node) for operand in operands[-2:])
            if one is not None and two is not None:
                joined = _Entry(one.kind, one.key.joined(two.key), one.value.joined(two.value))
                self._entries[id(node)] = joined
        return price

    def list(self, node: ListLiteral) -> int:
        cost, value = _LIST, None
        for one in node.items:
            cost = total(cost, self.cost(one))
            value = _either(value, self._size(one))
        self._entries[id(node)] = _Entry("list", fixed(1), value or _NO_SIZE)
        return cost

    def map(self, node: MapLiteral) -> int:
        cost, keys, values = _MAP, None, None
        for key, value, _ in node.entries:
            cost = total(cost, self.cost(key), self.cost(value))
            keys, values = _either(keys, self._size(key)), _either(values, self._size(value))
        self._entries[id(node)] = _Entry("map", keys or _NO_SIZE, values or _NO_SIZE)
        return cost

    def comprehension(self, node: Comprehension) -> int:
        before = total(self.cost(node.range), self.cost(node.initial))
        self._push_value(node.accumulator, node.initial)
        self._push_items(node)
        loop = 0 if node.condition is None else self.cost(node.condition)
        loop = total(loop, self.cost(node.step))
        self._pop(node.variable, *([node.second] if node.second else []))
        after = self.cost(node.result)
        self._pop(node.accumulator)
        size = self._size(node.range)
        if isinstance(node.initial, (ListLiteral, MapLiteral)):
            self._sizes[id(node)] = size
            entry = self._entry(node.step)
            if entry is not None:
                self._entries[id(node)] = entry
        else:
            self._sizes[id(node)] = self._size(node.initial)
        return total(before, after, min(UNBOUNDED, size.most * loop))

    def bind(self, node: Bind) -> int:
        before = self.cost(node.value)
        self._push_value(node.name, node.value)
        body = self.cost(node.body)
        self._pop(node.name)
        self._take_sizes(node, node.body)
        return total(before, body, _LIST)


def _either(one: Size | None, two: Size) -> Size:
    return two if one is None else one.joined(two)


def _written_size(node: Node) -> Size | None:
    """Return the size of a literal."""
    if isinstance(node, Literal):
        return fixed(len(node.value) if isinstance(node.value, (str, bytes)) else 1)
    if isinstance(node, ListLiteral):
        return fixed(len(node.items))
    return fixed(len(node.entries)) if isinstance(node, MapLiteral) else None


def _is_scalar(own: Type) -> bool:
    return _is_scalar(own.params[0]) if own.kind == "optional_type" else own.kind in _SCALARS


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
