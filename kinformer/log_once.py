"""What has been said already, so that a log says each thing once."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["LogOnce"]


class LogOnce:
    """Remembers what was said, within bounds: after `limit` different things it forgets them all, and says them again.

    Args:
        limit: Things to remember; a thousand of them are some 100 KB.
    """

    __slots__ = ("_limit", "_said")

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._said: set[Hashable] = set()

    def is_news(self, thing: Hashable) -> bool:
        """Whether `thing` has not been said; it has from now on."""
        if thing in self._said:
            return False
        if len(self._said) >= self._limit:
            self._said.clear()
        self._said.add(thing)
        return True
