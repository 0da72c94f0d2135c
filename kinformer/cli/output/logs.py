"""Writes logged warnings as lines to stderr."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kinformer.cli.output.errors import one_line

__all__ = ["log_kept_back", "log_to_stderr"]


@contextmanager
def log_to_stderr() -> Iterator[None]:
    """Write kinformer's warnings to stderr while the context is open, except for warnings of reflectors."""
    with _logging_to(logging.StreamHandler(sys.stderr)):
        yield


@contextmanager
def log_kept_back() -> Iterator[None]:
    """Hold back warnings while the screen is drawn, and write them to stderr on exit."""
    kept = io.StringIO()
    try:
        with _logging_to(logging.StreamHandler(kept)):
            yield
    finally:
        sys.stderr.write(kept.getvalue())


class _OneLine(logging.Formatter):
    """Formats records like this program's own messages, without level, time and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return f"kinformer: {one_line(record.getMessage())}"


def _not_of_an_outage(record: logging.LogRecord) -> bool:
    # A reflector logs each failed request and stream. The commands report outages in their own way.
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
