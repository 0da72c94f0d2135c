"""The errors that kinformer raises on purpose.

::

    KinformerError
    ├── ConfigError (ValueError)          a kubeconfig, URL or option is invalid
    ├── SelectorError (ValueError)        a selector does not parse; names the position
    ├── NotSyncedError (TimeoutError)     a cache has not synced in time; `.unsynced` has the reasons
    ├── StoppedError                      the queue or informer has ended
    ├── DecodeError                       bytes that are not the expected JSON
    ├── WatchError                        a stream that broke its protocol
    ├── KeyFuncError                      a key function that failed
    ├── IndexNotFoundError (LookupError)  an index that was never added
    ├── DeletedError (LookupError)        an object that was waited for was deleted; `.object` is its last state
    ├── LeadershipLostError               the lease went to another process
    │   └── ShardLostError                the slot of an object went to another replica
    ├── TerminalError                     raised by a reconcile that is not to be retried
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
from typing import Any, Self

import msgspec

__all__ = [
    "APIError",
    "AlreadyExistsError",
    "BadRequestError",
    "ConfigError",
    "ConflictError",
    "ConnectError",
    "DecodeError",
    "DeletedError",
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
    "ShardLostError",
    "StoppedError",
    "TerminalError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "WatchError",
]

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_LONGEST = 1e9  # seconds that a server may ask us to wait: an integer of JSON may exceed a float

# Raised by decoders for bytes that are not JSON, JSON of another shape, or values that are nested too deeply.
MALFORMED: tuple[type[Exception], ...] = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class KinformerError(Exception):
    """The base class: catch it to catch every error that kinformer raises on purpose."""


class ConfigError(KinformerError, ValueError):
    """A kubeconfig, context, URL or option is invalid; the text names the file and the field."""


class SelectorError(KinformerError, ValueError):
    """A selector does not parse. `position` is the offset in the text, counted from 0."""

    def __init__(self, message: str, *, selector: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.selector = selector
        self.position = position


class NotSyncedError(KinformerError, TimeoutError):
    """A cache did not sync in time.

    Attributes:
        unsynced: The last error of each resource, or None; a resource that is held twice has a number behind it.
    """

    def __init__(self, message: str, unsynced: Mapping[str, BaseException | None]) -> None:
        super().__init__(message)
        self.unsynced = dict(unsynced)


class StoppedError(KinformerError):
    """The queue is closed and empty, or the informer has ended."""


class DecodeError(KinformerError):
    """Bytes from the wire cannot be decoded, or a value cannot be encoded."""


class WatchError(KinformerError):
    """A stream broke its protocol, or can no longer be trusted."""


class KeyFuncError(KinformerError):
    """A key function failed. `object` is its argument, `__cause__` its exception."""

    def __init__(self, message: str, object: Any = None) -> None:  # noqa: A002 - the field's word
        super().__init__(message)
        self.object = object


class IndexNotFoundError(KinformerError, LookupError):
    """No index has this name."""


class DeletedError(KinformerError, LookupError):
    """An object was deleted while a condition of it was waited for. `object` is its last state."""

    def __init__(self, message: str, object: Any = None) -> None:  # noqa: A002 - the field's word
        super().__init__(message)
        self.object = object


class LeadershipLostError(KinformerError):
    """The lease was lost while its holder was leading."""


class ShardLostError(LeadershipLostError):
    """The slot of the object that a reconcile is about is no longer this replica's. Experimental."""


class TerminalError(KinformerError):
    """Raised by a reconcile that failed in a way that a retry would not mend until something changes.

    Counted and logged as a failure, without a retry (controller-runtime, pkg/reconcile/reconcile.go).
    """


class ConnectError(KinformerError, ConnectionError):
    """No response, or only a part of one: the text names method, host and port, and the cause.

    Covers names that do not resolve, refused and reset connections, TLS failures, proxies that refuse, responses that
    do not come in time, and bodies that break off. It is a `ConnectionError` (and so an `OSError`) too.

    Attributes:
        lost: True if a connection that had been made was lost, before the response or within it. A request that only
            reads may then be sent again.
    """

    lost = False

    @classmethod
    def of_lost_connection(cls, message: str) -> Self:
        """Make the error of a connection that was lost."""
        error = cls(message)
        error.lost = True
        return error


class APIError(KinformerError):
    """The server responded with a failure.

    Args:
        status: The HTTP status, or the `code` of a Status inside a watch stream.
        reason: The machine-readable reason of a Status (`"Expired"`, `"Forbidden"`), or "".
        message: The message of the server, if it is text.
        retry_after: Seconds that the server asks to wait, from `Retry-After` or the Status; else None.
        details: The `details` of a Status, or an empty dict.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        retry_after: float | None = None,
        details: Mapping[str, object] | None = None,
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
    """400: the server cannot read a selector, token or body."""


class UnauthorizedError(APIError):
    """401: the server does not accept the credentials."""


class ForbiddenError(APIError):
    """403: the server accepts the credentials, but not the request."""


class NotFoundError(APIError):
    """404: there is no such object, or no such resource.

    Attributes:
        nearest: If the server has no such resource, the one that it has and that was probably meant, such as
            `"v1/pods"`; "" if none is like it. None if that is not known.
    """

    nearest: str | None = None


class ConflictError(APIError):
    """409: the object was changed meanwhile, or a precondition failed."""


class AlreadyExistsError(APIError):
    """409: an object of this name exists."""


class ExpiredError(APIError):
    """410: the requested history is gone; also the old reason `Gone`."""


class InvalidError(APIError):
    """422: the object or the options are invalid."""


class TooManyRequestsError(APIError):
    """429: the server asks to try again later."""


class ServerError(APIError):
    """5xx: the server, or a proxy before it, failed."""


class ResourceVersionTooLargeError(ServerError):
    """504: the server has not reached the requested resourceVersion (yet, or no longer)."""


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


def _is_too_large(message: str, details: Mapping[str, object]) -> bool:
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
    details: Mapping[str, object] | None = None,
) -> APIError:
    """Make the most specific `APIError` for a failure, by code and reason (apimachinery/pkg/api/errors)."""
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
    """Return one word for the kind of an error, for use as a label: `expired`, `forbidden`, `timeout`, `http_418`."""
    if type(error) is APIError:
        return f"http_{error.status}"
    return _WORDS.sub("_", type(error).__name__.removesuffix("Error")).lower() or "error"


def describe(error: BaseException | None) -> str:
    """Return one line that says why something has not happened."""
    if error is None:
        return "no answer yet"
    return f"{error}" if isinstance(error, APIError) else f"{type(error).__name__}: {error}"
