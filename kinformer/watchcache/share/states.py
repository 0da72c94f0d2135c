"""The states of a process that shares a cache: what it reads from, and what it is to the others.

| state | reads from | then |
|---|---|---|
| Seeking | waits | Holding if the lock is free, Following if a holder answers, Alone after 5 s (at the start 2 s) |
| Holding | its own caches, through the socket | Seeking when the lock is gone, or the server sees another user |
| Following | the holder | Seeking when the holder ends, Alone when it is silent |
| Alone | the server | Holding or Following, as from Seeking |
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, TypeAlias

from kinformer.listwatch.sharing import Role
from kinformer.watchcache.share.source import Direct, FromHolder, Route

if TYPE_CHECKING:
    from kinformer.client.client import Client
    from kinformer.watchcache.share.kept import KeptCaches
    from kinformer.watchcache.share.session import Session

__all__ = ["Alone", "Following", "Holding", "Seeking", "State"]


class _Part:
    """What a process is to the others.

    Attributes:
        role: "holder", "follower", or "alone".
        holder: The process id of the holder, or None.
    """

    role: Role = "alone"
    holder: int | None = None

    @property
    def silence(self) -> float:
        """Seconds since the last sign of life of the holder."""
        return 0.0

    @property
    def down(self) -> Collection[str]:
        """The tokens of the caches that do not follow the server."""
        return ()


class Seeking(_Part):
    """No route is decided. Reports show what the process was before."""

    route: None = None

    def __init__(self, before: State | None = None) -> None:
        if before is not None:
            self.role, self.holder = before.role, before.holder


class Alone(_Part):
    """Reads from the server by itself."""

    def __init__(self) -> None:
        self.route: Route = Direct()


class Holding(_Part):
    """Has the caches, which its own informers reach as those of other processes do."""

    role: Role = "holder"

    def __init__(self, client: Client, caches: KeptCaches) -> None:
        self.holder = os.getpid()
        self.route: Route = FromHolder(client)
        self._caches = caches

    @property
    def down(self) -> Collection[str]:
        """The tokens of the caches that do not follow the server."""
        return self._caches.down()


class Following(_Part):
    """Reads from a holder."""

    role: Role = "follower"

    def __init__(self, client: Client, session: Session) -> None:
        self.holder = session.holder
        self.route: Route = FromHolder(client)
        self._session = session

    @property
    def silence(self) -> float:
        """Seconds since the last sign of life of the holder."""
        return self._session.silence

    @property
    def down(self) -> Collection[str]:
        """The tokens of the caches that did not follow the server at the last sign of life."""
        return self._session.down


State: TypeAlias = Seeking | Holding | Following | Alone
