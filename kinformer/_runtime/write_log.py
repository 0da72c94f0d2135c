"""A log of the writes that the running code makes to the server, for a caller that asked for one.

A controller asks for it around each reconcile, so that it knows which changes its cache has not seen yet. Tasks that
are started inside inherit the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

__all__ = ["Write", "logged_writes", "note_write"]

_READS = ("GET", "HEAD", "OPTIONS")

_log: ContextVar[Callable[[Write], None] | None] = ContextVar("kinformer_write_log", default=None)


class Write(NamedTuple):
    """A write that the server has answered.

    Attributes:
        method: Of the request, in capitals.
        path: From `/api` or `/apis` on.
        answer: The decoded answer.
    """

    method: str
    path: str
    answer: Any


@contextmanager
def logged_writes(log: Callable[[Write], None]) -> Iterator[None]:
    """Call `log` for each write of this task, and of the tasks that it starts, until the end of the `with`."""
    before = _log.get()
    _log.set(log)
    try:
        yield
    finally:
        _log.set(before)


def note_write(method: str, path: str, answer: Any, *, params: Mapping[str, str] | None, body: Any) -> None:
    """Pass a request that has been answered to the log, unless it only reads, or is a dry run."""
    log = _log.get()
    if log is not None and method not in _READS and not _is_dry_run(method, path, params or {}, body):
        log(Write(method, path, answer))


def _is_dry_run(method: str, path: str, params: Mapping[str, str], body: Any) -> bool:
    options = body if method == "DELETE" and isinstance(body, Mapping) else {}
    return "dryRun" in params or "dryRun=" in path.partition("?")[2] or bool(options.get("dryRun"))
