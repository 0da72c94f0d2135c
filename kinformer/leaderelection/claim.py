"""A candidate's claim to a Lease: the writes that take it, which may succeed after the candidate has given up."""

from __future__ import annotations

import asyncio

from kinformer._runtime.tasks import Coro
from kinformer.exceptions import APIError
from kinformer.leaderelection.lease import Lease

__all__ = ["Claim", "Written"]

Written = tuple[float, Lease]
"""The time at which a write was sent, on the boot clock, and the Lease that it wrote."""

_SERVER_ERRORS = 500  # below this status, the server has certainly not done the write


class Claim:
    """The writes of one candidate.

    Attributes:
        is_open: True if the Lease may be the candidate's: a write has succeeded, or its outcome is unknown.
    """

    __slots__ = ("_writing", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._writing: asyncio.Task[Written] | None = None  # the last write, which may outlive its caller

    async def write(self, call: Coro[Written], name: str) -> Written:
        """Make a write, in a task of its own. Cancelling the caller does not cancel it, because it may be done already.

        Raises:
            KinformerError: As raised by the call.
        """
        was_open, self.is_open = self.is_open, True
        self._writing = asyncio.create_task(call, name=name)
        # `await task` would cancel it, and from Python 3.14 on `shield` would report its error to the loop.
        await asyncio.wait({self._writing})
        return self._result(self._writing, was_open=was_open)

    def _result(self, writing: asyncio.Task[Written], *, was_open: bool) -> Written:
        try:
            return writing.result()
        except APIError as error:
            if error.status < _SERVER_ERRORS:
                self.is_open = was_open
            raise

    async def close(self, seconds: float) -> Lease | None:
        """Wait for the write that is under way. Cancel it after some seconds, or if the caller is cancelled.

        Returns:
            The Lease that it wrote, or None if that is not known.
        """
        writing = self._writing
        if writing is None:
            return None
        try:
            await asyncio.wait({writing}, timeout=seconds)
        finally:
            if not writing.done():
                writing.cancel()
                await asyncio.wait({writing})
        return None if writing.cancelled() or writing.exception() is not None else writing.result()[1]
