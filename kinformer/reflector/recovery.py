"""Recovery: decides, without I/O, which state of a reflector follows a failure, and after which delay.

| state | failure | next |
|---|---|---|
| Resume | any | Resume, after a delay |
| List | 410 on page 2 or later | List without pages, at the same version, at once |
| List, InitialStream | 410, "too large", older than requested | the same without a resourceVersion, at once |
| List | anything else | List, after a delay |
| InitialStream | 405, and the resource has no verb `watch` | InitialStream, after a delay |
| InitialStream | 400, 405, 406, 415, 422, 501, silence, or an end before the end bookmark | List, at once |
| InitialStream | 401, 404, 429, 503, connection refused | InitialStream, after a delay |
| InitialStream | anything else | InitialStream, after a delay (the third time List, at once) |
| Watch, opening | 405, and the resource has no verb `watch` | Watch, after a delay |
| Watch, opening | 410, 404, "too large", 400, 405, 406, 415, 422 | a full list, after a delay |
| Watch, opening | anything else | Watch at the same version, after a delay |
| Watch | 410, 404, "too large", invalid bytes or events, a failed resync | a full list, after a delay |
| Watch | ERROR 500 `StorageReadError`: a corrupt object was deleted | a full list, after a delay |
| Watch | connection lost, 429, ERROR of another code | Watch at the same version, after a delay |
| Watch, also opening | the third 5xx (opening: not 503) without a new version | a full list, after a delay |
| Verify | the server went back, or was replaced | a full list without a resourceVersion, at once |
| Verify | anything else | Watch, after a delay, which verifies first |
| Poll | a failed resync | a full list, after a delay |

A full list is an InitialStream if `Facts.streaming` is True, otherwise a List. With `watch_list=True` a stream never
falls back to a List: it is requested again, after a delay.

Upstream: client-go, tools/cache/reflector.go, which relists after every ERROR and every failed opening except 429 and
connection refused. Here the watch is reopened, because a known version stays valid after a 500.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import msgspec

from kinformer._runtime.backoff import RETRY_AFTER_CAP, Backoff
from kinformer.connection.refusals import FINAL, refuses
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
from kinformer.reflector.states import InitialStream, List, Poll, Resume, State, Verify, Watch

__all__ = ["ATTEMPTS", "STREAM_ERRORS", "Delays", "Facts", "Transition", "full_list", "is_refusal", "next_state"]

STREAM_ERRORS = 3  # server errors without a new version after which the resourceVersion itself is in doubt
ATTEMPTS = 3  # consecutive failures of initial streams after which automatic mode lists

_RETURN = 2.0  # seconds within which a request follows the first answer of a server that was silent
_SOON = 5.0  # the most seconds to wait after one of the first refusals
_SOON_TRIES = 6
RETRY_AFTER_TRIES = 10  # consecutive failures after which backoff applies too. client-go's REST layer gives up there

# The reason of an ERROR 500 after which an unreadable object is gone without a DELETED event (apimachinery,
# pkg/apis/meta/v1/types.go, `StatusReasonStoreReadError`).
_CORRUPT = "StorageReadError"

_REFUSED_OPTIONS = (400, 405, 406, 415, 422)
_UNUSABLE_VERSION = (ExpiredError, ResourceVersionTooLargeError, StaleListError)

# The errors of an open watch that lead to a full list, and the cause recorded for that list.
_CAUSES: tuple[tuple[type[Exception], str], ...] = (
    (ExpiredError, "expired"),
    (ResourceVersionTooLargeError, "rewind"),
    (NotFoundError, "absent"),
    (ShortWatchError, "short_watch"),
    (ResyncError, "resync"),
    (DecodeError, "decode_error"),
    (WatchError, "watch_error"),
)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a transition depends on, besides the state and the error.

    Attributes:
        streaming: True if the next full list is requested as a stream.
        may_list: True if a list may be requested instead of a stream that fails.
        failed_streams: The number of consecutive failed initial streams before this one.
        stream_errors: The number of server errors of watches since the last new version, including this one.
        stood_still: True if the last relist followed a 410 and returned no newer version.
        polls: True if the resource is listed regularly, and not watched.
    """

    streaming: bool = False
    may_list: bool = True
    failed_streams: int = 0
    stream_errors: int = 0
    stood_still: bool = False
    polls: bool = False


class Transition(NamedTuple):
    """The state that follows a failure.

    Attributes:
        state: The next state.
        at_once: True if it follows without a delay.
        counts: True if the failure counts as a failed attempt at an initial stream.
        falls_back: True if the server does not support initial streams, so lists are requested instead.
    """

    state: State
    at_once: bool = False
    counts: bool = False
    falls_back: bool = False


def full_list(cause: str, facts: Facts, *, unset: bool = False) -> List | InitialStream:
    """Return the state that requests all objects, because of `cause`."""
    # If the list at an expired version returns the same version again, the next list is made without a version.
    # Otherwise watch and list would alternate forever.
    unset = unset or facts.polls or (cause == "expired" and facts.stood_still)
    return InitialStream(cause, unset) if facts.streaming else List(cause, unset)


