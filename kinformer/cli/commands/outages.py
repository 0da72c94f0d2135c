"""The outages of informers, and resources that cannot be read, in lines on stderr."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping

from kinformer import ForbiddenError, NotFoundError, SharedInformer, UnauthorizedError
from kinformer.cli.output.errors import one_line

__all__ = ["LOOK", "Outage", "by_reason", "report_outages"]

LOOK = 0.25  # seconds between two checks of the informer's health
_FINAL = (UnauthorizedError, ForbiddenError, NotFoundError)  # these end a command before the first list


async def report_outages(informer: SharedInformer) -> None:
    """Write a line to stderr when an informer loses its server, and when it follows it again, until cancelled."""
    outage = Outage(informer)
    while True:
        await asyncio.sleep(LOOK)
        outage.look()


class Outage:
    """Writes a line to stderr when an informer loses its server, and when it follows it again."""

    def __init__(self, informer: SharedInformer) -> None:
        self._informer = informer
        self._reported: str | None = None  # the state that was reported last, or None while it follows its server
        self._since = 0.0  # when the outage was reported first

    def look(self) -> None:
        """Report a change since the last call."""
        health = self._informer.health()
        if health.live:
            if self._reported is not None:
                self._say(f"followed again after {time.monotonic() - self._since:.0f} s")
            self._reported = None
            return
        if health.last_error is None or (not health.synced and isinstance(health.last_error, _FINAL)):
            return
        if self._reported is None:
            self._since = time.monotonic()
        if health.state not in (self._reported, "listing"):  # a new listing is not reported, because it ends the outage
            self._say(f"{health.state.replace('_', ' ')}, trying again: {one_line(health.last_error)}")
            self._reported = health.state

    def _say(self, text: str) -> None:
        print(f"kinformer: {self._informer.name}: {text}", file=sys.stderr)


def by_reason(errors: Mapping[str, BaseException]) -> dict[str, list[str]]:
    """Group the names of resources by their error. A server that is away gives one line, and so do missing rights."""
    grouped: dict[str, list[str]] = {}
    forbidden = ""
    for name, error in errors.items():
        words = one_line(error)
        if isinstance(error, ForbiddenError):
            words = forbidden = forbidden or words
        grouped.setdefault(words, []).append(name)
    return grouped
