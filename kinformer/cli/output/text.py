"""Text of a cluster, made harmless for a terminal."""

from __future__ import annotations

import re

__all__ = ["clean", "escaped"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_IN_JSON = re.compile(r"[\x7f-\x9f\u2028\u2029]")  # below these a string of JSON has none but escaped


def clean(text: str) -> str:
    """Control characters, which could command a terminal, as a question mark."""
    return _CONTROL.sub("?", text)


def escaped(json: str) -> str:
    """The same JSON, with control characters escaped that it may hold as they are."""
    return _CONTROL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", json)
