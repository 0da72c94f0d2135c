"""Lines of differences between two states of an object."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kinformer import KubeObject
from kinformer.cli.output.text import clean
from kinformer.contrib.changes.differences import in_words, object_differences
from kinformer.exceptions import DecodeError

__all__ = ["difference_lines"]

_SIGNS = {"+": "green", "-": "red", "~": "yellow"}


def difference_lines(old: KubeObject, new: KubeObject, noise: frozenset[str]) -> Sequence[Text]:
    """Describe an update with a line for each difference, or one line if it is nested too deeply to be compared."""
    try:
        differences = [in_words(difference) for difference in object_differences(old, new, noise)]
    except (DecodeError, RecursionError):
        return [Text("    <unreadable>", "bright_black")]
    if not differences:
        return [Text("    only fields that are left out", "bright_black")]
    lines = []
    for sign, path, values in differences:
        lines.append(Text.assemble(f"    {sign} ", (f"{clean(path)}: ", _SIGNS[sign]), clean(values)))
    return lines