def next_state(error: Exception, state: State, facts: Facts) -> Transition:
    """Return the state that follows `error` in `state`, as in the table above."""
    match state:
        case Resume():
            return Transition(state)
        case Poll():
            return Transition(full_list("resync", facts))
        case List():
            return _after_list(error, state)
        case InitialStream():
            return _after_initial_stream(error, state, facts)
        case Watch():
            cause = _cause_in_watch(error, facts) if state.opened else _cause_in_opening(error, facts)
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
        return Transition(msgspec.structs.replace(again, unset=True), at_once=True)
    refused, counts = _judge_initial_stream(error, opened=state.opened)
    if facts.may_list and (refused or (counts and facts.failed_streams + 1 >= ATTEMPTS)):
        return Transition(List(state.cause, state.unset), at_once=True, falls_back=refused)
    return Transition(again, counts=counts)


def _judge_initial_stream(error: Exception, *, opened: bool) -> tuple[bool, bool]:
    """Return whether the server lacks initial streams, and whether the error counts as a failed attempt."""
    if isinstance(error, (InitialStreamError, *FINAL)):
        return isinstance(error, InitialStreamError), False
    if isinstance(error, APIError):
        if error.status in (*_REFUSED_OPTIONS, 501) or (
            # etcd before 3.4.31 / 3.5.13: an ERROR 500 that names the missing feature (apiserver, storage/cacher)
            isinstance(error, ServerError) and "RequestWatchProgress" in error.message
        ):
            return True, False
        # Not 403, because list and watch are separate verbs, and a cache that cannot follow the server is better than
        # none.
        busy = isinstance(error, (UnauthorizedError, NotFoundError, TooManyRequestsError))
        return False, not busy and error.status != 503
    # A server that cannot be reached would not respond to a LIST either, so this is not evidence against the stream.
    unreachable = not opened and isinstance(error, OSError) and not isinstance(error, TimeoutError)
    return False, not unreachable


def is_refusal(error: APIError) -> bool:
    """Return True if a working server refuses a request with a 5xx.

    Excludes 503, which announces an unavailable server.
    """
    return isinstance(error, ServerError) and error.status != 503


def _cause_in_opening(error: Exception, facts: Facts) -> str | None:
    if isinstance(error, ExpiredError):
        return "expired"
    if isinstance(error, ResourceVersionTooLargeError):
        return "rewind"
    if isinstance(error, NotFoundError):
        return "absent"
    if not isinstance(error, APIError):
        return None
    is_lasting = is_refusal(error) and facts.stream_errors >= STREAM_ERRORS
    return "error" if is_lasting or error.status in _REFUSED_OPTIONS else None


def _cause_in_watch(error: Exception, facts: Facts) -> str | None:
    for kind, cause in _CAUSES:
        if isinstance(error, kind):
            return cause
    if isinstance(error, APIError) and error.reason == _CORRUPT:
        return "error"
    waits = isinstance(error, (TooManyRequestsError, UnauthorizedError, ForbiddenError, OSError))
    return "error" if not waits and facts.stream_errors >= STREAM_ERRORS else None


class Delays:
    """Computes the delays before a request is made again.

    Args:
        backoff: The delays after failures. Watches that end immediately have a separate sequence, because they are not
            failures yet.
    """

    __slots__ = ("_failures", "_initial", "_refusals", "_short_watches", "_was_silent")

    def __init__(self, backoff: Backoff) -> None:
        self._initial = backoff.initial
        self._failures = backoff.start()
        self._short_watches = backoff.start()
        # `after` changes these two. It and the other methods advance the sequences, or begin them anew.
        self._was_silent = False
        self._refusals = 0  # the number of refusals in a row

    def after(self, error: Exception, failures: int, *, synced: bool) -> float:
        """Return the seconds to wait after `error`, the last of `failures` consecutive failures.

        It is the delay requested by the server, plus up to a quarter at random, because every client gets the same
        request. Without one, it is the backoff. A server that answers is back, even if it refuses: the first answer
        after a silence ends the backoff that had grown. The next request follows at random within 2 s, so that a
        thousand clients do not return at once. Before the first sync (`synced` is False), the first refusals (401, 403,
        404) are followed by a request within 5 s, since a wait for that sync ends if they last.
        """
        is_silent = isinstance(error, OSError)
        is_back = self._was_silent and not is_silent
        self._was_silent = is_silent
        self._refusals = self._refusals + 1 if refuses(error) else 0
        if is_back:
            self._failures.reset()
        requested = error.retry_after if isinstance(error, APIError) else None
        if not requested or requested < 0:
            delay = _RETURN * random.random() if is_back else self._failures.next(silent=is_silent)
            is_early = not synced and 0 < self._refusals <= _SOON_TRIES
            return min(delay, max(_SOON, self._initial)) if is_early else delay
        requested = min(requested, RETRY_AFTER_CAP) * (1.0 + 0.25 * random.random())
        return requested if failures <= RETRY_AFTER_TRIES else max(requested, self._failures.next())

    def after_short_watch(self) -> float:
        """Return the seconds to wait after a watch that ended immediately."""
        return self._short_watches.next()

    def watch_lasted(self) -> None:
        """Record that a watch did not end immediately."""
        self._short_watches.reset()
