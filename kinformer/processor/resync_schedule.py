"""The schedule of resyncs: replays of the cache to the handlers that requested them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from kinformer.processor.mailbox import Mailbox

__all__ = ["ResyncSchedule"]


class _Period(msgspec.Struct):
    mailbox: Mailbox
    period: float
    due: float


class ResyncSchedule:
    """Requests a replay whenever a handler is due for one, and returns the handlers that are due.

    Each handler has its own period, counted from its addition or the start, if that is later. (client-go rounds periods
    up to a common one.)

    Args:
        resync: Requests a replay: the queue's `resync`.
    """

    def __init__(self, resync: Callable[[], None]) -> None:
        self._resync = resync
        self._periods: list[_Period] = []  # changed by `add` and `remove`
        self._due: list[Mailbox] = []  # `run` appends, and the processor takes them all
        self._changed: asyncio.Event | None = None  # wakes `run`, which makes it

    def add(self, mailbox: Mailbox, period: float) -> None:
        """Replay the cache to `mailbox` every `period` seconds, or never if it is 0."""
        if period > 0:
            now = asyncio.get_running_loop().time() if self._changed is not None else 0.0
            self._periods.append(_Period(mailbox, period, now + period))
            if self._changed is not None:
                self._changed.set()

    def remove(self, mailbox: Mailbox) -> None:
        """Stop replaying the cache to `mailbox`."""
        self._periods = [period for period in self._periods if period.mailbox is not mailbox]

    def take_due(self) -> list[Mailbox]:
        """Return the mailboxes that are due for the requested replay, and forget them."""
        due, self._due = self._due, []
        return due

    async def run(self) -> None:
        """Request replays until cancelled."""
        loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        for entry in self._periods:
            entry.due = loop.time() + entry.period
        while True:
            self._changed.clear()
            earliest = min((entry.due for entry in self._periods), default=None)
            try:
                async with asyncio.timeout_at(earliest):
                    await self._changed.wait()
            except TimeoutError:
                self._request(loop.time())

    def _request(self, now: float) -> None:
        for entry in self._periods:
            if entry.due <= now:
                entry.due = now + entry.period
                if entry.mailbox not in self._due:
                    self._due.append(entry.mailbox)
        if self._due:
            self._resync()
