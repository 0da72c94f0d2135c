"""What follows a failure: decided here, without waiting for anything, and done by the reflector.

| state | failure | next |
|---|---|---|
| Resume | any | Resume, after a delay |
| List | 410 on page 2 or later | List without pages, at the same version, at once |
| List, InitialStream | 410, "too large", older than asked | the same without a resourceVersion, at once |
| List | anything else | List, after a delay |
| InitialStream | 400, 405, 406, 415, 422, 501; silence; an end without end bookmark | List, at once |
| InitialStream | 401, 404, 429, 503, connection refused | InitialStream, after a delay |
| InitialStream | anything else | InitialStream, after a delay; the third time List, at once |
| Watch, opening | 410; 404; "too large"; 400, 405, 406, 415, 422 | a full list, after a delay |
| Watch, opening | anything else | Watch at the same version, after a delay |
| Watch | 410; 404; "too large"; bytes or events that make no sense; a failed resync | a full list, after a delay |
| Watch | connection lost, 429, ERROR of another code | Watch at the same version, after a delay |
| Watch | three such ERRORs and no event in between | a full list, after a delay |
| Verify | the server went back, or is another | a full list without a resourceVersion, at once |
| Verify | anything else | Watch, after a delay, which verifies first |

A full list is an InitialStream or a List, as `Facts.streaming` says. With `watch_list=True` there is no falling back to
a List: the stream is asked for again, after a delay.

Upstream: client-go, tools/cache/reflector.go. It relists after every ERROR and every failed opening but 429 and
connection refused; a version that was seen stays good after a 500, so here the watch is opened again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import NamedTuple

from kinformer._runtime.backoff import Backoff
from kinformer.exceptions import (
    APIError,
    DecodeError,
    ExpiredError,
    ForbiddenError,
    NotFoundError,
    ResourceVersionTooLargeError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    WatchError,
)
from kinformer.reflector.errors import (
    ClusterReplacedError,
    InitialStreamError,
    ResyncError,
    RewindError,
    ShortWatchError,
    StaleListError,
)
from kinformer.reflector.states import InitialStream, List, Resume, State, Verify, Watch

__all__ = ["ATTEMPTS", "STREAM_ERRORS", "Delays", "Facts", "Transition", "full_list", "next_state"]

STREAM_ERRORS = 3  # ERROR events in a row, without progress, after which the resourceVersion itself is in doubt
ATTEMPTS = 3  # failed initial streams in a row, after which automatic mode lists

RETRY_AFTER_CAP = 60.0  # seconds; a server that asks for more is mistaken, or has been taken over
RETRY_AFTER_TRIES = 10  # failures in a row after which backoff counts too; client-go's REST layer gives up there

_REFUSED_OPTIONS = (400, 405, 406, 415, 422)
_UNUSABLE_VERSION = (ExpiredError, ResourceVersionTooLargeError, StaleListError)

# What an error of an open watch makes a full list due for, and under which cause that is counted.
_CAUSES: tuple[tuple[type[Exception], str], ...] = (
    (ExpiredError, "expired"),
    (ResourceVersionTooLargeError, "rewind"),
    (NotFoundError, "absent"),
    (ShortWatchError, "short_watch"),
    (ResyncError, "resync"),
    (DecodeError, "decode_error"),
    (WatchError, "watch_error"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a transition depends on, beside the state and the error.

    Attributes:
        streaming: The next full list is asked for as a stream.
        may_list: Instead of a stream that fails a list may be asked for.
        failed_streams: Initial streams in a row that failed, this one not included.
        stream_errors: ERROR events without progress, this one included.
        stood_still: The last relist, after a 410, brought nothing newer.
    """

    streaming: bool = False
    may_list: bool = True
    failed_streams: int = 0
    stream_errors: int = 0
    stood_still: bool = False


class Transition(NamedTuple):
    """The state that follows a failure.

    Attributes:
        state: It.
        at_once: Without a delay.
        counts: It was a failed attempt at an initial stream.
        falls_back: The server has no initial streams, so lists are asked for instead.
    """

    state: State
    at_once: bool = False
    counts: bool = False
    falls_back: bool = False


def full_list(cause: str, facts: Facts, *, unset: bool = False) -> List | InitialStream:
    """The state that asks for all objects, because of `cause`."""
    # A version that has expired and is listed again is not asked for a third time: there would be no end to it.
    unset = unset or (cause == "expired" and facts.stood_still)
    return InitialStream(cause, unset) if facts.streaming else List(cause, unset)


