"""The errors that a reflector raises internally, and the types of errors that it retries."""

from __future__ import annotations

from kinformer.exceptions import KinformerError, WatchError

__all__ = [
    "RETRIED",
    "ClusterReplacedError",
    "InitialStreamError",
    "ResyncError",
    "RewindError",
    "ShortWatchError",
    "StaleListError",
    "StoreFailedError",
]

# The errors that a server, a network or a source can cause. Any other error is a bug in kinformer, a source or a
# store, which a retry would hide. (TimeoutError is an OSError.)
RETRIED: tuple[type[Exception], ...] = (KinformerError, OSError)


class RewindError(WatchError):
    """The server has not reached a resourceVersion that it sent before, because it was restored from a backup."""


class ClusterReplacedError(WatchError):
    """Another cluster responds under the same URL."""


class InitialStreamError(WatchError):
    """The initial stream went silent, or ended, before its end bookmark."""


class ShortWatchError(WatchError):
    """Consecutive watches ended immediately without an event. Some servers respond to an expired version this way."""


class StaleListError(WatchError):
    """A list is older than the version that was requested: a replica lags behind, or the server went back in time."""


class ResyncError(KinformerError):
    """The store's resync failed. `__cause__` is the exception that it raised."""


class StoreFailedError(Exception):
    """Wraps an exception of a store, so that it is never retried as a server failure, whatever its type.

    Attributes:
        cause: The exception.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause
