"""A log of numbered entries, bounded in number and in bytes, whose readers wait for the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

__all__ = ["NumberedLog"]


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


E = TypeVar("E", bound=_Numbered)


class NumberedLog(Generic[E]):
    """The latest entries, with numbers that count from 1.

    Args:
        most: The number of entries to keep.
        size: The most bytes of entries. The last entry is always kept.
        size_of: Returns the approximate bytes of an entry.

    `append` changes both attributes.

    Attributes:
        last: The number of the last entry, or 0 before the first.
        forgotten: The last entry that was forgotten, apart from minor ones, or None.
    """

    def __init__(self, most: int, size: int, size_of: Callable[[E], int]) -> None:
        self.last = 0
        self.forgotten: E | None = None
        self._most = most
        self._limit = size
        self._size_of = size_of
        self._size = 0
        self._kept: deque[E] = deque()
        self._minor: deque[E] = deque()
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._kept) + len(self._minor)

    def append(self, entry: E, *, minor: bool = False) -> None:
        """Add an entry, whose number is above `last`. Minor ones are forgotten first."""
        self.last = entry.number
        (self._minor if minor else self._kept).append(entry)
        self._size += self._size_of(entry)
        while len(self) > self._most or (self._size > self._limit and len(self) > 1):
            if self._minor:
                self._size -= self._size_of(self._minor.popleft())
            else:
                self.forgotten = self._kept.popleft()
                self._size -= self._size_of(self.forgotten)
        self.announce()

    def announce(self) -> None:
        """Let tasks that wait look again."""
        self._news.set()
        self._news = asyncio.Event()

    def entries(self, *, minor: bool = False) -> list[E]:
        """Return the entries in order. May be called from any thread."""
        entries = list(self._kept.copy())
        return sorted([*entries, *self._minor.copy()], key=lambda entry: entry.number) if minor else entries

    def newest(self) -> Iterator[E]:
        """Yield the entries, the last one first, without minor ones."""
        return reversed(self._kept)

    def since(self, number: int) -> Sequence[E] | None:
        """Return the entries after a number, or None if some of them are forgotten. There are no minor ones."""
        missing = self.last - number
        if missing <= 0:
            return ()
        if missing > len(self._kept):
            return None
        if missing * 2 > len(self._kept):
            return list(self._kept)[-missing:]
        tail: list[E] = []
        for entry in self.newest():
            if entry.number <= number:
                break
            tail.append(entry)
        return tail[::-1]

    async def wait(self, number: int, timeout: float | None, *, ended: Callable[[], bool] = lambda: False) -> bool:
        """Wait until there is an entry after `number`, or none will follow. Returns False after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while self.last <= number and not ended():
                    await self._news.wait()
        except TimeoutError:
            return False
        return True
