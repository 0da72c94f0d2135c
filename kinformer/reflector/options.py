"""The options of a reflector: its lists and watches, its time limits, and a state to resume from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypedDict

import msgspec

from kinformer._runtime.backoff import Backoff
from kinformer._runtime.chunks import ChunkedList
from kinformer.exceptions import ConfigError
from kinformer.listwatch.head_limit import HEAD_TIMEOUT
from kinformer.objects.object import KubeObject

__all__ = ["ReflectorKeywords", "ReflectorOptions", "Resume", "Resumption"]

_LATE = 60.0  # seconds by which a list of a polled resource may be late


class ReflectorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that determine how a source is followed. `Reflector` documents them.

    Raises:
        ConfigError: A value is invalid. The message names the option.
    """

    page_size: int | None = None
    watch_list: bool | None = None
    watch_timeout: float = 300
    idle_timeout: float = 120
    backoff: Backoff | None = msgspec.field(default_factory=Backoff)
    poll: float | None = None

    def __post_init__(self) -> None:
        for name in ("watch_timeout", "idle_timeout", "poll"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ConfigError(f"{name}={seconds!r}: pass a number of seconds greater than 0")
        if self.backoff is None:
            msgspec.structs.force_setattr(self, "backoff", Backoff())
        if self.page_size is not None and self.page_size < 1:
            raise ConfigError(f"page_size={self.page_size!r}: pass a number of at least 1, or None")

    @property
    def head_timeout(self) -> float:
        """Seconds for the head of a response. A LIST has longer after a time-out: see `HeadLimit`."""
        return min(HEAD_TIMEOUT, self.idle_timeout)

    @property
    def patience(self) -> float:
        """Seconds without a sign of life after which a cache is not live, even if the reflector noticed nothing."""
        return self.idle_timeout + 2 * self.head_timeout if self.poll is None else self.poll + _LATE


class ReflectorKeywords(TypedDict, total=False):
    """The same options, as keyword arguments."""

    page_size: int | None
    watch_list: bool | None
    watch_timeout: float
    idle_timeout: float
    backoff: Backoff | None
    poll: float | None


class Resumption(msgspec.Struct):
    """A state to resume from.

    Attributes:
        objects: All objects. The reflector takes ownership of them.
        resource_version: The version of the state.
        cluster: The identity of the cluster, or None if it is unknown.
        newest: The objects with the highest resourceVersions.
    """

    objects: ChunkedList[KubeObject]
    resource_version: str
    cluster: str | None = None
    newest: list[KubeObject] = msgspec.field(default_factory=list)


Resume = Callable[[], Awaitable[Resumption | None]]
"""Called by a reflector before its first list. Returns a state to resume from, or None. Errors are retried."""
