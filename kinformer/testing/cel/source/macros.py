"""Macros: calls that the parser replaces with loops and other nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinformer.testing.cel.source.lexer import Issues
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

__all__ = ["ACCUMULATOR", "expand"]

ACCUMULATOR = "@result"

Args = Sequence[Node]


def expand(at: int, name: str, args: Args, target: Node | None, issues: Issues) -> Node | None:
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


def _has(at: int, args: Args, issues: Issues) -> Node:
    found = args[0]
    if not isinstance(found, Select) or found.optional:
        issues.add(found.at, "invalid argument to has() macro")
        return Literal(at, False)
    return Select(at, found.operand, found.field, test=True)


def _loop(
    at: int,
    over: Node,
    names: Sequence[str],
    initial: Node,
    condition: Node | None,
    step: Node,
    result: Node | None = None,
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


def _all(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    condition = Call(at, "@not_strictly_false", [Ident(at, ACCUMULATOR)])
    step = Call(at, "_&&_", [Ident(at, ACCUMULATOR), args[0]])
    return _loop(at, target, names, Literal(at, True), condition, step)


def _exists(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    condition = Call(at, "@not_strictly_false", [Call(at, "!_", [Ident(at, ACCUMULATOR)])])
    step = Call(at, "_||_", [Ident(at, ACCUMULATOR), args[0]])
    return _loop(at, target, names, Literal(at, False), condition, step)


def _exists_one(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    more = Call(at, "_+_", [Ident(at, ACCUMULATOR), Literal(at, 1)])
    step = Call(at, "_?_:_", [args[0], more, Ident(at, ACCUMULATOR)])
    result = Call(at, "_==_", [Ident(at, ACCUMULATOR), Literal(at, 1)])
    return _loop(at, target, names, Literal(at, 0), None, step, result)


def _collected(at: int, target: Node, names: Sequence[str], item: Node, only: Node | None) -> Node:
    added = Call(at, "_+_", [Ident(at, ACCUMULATOR), ListLiteral(at, [item])])
    added.in_place = True
    step: Node = added
    if only is not None:
        step = Call(at, "_?_:_", [only, step, Ident(at, ACCUMULATOR)])
    return _loop(at, target, names, ListLiteral(at, []), None, step)


def _map(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    return _collected(at, target, names, args[-1], args[0] if len(args) > 1 else None)


def _filter(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    return _collected(at, target, names, Ident(at, names[0]), args[0])


def _merged(at: int, target: Node, names: Sequence[str], args: Args, entry: Call) -> Node:
    step: Node = entry
    if len(args) > 1:
        step = Call(at, "_?_:_", [args[0], step, Ident(at, ACCUMULATOR)])
    return _loop(at, target, names, MapLiteral(at, []), None, step)


def _transform_map(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    entry = Call(at, "cel.@mapInsert", [Ident(at, ACCUMULATOR), Ident(at, names[0]), args[-1]])
    return _merged(at, target, names, args, entry)


def _transform_entry(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    return _merged(at, target, names, args, Call(at, "cel.@mapInsert", [Ident(at, ACCUMULATOR), args[-1]]))


def _optional_map(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    return _if_present(at, target, Call(at, "optional.of", [_opened(at, target, names, args)]))


def _optional_flat_map(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    return _if_present(at, target, _opened(at, target, names, args))


def _opened(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    return Bind(at, names[0], Call(at, "value", [], target), args[0])


def _if_present(at: int, target: Node, then: Node) -> Node:
    present = Call(at, "hasValue", [], target)
    return Call(at, "_?_:_", [present, then, Call(at, "optional.none", [])])


def _sort_by(at: int, target: Node, names: Sequence[str], args: Args) -> Node:
    return Call(at, "@sortByAssociatedKeys", [_map(at, target, names, args)], target)


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
_EXPANSIONS: dict[str, Callable[[int, Node, Sequence[str], Args], Node]] = {
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
