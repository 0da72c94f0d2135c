"""Parses values of options, and defines the error for a wrong command line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from kinformer.objects.units import duration_seconds

__all__ = ["UsageError", "choice", "number", "parsed_seconds", "seconds", "whole_number"]


class UsageError(Exception):
    """A wrong command line: options that cannot be combined, or an invalid value. The exit status is 2.

    Args:
        text: The reason.
        see_help: True to refer to the help at the end of the line.
    """

    def __init__(self, text: str, *, see_help: bool = True) -> None:
        super().__init__(text)
        self.see_help = see_help


def _plain_float(text: str) -> float:
    """Parse a number. Raises ValueError for spaces around it, `1_000` and the digits of other scripts too."""
    return float(text if text.isascii() and not re.search(r"[\s_]", text) else "")


def parsed_seconds(text: str) -> float:
    """Parse seconds, `90`, or a duration as kubectl's, `90s` or `1m30s`. Raises ValueError if it is neither."""
    return _plain_float(text) if text[-1:].isdigit() else duration_seconds(text)


def number(option: str, text: str, *, least: float = 0.0) -> float:
    """Parse the value of an option as a number. Raises UsageError if it is invalid or too small."""
    try:
        value = _plain_float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= least):
        raise UsageError(f"invalid {option} {text!r}: expected a number, {least:g} or more")
    return value


def seconds(option: str, text: str, *, least: float = 0.0) -> float:
    """Parse the value of an option as seconds: `90`, or kubectl's `90s` or `1m30s`.

    Raises:
        UsageError: The value is invalid or too small.
    """
    try:
        value = parsed_seconds(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= least):
        atleast = f", {least:g} or more" if least else ""
        raise UsageError(f"invalid {option} {text!r}: expected seconds{atleast}, as in 30 or 1m30s")
    return value


def whole_number(option: str, text: str, least: int, most: int) -> int:
    """Parse the value of an option as an integer. Raises UsageError if it is invalid or out of range."""
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
        raise UsageError(f"invalid {option} {text!r}: expected a whole number from {least} to {most}")
    return int(text)


def choice(option: str, text: str, choices: Sequence[str]) -> str:
    """Check the value of an option with a fixed set of values. Raises UsageError for any other value."""
    if text not in choices:
        raise UsageError(f"invalid {option} {text!r}: expected {', '.join(choices[:-1])} or {choices[-1]}")
    return text
