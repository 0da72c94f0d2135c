"""The standard functions of CEL: operators, conversions, strings, and optional values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kinformer.testing.cel.functions import Library, search_cost, tenth
from kinformer.testing.cel.library.patterns import pattern
from kinformer.testing.cel.library.times import add_times, not_converted
from kinformer.testing.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    CELError,
    Duration,
    KeyedList,
    OptionalValue,
    SetList,
    Timestamp,
    TypeValue,
    UInt,
    double_text,
    equal,
    kind_of,
)

__all__ = ["standard"]

_NUMBERS = ("int", "uint", "double")
_BOOLEANS = ("true", "false", "t", "f", "1", "0", "TRUE", "FALSE", "True", "False", "T", "F")
_SPAN = 315_576_000_000 * 1_000_000_000  # maximum duration in nanoseconds


def _smaller(sizes: Sequence[int]) -> int:
    return tenth(min(sizes))


def _total(sizes: Sequence[int]) -> int:
    return sum(sizes)


def _joined_cost(sizes: Sequence[int]) -> int:
    return tenth(_total(sizes))


def whole(value: int) -> int:
    """Return a 64-bit int. Raises the error of an overflow."""
    if not INT_MIN <= value <= INT_MAX:
        raise CELError("integer overflow")
    return value


def _unsigned(value: int) -> UInt:
    if not 0 <= value <= UINT_MAX:
        raise CELError("unsigned integer overflow")
    return UInt(value)


def _divided(left: int, right: int) -> int:
    if not right:
        raise CELError("division by zero")
    quotient = abs(left) // abs(right)
    return whole(quotient if (left < 0) == (right < 0) else -quotient)


def _modulus(left: int, right: int) -> int:
    if not right:
        raise CELError("modulus by zero")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _double_divided(left: float, right: float) -> float:
    if right:
        return left / right
    return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)


def _spanned(nanos: int) -> Duration:
    if abs(nanos) > _SPAN or not INT_MIN <= nanos <= INT_MAX:
        raise CELError("integer overflow")
    return Duration(nanos)


def _add_arithmetic(library: Library) -> None:
    for name, run in (
        ("_+_", lambda left, right: left + right),
        ("_-_", lambda left, right: left - right),
        ("_*_", lambda left, right: left * right),
    ):
        library.add(name, "(int, int) -> int", run=_bounded(run, whole))
        library.add(name, "(uint, uint) -> uint", run=_bounded(run, _unsigned))
        library.add(name, "(double, double) -> double", run=run)
    library.add("_/_", "(int, int) -> int", run=_divided)
    library.add("_/_", "(uint, uint) -> uint", run=lambda left, right: UInt(_divided(left, right)))
    library.add("_/_", "(double, double) -> double", run=_double_divided)
    library.add("_%_", "(int, int) -> int", run=_modulus)
    library.add("_%_", "(uint, uint) -> uint", run=lambda left, right: UInt(_modulus(left, right)))
    library.add("-_", "(int) -> int", run=lambda value: whole(-value))
    library.add("-_", "(double) -> double", run=lambda value: -value)
    joined = ("(string, string) -> string", "(bytes, bytes) -> bytes")
    library.add("_+_", *joined, run=lambda left, right: left + right, cost=_joined_cost)
    library.add("_+_", "(list(A), list(A)) -> list(A)", run=_joined_lists)
    library.add("_+_", "(duration, duration) -> duration", run=lambda left, right: _spanned(left.nanos + right.nanos))
    library.add(
        "_+_",
        "(timestamp, duration) -> timestamp",
        "(duration, timestamp) -> timestamp",
        run=lambda left, right: Timestamp(left.nanos + right.nanos),
    )
    library.add("_-_", "(timestamp, timestamp) -> duration", run=lambda left, right: _spanned(left.nanos - right.nanos))
    library.add(
        "_-_", "(timestamp, duration) -> timestamp", run=lambda left, right: Timestamp(left.nanos - right.nanos)
    )
    library.add("_-_", "(duration, duration) -> duration", run=lambda left, right: _spanned(left.nanos - right.nanos))


def _bounded(run: Callable[[Any, Any], Any], bound: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda left, right: bound(run(left, right))


def _joined_lists(left: list[Any], right: list[Any]) -> list[Any]:
    if isinstance(left, SetList):
        return SetList([*left, *(item for item in right if not any(equal(item, other) for other in left))])
    if isinstance(left, KeyedList):
        merged = {repr(left.key_of(item)): item for item in left}
        merged.update({repr(left.key_of(item)): item for item in right})
        return KeyedList(list(merged.values()), left.keys)
    return [*left, *right]


def _add_comparisons(library: Library) -> None:
    comparisons: tuple[tuple[str, Callable[[Any, Any], bool]], ...] = (
        ("_<_", lambda left, right: left < right),
        ("_<=_", lambda left, right: left <= right),
        ("_>_", lambda left, right: left > right),
        ("_>=_", lambda left, right: left >= right),
    )
    for name, run in comparisons:
        library.add(name, "(bool, bool) -> bool", run=run)
        for first in _NUMBERS:
            library.add(name, *(f"({first}, {second}) -> bool" for second in _NUMBERS), run=run)
        library.add(name, "(string, string) -> bool", "(bytes, bytes) -> bool", run=run, cost=_smaller)
        for moment in ("timestamp", "duration"):
            library.add(name, f"({moment}, {moment}) -> bool", run=_by_nanos(run))
    for name in ("_==_", "_!=_"):
        library.add(name, "(A, A) -> bool", run=equal, cost=_smaller)
    library.add("!_", "(bool) -> bool", run=lambda value: not value)
    library.add("_&&_", "(bool, bool) -> bool", run=lambda left, right: left and right)
    library.add("_||_", "(bool, bool) -> bool", run=lambda left, right: left or right)
    library.add("_?_:_", "(bool, A, A) -> A", run=lambda test, then, otherwise: then if test else otherwise)
    library.add("@not_strictly_false", "(bool) -> bool", run=lambda value: value)


def _by_nanos(run: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: run(left.nanos, right.nanos)


# -- containers -------------------------------------------------------------------------------------------------------


def _at(items: list[Any], index: Any) -> Any:
    if kind_of(index) == "double" and not float(index).is_integer():
        raise CELError(f"unsupported index value in list: {index}")
    if not 0 <= index < len(items):
        raise CELError(f"index out of bounds: {index}")
    return items[int(index)]


def _value_of(content: dict[Any, Any], key: Any) -> Any:
    try:
        return content[key]
    except KeyError:
        raise CELError(f"no such key: {key}") from None


def _contains(sought: Any, items: list[Any]) -> bool:
    return any(equal(sought, item) for item in items)


def _insert(content: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if key in content:
        raise CELError(f"insert failed: key {key} already exists")
    return {**content, key: value}


def _insert_all(content: dict[Any, Any], entries: dict[Any, Any]) -> dict[Any, Any]:
    for key, value in entries.items():
        content = _insert(content, key, value)
    return content


def _add_containers(library: Library) -> None:
    library.add("_[_]", "(list(A), int) -> A", run=_at)
    library.add("_[_]", "(map(A, B), A) -> B", run=_value_of)
    library.add("_[_]", "(optional(list(V)), int) -> optional(V)", run=lambda items, index: _inside(items, index))
    library.add("_[_]", "(optional(map(K, V)), K) -> optional(V)", run=lambda content, key: _inside(content, key))
    for optional in ("list(V), int", "optional(list(V)), int", "map(K, V), K", "optional(map(K, V)), K"):
        library.add("_[?_]", f"({optional}) -> optional(V)", run=_inside)
    library.add("@in", "(A, list(A)) -> bool", run=_contains, cost=lambda sizes: sizes[1])
    library.add("@in", "(A, map(A, B)) -> bool", run=lambda key, content: key in content)
    sized = [f"{kind}.() -> int" for kind in ("string", "bytes", "list(A)", "map(A, B)")]
    sized += [f"({kind}) -> int" for kind in ("string", "bytes", "list(A)", "map(A, B)")]
    library.add("size", *sized, run=len)
    library.add("cel.@mapInsert", "(map(K, V), K, V) -> map(K, V)", run=_insert)
    library.add("cel.@mapInsert", "(map(K, V), map(K, V)) -> map(K, V)", run=_insert_all)


def _inside(container: Any, key: Any) -> OptionalValue:
    if isinstance(container, OptionalValue):
        return _inside(container.value, key) if container.present else container
    if isinstance(container, list):
        return OptionalValue(container[key]) if 0 <= key < len(container) else OptionalValue.none()
    return OptionalValue(container[key]) if key in container else OptionalValue.none()


# -- strings ----------------------------------------------------------------------------------------------------------


def _add_strings(library: Library) -> None:
    library.add(
        "contains",
        "string.(string) -> bool",
        run=lambda text, part: part in text,
        cost=lambda sizes: tenth(sizes[0]) * tenth(sizes[1]),
    )
    for name, run in (("startsWith", str.startswith), ("endsWith", str.endswith)):
        library.add(name, "string.(string) -> bool", run=run, cost=lambda sizes: tenth(sizes[1]))
    library.add(
        "matches",
        "string.(string) -> bool",
        "(string, string) -> bool",
        run=lambda text, expression: pattern(expression).search(text) is not None,
        cost=search_cost,
    )


# -- conversions ------------------------------------------------------------------------------------------------------


def _to_int(value: Any) -> int:
    if isinstance(value, Timestamp):
        return value.nanos // 1_000_000_000
    if isinstance(value, str):
        digits = value[1:] if value[:1] in ("-", "+") else value
        if not (digits.isascii() and digits.isdigit()):
            raise not_converted("int")
        if not INT_MIN <= int(value) <= INT_MAX:
            raise not_converted("int")
        return int(value)
    if isinstance(value, float) and not -(2.0**63) < value < 2.0**63:
        raise CELError("integer overflow")
    return whole(int(value))


def _to_uint(value: Any) -> UInt:
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit() and int(value) <= UINT_MAX):
            raise not_converted("uint")
        return UInt(value)
    if isinstance(value, float) and not 0 <= value < 2.0**64:
        raise CELError("unsigned integer overflow")
    return _unsigned(int(value))


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise not_converted("double") from None


def _to_bool(value: Any) -> bool:
    if isinstance(value, str):
        if value not in _BOOLEANS:
            raise not_converted("bool")
        return value[0] in "tT1"
    return bool(value)


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CELError("invalid UTF-8 in bytes, cannot convert to string") from None
    return str(value)


def _add_conversions(library: Library) -> None:
    library.add("int", *(f"({name}) -> int" for name in ("int", "uint", "double", "string", "timestamp")), run=_to_int)
    library.add("uint", *(f"({name}) -> uint" for name in ("uint", "int", "double", "string")), run=_to_uint)
    library.add("double", *(f"({name}) -> double" for name in ("double", "int", "uint", "string")), run=_to_double)
    library.add("bool", "(bool) -> bool", "(string) -> bool", run=_to_bool)
    simple = ("string", "bool", "int", "uint", "double", "timestamp", "duration")
    library.add("string", *(f"({name}) -> string" for name in simple), run=_to_text)
    library.add("string", "(bytes) -> string", run=_to_text, cost=lambda s: tenth(s[0]))
    library.add("bytes", "(bytes) -> bytes", run=lambda value: value)
    library.add("bytes", "(string) -> bytes", run=str.encode, cost=lambda s: tenth(s[0]))
    library.add("dyn", "(A) -> dyn", run=lambda value: value)
    library.add("type", "(A) -> type(A)", run=lambda value: TypeValue(kind_of(value)))


# -- optional values --------------------------------------------------------------------------------------------------


def _value(optional: OptionalValue) -> Any:
    if not optional.present:
        raise CELError("optional.none() dereference")
    return optional.value


def _non_zero(value: Any) -> OptionalValue:
    zero = value is None or (isinstance(value, (bool, int, float, str, bytes, list, dict)) and not value)
    return OptionalValue.none() if zero else OptionalValue(value)


def _add_optionals(library: Library) -> None:
    library.add("optional.of", "(V) -> optional(V)", run=OptionalValue)
    library.add("optional.ofNonZeroValue", "(V) -> optional(V)", run=_non_zero)
    library.add("optional.none", "() -> optional(V)", run=OptionalValue.none)
    library.add("value", "optional(V).() -> V", run=_value)
    library.add("hasValue", "optional(V).() -> bool", run=lambda optional: optional.present)
    library.add(
        "or", "optional(V).(optional(V)) -> optional(V)", run=lambda value, other: value if value.present else other
    )
    library.add("orValue", "optional(V).(V) -> V", run=lambda value, other: value.value if value.present else other)


def standard() -> Library:
    """Return the library of standard functions."""
    library = Library()
    for add in (_add_arithmetic, _add_comparisons, _add_containers, _add_strings, _add_conversions, _add_optionals):
        add(library)
    add_times(library)
    return library
