"""Runs the coroutine of a command, and maps its result to an exit status."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from types import FrameType
from typing import Any, cast

from kinformer import KinformerError
from kinformer.cli.output.errors import INTERRUPTED, complain, ended_by
from kinformer.cli.output.logs import log_to_stderr

__all__ = ["run_command"]

Command = Callable[[], Coroutine[Any, Any, int | None]]


def run_command(command: Command, *, terminated: int = 0, follows: bool = False) -> int:
    """Run a command on a new event loop, and return the exit status.

    If it `follows` changes for long, the loop is uvloop's where that is installed. A single change then costs less CPU,
    which a short command would not win back from the import.

    SIGTERM cancels it, and the status is then `terminated`. A KinformerError or an OSError prints a line to stderr.
    Any other exception is a bug and keeps its traceback.
    """
    try:
        with log_to_stderr(), asyncio.Runner(loop_factory=_uvloop() if follows else None) as runner:
            status = runner.run(_until_sigterm(command, terminated))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except KinformerError as error:
        return complain(error)
    except OSError as error:
        return ended_by(error)
    except BaseExceptionGroup as group:
        expected = _first_expected(group)
        if expected is None:
            raise
        return ended_by(expected) if isinstance(expected, OSError) else complain(expected)
    return status or 0


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return None
    return cast("Callable[[], asyncio.AbstractEventLoop]", uvloop.new_event_loop)


async def _until_sigterm(command: Command, status: int) -> int | None:
    loop, running = asyncio.get_running_loop(), asyncio.current_task()
    terminated = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        signal.signal(number, signal.SIG_DFL)  # a second signal ends a process that is stuck in a write
        if running is not None:
            loop.call_soon_threadsafe(running.cancel)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # only the main thread has signals
        return await command()
    try:
        return await command()
    except asyncio.CancelledError:
        if not terminated:
            raise
        return status
    finally:
        signal.signal(signal.SIGTERM, before)


def _first_expected(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the first error of a group if users can act on all of its errors, and otherwise None."""
    expected, other = group.split((KinformerError, OSError))
    if expected is None or other is not None:
        return None
    error: BaseException = expected
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
