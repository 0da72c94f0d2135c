"""Makes text from a cluster safe for a terminal."""

from __future__ import annotations

import re

__all__ = ["clean", "escaped", "escaped_in_yaml", "has_hidden", "middle"]

# Invisible characters that change what is displayed: C1 controls, line separators, and all format characters (Unicode
# category Cf), such as U+202E, which reverses the direction of text.
_HIDDEN = (
    r"\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e007f"
)
_CONTROL = re.compile(rf"[\x00-\x1f\ud800-\udfff{_HIDDEN}]")
_CONTROL_IN_JSON = re.compile(f"[{_HIDDEN}]")  # JSON strings escape all other control characters


def clean(text: str) -> str:
    """Replace control and format characters, which could control a terminal or deceive a reader, with `?`."""
    return _CONTROL.sub("?", text)


def middle(text: str, width: int) -> str:
    """Cut a name in the middle, such as `payments/api…x7k2p`, if it is wider than `width` cells.

    The end of a name is as distinctive as its beginning.
    """
    from rich.cells import cell_len  # imported here, because help needs only the rest of this module

    if cell_len(text) <= width:
        return text
    room = width - 1  # for the ellipsis
    beginning, end = text, text
    while cell_len(end) > max(0, room) // 2:
        end = end[1:]
    while cell_len(beginning) > room - cell_len(end) and beginning:
        beginning = beginning[:-1]
    return f"{beginning}…{end}" if width > 0 else ""


def has_hidden(text: str) -> bool:
    """Return True if the text has characters that `escaped` and `escaped_in_yaml` escape."""
    return _CONTROL_IN_JSON.search(text) is not None


def escaped(json: str) -> str:
    """Escape the control and format characters that JSON may contain unescaped."""
    return _CONTROL_IN_JSON.sub(_as_json, json)


def escaped_in_yaml(yaml: str) -> str:
    """Escape the control and format characters of YAML. Strings with such characters must be in double quotes."""
    return _CONTROL_IN_JSON.sub(lambda match: f"\\U{ord(match[0]):08x}", yaml)


def _as_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()  # two units above U+FFFF
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
