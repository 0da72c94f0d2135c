"""The states of a reflector: what it is doing, with the data that this takes.

Each state asks the source for one thing. `Reflector` does it, and returns the next state; `recovery.next_state` says
which one follows a failure.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinformer.reflector.resume import Resume as ResumeFunction

__all__ = ["InitialStream", "List", "Resume", "State", "Verify", "Watch"]


@dataclass(slots=True)
class Resume:
    """Before the first list: ask whether a snapshot is still true, and go on from it."""

    load: ResumeFunction

    @property
    def doing(self) -> str:
        """For the log."""
        return "asking whether the snapshot is still true"


@dataclass(slots=True)
class List:
    """List all objects, page by page.

    Attributes:
        cause: Why; `"first"`, or the cause of a relist.
        unset: Ask without a resourceVersion.
        paged: Ask for pages, as far as the page size says so.
        asked: The resourceVersion that was asked for; "" for none.
        page: The page that was asked for last, from 1.
    """

    cause: str
    unset: bool = False
    paged: bool = True
    asked: str = ""
    page: int = 1

    @property
    def doing(self) -> str:
        """For the log."""
        return "the list"


@dataclass(slots=True)
class InitialStream:
    """Get all objects as a stream that continues as the watch (WatchList, KEP-3157).

    Attributes:
        cause, unset, asked: As of `List`.
        opened: The head of the answer has come.
    """

    cause: str
    unset: bool = False
    asked: str = ""
    opened: bool = False

    @property
    def doing(self) -> str:
        """For the log."""
        return "the initial stream" if self.opened else "opening the initial stream"


@dataclass(slots=True)
class Watch:
    """Watch from the version that the store has reached.

    Attributes:
        opened: The head of the answer has come.
    """

    opened: bool = False

    @property
    def doing(self) -> str:
        """For the log."""
        return "the watch" if self.opened else "opening the watch"


@dataclass(slots=True)
class Verify:
    """After a gap, before the next watch: ask whether the server is the same one and has not gone back."""

    @property
    def doing(self) -> str:
        """For the log."""
        return "asking where the server stands"


State = Resume | List | InitialStream | Watch | Verify
