"""Fail fast: ends a wait for the first sync at a repeated 401, 403 or 404."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from kinformer.exceptions import APIError

__all__ = ["FailFast"]

_DENIED = (401, 403, 404)
_ENOUGH = 2  # the first may be a token that is being renewed, or a role that is on its way


class FailFast:
    """Counts the 401, 403 and 404 of one informer, and ends the waits that are to fail fast."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._answer: APIError | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    def note(self, error: BaseException) -> None:
        """Record an error that ended a request or a stream; another error takes the last refusal back."""
        if not isinstance(error, APIError) or error.status not in _DENIED:
            self._answer = None
            return
        self._counts[error.status] += 1
        if self._counts[error.status] < _ENOUGH:
            return
        self._answer = error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)

    async def unless_refused(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for `waiting`; raises the second refusal of a kind if that comes first."""
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._answer is not None:
            refused.set_exception(self._answer)
        self._waiters.add(refused)
        done = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({refused, done}, return_when=asyncio.FIRST_COMPLETED)
            (done if done.done() else refused).result()
        finally:
            self._waiters.remove(refused)
            if not refused.cancel():
                refused.exception()  # where both were done, the sync counts
            done.cancel()
