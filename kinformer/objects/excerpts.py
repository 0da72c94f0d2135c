"""Excerpts of malformed bytes for errors, which never quote a part of an object.

The object may be a Secret, and errors are logged, and shown by health checks.
"""

from __future__ import annotations

import re

__all__ = ["excerpt_of", "is_quotable"]

_HEAD = 200  # bytes of a response that are looked at
_NAME = re.compile(rb'"metadata":\s*\{\s*"name":\s*"([a-z0-9.:-]{1,253})"')
_LONG_WORD = re.compile(rb"(?=[^\s/.]*\d)[^\s/.]{16,}")  # such as a part of the base64 of a value


def is_quotable(data: bytes) -> bool:
    """Return True if an error may quote the beginning of a response: HTML or plain text, not a part of an object."""
    head = data[:_HEAD].lstrip()
    if head.startswith(b"<"):
        return True
    return head.isascii() and not any(sign in head for sign in b'"{[\\') and not _LONG_WORD.search(head)


def excerpt_of(data: bytes, most: int = 80) -> str:
    """Describe malformed bytes in an error, by quoting them, or by their size and name if they may be an object."""
    if is_quotable(data):
        return repr(data[:most])
    name = _NAME.search(data[:_HEAD])
    return f"{len(data):,} bytes" + (f", named {name[1].decode()!r}" if name else "")
