"""Shard selectors: `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')`, joined with `||`.

An object is assigned to a range by the 64-bit FNV-1a hash of the field (apimachinery/pkg/sharding, alpha in v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kinformer.apiserver.status import StatusError, internal
from kinformer.apiserver.storage import Stored

__all__ = ["Shards"]

_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
_FIELDS = ("object.metadata.uid", "object.metadata.namespace")
_DIGITS = 16
_WHOLE = "0x10000000000000000"


def _invalid_selector(text: str) -> StatusError:
    return internal(f"invalid shard selector: {text}")


def fnv1a(text: str) -> int:
    """Return the 64-bit FNV-1a hash of a string."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


class Shards:
    """The ranges of a selector. Raises a 500 `StatusError` for an invalid selector, as a real server does."""

    def __init__(self, text: str) -> None:
        if not text.strip():
            raise _invalid_selector("empty shard selector is not allowed; omit the parameter for unfiltered lists")
        ranges = [_range(part) for part in text.split("||")]
        self.field = ranges[0][0]
        for field, _, _ in ranges[1:]:
            if field != self.field:
                raise _invalid_selector(f'all shard ranges must use the same field, got "{self.field}" and "{field}"')
        self._ranges = [(int(start, 16), int(end, 16)) for _, start, end in ranges]
        self.text = " || ".join(f"shardRange({field}, '{start}', '{end}')" for field, start, end in ranges)

    def matches(self, stored: Stored) -> bool:
        """Return True if an object is in one of the ranges."""
        value = fnv1a(stored.uid if self.field == _FIELDS[0] else stored.namespace)
        return any(start <= value < end for start, end in self._ranges)


def _range(text: str) -> tuple[str, str, str]:
    match = _CALL.fullmatch(text)
    if match is None:
        raise _invalid_selector("CEL parse error: Syntax error")
    name, arguments = match[1], [argument.strip() for argument in match[2].split(",")]
    if name != "shardRange":
        raise _invalid_selector(f'unsupported function "{name}"; only shardRange() and || are allowed')
    if len(arguments) != 3:
        raise _invalid_selector(f"shardRange() requires exactly 3 arguments, got {len(arguments)}")
    field, start, end = arguments[0], _bound("start", arguments), _bound("end", arguments)
    if field not in _FIELDS:
        raise _invalid_selector(f'unsupported field path "{field}"; supported: {", ".join(_FIELDS)}')
    if int(start, 16) >= int(end, 16):
        raise _invalid_selector(f"shard range start {start} must be less than end {end}")
    return field, start, end


def _bound(which: str, arguments: Sequence[str]) -> str:
    name = {"start": "hexStart", "end": "hexEnd"}[which]
    bound = arguments[1 if which == "start" else 2]
    if len(bound) < 2 or bound[0] not in "'\"" or bound[-1] != bound[0]:
        raise _invalid_selector(f"{name} must be a string literal (e.g. '0xff'), got {bound}")
    bound = bound[1:-1]
    digits = bound.removeprefix("0x")
    if digits == bound:
        raise _invalid_selector(f"{name} must have '0x' prefix, got \"{bound}\"")
    if not digits:
        raise _invalid_selector(f"{name}: hex value is required after '0x'")
    for char in digits:
        if char not in "0123456789abcdef":
            raise _invalid_selector(f'{name}: invalid hex character "{char}" in "{bound}"')
    if len(digits) == _DIGITS + 1 and bound != _WHOLE:
        raise _invalid_selector(f"{name}: 17-digit hex value must be '{_WHOLE}' (2^64), got \"{bound}\"")
    if len(digits) < _DIGITS:
        padded = f"0x{digits:0>16}"
        raise _invalid_selector(
            f'{name} must be a 0x-prefixed 16-digit hex value, got "{bound}" (did you mean "{padded}"?)'
        )
    return bound
