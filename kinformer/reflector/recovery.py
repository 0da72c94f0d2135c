"""What to do about a failure: decided here, without waiting for anything, and done by the reflector.

| where | what | remedy |
|---|---|---|
| LIST | 410 on page 2 or later | the full list without pages, at the same version, at once |
| LIST, initial stream | 410, "too large", older than asked | again without a resourceVersion, at once |
| initial stream | 400, 405, 406, 415, 422, 501; silence; an end without end bookmark | list instead, at once |
| initial stream | 401, 404, 429, 503, connection refused | again after a delay |
| initial stream | anything else | again after a delay; the third time list instead |
| opening a watch | 410; 404; 400, 405, 406, 415, 422 | relist after a delay |
| opening a watch | anything else | open it again after a delay, at the same version |
| watch | 410, bytes or events that make no sense | relist after a delay |
| watch | connection lost, 429, ERROR of another code | open it again after a delay, at the same version |
| watch | three such ERRORs and no event in between | relist after a delay |
| tip | the server went back, or is another | relist without a resourceVersion, at once |
| snapshot | the server does not answer whether it is true | ask again after a delay |

Upstream: client-go, tools/cache/reflector.go. It relists after every ERROR and every failed opening but 429 and
connection refused; a version that was seen stays good after a 500, so here the watch is opened again.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

from kinformer._runtime.backoff import BackoffState
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

__all__ = [
    "STREAM_ERRORS",
    "Phase",
    "Remedy",
    "delay_for",
    "remedy_for",
]


STREAM_ERRORS = 3  # ERROR events in a row, without progress, after which the resourceVersion itself is in doubt

RETRY_AFTER_CAP = 60.0  # seconds; a server that asks for more is mistaken, or has been taken over
RETRY_AFTER_TRIES = 10  # failures in a row after which backoff counts too; client-go's REST layer gives up there

_REFUSED_OPTIONS = (400, 405, 406, 415, 422)


class Phase(enum.Enum):
    """What was going on when it failed."""

    LIST = "the list"
    INITIAL_OPENING = "opening the initial stream"
    INITIAL = "the initial stream"
    OPENING = "opening the watch"
    WATCH = "the watch"
    TIP = "asking where the server stands"
    SNAPSHOT = "asking whether the snapshot is still true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to do.

    Attributes:
        relist: The cause of the relist that is due, or None where the present step is to be repeated.
        unset: Ask without a resourceVersion.
        unpaged: List without pages.
        fall_back: List instead of the initial stream, and remember.
        attempt: Count it as a failed initial stream.
        at_once: Without a delay.
    """

    relist: str | None = None
    unset: bool = False
    unpaged: bool = False
    fall_back: bool = False
    attempt: bool = False
    at_once: bool = False


def remedy_for(
    error: Exception, phase: Phase, *, asked: str = "", page: int = 1, paged: bool = True, stream_errors: int = 0
) -> Remedy:
    """The remedy for `error` in `phase`.

    Args:
        error: What failed.
        phase: What was going on.
        asked: The resourceVersion of the failed LIST or initial stream.
        page: The page of the LIST that failed, from 1.
        paged: Whether that LIST asked for pages.
        stream_errors: ERROR events without progress, this one included.
    """
    if phase is Phase.LIST:
        if isinstance(error, ExpiredError) and page > 1:
            return Remedy(unpaged=True, at_once=paged)
        return _if_version_unusable(error, asked) or Remedy()
    if phase in (Phase.INITIAL, Phase.INITIAL_OPENING):
        return _if_version_unusable(error, asked) or _for_initial_stream(error, phase)
    if phase is Phase.OPENING:
        return _for_opening(error)
    if phase is Phase.WATCH:
        return _for_watch(error, stream_errors)
    if isinstance(error, RewindError):
        return Remedy(relist="rewind", unset=True, at_once=True)
    if isinstance(error, ClusterReplacedError):
        return Remedy(relist="cluster_replaced", unset=True, at_once=True)
    return Remedy()


def _if_version_unusable(error: Exception, asked: str) -> Remedy | None:
    if asked and isinstance(error, (ExpiredError, ResourceVersionTooLargeError, StaleListError)):
        return Remedy(unset=True, at_once=True)
    return None


def _for_initial_stream(error: Exception, phase: Phase) -> Remedy:
    if isinstance(error, InitialStreamError):
        return Remedy(fall_back=True, at_once=True)
    if isinstance(error, APIError):
        if error.status in (*_REFUSED_OPTIONS, 501) or (
            # etcd before 3.4.31 / 3.5.13: an ERROR 500 that names what the storage lacks (apiserver, storage/cacher)
            isinstance(error, ServerError) and "RequestWatchProgress" in error.message
        ):
            return Remedy(fall_back=True, at_once=True)
        # Not 403: list and watch are verbs of their own, and a cache that cannot follow is better than none.
        busy = isinstance(error, (UnauthorizedError, NotFoundError, TooManyRequestsError))
        return Remedy(attempt=not busy and error.status != 503)
    # A server that cannot be reached would not answer a LIST either, so that says nothing against the stream.
    refused = phase is Phase.INITIAL_OPENING and isinstance(error, OSError) and not isinstance(error, TimeoutError)
    return Remedy(attempt=not refused)


def _for_opening(error: Exception) -> Remedy:
    if isinstance(error, ExpiredError):
        return Remedy(relist="expired")
    if isinstance(error, ResourceVersionTooLargeError):
        return Remedy(relist="rewind")
    if isinstance(error, NotFoundError):
        return Remedy(relist="absent")
    if isinstance(error, APIError) and error.status in _REFUSED_OPTIONS:
        return Remedy(relist="error")
    return Remedy()


def _for_watch(error: Exception, stream_errors: int) -> Remedy:
    causes: tuple[tuple[type[Exception], str], ...] = (
        (ExpiredError, "expired"),
        (ResourceVersionTooLargeError, "rewind"),
        (NotFoundError, "absent"),
        (ShortWatchError, "short_watch"),
        (ResyncError, "resync"),
        (DecodeError, "decode_error"),
        (WatchError, "watch_error"),
    )
    for kind, cause in causes:
        if isinstance(error, kind):
            return Remedy(relist=cause)
    waits = isinstance(error, (TooManyRequestsError, UnauthorizedError, ForbiddenError, OSError))
    if not waits and stream_errors >= STREAM_ERRORS:
        return Remedy(relist="error")
    return Remedy()


def delay_for(error: Exception, backoff: BackoffState, failures: int) -> float:
    """Seconds to wait after `error`, the last of so many `failures` in a row: what the server asks for, or backoff.

    A quarter more at random is added to what the server asks for, because it asks everybody the same.
    """
    asked = error.retry_after if isinstance(error, APIError) else None
    if not asked or asked < 0:
        return backoff.next()
    asked = min(asked, RETRY_AFTER_CAP) * (1.0 + 0.25 * random.random())
    return asked if failures <= RETRY_AFTER_TRIES else max(asked, backoff.next())
