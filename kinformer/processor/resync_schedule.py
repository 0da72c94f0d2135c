"""When which handler wants the cache replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from kinformer.processor.mailbox import Mailbox

__all__ = ["ResyncSchedule"]


@dataclass(slots=True)
class _Entry:
    mailbox: Mailbox
    period: float
    due: float


class ResyncSchedule:
    """Asks the queue for a replay whenever a handler is due for one, for exactly those that are due.

    Each handler has its own period, counted from when it was added
    (client-go rounds periods up to a common one; here each gets what it asked for).
    """

    def __init__(self, resync: Callable[[], None]) -> None:
        self._resync = resync
        self._entries: list[_Entry] = []
        self._due: list[Mailbox] = []
        self._changed: asyncio.Event | None = None

    def add(self, mailbox: Mailbox, period: float) -> None:
        """Replay to `mailbox` every `period` seconds; 0 is never."""
        if period > 0:
            now = asyncio.get_running_loop().time() if self._changed is not None else 0.0
            self._entries.append(_Entry(mailbox, period, now + period))
            if self._changed is not None:
                self._changed.set()

    def remove(self, mailbox: Mailbox) -> None:
        """Replay nothing more to `mailbox`."""
        self._entries = [entry for entry in self._entries if entry.mailbox is not mailbox]

    def take_due(self) -> list[Mailbox]:
        """Whom the replay that is being processed is for."""
        due, self._due = self._due, []
        return due

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        for entry in self._entries:
            entry.due = loop.time() + entry.period
        while True:
            self._changed.clear()
            earliest = min((entry.due for entry in self._entries), default=None)
            try:
                async with asyncio.timeout_at(earliest):
                    await self._changed.wait()
            except TimeoutError:
                self._ask(loop.time())

    def _ask(self, now: float) -> None:
        for entry in self._entries:
            if entry.due <= now:
                entry.due = now + entry.period
                if entry.mailbox not in self._due:
                    self._due.append(entry.mailbox)
        if self._due:
            self._resync()
