"""Compiles a checked syntax tree to functions, and runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kinformer.testing.cel.checker import TYPE_NAMES
from kinformer.testing.cel.functions import Overload
from kinformer.testing.cel.source.syntax import (
    Bind,
    CallExpression,
    Comprehension,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)
from kinformer.testing.cel.values import (
    CELError,
    CostExceeded,
    OptionalValue,
    TypeValue,
    equal,
    kind_of,
    no_overload,
    size_of,
)

__all__ = ["Frame", "Lazy", "compiled"]

Run = Callable[["Frame"], Any]

_LIST_COST, _MAP_COST = 10, 30
_SCALARS = ("bool", "int", "uint", "double", "string", "bytes")
_MISSING = object()


class Lazy:
    """A variable whose value is computed on first use.

    The first call of `value` sets `_value` or `_error`, which then stays.
    """

    __slots__ = ("_compute", "_error", "_value")

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute = compute
        self._value: Any = _MISSING
        self._error: CELError | None = None

    def value(self) -> Any:
        """Return the value. If the first evaluation failed, raises its `CELError` again."""
        if self._error is not None:
            raise self._error
        if self._value is _MISSING:
            try:
                self._value = self._compute()
            except CELError as error:
                self._error = error
                raise
        return self._value


class Frame:
    """One evaluation: its variables and its cost so far.

    `pay` adds to `cost`. Loops and bindings set their own `variables`, and restore the previous ones at their end.
    """

    __slots__ = ("cost", "limit", "variables")

    def __init__(self, variables: Mapping[str, Any], limit: int) -> None:
        self.variables = dict(variables)
        self.limit = limit
        self.cost = 0

    def pay(self, cost: int) -> None:
        """Add to the cost. Raises CostExceeded above the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceeded("operation cancelled: actual cost limit exceeded")


def compiled(node: Expression) -> Run:
    """Return a function that evaluates a node."""
    return _COMPILERS[type(node)](node)


def _literal(node: Literal) -> Run:
    value = node.value
    return lambda frame: value


def _ident(node: Ident) -> Run:
    name = node.name

    def run(frame: Frame) -> Any:
        frame.pay(1)
        value = frame.variables.get(name, _MISSING)
        if type(value) is Lazy:
            return value.value()
        if value is not _MISSING:
            return value
        if name in TYPE_NAMES:
            return TypeValue(name)
        raise CELError(f"no such attribute(s): {name}")

    return run


def _select(node: Select) -> Run:
    if node.type.kind == "type" and isinstance(node.operand, (Ident, Select)) and node.operand.type.kind == "error":
        # The name of a type with dots. The checker knows it as a whole, and so gives its operand no type.
        name = TypeValue(node.type.params[0].name)
        return lambda frame: name
    operand, field = compiled(node.operand), node.key
    if node.test:
        return lambda frame: _has(operand(frame), field)
    optional = node.optional

    def run(frame: Frame) -> Any:
        value = operand(frame)
        frame.pay(1)
        if type(value) is dict and not optional:
            try:
                return value[field]
            except KeyError:
                raise CELError(f"no such key: {field}") from None
        return _selected(value, field, optional=optional)

    return run


def _has(value: Any, field: str) -> bool:
    if isinstance(value, OptionalValue):
        return value.present and _has(value.value, field)
    if isinstance(value, Mapping):
        return field in value
    raise no_overload()


def _selected(value: Any, field: str, *, optional: bool) -> Any:
    if isinstance(value, OptionalValue):
        if not value.present:
            return value
        return _selected(value.value, field, optional=True)
    if isinstance(value, Mapping):
        if field in value:
            return OptionalValue(value[field]) if optional else value[field]
        if optional:
            return OptionalValue.none()
    raise CELError(f"no such key: {field}")


# -- calls ------------------------------------------------------------------------------------------------------------


