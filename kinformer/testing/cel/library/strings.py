"""The string extensions: characters, parts, letters, and `format`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kinformer.testing.cel.functions import Library, tenth, walk_cost
from kinformer.testing.cel.library.format_clauses import Clause, clauses, mismatch
from kinformer.testing.cel.values import CELError, double_text, kind_of

__all__ = ["add_strings"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_QUOTES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CELError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if not 0 <= start <= len(text):
        raise CELError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part) if part else len(text)
    if not 0 <= start <= len(text):
        raise CELError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part)) if part else start


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CELError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise CELError(f"index out of range: {end}")
    if start > end:
        raise CELError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        if limit < 0 or limit >= len(text):
            return list(text)
        return [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, -1 if limit < 0 else limit - 1)


def _lowered(text: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in text)


def _raised(text: str) -> str:
    return "".join(char.upper() if char.isascii() else char for char in text)


def _quoted(text: str) -> str:
    return '"' + "".join(_QUOTES.get(char, char) for char in text) + '"'


# -- format -----------------------------------------------------------------------------------------------------------


def _nested(value: Any) -> str:
    shown = _shown(value)
    if isinstance(value, bytes):
        return f"b{_quoted(shown)}"
    odd = isinstance(value, float) and not math.isfinite(value)
    return _quoted(shown) if odd or isinstance(value, str) else shown


def _shown(value: Any) -> str:
    """Format a value with `%s`."""
    kind = kind_of(value)
    if kind == "bool":
        return "true" if value else "false"
    if kind == "null_type":
        return "null"
    if kind == "double":
        return double_text(value)
    if kind == "bytes":
        return str(value.decode(errors="replace"))
    if kind == "list":
        return "[" + ", ".join(map(_nested, value)) + "]"
    if kind == "map":
        entries = sorted((_nested(key), _nested(content)) for key, content in value.items())
        return "{" + ", ".join(f"{key}:{content}" for key, content in entries) + "}"
    return str(value)


def _clause(clause: Clause, value: Any) -> str:
    letter, kind = clause.letter, kind_of(value)
    wrong = mismatch(letter, kind)
    if wrong:
        raise CELError(wrong)
    if letter == "s":
        return _shown(value)
    if letter in "fe":
        number = float(value)
        if not math.isfinite(number):
            return double_text(number)
        mantissa, mark, exponent = f"{number:.{clause.precision}{letter}}".partition("e")
        return f"{mantissa}×10{exponent.removeprefix('+').translate(_RAISED)}" if mark else mantissa
    if letter == "d":
        return double_text(value) if isinstance(value, float) else str(value)
    if letter in "xX" and kind in ("string", "bytes"):
        digits = (value.encode() if kind == "string" else value).hex()
        return str(digits.upper() if letter == "X" else digits)
    return f"{int(value):{letter}}"


def _format(text: str, args: list[Any]) -> str:
    parts, used = [], 0
    for clause in clauses(text):
        if not clause.letter:
            parts.append(clause.text)
            continue
        if used >= len(args):
            raise CELError(f"error during formatting: index {used} out of range")
        parts.append(_clause(clause, args[used]))
        used += 1
    return "".join(parts)


# -- declarations -----------------------------------------------------------------------------------------------------


def _walk_twice(sizes: Sequence[int]) -> int:
    return tenth(sizes[0] * 2)


def add_strings(library: Library) -> None:
    """Add the string extensions."""
    library.add("charAt", "string.(int) -> string", run=_char_at)
    library.add("indexOf", "string.(string) -> int", "string.(string, int) -> int", run=_index_of, cost=walk_cost)
    library.add(
        "lastIndexOf", "string.(string) -> int", "string.(string, int) -> int", run=_last_index_of, cost=walk_cost
    )
    library.add("substring", "string.(int) -> string", "string.(int, int) -> string", run=_substring, cost=walk_cost)
    library.add("lowerAscii", "string.() -> string", run=_lowered, cost=walk_cost)
    library.add("upperAscii", "string.() -> string", run=_raised, cost=walk_cost)
    library.add("trim", "string.() -> string", run=str.strip, cost=walk_cost)
    library.add(
        "replace",
        "string.(string, string) -> string",
        "string.(string, string, int) -> string",
        run=str.replace,
        cost=_walk_twice,
    )
    library.add(
        "split",
        "string.(string) -> list(string)",
        "string.(string, int) -> list(string)",
        run=_split,
        cost=_walk_twice,
    )
    joined = ("list(string).() -> string", "list(string).(string) -> string")
    library.add("join", *joined, run=lambda items, between="": between.join(items), cost=_walk_twice)
    library.add("format", "string.(list(dyn)) -> string", run=_format, cost=walk_cost)
    library.add("strings.quote", "(string) -> string", run=_quoted, cost=walk_cost)
