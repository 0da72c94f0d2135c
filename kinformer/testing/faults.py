"""Failures on purpose: each function here makes a fault, `server.faults.add` sets it to work.

::

    server.faults.add(faults.expired(), verb="watch", resource="v1/pods", times=1)

Selectors of `add`: `verb` (`"get"`, `"list"`, `"watch"`, `"create"`, ...), `resource` (`"v1/pods"`), `namespace`,
`after_events` (the fault strikes a watch behind that many ADDED, MODIFIED and DELETED lines, other requests at once),
`times` (then it is spent). Without selectors a fault strikes every request, discovery included.
Of several that fit, the one that was added first strikes. Watches that are open already are struck too, at once or
with their next line; only `stale`, and `status` and `delay` without `after_events`, are for requests that come later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kinformer.testing.api.request import RequestInfo
from kinformer.testing.kinds.resources import selected_name
from kinformer.testing.kinds.status import REASONS, StatusError, failure
from kinformer.testing.kinds.status import expired as _expired

__all__ = [
    "Fault",
    "FaultHandle",
    "Faults",
    "close_mid_line",
    "delay",
    "drop_event",
    "duplicate_event",
    "expired",
    "garble",
    "html_502",
    "no_initial_events_end",
    "reset",
    "rewind",
    "silent_close",
    "stale",
    "stall",
    "status",
]

_MESSAGES = {
    429: "Too many requests, please try again later.",
    500: "an error on the server has prevented the request from succeeding",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_HTML = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. Made by the functions of this module."""

    kind: str
    error: StatusError | None = None
    seconds: float = 0.0
    revisions: int = 0


def status(code: int, body: Any = None, retry_after: float | None = None) -> Fault:
    """An answer with this HTTP status; `body` a dict (JSON) or text, else the Status that goes with the code.

    `retry_after` is whole seconds, in the header and the Status. Behind `after_events` it is an ERROR line.
    """
    headers = {} if retry_after is None else {"Retry-After": str(int(retry_after))}
    if body is None:
        details = None if retry_after is None else {"retryAfterSeconds": int(retry_after)}
        message = _MESSAGES.get(code, REASONS.get(code, "failed on purpose"))
        error = failure(code, message, details=details, headers=headers)
    else:
        error = StatusError(code, dict(body) if isinstance(body, Mapping) else str(body), headers=headers)
    return Fault("status", error)


def expired() -> Fault:
    """410: HTTP 410 for a LIST; for a watch 200, one ERROR line and a clean end, as the real server does it."""
    return Fault("expired", _expired("The resourceVersion for the provided list is too old."))


def silent_close() -> Fault:
    """A watch ends cleanly, without a word; another request loses its connection without an answer."""
    return Fault("silent_close")


def close_mid_line() -> Fault:
    """The connection is closed in the middle of a line of a watch, or of a body."""
    return Fault("close_mid_line")


def reset() -> Fault:
    """The connection is reset (RST)."""
    return Fault("reset")


def stall() -> Fault:
    """Stall: nothing more is sent, and the connection stays, until the client leaves or the server stops."""
    return Fault("stall")


def garble() -> Fault:
    """The next line of a watch, or the body of an answer, is not JSON. The stream goes on."""
    return Fault("garble")


def html_502() -> Fault:
    """The answer of a proxy whose backend is gone."""
    return Fault("status", StatusError(502, _HTML, headers={"Content-Type": "text/html"}))


def drop_event() -> Fault:
    """The next event of a watch is not sent."""
    return Fault("drop_event")


def duplicate_event() -> Fault:
    """The next event of a watch is sent twice."""
    return Fault("duplicate_event")


def delay(seconds: float) -> Fault:
    """The answer, or the next line of a watch, comes so much later."""
    return Fault("delay", seconds=seconds)


def no_initial_events_end() -> Fault:
    """The bookmark that ends the initial events is never sent."""
    return Fault("no_initial_events_end")


def rewind(revisions: int) -> Fault:
    """The server goes back by so many revisions, as after restoring a backup of etcd: objects, resourceVersion and all.

    It happens before the matching request is answered; open watches lose their connections. Strikes once, unless
    `times` says more.
    """
    return Fault("rewind", revisions=revisions)


def stale(revisions: int) -> Fault:
    """A list or a watch from `resourceVersion="0"` begins with the state of so many revisions ago.

    That is what an API server does whose watch cache is behind; a watch tells the changes since then at once. Requests
    that ask for the newest state, or for one at least as new as a revision, are passed by.
    """
    return Fault("stale", revisions=revisions)


# Faults that only a watch can have; a request that is not a watch passes by them.
STREAM_ONLY = frozenset({"drop_event", "duplicate_event", "no_initial_events_end"})


class FaultHandle:
    """A fault at work: `hits` counts how often it struck; `remove()` ends it."""

    def __init__(
        self,
        owner: Faults,
        fault: Fault,
        verb: str | None,
        resource: str | None,
        namespace: str | None,
        after_events: int | None,
        times: int | None,
    ) -> None:
        self._owner = owner
        self.fault = fault
        self.verb = verb
        self.resource = resource
        self.namespace = namespace
        self.after_events = after_events
        self.times = times
        self.hits = 0

    def remove(self) -> None:
        """Ends the fault; harmless when it has ended."""
        self._owner.discard(self)

    def fits(self, info: RequestInfo) -> bool:
        """True if it is meant for this request."""
        if self.verb not in (None, "*", info.verb):
            return False
        if self.resource not in (None, "*", info.resource):
            return False
        return self.namespace in (None, info.namespace)

    def strike(self) -> bool:
        """Counts a hit; False if the fault is spent or was removed meanwhile."""
        if self not in self._owner or (self.times is not None and self.hits >= self.times):
            return False
        self.hits += 1
        return True

    @property
    def spent(self) -> bool:
        """True if it strikes no more."""
        return self not in self._owner or (self.times is not None and self.hits >= self.times)


class Faults:
    """The faults of one server."""

    def __init__(self) -> None:
        self._handles: dict[FaultHandle, None] = {}
        self.listeners: dict[Callable[[], None], None] = {}  # open watches, which a new fault may strike at once

    def __contains__(self, handle: FaultHandle) -> bool:
        return handle in self._handles

    def add(
        self,
        fault: Fault,
        *,
        verb: str | None = None,
        resource: Any = None,
        namespace: str | None = None,
        after_events: int | None = None,
        times: int | None = None,
    ) -> FaultHandle:
        """Sets a fault to work; see the module for the selectors. Raises ValueError for a resource without version."""
        if times is None and fault.kind == "rewind":
            times = 1
        name = None if resource is None else selected_name(resource)
        handle = FaultHandle(self, fault, verb, name, namespace, after_events, times)
        self._handles[handle] = None
        for listener in list(self.listeners):
            listener()
        return handle

    def discard(self, handle: FaultHandle) -> None:
        """Ends one."""
        self._handles.pop(handle, None)

    def clear(self) -> None:
        """Ends all."""
        self._handles.clear()

    def for_request(self, info: RequestInfo) -> list[FaultHandle]:
        """Find those that fit a request and are not spent, in order."""
        if not self._handles:
            return []
        return [one for one in self._handles if one.fits(info) and not one.spent]
