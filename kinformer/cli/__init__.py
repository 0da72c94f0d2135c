"""The command line: `kinformer watch`, `stats`, `doctor`, `demo`, `dashboard` and `serve`.

It is built on the public names of kinformer, kinformer.testing and kinformer.contrib alone. Imports point one way:
`app` to the commands (`commands`, `doctor`, `demo`, `dashboard`), these to the modules at the top (`target`, `process`,
`living_cluster`) and to `output`. typer and rich come with ``pip install 'kinformer[cli]'``; they are imported when a
command runs, never by ``import kinformer``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_OURS = ("typer", "rich")  # the libraries of the extra `cli`


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the console script calls this.

    Args:
        argv: The arguments after the program's name; None takes those of the process.

    Returns:
        The exit status: 0, 1 for a failure, 2 for a wrong command line, 130 after Ctrl-C, 141 if the reader of the
        pipe has gone. A failure is one line on stderr.
    """
    try:
        return _run(argv)
    except KeyboardInterrupt:  # during the imports; after them the commands handle it
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