def _call(node: CallExpression) -> Run:
    special = _SPECIAL.get(node.function)
    if special is not None and (node.in_place or node.function != "_+_"):
        return special(node)
    runs = [compiled(operand) for operand in node.operands]
    overloads = node.overloads
    # A single overload whose operands have known types needs no choice for each evaluation.
    certain = len(overloads) == 1 and not any(
        operand.type.is_dyn and declared.kind not in ("param", "dyn")
        for operand, declared in zip(node.operands, overloads[0].operands, strict=True)
    )
    if not certain:
        return lambda frame: _dispatched(frame, node, [run(frame) for run in runs])
    overload = overloads[0]
    cost = overload.cost

    def run(frame: Frame) -> Any:
        values = [operand(frame) for operand in runs]
        frame.pay(1 if cost is None else cost([size_of(value) for value in values]))
        return _called(overload, values)

    return run


def _dispatched(frame: Frame, node: CallExpression, values: Sequence[Any]) -> Any:
    kinds = [kind_of(value) for value in values]
    for overload in node.overloads:
        if overload.takes(kinds):
            frame.pay(1 if overload.cost is None else overload.cost([size_of(value) for value in values]))
            return _called(overload, values)
    if node.function == "_[_]" and kinds[0] == "list":
        raise CELError(f"unsupported index type '{kinds[1]}' in list")
    raise no_overload()


def _called(overload: Overload, values: Sequence[Any]) -> Any:
    """Return the result of a call. Raises `CELError` if the function does not accept the values."""
    try:
        return overload.run(*values)
    except (TypeError, AttributeError):
        raise no_overload() from None


