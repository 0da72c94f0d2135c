"""The clauses of a format, such as `%s` and `%.2f`, and the values that each accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kinformer.testing.cel.values import CELError

__all__ = ["Clause", "check_format", "clauses", "mismatch"]

_PRECISION = 6
_NUMBERS = ("int", "uint", "double")
_WHOLE = ("int", "uint")
# By letter: the accepted kinds, and the message for other kinds.
_TAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "d": (_NUMBERS, "decimal clause can only be used on integers, was given "),
    "f": (_NUMBERS, "fixed-point clause can only be used on doubles, was given "),
    "e": (_NUMBERS, "scientific clause can only be used on doubles, was given "),
    "b": ((*_WHOLE, "bool"), "only integers and bools can be formatted as binary, was given "),
    "x": ((*_WHOLE, "string", "bytes"), "only integers, byte buffers, and strings can be formatted as hex, was given "),
    "o": (_WHOLE, "octal clause can only be used on integers, was given "),
}
_TAKES["X"] = _TAKES["x"]


class Clause(NamedTuple):
    """A part of a format: literal text, or the letter of a clause with its precision."""

    text: str
    letter: str = ""
    precision: int = _PRECISION


def clauses(text: str) -> Iterator[Clause]:
    """Yield the parts of a format, in order. Raises `CELError` at an invalid clause."""
    position = 0
    while position < len(text):
        end = text.find("%", position)
        if end < 0:
            yield Clause(text[position:])
            return
        if end > position:
            yield Clause(text[position:end])
        position = end + 1
        precision = _PRECISION
        if text[position : position + 1] == ".":
            end = position + 1
            while text[end : end + 1].isdigit():
                end += 1
            precision, position = int(text[position + 1 : end] or 0), end
        if position >= len(text):
            raise CELError("unexpected end of string")
        letter = text[position]
        position += 1
        if letter == "%":
            yield Clause("%")
        elif letter == "s" or letter in _TAKES:
            yield Clause("", letter, precision)
        else:
            raise CELError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')


def mismatch(letter: str, kind: str) -> str:
    """Return the error for a value of this kind in a clause, or "" if it is accepted."""
    if letter == "s" or kind in ("dyn", "error", "param") or kind in _TAKES[letter][0]:
        return ""
    return f"error during formatting: {_TAKES[letter][1]}{kind}"


def check_format(text: str, kinds: Sequence[str]) -> tuple[int | None, str] | None:
    """Return the error of a format for values of these kinds, with the value's index (None: the format itself)."""
    used = 0
    try:
        for clause in clauses(text):
            if not clause.letter:
                continue
            if used >= len(kinds):
                return None, f"index {used} out of range"
            wrong = mismatch(clause.letter, kinds[used])
            if wrong:
                return used, wrong
            used += 1
    except CELError as error:
        return None, str(error)
    if used < len(kinds):
        return None, f"too many arguments supplied to string.format (expected {used}, got {len(kinds)})"
    return None
