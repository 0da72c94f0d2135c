"""How a command ends: its exit status, and at most one line on stderr."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from kinformer.cli.output.text import clean
from kinformer.exceptions import KinformerError

__all__ = [
    "BROKEN_PIPE",
    "FAILED",
    "INTERRUPTED",
    "USAGE",
    "complain",
    "ended_by",
    "log_kept_back",
    "log_to_stderr",
    "one_line",
    "run_command",
]

FAILED = 1
USAGE = 2
INTERRUPTED = 130  # 128 + SIGINT, what a shell expects of a program that Ctrl-C has ended
BROKEN_PIPE = 141  # 128 + SIGPIPE, likewise for `kinformer get pods | head`


def run_command(command: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    """Run a command's coroutine on a loop of its own, and turn how it ends into an exit status.

    SIGTERM cancels it, and that is no failure: 0. A KinformerError or an OSError is a line on stderr; anything else is
    a bug, and keeps its traceback.
    """
    try:
        with log_to_stderr():
            status = asyncio.run(_until_sigterm(command))
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
        return complain(expected)
    return status or 0


async def _until_sigterm(command: Callable[[], Coroutine[Any, Any, int | None]]) -> int | None:
    loop, running = asyncio.get_running_loop(), asyncio.current_task()
    terminated = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        signal.signal(number, signal.SIG_DFL)  # a second one ends at once what is stuck: a write that nobody reads
        if running is not None:
            loop.call_soon_threadsafe(running.cancel)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # signals are the main thread's
        return await command()
    try:
        return await command()
    except asyncio.CancelledError:
        if not terminated:
            raise
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)


def complain(error: BaseException | str, status: int = FAILED) -> int:
    """Say on stderr, in one line, what is wrong; returns `status`."""
    print(f"kinformer: {one_line(error)}", file=sys.stderr)
    return status


def ended_by(error: OSError) -> int:
    """The status of what a failed read or write has ended; what stdout cannot take any more is let go."""
    status = BROKEN_PIPE if isinstance(error, BrokenPipeError) else complain(error)
    try:
        sys.stdout.flush()
    except OSError:
        _close_stdout()
    return status


def one_line(error: BaseException | str) -> str:
    """The text of an error without line breaks and other control characters; its type where it has no text."""
    text = clean(" ".join(str(error).split()))
    return text or type(error).__name__


def _first_expected(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """What to say of a group, if all that failed in it is of the kind that users can do something about."""
    expected, other = group.split((KinformerError, OSError))
    if expected is None or other is not None:
        return None
    error: BaseException = expected
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _close_stdout() -> None:
    # The interpreter flushes stdout once more as it ends, and would then complain about it itself
    # (Python documentation, library/signal, "Note on SIGPIPE").
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # stdout is no file: a test has put something in its place
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _OneLine(logging.Formatter):
    """Records as the lines of this program: no level, no time, no traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return f"kinformer: {one_line(record.getMessage())}"


def _not_of_an_outage(record: logging.LogRecord) -> bool:
    # A reflector logs each request and stream that fails; the commands tell of outages in their own way.
    return record.name != "kinformer.reflector"


@contextmanager
def _logging_to(handler: logging.Handler) -> Iterator[None]:
    logger = logging.getLogger("kinformer")
    handler.setFormatter(_OneLine())
    handler.setLevel(logging.WARNING)
    handler.addFilter(_not_of_an_outage)
    handlers, logger.handlers = logger.handlers, [handler]
    propagate, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.handlers = handlers
        logger.propagate = propagate


@contextmanager
def log_to_stderr() -> Iterator[None]:
    """Within it, warnings of kinformer are lines on stderr, but for a reflector's."""
    with _logging_to(logging.StreamHandler(sys.stderr)):
        yield


@contextmanager
def log_kept_back() -> Iterator[None]:
    """Within it, while the screen is painted, warnings wait; on leaving they are lines on stderr."""
    kept = io.StringIO()
    try:
        with _logging_to(logging.StreamHandler(kept)):
            yield
    finally:
        sys.stderr.write(kept.getvalue())
