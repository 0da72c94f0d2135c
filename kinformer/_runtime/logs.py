"""Loggers whose records all have the same fields, and the deduplication of messages.

A record has the attributes `resource` (``v1/pods``), `key` (``namespace/name``), `reason` (one of a few words) and
`cluster` (its name in a fleet), each "" if there is none. ``docs/logging.md`` lists them. A message about a cluster of
a fleet begins with its name. No message or field quotes the contents of an object.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, MutableMapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from kinformer._runtime.request_context import set_within
from kinformer.exceptions import cause_of

__all__ = ["FIELDS", "LogOnce", "StructuredLogger", "cluster_of", "get_logger", "logged_for", "name_cluster"]

FIELDS = ("resource", "key", "reason")

_cluster: ContextVar[str] = ContextVar("kinformer_cluster", default="")

_clusters: WeakKeyDictionary[object, str] = WeakKeyDictionary()  # the names of clusters, by their clients

# The package's logger has no handler, not even a NullHandler: in a program that has not set up logging, Python writes
# warnings and errors to stderr, and users should not miss them.


class StructuredLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose methods take `resource=`, `key=`, `reason=` and `cluster=`.

    An exception as reason is reduced to one word. The cluster is by default that of `logged_for`.
    """

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Turn the fields into attributes of the record. `logging` calls this for each record."""
        extra = dict(kwargs.get("extra") or {})
        for field in FIELDS:
            value = kwargs.pop(field, "") or (self.extra or {}).get(field, "")
            extra[field] = cause_of(value) if isinstance(value, BaseException) else str(value or "")
        # The source of one namespace among several is named "v1/pods in team-a".
        extra["resource"] = extra["resource"].partition(" in ")[0]
        cluster = extra["cluster"] = kwargs.pop("cluster", None) or _cluster.get()
        if cluster:
            text = str(msg)
            # A message with a % has arguments, which are formatted into it later.
            msg = f"{cluster.replace('%', '%%') if '%' in text else cluster}: {text}"
        return msg, {**kwargs, "extra": extra}


def name_cluster(client: object, name: str) -> None:
    """Name the cluster of a client, for the log."""
    _clusters[client] = name


def cluster_of(client: object) -> str:
    """Return the name of a client's cluster in a fleet, or ""."""
    try:
        return _clusters.get(client, "")
    except TypeError:  # a client of another library, without hash or weak references
        return ""


def logged_for(cluster: str) -> AbstractContextManager[None]:
    """Begin the messages of this context, and of the tasks that are started in it, with the name of a cluster.

    "" means no cluster, also within the context of one.
    """
    return set_within(_cluster, cluster)


def get_logger(name: str, *, resource: str = "") -> StructuredLogger:
    """Return a logger whose records have the same fields as kinformer's own: `resource`, `key` and `reason`.

    Its methods take them as keywords: ``log.warning("it failed: %s", error, key=pod.key, reason=error)``. An exception
    as reason is reduced to one word, such as `forbidden`. Missing fields are "".

    Args:
        name: The name, as in `logging.getLogger`.
        resource: The `resource` of records that are logged without one.
    """
    return StructuredLogger(logging.getLogger(name), {"resource": resource})


class LogOnce:
    """Deduplicates log messages by subject, and limits bursts of them.

    A suppressed message is logged at DEBUG, or not at all. So an outage that affects ten thousand objects causes ten
    lines, not ten thousand tracebacks, and the metrics count the rest.

    Args:
        limit: Subjects to remember. A thousand take about 100 KB. Beyond the limit all are forgotten, and logged again.
        burst: Messages that may be logged at once.
        every: Seconds after which one more may be logged.
        clock: Returns seconds since any fixed time.
    """

    __slots__ = ("_burst", "_clock", "_every", "_last", "_limit", "_room", "_seen")

    def __init__(
        self, limit: int = 1000, *, burst: int = 10, every: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._burst = burst
        self._every = every
        self._clock = clock
        self._last: dict[Hashable, Hashable] = {}
        self._room = float(burst)
        self._seen = clock()

    def is_news(self, subject: Hashable, message: Hashable = None) -> bool:
        """True if `message` should be logged: it differs from the last one of `subject`, and the limit allows it."""
        if subject in self._last and self._last[subject] == message:
            return False
        now = self._clock()
        self._room = min(float(self._burst), self._room + (now - self._seen) / self._every)
        self._seen = now
        if self._room < 1.0:
            return False
        self._room -= 1.0
        if len(self._last) >= self._limit:
            self._last.clear()
        self._last[subject] = message
        return True

    @property
    def notice(self) -> str:
        """A suffix for a message, which warns that further messages are suppressed. "" while the limit allows more."""
        if self._room >= 1.0:
            return ""
        return f" (further failures are counted, and one every {self._every:g} s is logged)"

    def forget(self, subject: Hashable) -> None:
        """Forget a subject that has recovered, so that its next failure is logged."""
        self._last.pop(subject, None)