def next_state(error: Exception, state: State, facts: Facts) -> Transition:
    """The state that follows `error` in `state`; see the table above."""
    match state:
        case Resume():
            return Transition(state)
        case List():
            return _after_list(error, state)
        case InitialStream():
            return _after_initial_stream(error, state, facts)
        case Watch():
            cause = _cause_in_watch(error, facts) if state.opened else _cause_in_opening(error)
            return Transition(full_list(cause, facts) if cause is not None else Watch())
        case Verify():
            if isinstance(error, RewindError):
                return Transition(full_list("rewind", facts, unset=True), at_once=True)
            if isinstance(error, ClusterReplacedError):
                return Transition(full_list("cluster_replaced", facts, unset=True), at_once=True)
            return Transition(Watch())


def _after_list(error: Exception, state: List) -> Transition:
    if isinstance(error, ExpiredError) and state.page > 1:
        return Transition(List(state.cause, state.unset, paged=False), at_once=state.paged)
    if state.asked and isinstance(error, _UNUSABLE_VERSION):
        return Transition(List(state.cause, unset=True, paged=state.paged), at_once=True)
    return Transition(List(state.cause, state.unset, state.paged))


def _after_initial_stream(error: Exception, state: InitialStream, facts: Facts) -> Transition:
    again = InitialStream(state.cause, state.unset)
    if state.asked and isinstance(error, _UNUSABLE_VERSION):
        return Transition(replace(again, unset=True), at_once=True)
    refused, counts = _judge_initial_stream(error, opened=state.opened)
    if facts.may_list and (refused or (counts and facts.failed_streams + 1 >= ATTEMPTS)):
        return Transition(List(state.cause, state.unset), at_once=True, falls_back=refused)
    return Transition(again, counts=counts)


def _judge_initial_stream(error: Exception, *, opened: bool) -> tuple[bool, bool]:
    """Whether the server has no initial streams, and if not, whether this is a failed attempt at one."""
    if isinstance(error, InitialStreamError):
        return True, False
    if isinstance(error, APIError):
        if error.status in (*_REFUSED_OPTIONS, 501) or (
            # etcd before 3.4.31 / 3.5.13: an ERROR 500 that names what the storage lacks (apiserver, storage/cacher)
            isinstance(error, ServerError) and "RequestWatchProgress" in error.message
        ):
            return True, False
        # Not 403: list and watch are verbs of their own, and a cache that cannot follow is better than none.
        busy = isinstance(error, (UnauthorizedError, NotFoundError, TooManyRequestsError))
        return False, not busy and error.status != 503
    # A server that cannot be reached would not answer a LIST either, so that says nothing against the stream.
    unreachable = not opened and isinstance(error, OSError) and not isinstance(error, TimeoutError)
    return False, not unreachable


def _cause_in_opening(error: Exception) -> str | None:
    if isinstance(error, ExpiredError):
        return "expired"
    if isinstance(error, ResourceVersionTooLargeError):
        return "rewind"
    if isinstance(error, NotFoundError):
        return "absent"
    return "error" if isinstance(error, APIError) and error.status in _REFUSED_OPTIONS else None


def _cause_in_watch(error: Exception, facts: Facts) -> str | None:
    for kind, cause in _CAUSES:
        if isinstance(error, kind):
            return cause
    waits = isinstance(error, (TooManyRequestsError, UnauthorizedError, ForbiddenError, OSError))
    return "error" if not waits and facts.stream_errors >= STREAM_ERRORS else None


class Delays:
    """How long to wait before a request is made again.

    Args:
        backoff: After failures; and, counted apart because they are no failures yet, after watches that end at once.
    """

    __slots__ = ("_failures", "_short_watches")

    def __init__(self, backoff: Backoff) -> None:
        self._failures = backoff.start()
        self._short_watches = backoff.start()

    def after(self, error: Exception, failures: int) -> float:
        """Seconds to wait after `error`, the last of so many `failures` in a row.

        What the server asks for, plus up to a quarter at random, because it asks every client the same; else backoff.
        """
        asked = error.retry_after if isinstance(error, APIError) else None
        if not asked or asked < 0:
            return self._failures.next()
        asked = min(asked, RETRY_AFTER_CAP) * (1.0 + 0.25 * random.random())
        return asked if failures <= RETRY_AFTER_TRIES else max(asked, self._failures.next())

    def after_short_watch(self) -> float:
        """Seconds to wait after a watch that ended at once."""
        return self._short_watches.next()

    def watch_lasted(self) -> None:
        """A watch did not end at once."""
        self._short_watches.reset()
