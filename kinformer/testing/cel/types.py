"""The types of the checker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "Type",
    "Unifier",
    "list_of",
    "map_of",
    "object_type",
    "optional_of",
    "param",
    "parse_type",
    "type_of",
]

_SHOWN = {"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration", "null_type": "null"}
_NULLABLE = {"object", "opaque", "optional_type", "google.protobuf.Timestamp", "google.protobuf.Duration", "null_type"}


class Type:
    """A type: its kind, its name and its parameters.

    `fields` are an object's fields. They do not affect equality of types.
    """

    __slots__ = ("fields", "kind", "name", "params")

    def __init__(
        self,
        kind: str,
        name: str = "",
        params: Sequence[Type] = (),
        *,
        fields: Mapping[str, Type] | None = None,
    ) -> None:
        self.kind = kind
        self.name = name or kind
        self.params = tuple(params)
        self.fields = fields

    def __str__(self) -> str:
        shown = _SHOWN.get(self.name, self.name)
        return f"{shown}({', '.join(map(str, self.params))})" if self.params else shown

    def same(self, other: Type) -> bool:
        """Return True if both types are equal, including parameters."""
        return (
            self.name == other.name
            and self.kind == other.kind
            and len(self.params) == len(other.params)
            and all(mine.same(theirs) for mine, theirs in zip(self.params, other.params, strict=True))
        )

    @property
    def is_dyn(self) -> bool:
        """True for dyn, and for the type of an error."""
        return self.kind in ("dyn", "error")


def _simple(name: str) -> Type:
    return Type(name)


DYN, ERROR, NULL, BOOL = _simple("dyn"), Type("error", "!error!"), _simple("null_type"), _simple("bool")
INT, UINT, DOUBLE, STRING, BYTES = map(_simple, ("int", "uint", "double", "string", "bytes"))
TIMESTAMP, DURATION = _simple("google.protobuf.Timestamp"), _simple("google.protobuf.Duration")
_SIMPLE = {simple.name: simple for simple in (DYN, NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES)}
_SIMPLE.update(timestamp=TIMESTAMP, duration=DURATION)


def list_of(item: Type) -> Type:
    """Return the type of a list of items of one type."""
    return Type("list", params=(item,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of a map from keys of one type to values of one type."""
    return Type("map", params=(key, value))


def optional_of(inner: Type) -> Type:
    """Return the type of a value that may be absent."""
    return Type("optional_type", params=(inner,))


def type_of(inner: Type) -> Type:
    """Return the type of a type."""
    return Type("type", params=(inner,))


def object_type(name: str, fields: Mapping[str, Type]) -> Type:
    """Return the type of an object with known fields."""
    return Type("object", name, fields=fields)


def param(name: str) -> Type:
    """Return a type parameter."""
    return Type("param", name)


def parse_type(text: str) -> Type:
    """Parse a declared type: `list(A)`, `map(string, dyn)`, `net.IP`. A single letter is a parameter."""
    parsed, rest = _parse(text.strip())
    if rest:
        raise ValueError(f"not a type: {text!r}")
    return parsed


def _parse(text: str) -> tuple[Type, str]:
    end = 0
    while end < len(text) and text[end] not in "(), ":
        end += 1
    name, rest = text[:end], text[end:]
    params = []
    if rest.startswith("("):
        rest = rest[1:]
        while not rest.startswith(")"):
            parameter, rest = _parse(rest.lstrip(", "))
            params.append(parameter)
        rest = rest[1:]
    if name in ("list", "map", "type"):
        return Type(name, params=params), rest
    if name == "optional":
        return optional_of(params[0]), rest
    if len(name) == 1:
        return param(name), rest
    return _SIMPLE.get(name) or Type("opaque", name), rest


class Unifier:
    """The bindings of the type parameters of one expression.

    `assign_all` adds bindings, and removes them again if one of its types is not assignable. None changes otherwise.
    """

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._count = 0

    def fresh(self, types: Sequence[Type]) -> list[Type]:
        """Return the types with fresh type parameters."""
        self._count += 1
        return [self._renamed(declared, f"_{self._count}") for declared in types]

    def fresh_param(self) -> Type:
        """Return a fresh type parameter, such as the item type of an empty list."""
        self._count += 1
        return param(f"_var{self._count}")

    def _renamed(self, declared: Type, suffix: str) -> Type:
        if declared.kind == "param":
            return param(declared.name + suffix)
        if not declared.params:
            return declared
        params = [self._renamed(inner, suffix) for inner in declared.params]
        return Type(declared.kind, declared.name, params, fields=declared.fields)

    def resolved(self, given: Type, *, final: bool = False) -> Type:
        """Return the type with known parameters substituted. `final` replaces unknown ones with dyn."""
        while given.kind == "param" and given.name in self._bound:
            given = self._bound[given.name]
        if given.kind == "param":
            return DYN if final else given
        if not given.params:
            return given
        params = [self.resolved(inner, final=final) for inner in given.params]
        if given.kind == "type" and params[0].kind == "param":
            params = [DYN]
        return Type(given.kind, given.name, params, fields=given.fields)

    def assign_all(self, targets: Sequence[Type], given: Sequence[Type]) -> bool:
        """Return True if each given type is assignable to its target. The resulting bindings are then kept."""
        if len(targets) != len(given):
            return False
        before = dict(self._bound)
        if all(self._assign(target, actual) for target, actual in zip(targets, given, strict=True)):
            return True
        self._bound = before
        return False

    def _occurs(self, name: str, within: Type) -> bool:
        within = self.resolved(within)
        return (
            within.name == name if within.kind == "param" else any(self._occurs(name, inner) for inner in within.params)
        )

    def _assign(self, target: Type, given: Type) -> bool:
        target, given = self.resolved(target), self.resolved(given)
        if target.kind == "param":
            if given.kind == "param" and given.name == target.name:
                return True
            if self._occurs(target.name, given):
                return False
            self._bound[target.name] = given
            return True
        if given.kind == "param":
            if self._occurs(given.name, target):
                return False
            self._bound[given.name] = target
            return True
        if target.is_dyn or given.is_dyn:
            return True
        if given.kind == "null_type":
            return target.kind in _NULLABLE
        if target.kind == "null_type":
            return given.kind in _NULLABLE
        if target.kind == "type":
            return given.kind == "type"
        if target.kind != given.kind or target.name != given.name or len(target.params) != len(given.params):
            return False
        return all(self._assign(left, right) for left, right in zip(target.params, given.params, strict=True))
