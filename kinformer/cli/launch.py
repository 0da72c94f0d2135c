"""Starts a command from typer's parser."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import typer

__all__ = ["launch"]


def launch(
    command: Callable[[], Coroutine[Any, Any, int | None]], *, terminated: int = 0, follows: bool = False
) -> NoReturn:
    """Run the coroutine of a command, and exit the parser with its status.

    Args:
        command: Returns the coroutine.
        terminated: The status after SIGTERM.
        follows: True for a command that follows changes for long.
    """
    from kinformer.cli.run import run_command  # imports kinformer, which help does not need

    raise typer.Exit(run_command(command, terminated=terminated, follows=follows))
