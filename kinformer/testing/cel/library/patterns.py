"""Regular expressions in the part of RE2's syntax that Python also supports."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import lru_cache

from kinformer.testing.cel.functions import UNBOUNDED, Library, tenth
from kinformer.testing.cel.values import CELError

__all__ = ["add_patterns", "pattern"]

# RE2 syntax that Python's re writes differently.
_CLASSES = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:space:]": r"\s",
    "[:xdigit:]": "0-9a-fA-F",
    "[:word:]": r"\w",
    "[:punct:]": r"!-/:-@\[-`{-~",
}
_MESSAGES = {
    "missing )": "missing closing )",
    "unterminated character set": "missing closing ]",
    "nothing to repeat": "missing argument to repetition operator",
    "multiple repeat": "invalid nested repetition operator",
    "unbalanced parenthesis": "unexpected )",
    "bad character range": "invalid character class range",
}
_UNKNOWN = re.compile(r"\(\?(?:[=!]|<[=!])|(?<!\\)(?:\\\\)*\\[1-9]")  # lookarounds and back references


@lru_cache(maxsize=1024)
def pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression. Raises `CELError` if RE2 would refuse it."""
    if _UNKNOWN.search(text):
        raise CELError(f"error parsing regexp: invalid or unsupported Perl syntax: `{text}`")
    translated = text.replace(r"\z", r"\Z")
    for name, characters in _CLASSES.items():
        translated = translated.replace(name, characters)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about possible future meanings of character sets
            return re.compile(translated, re.ASCII)
    except re.error as error:
        problem = next((shown for start, shown in _MESSAGES.items() if error.msg.startswith(start)), error.msg)
        raise CELError(f"error parsing regexp: {problem}: `{text}`") from None


def _find(text: str, expression: str) -> str:
    match = pattern(expression).search(text)
    return match.group() if match else ""


def _find_all(text: str, expression: str, limit: int = -1) -> list[str]:
    matches = [one.group() for one in pattern(expression).finditer(text)]
    return matches if limit < 0 else matches[:limit]


def add_patterns(library: Library) -> None:
    """Add Kubernetes' `find` and `findAll`."""

    def cost(sizes: Sequence[int]) -> int:
        return min(UNBOUNDED, tenth(sizes[0] + 1) * -(-sizes[1] // 4))

    library.add("find", "string.(string) -> string", run=_find, cost=cost, size=lambda sizes: sizes[0])
    library.add(
        "findAll",
        "string.(string) -> list(string)",
        "string.(string, int) -> list(string)",
        run=_find_all,
        cost=cost,
        size=lambda sizes: sizes[0],
    )
