"""The cases of the recordings that are answered otherwise: on purpose, or until that is mended.

They are in `recordings/differences.txt`: the cases of a difference, one a line, below a line with its recording, what
differs (separated by commas), whether it is `to mend` or `on purpose`, and the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["CACHE", "CLI", "INDENTED", "PATH", "SERVER", "Known", "known_differences"]

SERVER, CACHE, INDENTED, CLI, PATH = "server", "watch cache", "watch cache of an indented list", "cli", "obj.path"
FILE = Path(__file__).parent / "recordings" / "differences.txt"


class Known(NamedTuple):
    """Cases of a recording, each of which is answered otherwise."""

    recording: str
    by: tuple[str, ...]
    state: str
    reason: str
    cases: list[str]


def known_differences() -> list[Known]:
    """Return all known differences."""
    found: list[Known] = []
    for line in FILE.read_text(encoding="utf-8").split("\n"):
        if line.startswith("## "):
            recording, by, state, reason = line.removeprefix("## ").split(" | ")
            assert state in ("to mend", "on purpose"), line
            found.append(Known(recording, tuple(by.split(", ")), state, reason, []))
        elif line:
            found[-1].cases.append(line)
    return found
