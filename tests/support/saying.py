"""What a process of a test says on stdout, to be read line by line."""

from __future__ import annotations

import sys

__all__ = ["say"]


def say(*words: object) -> None:
    """One write for a line: print makes one of each word where PYTHONUNBUFFERED is set, and a kill may come between."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()
