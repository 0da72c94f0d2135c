"""Function declarations: overloads, costs and implementations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kinformer.testing.cel.types import Type, parse_type

__all__ = ["Library", "Overload", "search_cost", "tenth", "walk_cost"]


Sizes = Sequence[int]


def tenth(size: int) -> int:
    """Return the cost of traversing a number of characters: a tenth, rounded up."""
    return math.ceil(size * 0.1)  # as floats, so that 70 characters cost 8, as in cel-go


def walk_cost(sizes: Sizes) -> int:
    """Return the cost of an evaluated call that traverses its first operand."""
    return tenth(sizes[0])


def search_cost(sizes: Sizes) -> int:
    """Return the cost of an evaluated search of the first operand by the regular expression in the second.

    It is a tenth of the text times a quarter of the pattern, each rounded up, as in cel-go.
    """
    return tenth(sizes[0] + 1) * -(-sizes[1] // 4)


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function.

    `cost` computes the cost of an evaluated call from the sizes of its operands (None: 1).
    """

    function: str
    operands: tuple[Type, ...]
    result: Type
    member: bool
    run: Callable[..., Any]
    cost: Callable[[Sizes], int] | None = None

    def takes(self, kinds: Sequence[str]) -> bool:
        """Return True if it accepts operands of these kinds."""
        return len(kinds) == len(self.operands) and all(
            operand.kind in ("param", "dyn") or (operand.name if operand.kind == "opaque" else operand.kind) == kind
            for operand, kind in zip(self.operands, kinds, strict=True)
        )


class Library:
    """Functions, by name. `add` extends `functions` while a library is put together, and programs only read it."""

    def __init__(self, *others: Library) -> None:
        self.functions: dict[str, list[Overload]] = {}
        for other in others:
            for name, overloads in other.functions.items():
                self.functions.setdefault(name, []).extend(overloads)

    def add(
        self,
        name: str,
        *signatures: str,
        run: Callable[..., Any],
        cost: Callable[[Sizes], int] | None = None,
    ) -> None:
        """Declare a function: `(string, int) -> bool`, or `string.(int) -> bool` for a member of strings."""
        for signature in signatures:
            before, _, result = signature.partition(" -> ")
            target, dot, given = before.partition(".(") if ".(" in before else ("", "", before.lstrip("("))
            operands = [parse_type(target)] if dot else []
            operands += [parse_type(parameter) for parameter in _separated(given.rstrip()[:-1])]
            overload = Overload(name, tuple(operands), parse_type(result), bool(dot), run, cost)
            self.functions.setdefault(name, []).append(overload)


def _separated(text: str) -> list[str]:
    """Split the parameters of a signature at commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]
