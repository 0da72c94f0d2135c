"""The exceptions raised by kinformer.

::

    KinformerError
    ├── ConfigError (ValueError)          a kubeconfig, URL or option is invalid
    │   └── CredentialError               a credential could not be renewed
    ├── SelectorError (ValueError)        a selector is invalid at `.position`
    ├── NotSyncedError (TimeoutError)     a cache has not synced in time (see `.unsynced`)
    ├── StoppedError                      the queue or informer has ended
    ├── DecodeError                       received bytes are not the expected JSON
    ├── WatchError                        a stream broke its protocol
    │   └── NotWatchableError             the resource can only be listed: pass `poll=`
    ├── KeyFuncError                      a key function failed
    ├── IndexNotFoundError (LookupError)  an index does not exist
    ├── DeletedError (LookupError)        an awaited object was deleted (see `.object`)
    ├── LeadershipLostError               the lease went to another process
    ├── TemporaryError                    raised by a reconcile that cannot be done yet
    ├── TerminalError                     raised by a reconcile that must not be retried
    ├── ConnectError (ConnectionError)    no complete response: network, proxy, TLS, or a dead server
    └── APIError                          the server responded with a failure
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

import math
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
    "CredentialError",
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
    "NotWatchableError",
    "ResourceVersionTooLargeError",
    "SelectorError",
    "ServerError",
    "StoppedError",
    "TemporaryError",
    "TerminalError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "WatchError",
]

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_LONGEST = 1e9  # maximum seconds for a server's retry delay, because a JSON integer may exceed a float

# Raised by decoders for invalid JSON, JSON of another structure, or values that are nested too deeply.
MALFORMED: tuple[type[Exception], ...] = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class KinformerError(Exception):
    """The base class of all errors that kinformer raises deliberately."""


class ConfigError(KinformerError, ValueError):
    """A kubeconfig, context, URL or option is invalid. The message names the file and the field."""


class CredentialError(ConfigError):
    """A credential could not be renewed: a plugin failed, or a provider. The message has its reason."""


class ScopeError(ConfigError):
    """A namespace is given for a resource without namespaces, as discovery says."""


class SelectorError(KinformerError, ValueError):
    """A selector is invalid. `position` is the offset of the error, counted from 0."""

    def __init__(self, message: str, *, selector: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.selector = selector
        self.position = position


class NotSyncedError(KinformerError, TimeoutError):
    """A cache did not sync in time.

    Attributes:
        unsynced: The last error of each resource, or None. A resource with two informers has a number appended.
    """

    def __init__(self, message: str, unsynced: Mapping[str, BaseException | None]) -> None:
        super().__init__(message)
        self.unsynced = dict(unsynced)


class StoppedError(KinformerError):
    """The queue is closed and empty, or the informer has ended."""


class DecodeError(KinformerError):
    """Received bytes cannot be decoded, or a value cannot be encoded."""


class WatchError(KinformerError):
    """A stream broke its protocol, or can no longer be trusted."""


class NotWatchableError(WatchError):
    """The server answers a watch by 405, and discovery has no verb `watch` for the resource.

    Such resources, as those of `metrics.k8s.io`, are followed by ``for_resource(..., poll=30)``.
    """


class KeyFuncError(KinformerError):
    """A key function failed. `object` is its argument, `__cause__` its exception."""

    def __init__(self, message: str, object: Any = None) -> None:  # noqa: A002 - the field's word
        super().__init__(message)
        self.object = object


class IndexNotFoundError(KinformerError, LookupError):
    """No index has this name."""


class DeletedError(KinformerError, LookupError):
    """An object was deleted while waiting for a condition. `object` is its last state."""

    def __init__(self, message: str, object: Any = None) -> None:  # noqa: A002 - the field's word
        super().__init__(message)
        self.object = object


class LeadershipLostError(KinformerError):
    """The lease was lost while its holder was leading."""


class TemporaryError(KinformerError):
    """Raised by a reconcile, or a function that it calls, that has to wait for something: run it again later.

    It is no failure: the message is logged at INFO without a traceback, and no metric of errors counts it. From code
    that can return to the controller, `Result(requeue_after=60)` does the same without a message.

    Args:
        message: The reason, for the log.
        requeue_after: Seconds until the next run, or 0 for at once. None (the default) waits as after a failure, a
            little longer each time, and counts as an `attempt`.

    Raises:
        ValueError: `requeue_after` is negative, infinite or not a number.
    """

    def __init__(self, message: str, *, requeue_after: float | None = None) -> None:
        check_requeue_after(requeue_after, "TemporaryError")
        super().__init__(message)
        self.requeue_after = requeue_after


class TerminalError(KinformerError):
    """Raised by a reconcile whose failure a retry cannot fix until something changes.

    It is counted and logged as a failure, without a retry (controller-runtime, pkg/reconcile/reconcile.go).
    """


class ConnectError(KinformerError, ConnectionError):
    """There was no response, or only a part. The message names method, host and port, and the cause.

    This includes names that do not resolve, refused and reset connections, TLS failures, refusals by proxies,
    timeouts, and truncated bodies. It is also a `ConnectionError` (and so an `OSError`).

    Attributes:
        lost: True if an established connection was lost, before or within the response. A read may then be retried.
    """

    lost = False

    @classmethod
    def of_lost_connection(cls, message: str) -> Self:
        """Create the error for a lost connection.

        :meta private:
        """
        error = cls(message)
        error.lost = True
        return error


class APIError(KinformerError):
    """The server responded with a failure.

    Args:
        status: The HTTP status, or the `code` of a Status inside a watch stream.
        reason: The machine-readable reason of a Status (`"Expired"`, `"Forbidden"`), or "".
        message: The message of the server, if it is a string.
        retry_after: Seconds that the server asks to wait, from `Retry-After` or the Status, or None.
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
    """400: the server cannot parse a selector, token or body."""


