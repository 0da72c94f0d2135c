"""The command line: `kinformer watch`, `wait`, `problems`, `stats`, `doctor`, `demo`, `proxy`, `serve` and others.

It uses only public names of kinformer, kinformer.testing and kinformer.contrib. Imports point one way: `app` imports
the commands (`commands`, `doctor`, `demo`, `dashboard`), which import the top-level modules (`target`, `process`,
`living`) and `output`. ``pip install 'kinformer[cli]'`` installs typer and rich. They are imported when a
command runs, never by ``import kinformer``.
Tests: tests/cli, tests/conformance/test_cli_doctor.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_OURS = ("typer", "rich")  # the libraries of the extra `cli`


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. The console script calls this.

    Args:
        argv: The arguments after the program's name, or None for the arguments of the process.

    Returns:
        The exit status: 0, 1 for a failure, 2 for a wrong command line, 130 after Ctrl-C, 141 if the pipe was closed
        by its reader. A failure prints one line to stderr.
    """
    try:
        return _run(argv)
    except KeyboardInterrupt:  # Ctrl-C during the imports. Later, the commands handle it themselves
        return 130


def _run(argv: Sequence[str] | None) -> int:
    try:
        from kinformer.cli.app import run

        return run(argv)  # inside the try, because most commands import rich only when they run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OURS:
            raise
        print(f"kinformer: {error.name} is not installed; pip install 'kinformer[cli]'", file=sys.stderr)
        return 1
