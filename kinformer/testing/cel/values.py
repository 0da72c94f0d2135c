"""The values of expressions: Python's own types where possible, and otherwise the classes here.

null, bool, int, double, string, bytes, list and map are None, bool, int, float, str, bytes, list and dict.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "UINT_MAX",
    "CELError",
    "CostExceeded",
    "Duration",
    "KeyedList",
    "Opaque",
    "OptionalValue",
    "SetList",
    "Timestamp",
    "TypeValue",
    "UInt",
    "double_text",
    "equal",
    "kind_of",
    "no_overload",
    "size_of",
]

INT_MIN, INT_MAX, UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
_NANO = 1_000_000_000


class CELError(Exception):
    """An expression has no value: a missing key, an overflow, or a call without a matching overload."""

    cost = 0  # of the evaluation up to the error. `Program.priced` sets it


class CostExceeded(CELError):
    """The evaluation of one expression cost more than its limit."""


def no_overload() -> CELError:
    """Return the error of a call without a matching overload."""
    return CELError("no such overload")


class UInt(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class Timestamp:
    """A moment, in nanoseconds since 1970 in UTC."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def moment(self) -> datetime:
        """Return the moment as a datetime, to the second."""
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=self.nanos // _NANO)

    def __str__(self) -> str:
        timestamp = self.moment().strftime("%Y-%m-%dT%H:%M:%S").zfill(19)
        rest = self.nanos % _NANO
        return f"{timestamp}.{rest:09d}".rstrip("0") + "Z" if rest else f"{timestamp}Z"


class Duration:
    """A span of time, in nanoseconds."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __str__(self) -> str:
        whole, rest = divmod(abs(self.nanos), _NANO)
        sign = "-" if self.nanos < 0 else ""
        return f"{sign}{whole}" + (f".{rest:09d}".rstrip("0") if rest else "") + "s"


class OptionalValue:
    """A value that may be absent."""

    __slots__ = ("present", "value")

    def __init__(self, value: Any = None, *, present: bool = True) -> None:
        self.value = value
        self.present = present

    @classmethod
    def none(cls) -> OptionalValue:
        """Return the absent value."""
        return cls(present=False)


class TypeValue:
    """A type as a value: `int`, `type(1)`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class Opaque:
    """A value of an extension type: quantities, addresses, URLs."""

    __slots__ = ()
    cel_type: ClassVar[str] = ""

    def equals(self, other: Any) -> bool:
        """Return True if both values are equal. `other` has the same class."""
        raise NotImplementedError


class SetList(list[Any]):
    """A list of type `set`: equal in any order, and `+` adds missing items."""

    __slots__ = ()


class KeyedList(list[Any]):
    """A list of type `map`, whose items are identified by some of their fields."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> tuple[Any, ...]:
        """Return the fields that identify an item. A value that is not an object identifies itself."""
        return tuple(item.get(key) for key in self.keys) if isinstance(item, Mapping) else (item,)


_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    SetList: "list",
    KeyedList: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    OptionalValue: "optional_type",
    TypeValue: "type",
}
_NUMBERS = {"int", "uint", "double"}


def kind_of(value: Any) -> str:
    """Return the name of the type of a value, without its parameters."""
    kind = _KINDS.get(type(value))
    if kind is None:
        kind = str(value.cel_type) if isinstance(value, Opaque) else "map"
    return kind


def equal(left: Any, right: Any) -> bool:
    """Return True if two values are equal in CEL: numbers by value, and everything else within its type."""
    first, second = kind_of(left), kind_of(right)
    if first in _NUMBERS and second in _NUMBERS:
        return bool(left == right)
    if first != second:
        return False
    if first == "list":
        return _equal_lists(left, right)
    if first == "map":
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if first in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        return bool(left.nanos == right.nanos)
    if first == "optional_type":
        return left.present == right.present and (not left.present or equal(left.value, right.value))
    if first == "type":
        return bool(left.name == right.name)
    return left.equals(right) if isinstance(left, Opaque) else bool(left == right)


def _equal_lists(left: list[Any], right: list[Any]) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, SetList):
        return all(any(equal(item, other) for other in right) for item in left)
    if isinstance(left, KeyedList):
        by_key = {repr(left.key_of(item)): item for item in right}
        return all(repr(left.key_of(item)) in by_key and equal(item, by_key[repr(left.key_of(item))]) for item in left)
    return all(equal(item, other) for item, other in zip(left, right, strict=True))


def size_of(value: Any) -> int:
    """Return the size used to compute the cost of a call. It is 1 for a scalar."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    return size_of(value.value) if isinstance(value, OptionalValue) and value.present else 1


def double_text(value: float) -> str:
    """Format a double as Go's strconv does ('g'), in the shortest form that parses back."""
    if value != value:  # only NaN does not equal itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) + int(exponent) - 1 if value else 0
    mark = "-" if sign else ""
    # From this power of ten on, Go writes an exponent.
    longest = max(6, len(shown)) if len(shown) > power else 6
    if power < -4 or power >= longest:
        rest = f".{shown[1:]}" if len(shown) > 1 else ""
        return f"{mark}{shown[0]}{rest}e{'-' if power < 0 else '+'}{abs(power):02d}"
    shown = format(Decimal(repr(value)), "f")
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