def _flag(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise no_overload()


def _decides(node: CallExpression, decisive: bool) -> Run:
    """Evaluate `&&` and `||`. An error on one side is ignored if the other side decides."""
    left, right = compiled(node.args[0]), compiled(node.args[1])

    def run(frame: Frame) -> Any:
        error: CELError | None = None
        for side in (left, right):
            try:
                if _flag(side(frame)) is decisive:
                    return decisive
            except CostExceeded:
                raise
            except CELError as raised:
                error = error or raised
        if error is not None:
            raise error
        return not decisive

    return run


def _conditional(node: CallExpression) -> Run:
    condition, then, otherwise = map(compiled, node.args)
    return lambda frame: then(frame) if _flag(condition(frame)) else otherwise(frame)


def _equality(node: CallExpression) -> Run:
    left, right = compiled(node.args[0]), compiled(node.args[1])
    expected = node.function == "_==_"

    def run(frame: Frame) -> Any:
        first, second = left(frame), right(frame)
        frame.pay(-(-min(size_of(first), size_of(second)) // 10))
        return equal(first, second) is expected

    return run


def _appended(node: CallExpression) -> Run:
    """Evaluate `+` of a macro's accumulator and a list, in place. A copy for each item would take quadratic time."""
    left, item = compiled(node.args[0]), compiled(node.args[1])

    def run(frame: Frame) -> Any:
        items = left(frame)
        added = item(frame)
        frame.pay(1)
        items.extend(added)
        return items

    return run


def _not_strictly_false(node: CallExpression) -> Run:
    operand = compiled(node.args[0])

    def run(frame: Frame) -> Any:
        frame.pay(1)
        try:
            return operand(frame) is not False
        except CostExceeded:
            raise
        except CELError:
            return True

    return run


def _optional_index(node: CallExpression) -> Run:
    container, index = compiled(node.args[0]), compiled(node.args[1])

    def run(frame: Frame) -> Any:
        value, key = container(frame), index(frame)
        frame.pay(1)
        if isinstance(value, OptionalValue):
            if not value.present:
                return value
            value = value.value
        if isinstance(value, Mapping) and kind_of(key) in _SCALARS:
            return OptionalValue(value[key]) if key in value else OptionalValue.none()
        if isinstance(value, list) and isinstance(key, int):
            return OptionalValue(value[key]) if 0 <= key < len(value) else OptionalValue.none()
        raise no_overload()

    return run


# -- literals and loops -----------------------------------------------------------------------------------------------


def _list(node: ListLiteral) -> Run:
    runs, optional = [compiled(item) for item in node.items], node.optional

    def run(frame: Frame) -> Any:
        values = []
        for index, item in enumerate(runs):
            value = item(frame)
            if index not in optional:
                values.append(value)
            elif value.present:
                values.append(value.value)
        frame.pay(_LIST_COST)
        return values

    return run


def _map(node: MapLiteral) -> Run:
    entries = [(compiled(key), compiled(value), optional) for key, value, optional in node.entries]

    def run(frame: Frame) -> Any:
        result: dict[Any, Any] = {}
        for key, value, optional in entries:
            name, content = key(frame), value(frame)
            if kind_of(name) not in _SCALARS:
                raise CELError(f"unsupported key type: {kind_of(name)}")
            if name in result:
                raise CELError(f"Failed with repeated key: {name}")
            if not optional:
                result[name] = content
            elif content.present:
                result[name] = content.value
        frame.pay(_MAP_COST)
        return result

    return run


def _comprehension(node: Comprehension) -> Run:
    over, initial, step, result = map(compiled, (node.range, node.initial, node.step, node.result))
    condition = None if node.condition is None else compiled(node.condition)
    variable, second, accumulator = node.variable, node.second, node.accumulator

    def run(frame: Frame) -> Any:
        items = _items(over(frame), pairs=bool(second))
        variables = frame.variables
        saved = {name: variables.get(name, _MISSING) for name in (variable, second, accumulator)}
        variables[accumulator] = initial(frame)
        try:
            for key, value in items:
                if condition is not None and not condition(frame):
                    break
                variables[variable] = key
                if second:
                    variables[second] = value
                variables[accumulator] = _stepped(frame, step, may_fail=condition is not None)
            return result(frame)
        finally:
            for name, before in saved.items():
                if before is _MISSING:
                    variables.pop(name, None)
                else:
                    variables[name] = before

    return run


def _stepped(frame: Frame, step: Run, *, may_fail: bool) -> Any:
    """Return the next value of an accumulator.

    With `may_fail`, an error becomes a value that raises it on use, because a later item may decide regardless of it.
    """
    if not may_fail:
        return step(frame)
    try:
        return step(frame)
    except CostExceeded:
        raise
    except CELError as error:
        failed = error

        def again() -> Any:
            raise failed

        return Lazy(again)


def _items(value: Any, *, pairs: bool) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list):
        return list(enumerate(value)) if pairs else [(item, None) for item in value]
    name = kind_of(value).removeprefix("google.protobuf.").removesuffix("_type").capitalize()
    raise CELError(f"got 'types.{name}', expected iterable type")


def _bind(node: Bind) -> Run:
    name, value, body = node.name, compiled(node.value), compiled(node.body)

    def run(frame: Frame) -> Any:
        before = frame.variables.get(name, _MISSING)
        frame.variables[name] = Lazy(lambda: value(frame))
        try:
            return body(frame)
        finally:
            if before is _MISSING:
                del frame.variables[name]
            else:
                frame.variables[name] = before

    return run


_SPECIAL: dict[str, Callable[[CallExpression], Run]] = {
    "_&&_": lambda node: _decides(node, False),
    "_||_": lambda node: _decides(node, True),
    "_?_:_": _conditional,
    "_==_": _equality,
    "_!=_": _equality,
    "_+_": _appended,
    "@not_strictly_false": _not_strictly_false,
    "_[?_]": _optional_index,
}
_COMPILERS: dict[type, Callable[[Any], Run]] = {
    Literal: _literal,
    Ident: _ident,
    Select: _select,
    CallExpression: _call,
    ListLiteral: _list,
    MapLiteral: _map,
    Comprehension: _comprehension,
    Bind: _bind,
}
