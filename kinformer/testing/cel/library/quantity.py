"""Resource quantities and semantic versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kinformer.objects.units import quantity_value
from kinformer.testing.cel.functions import Library, tenth
from kinformer.testing.cel.values import INT_MAX, INT_MIN, CELError, Opaque

__all__ = ["Quantity", "Semver", "add_quantities"]

_PARTS = re.compile(r"[+-]?(\d*)\.?(\d*)(.*)")
_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DIGITS = 18  # a quantity with more is stored as a decimal
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


class Quantity(Opaque):
    """A resource quantity, compared by value.

    `scale` is the power of ten of the integer as which a real server stores it. None means that it is stored as a
    decimal, which never counts as an integer.
    """

    __slots__ = ("scale", "value")
    cel_type = "kubernetes.Quantity"

    def __init__(self, value: Decimal, scale: int | None = 0) -> None:
        self.value = value
        self.scale = scale

    def equals(self, other: Any) -> bool:
        return bool(self.value == other.value)

    @property
    def is_integer(self) -> bool:
        """True if it is a 64-bit integer."""
        return self.scale is not None and self.scale >= 0 and INT_MIN <= self.value <= INT_MAX

    def added(self, other: Quantity, sign: int = 1) -> Quantity:
        """Return the sum, or the difference if `sign` is -1."""
        value = self.value + sign * other.value
        if not self.value:
            return Quantity(value, other.scale)
        if self.scale is None or other.scale is None:
            return Quantity(value, None)
        return Quantity(value, min(self.scale, other.scale))


class Semver(Opaque):
    """A semantic version, without build metadata."""

    __slots__ = ("numbers", "pre")
    cel_type = "kubernetes.Semver"

    def __init__(self, numbers: tuple[int, ...], pre: str) -> None:
        self.numbers = numbers
        self.pre = pre

    def equals(self, other: Any) -> bool:
        return bool(self.order() == other.order())

    def order(self) -> tuple[Any, ...]:
        """Return a sort key. A version without a pre-release follows those with one."""
        parts = (
            [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre.split(".")] if self.pre else []
        )
        return (self.numbers, not self.pre, parts)


def _quantity(text: str) -> Quantity:
    value = quantity_value(text)
    if value is None:
        raise CELError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    return Quantity(value, _scale(text))


def _scale(text: str) -> int | None:
    """Return the power of ten of a quantity's digits, or None if it is stored as a decimal (resource.ParseQuantity)."""
    number, fraction, suffix = _PARTS.fullmatch(text).groups("")  # type: ignore[union-attr]
    digits = len(number.lstrip("0")) + len(fraction)
    if suffix.endswith("i"):
        power = 10 * ("KMGTPE".index(suffix[0]) + 1)
        return 0 if not fraction and 15 - digits - power * 3 // 10 - 1 >= 0 else None
    exponent = int(suffix[1:]) if suffix[1:] else _POWERS.get(suffix, 0)
    scale = exponent - len(fraction)
    return scale if digits <= _DIGITS and scale >= -9 else None


def _as_integer(quantity: Quantity) -> int:
    if not quantity.is_integer:
        raise CELError("cannot convert value to integer")
    return int(quantity.value)


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _amount(value: Any) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(Decimal(int(value)))


def _semver(text: str, normalize: bool = False) -> Semver:
    if normalize:
        text = text.removeprefix("v")
        core, mark, rest = re.fullmatch(r"([^-+]*)([-+]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        parts = [part.lstrip("0") or "0" if part else part for part in core.split(".")]
        parts += ["0"] * (3 - len(parts))
        text = ".".join(parts) + mark + rest
    match = _SEMVER.fullmatch(text)
    if not match:
        short = text.count(".") < 2
        raise CELError(
            "No Major.Minor.Patch elements found" if short else f"Invalid character(s) found in version {text!r}"
        )
    return Semver(tuple(int(match[index]) for index in (1, 2, 3)), match[4] or "")


def is_valid(read: Callable[..., Any]) -> Callable[..., bool]:
    """Return a predicate that tests whether `read` accepts a string."""

    def run(*args: Any) -> bool:
        try:
            read(*args)
        except CELError:
            return False
        return True

    return run


def add_quantities(library: Library) -> None:
    """Add the functions of quantities and semantic versions."""
    name = Quantity.cel_type
    library.add("quantity", f"(string) -> {name}", run=_quantity, cost=lambda sizes: tenth(sizes[0]))
    library.add("isQuantity", "(string) -> bool", run=is_valid(_quantity), cost=lambda sizes: tenth(sizes[0]))
    library.add("sign", f"({name}) -> int", run=lambda quantity: _order(quantity.value, 0))
    library.add("asApproximateFloat", f"{name}.() -> double", run=lambda quantity: float(quantity.value))
    library.add("asInteger", f"{name}.() -> int", run=_as_integer)
    library.add("isInteger", f"{name}.() -> bool", run=lambda quantity: quantity.is_integer)
    both = (f"{name}.({name}) -> {name}", f"{name}.(int) -> {name}")
    library.add("add", *both, run=lambda left, right: left.added(_amount(right)))
    library.add("sub", *both, run=lambda left, right: left.added(_amount(right), -1))
    version = Semver.cel_type
    read = (f"(string) -> {version}", f"(string, bool) -> {version}")
    library.add("semver", *read, run=_semver, cost=lambda sizes: tenth(sizes[0]))
    signatures = ("(string) -> bool", "(string, bool) -> bool")
    library.add("isSemver", *signatures, run=is_valid(_semver), cost=lambda sizes: tenth(sizes[0]))
    for index, part in enumerate(("major", "minor", "patch")):
        library.add(part, f"{version}.() -> int", run=_number_at(index))
    for type_name, key in ((name, lambda quantity: quantity.value), (version, Semver.order)):
        _add_comparisons(library, type_name, key)


def _number_at(index: int) -> Callable[[Semver], int]:
    return lambda version: version.numbers[index]


def _add_comparisons(library: Library, name: str, key: Callable[[Any], Any]) -> None:
    library.add("isGreaterThan", f"{name}.({name}) -> bool", run=lambda left, right: key(left) > key(right))
    library.add("isLessThan", f"{name}.({name}) -> bool", run=lambda left, right: key(left) < key(right))
    library.add("compareTo", f"{name}.({name}) -> int", run=lambda left, right: _order(key(left), key(right)))
