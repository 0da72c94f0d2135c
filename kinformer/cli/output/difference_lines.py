"""Differences between two states of an object as lines of a screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kinformer import DecodeError, KubeObject
from kinformer.cli.output.differences import in_words, object_differences
from kinformer.cli.output.text import clean

__all__ = ["difference_lines"]

_SIGNS = {"+": "green", "-": "red", "~": "yellow"}


def difference_lines(old: KubeObject, new: KubeObject, noise: frozenset[str]) -> Sequence[Text]:
    """Describe an update, a line for each difference; one line if it is nested too deeply to be compared."""
    try:
        found = [in_words(difference, new) for difference in object_differences(old, new, noise)]
    except (DecodeError, RecursionError):
        return [Text("    <unreadable>", "bright_black")]
    if not found:
        return [Text("    nothing but what is left out", "bright_black")]
    lines = []
    for sign, path, values in found:
        lines.append(Text.assemble(f"    {sign} ", (f"{clean(path)}: ", _SIGNS[sign]), clean(values)))
    return lines
