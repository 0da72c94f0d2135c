"""The JSON of a program's values, with the same meaning, or a TypeError with the path of a value that has none.

msgspec encodes some values as something else: nan as null, which removes a field in a merge patch, a set as a list in
any order, a `KubeObject` within a dict as its internal fields. So the value is also looked at. That takes four times
as long as encoding it: 20 us for a Pod of 2.4 KB, 8 ms for 1 MB of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite

import msgspec

from kinformer._runtime.clock import YieldBudget

__all__ = ["encode", "encode_in_slices", "encode_result", "refuse_faults"]

_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_encode_ordered = msgspec.json.Encoder(order="deterministic").encode

_SLICE = 1024  # values between two looks at the clock
_PLAIN_NAME = re.compile(r"[\w-]+")


def encode(value: object, *, ordered: bool = False) -> bytes:
    """Return the JSON of a value.

    Besides the types of JSON, it may have tuples, Enums, UUIDs, dates, aware datetimes (as in RFC 3339), bytes (as
    base64, like Go's), finite Decimals (as strings, like quantities), dataclasses, Structs and `msgspec.Raw`.

    Args:
        value: The value. Its keys are strings or integers.
        ordered: True to sort the members of dicts, for a digest.

    Raises:
        TypeError: A part of it has no JSON. The message begins with its path.
    """
    data = _encoded(value, ordered=ordered)
    for _ in _slices(value):
        pass
    return data


async def encode_in_slices(value: object) -> bytes:
    """Return the JSON of a value, as `encode` does. It is looked at in slices that do not hold the event loop."""
    data, budget = _encoded(value), YieldBudget()
    for _ in _slices(value):
        if budget.exhausted():
            await budget.pause()
    return data


def encode_result(value: object) -> bytes:
    """Return the JSON of what a function makes of each object of a cache. Only its numbers are looked at.

    This takes a tenth of the time of `encode` for a value without null, and otherwise a half. A set, a naive datetime
    and a timedelta become the JSON that msgspec gives them.

    Raises:
        TypeError, ValueError: A part of it has no JSON.
    """
    data = _encode(value)
    if b"null" in data and _may_have_nan(value):
        refuse_faults(value)
    return data


def _may_have_nan(value: object) -> bool:
    """Return False if each number is certainly finite.

    MessagePack writes a number as 0xcb and 8 bytes, of which the first is 0x7f or 0xff in nan, inf and finite numbers
    above 1e303. Text in UTF-8 never has these pairs of bytes.
    """
    try:
        packed = _pack(value)
    except OverflowError:  # an integer of more than 64 bits
        return True
    return b"\xcb" in packed and (b"\xcb\x7f" in packed or b"\xcb\xff" in packed)


def refuse_faults(value: object) -> None:
    """Raise the TypeError of `encode` if a part of a value has no JSON."""
    try:
        fault = next(_faults(value, ""), "")
    except RecursionError:
        fault = "the value is nested too deeply, or contains itself"
    if fault:
        raise TypeError(fault)


def _encoded(value: object, *, ordered: bool = False) -> bytes:
    try:
        return _encode_ordered(value) if ordered else _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        refuse_faults(value)
        raise TypeError(str(error)) from None


def _slices(value: object) -> Iterator[None]:
    """Look at a value, and yield after each slice of it. Raises TypeError if a part of it has no JSON.

    This only distinguishes plain JSON, as nearly every value is, from everything that `refuse_faults` has to look at.
    """
    waiting: list[Collection[object]] = [(value,)]
    seen = 0
    for container in waiting:
        seen += len(container)
        if type(container) is dict:
            for key in container:  # `any` takes three times as long
                if type(key) is not str:
                    return refuse_faults(value)
            container = container.values()
        for part in container:
            kind = type(part)
            if kind is str or kind is int or kind is bool or part is None:
                continue
            if kind is dict or kind is list:
                waiting.append(part)  # type: ignore[arg-type]
            elif kind is not float or not isfinite(part):  # type: ignore[arg-type]
                return refuse_faults(value)
        if seen > _SLICE:
            seen = 0
            yield
    return None


# --- all types --------------------------------------------------------------------------------------------------------


def _faults(value: object, path: str) -> Iterator[str]:
    """Yield a message for each part of a value that has no JSON."""
    parts = _parts(value)
    reason = _reason(value, is_leaf=parts is None)
    if reason:
        yield f"{path.removeprefix('.') or 'the value'}: {reason}"
    else:
        for step, part in parts or ():
            yield from _faults(part, path + step)


def _parts(value: object) -> list[tuple[str, object]] | None:
    """Return the parts of a value with the steps to them in a path, or None if it has none."""
    members: Iterable[tuple[object, object]]
    if isinstance(value, list | tuple):
        return [(f"[{number}]", part) for number, part in enumerate(value)]
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        members = [(name, part) for name, field in names if (part := getattr(value, field)) is not msgspec.UNSET]
    else:
        attributes = (field.name for field in getattr(type(value), "__attrs_attrs__", ()))
        fields = [*getattr(type(value), "__dataclass_fields__", ()), *attributes]
        if not fields:
            return None
        members = [(name, getattr(value, name)) for name in fields if hasattr(value, name)]
    return [(f".{name}" if _PLAIN_NAME.fullmatch(str(name)) else f"[{str(name)!r}]", part) for name, part in members]


def _reason(value: object, *, is_leaf: bool) -> str:
    """Return why a value has no JSON, whatever its parts are, or "" if it has."""
    match value:
        case dict():
            return _reason_of_keys(value)
        case Mapping():
            return f"a {type(value).__name__} is not encoded; pass dict(...), or the to_dict() of an object"
        case set() | frozenset():
            return "a set has no order; pass a list"
        case timedelta():
            return "a timedelta has no form that every field takes; pass a string such as '1h30m'"
        case datetime() if value.tzinfo is None:
            return "a datetime without a time zone; pass an aware one, such as datetime.now(UTC)"
        case Decimal() if not value.is_finite():
            return f"JSON has no number {value}"
        case float() if not isfinite(value):
            return f"JSON has no number {value}"
    if is_leaf:
        try:
            _encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            return str(error)
    return ""


def _reason_of_keys(keys: Iterable[object]) -> str:
    names = [key.value if isinstance(key, Enum) else key for key in keys]
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int):
            return f"a key is a {type(name).__name__}; pass strings"
        if reason := _reason(name, is_leaf=True):
            return f"a key: {reason}"
    return "" if len({str(name) for name in names}) == len(names) else "two keys become the same text"
