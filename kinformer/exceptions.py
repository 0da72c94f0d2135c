"""The errors that kinformer raises on purpose, except those of one part alone (`ShardLostError`, `TerminalError`).

::

    KinformerError
    ├── ConfigError (ValueError)          a kubeconfig, URL or option that cannot work
    ├── SelectorError (ValueError)        a selector that does not parse; names the position
    ├── NotSyncedError (TimeoutError)     a cache that was waited for has not synced; `.unsynced` says why
    ├── StoppedError                      the queue or informer has ended
    ├── DecodeError                       bytes that are not what they should be
    ├── WatchError                        a stream that broke its protocol
    ├── KeyFuncError                      a key function that failed
    ├── IndexNotFoundError (LookupError)  an index that was never added
    ├── LeadershipLostError               the lease went to another
    ├── ConnectError (ConnectionError)    no response, or a part of one: the network, a proxy, TLS, a dead server
    └── APIError                          the server answered with a failure
        ├── BadRequestError 400
        ├── UnauthorizedError 401
        ├── ForbiddenError 403
        ├── NotFoundError 404
        ├── ConflictError 409
        ├── AlreadyExistsError 409
        ├── ExpiredError 410
        ├── InvalidError 422
        ├── TooManyRequestsError 429
        └── ServerError 5xx
            └── ResourceVersionTooLargeError 504
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = [
    "APIError",
    "AlreadyExistsError",
    "BadRequestError",
    "ConfigError",
    "ConflictError",
    "ConnectError",
    "DecodeError",
    "ExpiredError",
    "ForbiddenError",
    "IndexNotFoundError",
    "InvalidError",
    "KeyFuncError",
    "KinformerError",
    "LeadershipLostError",
    "NotFoundError",
    "NotSyncedError",
    "ResourceVersionTooLargeError",
    "SelectorError",
    "ServerError",
    "StoppedError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "WatchError",
    "api_error",
    "cause_of",
    "describe",
]

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_LONGEST = 1e9  # seconds that a server may ask us to wait: an integer of JSON may be longer than a float takes

# What decoding raises of bytes that are no JSON, or JSON of another shape, or nested more deeply than a decoder goes.
MALFORMED: tuple[type[Exception], ...] = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class KinformerError(Exception):
    """The root of the tree: catch it to catch everything that kinformer raises on purpose."""


class ConfigError(KinformerError, ValueError):
    """A kubeconfig, context, URL or option that cannot work; the text names the file and the field."""


class SelectorError(KinformerError, ValueError):
    """A selector that does not parse. `position` is the offset in the text, counted from 0."""

    def __init__(self, message: str, *, selector: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.selector = selector
        self.position = position


class NotSyncedError(KinformerError, TimeoutError):
    """A cache did not sync in time. `unsynced` maps each resource to its last error, or None."""

    def __init__(self, message: str, unsynced: Mapping[str, BaseException | None]) -> None:
        super().__init__(message)
        self.unsynced = dict(unsynced)


class StoppedError(KinformerError):
    """The queue is closed and empty, or the informer has ended."""


class DecodeError(KinformerError):
    """Bytes from the wire, or a value to encode, that are not what they should be."""


class WatchError(KinformerError):
    """A stream that broke its protocol, or can no longer be trusted."""


class KeyFuncError(KinformerError):
    """A key function failed. `object` is what it was given, `__cause__` what it raised."""

    def __init__(self, message: str, object: Any = None) -> None:  # noqa: A002 - the field's word
        super().__init__(message)
        self.object = object


class IndexNotFoundError(KinformerError, LookupError):
    """No index has this name."""


class LeadershipLostError(KinformerError):
    """The lease was lost while its holder was leading."""


class ConnectError(KinformerError, ConnectionError):
    """No response, or only a part of one: the text names method, host and port, and the cause.

    Covers names that do not resolve, refused and reset connections, TLS failures, proxies that refuse, responses that
    do not come in time, and bodies that break off. It is a `ConnectionError` (and so an `OSError`) too.
    """


class APIError(KinformerError):
    """The server answered with a failure.

    Args:
        status: The HTTP status, or the `code` of a Status that came inside a watch stream.
        reason: The machine-readable reason of a Status (`"Expired"`, `"Forbidden"`), or "".
        message: What the server said, as far as it is text.
        retry_after: Seconds that the server asks to wait, from `Retry-After` or the Status; else None.
        details: The `details` of a Status, or an empty dict.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(status, reason, message, retry_after, details)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.details: dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        head = f"{self.status} {self.reason}".rstrip()
        return f"{head}: {self.message}" if self.message else head


class BadRequestError(APIError):
    """400: a selector, token or body that the server cannot read."""


class UnauthorizedError(APIError):
    """401: the server does not know who asks."""


class ForbiddenError(APIError):
    """403: the server knows who asks, and says no."""


class NotFoundError(APIError):
    """404: no such object, or no such resource."""


class ConflictError(APIError):
    """409: somebody else wrote first, or a precondition failed."""


class AlreadyExistsError(APIError):
    """409: the name is taken."""


class ExpiredError(APIError):
    """410: the history that was asked for is gone; also the old reason `Gone`."""


class InvalidError(APIError):
    """422: the object or the options do not pass validation."""


class TooManyRequestsError(APIError):
    """429: the server asks to come back later."""


class ServerError(APIError):
    """5xx: the server, or something between, failed."""


class ResourceVersionTooLargeError(ServerError):
    """504: a resourceVersion that the server has not reached (yet, or any more)."""


_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def _is_too_large(message: str, details: Mapping[str, Any]) -> bool:
    # apimachinery/pkg/api/errors and client-go/tools/cache/reflector.go: the cause since 1.18, the text before.
    causes = details.get("causes")
    if isinstance(causes, list) and any(
        isinstance(cause, dict) and cause.get("reason") == "ResourceVersionTooLarge" for cause in causes
    ):
        return True
    return "Too large resource version" in message


def api_error(
    status: int,
    reason: str = "",
    message: str = "",
    retry_after: float | None = None,
    details: Mapping[str, Any] | None = None,
) -> APIError:
    """The most specific `APIError` for a failure, by code and reason (apimachinery/pkg/api/errors)."""
    details = details or {}
    if retry_after is not None:
        retry_after = float(min(retry_after, _LONGEST))
    kind: type[APIError]
    if reason in ("Expired", "Gone"):
        kind = ExpiredError
    elif reason == "AlreadyExists":
        kind = AlreadyExistsError
    elif status >= 500:
        kind = ResourceVersionTooLargeError if _is_too_large(message, details) else ServerError
    else:
        kind = _BY_STATUS.get(status, APIError)
    return kind(status, reason, message, retry_after, details)


def cause_of(error: BaseException) -> str:
    """One word for what failed, of few enough for a label: `expired`, `forbidden`, `connect`, `timeout`, `http_418`."""
    if type(error) is APIError:
        return f"http_{error.status}"
    return _WORDS.sub("_", type(error).__name__.removesuffix("Error")).lower() or "error"


def describe(error: BaseException | None) -> str:
    """One line for a text that says why something has not happened."""
    if error is None:
        return "no answer yet"
    return f"{error}" if isinstance(error, APIError) else f"{type(error).__name__}: {error}"
