"""The states of a reflector, each with the data that it needs.

Each state is one request to the source. `Reflector` makes the request and determines the next state.
`recovery.next_state` decides which one follows a failure.
"""

from __future__ import annotations

import msgspec

from kinformer.reflector.options import Resume as ResumeFunction

__all__ = ["InitialStream", "List", "Poll", "Resume", "State", "Verify", "Watch"]


class Resume(msgspec.Struct):
    """Before the first list: check that a snapshot is still valid, and resume from it."""

    load: ResumeFunction

    @property
    def doing(self) -> str:
        """The request, in words for the log."""
        return "checking the snapshot"


class List(msgspec.Struct):
    """List all objects, page by page.

    Attributes:
        cause: The cause of a relist, or `"first"`.
        unset: True to list without a resourceVersion.
        paged: True to list in pages, if the page size is set too.
        asked: The requested resourceVersion, or "" for none.
        page: The last requested page, from 1.
    """

    cause: str
    unset: bool = False
    paged: bool = True
    asked: str = ""
    page: int = 1

    @property
    def doing(self) -> str:
        """The request, in words for the log."""
        return "the list"


class InitialStream(msgspec.Struct):
    """Get all objects as a stream that continues as the watch (WatchList, KEP-3157).

    Attributes:
        cause, unset, asked: See `List`.
        opened: True once the head of the response has arrived.
    """

    cause: str
    unset: bool = False
    asked: str = ""
    opened: bool = False

    @property
    def doing(self) -> str:
        """The request, in words for the log."""
        return "the initial stream" if self.opened else "opening the initial stream"


class Watch(msgspec.Struct):
    """Watch from the version that the store has reached.

    Attributes:
        opened: True once the head of the response has arrived.
    """

    opened: bool = False

    @property
    def doing(self) -> str:
        """The request, in words for the log."""
        return "the watch" if self.opened else "opening the watch"


class Verify(msgspec.Struct):
    """After a gap, before the next watch: verify that the server is the same one and has not gone back."""

    @property
    def doing(self) -> str:
        """The request, in words for the log."""
        return "verifying the server"


class Poll(msgspec.Struct):
    """Instead of a watch: wait until the next list is due."""

    @property
    def doing(self) -> str:
        """The request, in words for the log."""
        return "waiting for the next list"


State = Resume | List | InitialStream | Watch | Verify | Poll
