"""The options of following a source: how lists and watches are asked for, and how long a server may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from kinformer._runtime.backoff import Backoff
from kinformer.exceptions import ConfigError

__all__ = ["HEAD_TIMEOUT", "ReflectorKeywords", "ReflectorOptions"]

# Seconds for the head of an answer. The API server sends the head of a watch at once and that of a LIST within its own
# 60 s at worst; one that needs 30 is of no use to an informer. An idle_timeout below it is the limit here too.
HEAD_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorOptions:
    """How a reflector follows its source.

    Attributes:
        page_size: Objects in an answer. A number: always; 500, the default, is client-go's. None, which informers
            take: 500 if the version is "0" or unset (a server with a watch cache ignores it there), none at a numeric
            version unless the first list came in pages.
        watch_list: None: stream the list, but list for an hour after a server has refused that, has been silent for
            30 s, has ended the stream or failed three times. True: only stream. False: only list.
        watch_timeout: Seconds; each watch asks for a random time in [x, 2x], so that not all end together. 300 as in
            client-go. A server that continues for 10 s more is left.
        idle_timeout: Seconds of silence on a stream, bookmarks included, after which it is replaced, which is no
            failure; on a LIST the time without a byte. 120: the API server sends a bookmark a minute while there is
            progress. It limits the time for the head of an answer too, which is 30 s at most.
        backoff: How long to wait after failures. A server's Retry-After, up to 60 s, takes precedence.

    Raises:
        ConfigError: A value that cannot work, by name.
    """

    page_size: int | None = 500
    watch_list: bool | None = None
    watch_timeout: float = 300
    idle_timeout: float = 120
    backoff: Backoff | None = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        for name, seconds in (("watch_timeout", self.watch_timeout), ("idle_timeout", self.idle_timeout)):
            if not seconds > 0:
                raise ConfigError(f"{name}={seconds!r}: seconds above 0 are needed")
        if self.backoff is None:
            object.__setattr__(self, "backoff", Backoff())
        if self.page_size is not None and self.page_size < 1:
            raise ConfigError(f"page_size={self.page_size!r}: 1 at least is needed, or None")

    @property
    def head_timeout(self) -> float:
        """Seconds for the head of an answer."""
        return min(HEAD_TIMEOUT, self.idle_timeout)


class ReflectorKeywords(TypedDict, total=False):
    """The same options, as keyword arguments."""

    page_size: int | None
    watch_list: bool | None
    watch_timeout: float
    idle_timeout: float
    backoff: Backoff | None
