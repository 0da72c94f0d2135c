"""Makes text from a cluster harmless for a terminal."""

from __future__ import annotations

import re

__all__ = ["clean", "escaped"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_IN_JSON = re.compile(r"[\x7f-\x9f\u2028\u2029]")  # JSON strings escape all others themselves


def clean(text: str) -> str:
    """Replace control characters, which could command a terminal, by question marks."""
    return _CONTROL.sub("?", text)


def escaped(json: str) -> str:
    """Escape the control characters that JSON may contain unescaped."""
    return _CONTROL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", json)
