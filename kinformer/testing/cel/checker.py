"""Assigns a type to every node of a syntax tree and overloads to every call, or reports errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinformer.testing.cel.functions import Library, Overload
from kinformer.testing.cel.library.format_clauses import check_format
from kinformer.testing.cel.library.re2 import PatternError, compiled_pattern
from kinformer.testing.cel.source.lexer import Issues
from kinformer.testing.cel.source.syntax import (
    RESERVED,
    Bind,
    CallExpression,
    Comprehension,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    Struct,
)
from kinformer.testing.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    STRING,
    Type,
    Unifier,
    list_of,
    map_of,
    optional_of,
    parse_type,
    type_of,
)
from kinformer.testing.cel.values import CELError, kind_of

__all__ = ["TYPE_NAMES", "check"]

TYPE_NAMES = {
    **{name: parse_type(name) for name in ("bool", "int", "uint", "double", "string", "bytes", "null_type", "dyn")},
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "type": type_of(DYN),
    "google.protobuf.Timestamp": parse_type("timestamp"),
    "google.protobuf.Duration": parse_type("duration"),
    "optional_type": optional_of(DYN),
    "net.IP": parse_type("net.IP"),
    "net.CIDR": parse_type("net.CIDR"),
}
_LITERALS = {name: parse_type(name) for name in ("bool", "int", "uint", "double", "string", "bytes", "null_type")}
_CHECKED_LITERALS = ("duration", "timestamp", "matches")


def check(root: Expression, variables: Mapping[str, Type], library: Library, issues: Issues) -> None:
    """Check a tree: set the types and overloads of its nodes, in place, or add to `issues`."""
    checker = _Checker(variables, library, issues)
    checker.visit(root)
    checker.finish()


class _Checker:
    def __init__(self, variables: Mapping[str, Type], library: Library, issues: Issues) -> None:
        self._scopes: list[Mapping[str, Type]] = [variables]  # the innermost is last
        self._functions = library.functions
        self._issues = issues
        self._types = Unifier()
        self._nodes: list[Expression] = []  # all that were visited, for `finish`
        self._mixing = 0  # above 0 within the arguments of `format`, whose lists may mix item types

    def finish(self) -> None:
        """Substitute the inferred types everywhere."""
        for node in self._nodes:
            node.type = self._types.resolved(node.type, final=True)

    def visit(self, node: Expression) -> Type:
        """Check a node's children, then the node, and return its type."""
        self._nodes.append(node)
        if isinstance(node, Literal):
            node.type = _LITERALS[kind_of(node.value)]
        elif isinstance(node, Ident):
            node.type = self._ident(node)
        elif isinstance(node, Select):
            node.type = self._select(node)
        elif isinstance(node, CallExpression):
            node.type = self._call(node)
        elif isinstance(node, ListLiteral):
            node.type = self._list(node)
        elif isinstance(node, MapLiteral):
            node.type = self._map(node)
        elif isinstance(node, Comprehension):
            node.type = self._comprehension(node)
        elif isinstance(node, Bind):
            node.type = self._bind(node)
        elif isinstance(node, Struct):
            self._undeclared(node.at, node.name)
        return node.type

    # -- names ----------------------------------------------------------------------------------------------------

    def _find(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return type_of(TYPE_NAMES[name]) if name in TYPE_NAMES else None

    def _undeclared(self, at: int, name: str) -> Type:
        self._issues.add(at, f"undeclared reference to '{name.lstrip('.')}' (in container '')")
        return ERROR

    def _ident(self, node: Ident) -> Type:
        node.name = node.name.lstrip(".")
        return self._find(node.name) or self._undeclared(node.at, node.name)

    def _select(self, node: Select) -> Type:
        name = _qualified(node)
        if name and not node.test and not node.optional and name in TYPE_NAMES:
            return type_of(TYPE_NAMES[name])
        operand = self._types.resolved(self.visit(node.operand))
        optional = node.optional
        if operand.kind == "optional_type":
            operand, optional = self._types.resolved(operand.params[0]), True
        selected = self._field(node, operand)
        if node.test:
            return BOOL
        return optional_of(selected) if optional and selected is not ERROR else selected

    def _field(self, node: Select, operand: Type) -> Type:
        if operand.kind == "map":
            key = operand.params[0]
            if not self._types.assign_all([key], [STRING]):
                self._issues.add(node.at, f"expected type '{key}' but found 'string'")
            return operand.params[1]
        if operand.kind == "object":
            fields = operand.fields or {}
            if node.field not in fields and node.field in RESERVED:
                node.key = f"__{node.field}__"  # such a field may be written without its underscores
            field = fields.get(node.key)
            if field is None:
                self._issues.add(node.at, f"undefined field '{node.field}'")
                return ERROR
            return field
        if operand.kind == "param":
            self._types.assign_all([operand], [DYN])
            return DYN
        if not operand.is_dyn:
            self._issues.add(node.at, f"type '{operand}' does not support field selection")
            return ERROR
        return DYN

    # -- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: CallExpression) -> Type:
        if node.target is not None:
            prefix = _qualified(node.target)
            if prefix and f"{prefix}.{node.function}" in self._functions:
                node.function, node.target = f"{prefix}.{node.function}", None
        node.function = node.function.lstrip(".")
        if node.function in ("_&&_", "_||_"):
            return self._logic(node)
        self._mixing += node.function == "format"
        given = [self.visit(operand) for operand in node.operands]
        self._mixing -= node.function == "format"
        overloads = self._functions.get(node.function)
        if overloads is None:
            return self._undeclared(node.at, node.function)
        result = self._resolve(node, overloads, given)
        if node.function in _CHECKED_LITERALS:
            self._check_literal(node)
        elif node.function == "format" and result is not ERROR:
            self._check_format(node)
        return result

    def _logic(self, node: CallExpression) -> Type:
        for arg in node.args:
            self._expect(arg, BOOL)
        node.overloads = self._functions[node.function]
        return BOOL

    def _resolve(self, node: CallExpression, overloads: Sequence[Overload], given: Sequence[Type]) -> Type:
        member = node.target is not None
        result: Type | None = None
        for overload in overloads:
            if overload.member != member:
                continue
            *expected, returned = self._types.fresh([*overload.operands, overload.result])
            if not self._types.assign_all(expected, given):
                continue
            node.overloads.append(overload)
            returned = self._types.resolved(returned)
            if result is None:
                result = returned
            elif not result.is_dyn and not result.same(returned):
                result = DYN
        if result is None:
            shown = [str(self._types.resolved(actual, final=True)) for actual in given]
            signature = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
            self._issues.add(node.at, f"found no matching overload for '{node.function}' applied to '{signature}'")
            return ERROR
        return result

    def _check_literal(self, node: CallExpression) -> None:
        """Refuse constants that are not a valid duration, time or pattern."""
        arg = node.args[-1] if node.args else None
        if not isinstance(arg, Literal) or not isinstance(arg.value, str):
            return
        try:
            if node.function == "matches":
                compiled_pattern(arg.value)
            else:
                overload = next(
                    signature for signature in self._functions[node.function] if signature.operands[0] is STRING
                )
                overload.run(arg.value)
        except (CELError, PatternError):
            self._issues.add(arg.at, f"invalid {node.function} argument")

    def _check_format(self, node: CallExpression) -> None:
        """Refuse a constant format that does not match the items of a literal list."""
        template, args = node.target, node.args[0]
        if isinstance(template, Literal) and isinstance(template.value, str) and isinstance(args, ListLiteral):
            kinds = [self._types.resolved(item.type, final=True).kind for item in args.items]
            wrong = check_format(template.value, kinds)
            if wrong is not None:
                index, message = wrong
                self._issues.add(node.at if index is None else args.items[index].at, message)

    # -- literals -------------------------------------------------------------------------------------------------

    def _list(self, node: ListLiteral) -> Type:
        types: list[Type] = []
        for index, item in enumerate(node.items):
            item_type = self.visit(item)
            types.append(self._inside(item, item_type) if index in node.optional else item_type)
        return list_of(self._joined(node.items, types))

    def _map(self, node: MapLiteral) -> Type:
        keys, values = [], []
        for key, value, optional in node.entries:
            keys.append(self.visit(key))
            value_type = self.visit(value)
            values.append(self._inside(value, value_type) if optional else value_type)
        key_type = self._joined([key for key, _, _ in node.entries], keys)
        return map_of(key_type, self._joined([value for _, value, _ in node.entries], values))

    def _inside(self, node: Expression, given: Type) -> Type:
        given = self._types.resolved(given)
        if given.kind == "optional_type":
            return given.params[0]
        if not given.is_dyn:
            self._issues.add(node.at, f"expected type '{optional_of(given)}' but found '{given}'")
        return DYN

    def _joined(self, nodes: Sequence[Expression], types: Sequence[Type]) -> Type:
        """Return the common type of all items. Literals must have a single type."""
        result: Type | None = None
        for node, item_type in zip(nodes, types, strict=True):
            if result is None or self._types.resolved(result).kind == "param":
                result = item_type
                continue
            if not self._types.assign_all([result], [item_type]):
                if self._mixing:
                    result = DYN
                    continue
                shown, expected = self._types.resolved(item_type, final=True), self._types.resolved(result, final=True)
                self._issues.add(node.at, f"expected type '{expected}' but found '{shown}'")
                return ERROR
        return result if result is not None else self._types.fresh_param()

    # -- loops ----------------------------------------------------------------------------------------------------

    def _comprehension(self, node: Comprehension) -> Type:
        over = self._types.resolved(self.visit(node.range))
        initial = self.visit(node.initial)
        first, second = self._iterated(node, over)
        scope = {node.accumulator: initial, node.variable: first}
        if node.second:
            scope[node.second] = second
        self._scopes.append(scope)
        if node.condition is not None:
            self._expect(node.condition, BOOL)
        step = self.visit(node.step)
        if not self._types.assign_all([initial], [step]):
            expected, actual = self._types.resolved(initial, final=True), self._types.resolved(step, final=True)
            self._issues.add(node.step.at, f"expected type '{expected}' but found '{actual}'")
        self._scopes[-1] = {node.accumulator: initial}
        result = self.visit(node.result)
        self._scopes.pop()
        return result

    def _iterated(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        if over.kind == "list":
            item = over.params[0]
            return (INT, item) if node.second else (item, DYN)
        if over.kind == "map":
            return over.params[0], over.params[1]
        if over.kind == "param":
            self._types.assign_all([over], [DYN])
        elif not over.is_dyn:
            message = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
            self._issues.add(node.range.at, message)
            return ERROR, ERROR
        return DYN, DYN

    def _expect(self, node: Expression, expected: Type) -> None:
        actual = self.visit(node)
        if not self._types.assign_all([expected], [actual]):
            self._issues.add(
                node.at, f"expected type '{expected}' but found '{self._types.resolved(actual, final=True)}'"
            )

    def _bind(self, node: Bind) -> Type:
        self._scopes.append({node.name: self.visit(node.value)})
        result = self.visit(node.body)
        self._scopes.pop()
        return result


def _qualified(node: Expression) -> str:
    """Return a dotted name such as `a.b`, or "" for any other node."""
    if isinstance(node, Ident):
        return node.name.lstrip(".")
    if isinstance(node, Select) and not node.test and not node.optional:
        before = _qualified(node.operand)
        return f"{before}.{node.field}" if before else ""
    return ""
