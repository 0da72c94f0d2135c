"""Kubernetes' functions of regular expressions."""

from __future__ import annotations

import re

from kinformer.testing.cel.functions import Library, search_cost
from kinformer.testing.cel.library.re2 import PatternError, compiled_pattern
from kinformer.testing.cel.values import CELError

__all__ = ["add_patterns", "pattern"]


def pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression. Raises `CELError` if RE2 would refuse it."""
    try:
        return compiled_pattern(text)
    except PatternError as error:
        raise CELError(str(error)) from None


def _find(text: str, expression: str) -> str:
    match = pattern(expression).search(text)
    return match.group() if match else ""


def _find_all(text: str, expression: str, limit: int = -1) -> list[str]:
    matches = [match.group() for match in pattern(expression).finditer(text)]
    return matches if limit < 0 else matches[:limit]


def add_patterns(library: Library) -> None:
    """Add Kubernetes' `find` and `findAll`."""
    library.add("find", "string.(string) -> string", run=_find, cost=search_cost)
    library.add(
        "findAll",
        "string.(string) -> list(string)",
        "string.(string, int) -> list(string)",
        run=_find_all,
        cost=search_cost,
    )