class UnauthorizedError(APIError):
    """401: the server does not accept the credentials."""


class ForbiddenError(APIError):
    """403: the server accepts the credentials but refuses the request."""


class NotFoundError(APIError):
    """404: there is no such object, or no such resource.

    Attributes:
        nearest: If the resource does not exist, the existing one that was probably meant, such as `"v1/pods"`, or ""
            if none is similar. None if unknown.
    """

    nearest: str | None = None


class ConflictError(APIError):
    """409: the object was changed in the meantime, or a precondition failed."""


class AlreadyExistsError(APIError):
    """409: an object with this name already exists."""


class ExpiredError(APIError):
    """410: the requested history is gone. Also for the older reason `Gone`."""


class InvalidError(APIError):
    """422: the object or the options are invalid."""


class TooManyRequestsError(APIError):
    """429: the server asks to try again later."""


class ServerError(APIError):
    """5xx: the server, or a proxy in front of it, failed."""


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


def check_requeue_after(seconds: float | None, what: str) -> None:
    """Raise ValueError if the delay of a result or an error is negative, infinite or not a number."""
    if seconds is not None and not 0 <= seconds < math.inf:
        raise ValueError(f"invalid {what}(requeue_after={seconds!r}): expected a finite number of seconds, 0 or more")


def _is_too_large(message: str, details: Mapping[str, object]) -> bool:
    # apimachinery/pkg/api/errors and client-go/tools/cache/reflector.go: servers since 1.18 send the cause, and older
    # ones only the message.
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
    """Create the most specific `APIError` for a failure, by code and reason (apimachinery/pkg/api/errors)."""
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


def kind_of(error: BaseException | None) -> str:
    """Return the class of an error, with the HTTP status if there is one, and none of its text."""
    if error is None:
        return "no response yet"
    name = type(error).__name__
    return f"{error.status} {name}" if isinstance(error, APIError) else name


def cause_of(error: BaseException) -> str:
    """Return one word for the kind of an error, for metric labels: `expired`, `forbidden`, `timeout`, `http_418`."""
    if type(error) is APIError:
        return f"http_{error.status}"
    return _WORDS.sub("_", type(error).__name__.removesuffix("Error")).lower() or "error"


def describe(error: BaseException | None) -> str:
    """Return one line that explains a failure."""
    if error is None:
        return "no response yet"
    return f"{error}" if isinstance(error, APIError) else f"{type(error).__name__}: {error}"
