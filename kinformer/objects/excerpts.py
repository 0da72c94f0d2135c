"""Excerpts of responses for errors, which never quote a part of an object.

The object may be a Secret, and errors are logged, and shown by health checks. So only HTML and plain text are quoted,
such as a proxy sends, and the rest is described.
"""

from __future__ import annotations

import re

__all__ = ["excerpt_of", "excerpt_of_page", "text_of"]

_HEAD = 200  # bytes of a response that are looked at
_LONGEST = 300  # characters of a page's text
_NAME = re.compile(rb'"metadata":\s*\{\s*"name":\s*"([a-z0-9.:-]{1,253})"')
_LONG_WORD = re.compile(rb"(?=[^\s/.]*\d)[^\s/.]{16,}")  # such as a part of the base64 of a value
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_TAGS = re.compile(r"<(script|style).*?</\1>|<[^>]*>", re.DOTALL)


def excerpt_of(data: bytes, most: int = 80) -> str:
    """Describe malformed bytes, by quoting them, or by their size and name if they may be a part of an object.

    Args:
        data: The bytes, from where they are malformed.
        most: The number of bytes to quote.
    """
    return repr(data[:most]) if _is_text(data) else _described(data)


def excerpt_of_page(body: bytes) -> str:
    """Describe a response that is not JSON, like `excerpt_of`. HTML is quoted without its tags."""
    return repr(text_of(body)) if _is_text(body) else _described(body)


def text_of(body: bytes) -> str:
    """Return the beginning of the text of a page: its title, or else its words without HTML tags."""
    text = body[: 16 * _LONGEST].decode(errors="replace")
    if "<" in text[:200]:
        title = _TITLE.search(text)
        text = title[1] if title else _TAGS.sub(" ", text)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _is_text(data: bytes) -> bool:
    """Return True for HTML and for words, which no part of an object looks like.

    A response may begin anywhere in an object, for example after a proxy has lost some bytes. JSON has quotation marks
    everywhere, except within a value. That of a Secret is base64, and is long or has digits.
    """
    head = data[:_HEAD].lstrip()
    if head.startswith(b"<"):
        return True
    return head.isascii() and not any(sign in head for sign in b'"{[\\') and not _LONG_WORD.search(head)


def _described(data: bytes) -> str:
    name = _NAME.search(data[:_HEAD])
    return f"{len(data):,} bytes" + (f", named {name[1].decode()!r}" if name else "")
