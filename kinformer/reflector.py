"""The reflector: keeps a store equal to what a server has, by one full list and a watch from there, for ever.

What is done about a failure is decided in `recovery.py`; this module does it. The loop is a row of steps, each of
which asks the source for one thing: a full list (as a LIST, or as a stream that goes on as the watch), a tip, or a
watch. Upstream: client-go, tools/cache/reflector.go.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from kinformer.absence import Absence
from kinformer.accessors import resource_version_of
from kinformer.backoff import Backoff
from kinformer.clock import SYSTEM, YIELD_SECONDS, Clock
from kinformer.exceptions import APIError, ConfigError, NotFoundError, WatchError
from kinformer.gap import Gap
from kinformer.health import HealthRecord, InformerHealth
from kinformer.list_watcher import ListerWatcher, ListOptions, WatchEvent
from kinformer.liveness import HEAD_TIMEOUT, Watchdog
from kinformer.meta import compare_resource_versions
from kinformer.recovery import RETRIED, Phase, Remedy, ResyncError, ShortWatchError, remedy_for
from kinformer.relist import ListRun, page_limit
from kinformer.resync_timer import ResyncTimer
from kinformer.tip import TipCheck
from kinformer.watch_list import INITIAL_SILENCE, InitialEvents, InitialStreamError, WatchListChoice

__all__ = ["Reflector", "ReflectorStore"]

log = logging.getLogger("kinformer.reflector")

SHORT_WATCH = 1.0  # seconds; a watch that ends sooner, and empty, has not worked
SHORT_WATCHES = 3  # of them in a row mean that the version has expired and the server does not say so
DEADLINE_MARGIN = 10.0  # seconds that a server may pass its own timeoutSeconds by, before the client ends the watch
RETRY_AFTER_CAP = 60.0  # seconds; more than that is a server's mistake, or an attack
RETRY_AFTER_TRIES = 10  # failures in a row, after which backoff counts too: client-go's REST layer gives up there
BATCHES_A_PAUSE = 128  # batches that a source may hand over without ever waiting, before everybody else has a turn


class ReflectorStore(Protocol):
    """What a reflector writes to, with plain calls; what one raises ends `Reflector.run`.

    A store may also have `bookmark(resource_version)`, told where the server stands without an event, and
    `known(key)`, which gives the object it holds under a key, or None.
    """

    def add(self, obj: Any, /) -> Any: ...
    def update(self, obj: Any, /) -> Any: ...
    def delete(self, obj: Any, /) -> Any: ...
    def replace(self, items: Any, resource_version: str, /) -> Any: ...
    def resync(self) -> Any: ...


class _StoreFailedError(Exception):
    """Carries what a store raised past everything that retries."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause
