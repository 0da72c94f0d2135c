"""Compiles expressions and the types of their variables to programs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from kinformer.testing.cel.checker import check
from kinformer.testing.cel.evaluator import Frame, compiled
from kinformer.testing.cel.functions import Library
from kinformer.testing.cel.library.formats import add_formats
from kinformer.testing.cel.library.lists import add_lists
from kinformer.testing.cel.library.network import add_networks
from kinformer.testing.cel.library.patterns import add_patterns
from kinformer.testing.cel.library.quantity import add_quantities
from kinformer.testing.cel.library.standard import standard
from kinformer.testing.cel.library.strings import add_strings
from kinformer.testing.cel.source.lexer import Issues
from kinformer.testing.cel.source.parser import DEPTH, parse
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
from kinformer.testing.cel.types import Type
from kinformer.testing.cel.values import CELError

__all__ = ["CALL_LIMIT", "CompileError", "InstantiationError", "Program", "compile_expression", "functions"]

_CONVERSIONS = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")
CALL_LIMIT = 1_000_000  # the limit of one evaluation (apiserver/pkg/apis/cel/config.go)


class CompileError(Exception):
    """An expression cannot be compiled. The message lists each issue with its position, as in cel-go."""


class InstantiationError(Exception):
    """A conversion of a constant fails in an expression that otherwise compiles."""


class Program:
    """A compiled expression. It keeps nothing of an evaluation, so that all writes share one."""

    def __init__(self, text: str, root: Expression) -> None:
        self.text = text
        self.type: Type = root.type
        self.names = frozenset(_names(root))
        self._run = compiled(root)

    def evaluate(self, variables: Mapping[str, Any], limit: int = CALL_LIMIT) -> Any:
        """Return the value. Raises `CELError`."""
        return self.priced(variables, limit)[0]

    def priced(self, variables: Mapping[str, Any], limit: int = CALL_LIMIT) -> tuple[Any, int]:
        """Return the value and its cost. Raises `CELError`, whose attribute `cost` has the cost."""
        frame = Frame(variables, limit)
        try:
            return self._run(frame), frame.cost
        except RecursionError:
            raise CELError("evaluation is too deep") from None
        except CELError as error:
            error.cost = frame.cost
            raise


@cache
def functions() -> Library:
    """Return all functions of Kubernetes' environment."""
    library = standard()
    for add in (add_strings, add_patterns, add_lists, add_quantities, add_networks, add_formats):
        add(library)
    return library


def compile_expression(text: str, variables: Mapping[str, Type], library: Library | None = None) -> Program:
    """Compile an expression. Raises `CompileError`, or `InstantiationError` if a constant cannot be converted."""
    issues = Issues(text)
    try:
        root = parse(text, issues)
        if root is not None:
            check(root, variables, library or functions(), issues)
        if root is None or issues:
            raise CompileError(str(issues))
        _convert_constants(root)
        return Program(text, root)
    except RecursionError:
        raise CompileError(f"ERROR: <input>:-1:0: expression recursion limit exceeded: {DEPTH}") from None


def _convert_constants(node: Expression) -> None:
    if isinstance(node, CallExpression) and node.function in _CONVERSIONS and len(node.args) == 1:
        arg = node.args[0]
        if isinstance(arg, Literal) and len(node.overloads) == 1:
            try:
                node.overloads[0].run(arg.value)
            except CELError as error:
                raise InstantiationError(str(error)) from None
    for child in _below(node):
        _convert_constants(child)


def _names(node: Expression) -> list[str]:
    """Return the names of the variables in a tree."""
    own = [node.name] if isinstance(node, Ident) else []
    return own + [name for child in _below(node) for name in _names(child)]


def _below(node: Expression) -> list[Expression]:
    below: list[Expression] = []
    if isinstance(node, Select):
        below = [node.operand]
    elif isinstance(node, CallExpression):
        below = node.operands
    elif isinstance(node, ListLiteral):
        below = node.items
    elif isinstance(node, MapLiteral):
        below = [part for key, value, _ in node.entries for part in (key, value)]
    elif isinstance(node, Comprehension):
        below = [node.range, node.initial, node.step, node.result]
    elif isinstance(node, Bind):
        below = [node.value, node.body]
    return below
