"""The command line: `kinformer demo`, `get`, `watch`, `dashboard` and `serve`.

Everything here is built on the public parts of kinformer. typer and rich come with ``pip install 'kinformer[cli]'``
and are imported when a command runs, never by ``import kinformer``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_OURS = ("typer", "rich")  # what the extra `cli` brings


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; what the console script calls.

    Args:
        argv: The arguments behind the program's name; None takes those of the process.

    Returns:
        The exit status: 0, 1 for what failed, 2 for a command line that cannot be understood, 130 after Ctrl-C,
        141 where the reader of a pipe has gone. Failures are one line on stderr.
    """
    try:
        return _run(argv)
    except KeyboardInterrupt:  # while modules were imported; behind that it is the commands'
        return 130


def _run(argv: Sequence[str] | None) -> int:
    try:
        from kinformer.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OURS:
            raise
        print(f"kinformer: {error.name} is not installed; pip install 'kinformer[cli]'", file=sys.stderr)
        return 1
    return run(argv)
