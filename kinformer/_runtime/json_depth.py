"""A limit on the nesting depth of JSON that is passed to a decoder.

A decoder calls itself at each level, and Python up to 3.13 limits these calls: to 1,000 on 3.11, 1,500 on 3.12, 10,000
on 3.13. From 3.14 on only the size of the stack limits them. It allows about a quarter of a million levels, depending
on the thread and the platform. There kinformer applies the limit of 3.13, which is also the API server's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import accumulate
from typing import Any, TypeVar, cast

__all__ = ["LONG", "bounded", "refuse_deep"]

DecodeT = TypeVar("DecodeT", bound=Callable[..., Any])

_BY_US: bool = sys.version_info >= (3, 14)
"""True if the interpreter does not limit the levels itself."""

LEVELS = 10_000
"""The number of levels from which JSON is refused, from Python 3.14 on."""

SHORTEST = 2 * LEVELS
"""Bytes of the shortest JSON with so many levels. Shorter JSON, like nearly every object, needs no check."""

LONG = SHORTEST if sys.version_info >= (3, 14) else sys.maxsize
"""Bytes from which JSON is checked before it is passed to a decoder that is not `bounded`."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")


def refuse_deep(data: bytes | bytearray | memoryview) -> None:
    """Raise RecursionError, as a decoder does, if JSON has `LEVELS` levels or more.

    Nearly all JSON has fewer brackets than that. Counting them takes a third of a nanosecond per byte, the same as
    skipping it. Invalid JSON may pass, because the decoder rejects it.

    Raises:
        RecursionError: The JSON is nested too deeply.
    """
    if len(data) < SHORTEST:
        return
    document = data if isinstance(data, bytes | bytearray) else bytes(data)
    if document.count(b"{") + document.count(b"[") < LEVELS:
        return
    steps = _STRING.sub(b"", document).translate(_STEPS, _NO_BRACKETS)
    if max(accumulate(memoryview(steps).cast("b")), default=0) >= LEVELS:
        raise RecursionError(f"JSON of {LEVELS} levels or more")


def bounded(decode: DecodeT) -> DecodeT:
    """Return a decoder with one argument, the JSON, that raises RecursionError if it is nested too deeply."""

    def decode_bounded(data: Any) -> Any:
        if len(data) >= SHORTEST:
            refuse_deep(data)
        return decode(data)

    return cast("DecodeT", decode_bounded) if sys.version_info >= (3, 14) else decode
