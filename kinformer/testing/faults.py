"""Deliberate failures. Each function here creates a fault, and `server.faults.add` activates it.

::

    server.faults.add(faults.expired(), verb="watch", resource="v1/pods", times=1)

Selectors of `add`: `verb` (`"get"`, `"list"`, `"watch"`, `"create"`, ...), `resource` (`"v1/pods"`), `namespace`,
`after_events` (the fault strikes a watch after that many ADDED, MODIFIED and DELETED lines, and other requests
immediately) and `times` (the number of strikes). Without selectors a fault strikes every request, including
discovery. If several faults match, the one that was added first strikes. Faults also strike watches that are already
open, either immediately or at their next line. The exceptions are `stale`, and `status` and `delay` without
`after_events`, which apply only to later requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kinformer.apiserver.status import REASONS, StatusError, failure
from kinformer.apiserver.status import expired as _expired
from kinformer.objects.meta import GroupVersionResource
from kinformer.testing.api.request import RequestInfo
from kinformer.testing.kinds.resources import selected_name

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
    """A fault, created by the functions of this module."""

    kind: str
    error: StatusError | None = None
    seconds: float = 0.0
    revisions: int = 0


def status(code: int, body: Any = None, retry_after: float | None = None) -> Fault:
    """Respond with this HTTP status.

    `body` is a dict (sent as JSON) or a string. By default it is the code's usual Status.

    `retry_after` is in whole seconds, and sent in the header and in the Status. With `after_events`, a watch gets the
    failure as an ERROR line.
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
    """Fail with a 410 as a real server does: HTTP 410 for a LIST, or 200, an ERROR line and a clean end for a watch."""
    return Fault("expired", _expired("The resourceVersion for the provided list is too old."))


def silent_close() -> Fault:
    """End a watch cleanly, without an ERROR line. Other requests lose their connection without a response."""
    return Fault("silent_close")


def close_mid_line() -> Fault:
    """Close the connection in the middle of a watch line or of a body."""
    return Fault("close_mid_line")


def reset() -> Fault:
    """Reset the connection (RST)."""
    return Fault("reset")


def stall() -> Fault:
    """Stall: send nothing more, but keep the connection open until the client leaves or the server stops."""
    return Fault("stall")


def garble() -> Fault:
    """Make the next line of a watch, or the body of a response, invalid JSON. The stream continues."""
    return Fault("garble")


def html_502() -> Fault:
    """Respond as a proxy whose backend is gone."""
    return Fault("status", StatusError(502, _HTML, headers={"Content-Type": "text/html"}))


def drop_event() -> Fault:
    """Skip the next event of a watch."""
    return Fault("drop_event")


def duplicate_event() -> Fault:
    """Send the next event of a watch twice."""
    return Fault("duplicate_event")


def delay(seconds: float) -> Fault:
    """Delay the response, or the next line of a watch, by this many seconds."""
    return Fault("delay", seconds=seconds)


def no_initial_events_end() -> Fault:
    """Never send the bookmark that ends the initial events."""
    return Fault("no_initial_events_end")


def rewind(revisions: int) -> Fault:
    """Roll the server back by this many revisions, objects and resourceVersion included, as if etcd was restored.

    This happens before the matching request is answered. Open watches lose their connections. Strikes once unless
    `times` is given.
    """
    return Fault("rewind", revisions=revisions)


def stale(revisions: int) -> Fault:
    """Begin a list or a watch from `resourceVersion="0"` with the state of this many revisions ago.

    An API server whose watch cache lags behaves like this. A watch then sends the later changes immediately. Requests
    for the newest state, or for a minimum revision, are not affected.
    """
    return Fault("stale", revisions=revisions)


# Faults that only apply to watches. Other requests are not affected.
STREAM_ONLY = frozenset({"drop_event", "duplicate_event", "no_initial_events_end"})


class FaultHandle:
    """An active fault. `hits` counts its strikes, and `remove()` ends it."""

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
        """End the fault. Does nothing if it has already ended."""
        self._owner.discard(self)

    def fits(self, info: RequestInfo) -> bool:
        """Return True if the fault's selectors match this request.

        :meta private:
        """
        if self.verb not in (None, "*", info.verb):
            return False
        if self.resource not in (None, "*", info.resource):
            return False
        return self.namespace in (None, info.namespace)

    def strike(self) -> bool:
        """Count a hit. Return False if the fault is used up or was removed in the meantime.

        :meta private:
        """
        if self not in self._owner or (self.times is not None and self.hits >= self.times):
            return False
        self.hits += 1
        return True

    @property
    def spent(self) -> bool:
        """True if the fault can no longer strike.

        :meta private:
        """
        return self not in self._owner or (self.times is not None and self.hits >= self.times)


class Faults:
    """The faults of one server. A test adds and removes them while the server runs."""

    def __init__(self) -> None:
        self._handles: dict[FaultHandle, None] = {}
        self.listeners: dict[Callable[[], None], None] = {}  # open watches, which a new fault may strike immediately

    def __contains__(self, handle: FaultHandle) -> bool:
        return handle in self._handles

    def add(
        self,
        fault: Fault,
        *,
        verb: str | None = None,
        resource: str | GroupVersionResource | None = None,
        namespace: str | None = None,
        after_events: int | None = None,
        times: int | None = None,
    ) -> FaultHandle:
        """Activate a fault. The module describes the selectors.

        Raises:
            ConfigError: `resource` is no name of a resource. The message has the right one.
        """
        if times is None and fault.kind == "rewind":
            times = 1
        name = None if resource is None else selected_name(resource)
        handle = FaultHandle(self, fault, verb, name, namespace, after_events, times)
        self._handles[handle] = None
        for listener in list(self.listeners):
            listener()
        return handle

    def discard(self, handle: FaultHandle) -> None:
        """End a fault.

        :meta private:
        """
        self._handles.pop(handle, None)

    def clear(self) -> None:
        """End all faults."""
        self._handles.clear()

    def for_request(self, info: RequestInfo) -> list[FaultHandle]:
        """Return the active faults that match a request, in order.

        :meta private:
        """
        if not self._handles:
            return []
        return [handle for handle in self._handles if handle.fits(info) and not handle.spent]
