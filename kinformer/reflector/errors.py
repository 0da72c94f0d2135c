"""The errors that a reflector raises to itself, and those that it retries."""

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

# What a server, a network or a source can do to us. Anything else is a bug, in kinformer, a source or a store; trying
# it again would hide it. (TimeoutError is an OSError.)
RETRIED: tuple[type[Exception], ...] = (KinformerError, OSError)


class RewindError(WatchError):
    """The server stands before a resourceVersion that it has given out: it was restored from a backup."""


class ClusterReplacedError(WatchError):
    """Another cluster answers under the same URL."""


class InitialStreamError(WatchError):
    """The initial stream went silent, or ended, without its end bookmark."""


class ShortWatchError(WatchError):
    """Watches ended at once without an event, again and again; some servers answer an expired version like that."""


class StaleListError(WatchError):
    """A list is older than what it was asked to be at least: a replica lags, or the server went back in time."""


class ResyncError(KinformerError):
    """The store's resync failed; `__cause__` is what it raised."""


class StoreFailedError(Exception):
    """Carries what a store raised past everything that retries: it is a bug, also where its type is one of ours."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause
