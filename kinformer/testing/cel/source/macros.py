"""Macros: calls that the parser replaces with loops and other nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinformer.testing.cel.source.lexer import Issues
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

__all__ = ["ACCUMULATOR", "expand"]

ACCUMULATOR = "@result"  # no variable can have this name

Args = Sequence[Expression]


def expand(at: int, name: str, args: Args, target: Expression | None, issues: Issues) -> Expression | None:
    """Expand a macro call. Returns None for other calls."""
    if target is None:
        return _has(at, args, issues) if name == "has" and len(args) == 1 else None
    variables = _VARIABLES.get((name, len(args)))
    if variables is None:
        return None
    names = []
    for arg in args[:variables]:
        if not isinstance(arg, Ident):
            issues.add(arg.at, "argument must be a simple name" if variables == 1 else "argument is not an identifier")
            return Literal(at, False)
        names.append(arg.name)
    return _EXPANSIONS[name](at, target, names, args[variables:])


def _has(at: int, args: Args, issues: Issues) -> Expression:
    arg = args[0]
    if not isinstance(arg, Select) or arg.optional:
        issues.add(arg.at, "invalid argument to has() macro")
        return Literal(at, False)
    return Select(at, arg.operand, arg.field, test=True)


def _loop(
    at: int,
    over: Expression,
    names: Sequence[str],
    initial: Expression,
    condition: Expression | None,
    step: Expression,
    result: Expression | None = None,
) -> Comprehension:
    return Comprehension(
        at,
        over=over,
        variable=names[0],
        second=names[1] if len(names) > 1 else "",
        accumulator=ACCUMULATOR,
        initial=initial,
        condition=condition,
        step=step,
        result=result or Ident(at, ACCUMULATOR),
    )


def _all(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    condition = CallExpression(at, "@not_strictly_false", [Ident(at, ACCUMULATOR)])
    step = CallExpression(at, "_&&_", [Ident(at, ACCUMULATOR), args[0]])
    return _loop(at, target, names, Literal(at, True), condition, step)


def _exists(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    condition = CallExpression(at, "@not_strictly_false", [CallExpression(at, "!_", [Ident(at, ACCUMULATOR)])])
    step = CallExpression(at, "_||_", [Ident(at, ACCUMULATOR), args[0]])
    return _loop(at, target, names, Literal(at, False), condition, step)


def _exists_one(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    more = CallExpression(at, "_+_", [Ident(at, ACCUMULATOR), Literal(at, 1)])
    step = CallExpression(at, "_?_:_", [args[0], more, Ident(at, ACCUMULATOR)])
    result = CallExpression(at, "_==_", [Ident(at, ACCUMULATOR), Literal(at, 1)])
    return _loop(at, target, names, Literal(at, 0), None, step, result)


def _collected(
    at: int, target: Expression, names: Sequence[str], item: Expression, only: Expression | None
) -> Expression:
    added = CallExpression(at, "_+_", [Ident(at, ACCUMULATOR), ListLiteral(at, [item])])
    added.in_place = True
    step: Expression = added
    if only is not None:
        step = CallExpression(at, "_?_:_", [only, step, Ident(at, ACCUMULATOR)])
    return _loop(at, target, names, ListLiteral(at, []), None, step)


def _map(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    return _collected(at, target, names, args[-1], args[0] if len(args) > 1 else None)


def _filter(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    return _collected(at, target, names, Ident(at, names[0]), args[0])


def _merged(at: int, target: Expression, names: Sequence[str], args: Args, entry: CallExpression) -> Expression:
    step: Expression = entry
    if len(args) > 1:
        step = CallExpression(at, "_?_:_", [args[0], step, Ident(at, ACCUMULATOR)])
    return _loop(at, target, names, MapLiteral(at, []), None, step)


def _transform_map(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    entry = CallExpression(at, "cel.@mapInsert", [Ident(at, ACCUMULATOR), Ident(at, names[0]), args[-1]])
    return _merged(at, target, names, args, entry)


def _transform_entry(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    return _merged(at, target, names, args, CallExpression(at, "cel.@mapInsert", [Ident(at, ACCUMULATOR), args[-1]]))


def _optional_map(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    return _if_present(at, target, CallExpression(at, "optional.of", [_opened(at, target, names, args)]))


def _optional_flat_map(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    return _if_present(at, target, _opened(at, target, names, args))


def _opened(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    return Bind(at, names[0], CallExpression(at, "value", [], target), args[0])


def _if_present(at: int, target: Expression, then: Expression) -> Expression:
    present = CallExpression(at, "hasValue", [], target)
    return CallExpression(at, "_?_:_", [present, then, CallExpression(at, "optional.none", [])])


def _sort_by(at: int, target: Expression, names: Sequence[str], args: Args) -> Expression:
    return CallExpression(at, "@sortByAssociatedKeys", [_map(at, target, names, args)], target)


# (macro name, number of arguments) -> number of arguments that are variables.
_VARIABLES = {
    ("all", 2): 1,
    ("all", 3): 2,
    ("exists", 2): 1,
    ("exists", 3): 2,
    ("exists_one", 2): 1,
    ("existsOne", 2): 1,
    ("exists_one", 3): 2,
    ("existsOne", 3): 2,
    ("map", 2): 1,
    ("map", 3): 1,
    ("filter", 2): 1,
    ("transformList", 3): 2,
    ("transformList", 4): 2,
    ("transformMap", 3): 2,
    ("transformMap", 4): 2,
    ("transformMapEntry", 3): 2,
    ("transformMapEntry", 4): 2,
    ("optMap", 2): 1,
    ("optFlatMap", 2): 1,
    ("sortBy", 2): 1,
}
_EXPANSIONS: dict[str, Callable[[int, Expression, Sequence[str], Args], Expression]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "map": _map,
    "filter": _filter,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entry,
    "optMap": _optional_map,
    "optFlatMap": _optional_flat_map,
    "sortBy": _sort_by,
}
