"""The syntax tree of an expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kinformer.testing.cel.types import ERROR, Type

if TYPE_CHECKING:
    from kinformer.testing.cel.functions import Overload

__all__ = [
    "RESERVED",
    "Bind",
    "CallExpression",
    "Comprehension",
    "Expression",
    "Ident",
    "ListLiteral",
    "Literal",
    "MapLiteral",
    "Select",
    "Struct",
]


RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
        *("namespace", "null", "package", "return", "true", "var", "void", "while"),
    )
)
"""Names that are not variables, because CEL reserves them."""


class Expression:
    """A node of the tree (`Expr` in the CEL specification), at an offset in the source. The checker sets its type."""

    __slots__ = ("at", "type")

    def __init__(self, at: int) -> None:
        self.at = at
        self.type: Type = ERROR


class Literal(Expression):
    """A constant."""

    __slots__ = ("value",)

    def __init__(self, at: int, value: Any) -> None:
        super().__init__(at)
        self.value = value


class Ident(Expression):
    """A name. The checker removes its leading dot."""

    __slots__ = ("name",)

    def __init__(self, at: int, name: str) -> None:
        super().__init__(at)
        self.name = name


class Select(Expression):
    """A field selection: `operand.field`, `operand.?field`, or a presence test (`test`).

    `key` is the field's name in the value. The checker sets it if it is not `field`.
    """

    __slots__ = ("field", "key", "operand", "optional", "test")

    def __init__(self, at: int, operand: Expression, field: str, *, test: bool = False, optional: bool = False) -> None:
        super().__init__(at)
        self.operand = operand
        self.field = field
        self.key = field
        self.test = test
        self.optional = optional


class CallExpression(Expression):
    """A call of a function or an operator. A member call has a target.

    If the target is the prefix of a function's name, as in `sets.contains(a, b)`, the checker moves it to `function`.
    """

    __slots__ = ("args", "function", "in_place", "overloads", "target")

    def __init__(self, at: int, function: str, args: Sequence[Expression], target: Expression | None = None) -> None:
        super().__init__(at)
        self.function = function
        self.args = list(args)
        self.target = target
        self.overloads: list[Overload] = []  # matching overloads, set by the checker
        self.in_place = False  # set by macros: its first argument is a list without other references

    @property
    def operands(self) -> list[Expression]:
        """The target, if any, and the arguments."""
        return self.args if self.target is None else [self.target, *self.args]


class ListLiteral(Expression):
    """A list `[a, ?b]`. `optional` has the indices of items with a question mark."""

    __slots__ = ("items", "optional")

    def __init__(self, at: int, items: Sequence[Expression], optional: Sequence[int] = ()) -> None:
        super().__init__(at)
        self.items = list(items)
        self.optional = frozenset(optional)


class MapLiteral(Expression):
    """A map `{key: value, ?key: value}`. The last part of an entry is True for a question mark."""

    __slots__ = ("entries",)

    def __init__(self, at: int, entries: Sequence[tuple[Expression, Expression, bool]]) -> None:
        super().__init__(at)
        self.entries = list(entries)


class Struct(Expression):
    """A message `Name{field: value}`. The checker refuses it, because there are no message types."""

    __slots__ = ("fields", "name")

    def __init__(self, at: int, name: str, fields: Sequence[tuple[str, Expression]]) -> None:
        super().__init__(at)
        self.name = name
        self.fields = list(fields)


class Comprehension(Expression):
    """A loop over a list or a map. All macros with a variable expand to it."""

    __slots__ = ("accumulator", "condition", "initial", "range", "result", "second", "step", "variable")

    def __init__(
        self,
        at: int,
        *,
        over: Expression,
        variable: str,
        second: str,
        accumulator: str,
        initial: Expression,
        condition: Expression | None,
        step: Expression,
        result: Expression,
    ) -> None:
        super().__init__(at)
        self.range = over
        self.variable = variable
        self.second = second  # "" for a macro with one variable
        self.accumulator = accumulator
        self.initial = initial
        self.condition = condition  # None: the loop is never cut short
        self.step = step
        self.result = result


class Bind(Expression):
    """A variable for one value, such as the content of an optional in `optMap`. It is computed on first use."""

    __slots__ = ("body", "name", "value")

    def __init__(self, at: int, name: str, value: Expression, body: Expression) -> None:
        super().__init__(at)
        self.name = name
        self.value = value
        self.body = body
