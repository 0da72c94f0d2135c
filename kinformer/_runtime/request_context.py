"""The context of requests: a log of the writes of the running code, and the mark of urgent requests.

A controller keeps a log around each reconcile, so that it knows which changes its cache has not received yet. A client
sends an urgent request once, and without waiting for its turn, because the caller has its own deadlines and retries, as
for the renewal of a lease. Both are context variables, so tasks that are started inside inherit them, and any object
with a method `request` can use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

__all__ = ["Write", "is_logged", "is_urgent", "logged_writes", "note_write", "set_within", "urgent"]

T = TypeVar("T")

_READS = ("GET", "HEAD", "OPTIONS")

_log: ContextVar[Callable[[Write], None] | None] = ContextVar("kinformer_write_log", default=None)


@contextmanager
def set_within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable for this task, and for the tasks that it starts, within the `with`."""
    before = variable.get()
    variable.set(value)
    try:
        yield
    finally:
        variable.set(before)  # not by a token, which another context refuses


class Write(NamedTuple):
    """A write that the server has answered.

    Attributes:
        method: The HTTP method, in upper case.
        path: The path, beginning with `/api` or `/apis`.
        answer: The decoded response.
        client: The client that sent it.
    """

    method: str
    path: str
    answer: object
    client: object = None


def logged_writes(log: Callable[[Write], None]) -> AbstractContextManager[None]:
    """Call `log` for each write of this task and of the tasks that it starts, within the `with`."""
    return set_within(_log, log)


def is_logged(method: str) -> bool:
    """True if a request with this method would be logged."""
    return _log.get() is not None and method not in _READS


def note_write(
    method: str, path: str, answer: object, *, params: Mapping[str, str] | None, body: object, client: object
) -> None:
    """Log a request that has been answered, unless it is a read or a dry run."""
    log = _log.get()
    if log is not None and is_logged(method) and not _is_dry_run(method, path, params or {}, body):
        log(Write(method, path, answer, client))


def _is_dry_run(method: str, path: str, params: Mapping[str, str], body: object) -> bool:
    options = body if method == "DELETE" and isinstance(body, Mapping) else {}
    return "dryRun" in params or "dryRun=" in path.partition("?")[2] or bool(options.get("dryRun"))


_urgent: ContextVar[bool] = ContextVar("kinformer_urgent", default=False)


def urgent() -> AbstractContextManager[None]:
    """Mark the requests of this task as urgent, within the `with`."""
    return set_within(_urgent, True)


def is_urgent() -> bool:
    """True within `urgent`."""
    return _urgent.get()
