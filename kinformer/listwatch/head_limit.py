"""The time limit for the head of a response, and the longer one for LISTs of a source that needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeAlias, TypeVar

from kinformer._runtime.tasks import Coro, wait_for_end
from kinformer.list_watcher import ListPage

__all__ = ["HEAD_TIMEOUT", "LONG_HEAD_TIMEOUT", "HeadLimit", "answered"]

T = TypeVar("T")

_Listing: TypeAlias = asyncio.Task[ListPage]

HEAD_TIMEOUT = 30.0
"""Seconds for the head of a response. The API server sends the head of a watch at once, and usually that of a LIST."""

LONG_HEAD_TIMEOUT = 65.0
"""Seconds for the head of a LIST after one took longer. The API server gives up after 60, and answers with a 504."""

_SOON = 15.0  # seconds within which a head must come for the next LIST to have the usual limit


async def answered(awaitable: Awaitable[T], seconds: float, request: str) -> T:
    """Wait for `awaitable` for at most `seconds`, and return its result.

    Raises:
        TimeoutError: There was no response in time. The message names the `request`.
    """
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            return await awaitable
    except TimeoutError:
        if scope.expired():
            raise TimeoutError(f"{request}: no response within {seconds:g} s") from None
        raise


class HeadLimit:
    """The limit for the heads of the LISTs of one source, which remembers that its server is slow.

    It is 30 s, so that a lost request is noticed soon. A large or distant server may need more for each LIST, and would
    be asked for ever. So it is 65 s after a time-out, until a head has come within 15 s.

    Attributes:
        is_long: True if the next LIST has 65 s.
    """

    def __init__(self) -> None:
        self.is_long = False

    def seconds(self, first: float = HEAD_TIMEOUT) -> float:
        """Return the limit of the next LIST. Unless it is long, it is at most `first`."""
        return LONG_HEAD_TIMEOUT if self.is_long else min(first, HEAD_TIMEOUT)

    async def answered(self, listing: Awaitable[T], request: str, *, first: float) -> T:
        """Wait for the head of a LIST of one object within the limit, and return it.

        It may come soon from a server that is slow otherwise, so a long limit stays.

        Raises:
            TimeoutError: There was no head in time. The message names the `request`.
        """
        try:
            return await answered(listing, self.seconds(first), request)
        except TimeoutError:
            self.is_long = True
            raise

    async def listed(
        self, ask: Callable[[], Coro[ListPage]], *, first: float, failed: Callable[[TimeoutError], float]
    ) -> ListPage:
        """Wait for the head of a page within the limit, and return the page.

        If it is late for the first time, another LIST is sent, which has the long limit. The late one stays open
        meanwhile, because the server may have done most of its work. The first answer of the server counts, and ends
        the other.

        Args:
            ask: Sends the LIST.
            first: Seconds. See `seconds`.
            failed: Called with the first time-out. Returns the seconds before the other LIST is sent.

        Raises:
            TimeoutError: There was no head in time.
            Exception: The error of the LIST that was answered first, or of `failed`.
        """
        loop = asyncio.get_running_loop()
        began, is_first, limit = loop.time(), not self.is_long, self.seconds(first)
        lists = [loop.create_task(ask())]
        try:
            answer = await _first_of(lists, limit)
            if answer is None and is_first:
                self.is_long = True
                answer = await _first_of(lists, failed(_no_head(limit)))
                limit = LONG_HEAD_TIMEOUT
                if answer is None:
                    lists.append(loop.create_task(ask()))
                    answer = await _first_of(lists, limit)
            if answer is None:
                self.is_long = True
                raise _no_head(limit)
            lists.remove(answer)
            page = answer.result()
            if loop.time() - began <= _SOON:
                self.is_long = False
            return page
        finally:
            await _drop(lists)


async def _first_of(lists: Sequence[_Listing], seconds: float) -> _Listing | None:
    """Return the first of some LISTs that is answered, or None. A lost connection ends none that is still open."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        left = [task for task in lists if not task.done()]
        ended = [task for task in lists if task.done()]
        answered = [task for task in ended if task.cancelled() or not isinstance(task.exception(), OSError)]
        if answered or not left:
            return (answered or ended)[-1]
        if loop.time() >= until:
            return None
        await asyncio.wait(left, timeout=until - loop.time(), return_when=asyncio.FIRST_COMPLETED)


async def _drop(lists: Collection[_Listing]) -> None:
    """End LISTs that are not used, and close their connections."""
    for task in lists:
        task.cancel()
    await wait_for_end(lists)
    for task in lists:
        if not task.cancelled() and task.exception() is None:
            close = getattr(task.result().items, "aclose", None)
            if close is not None:
                await close()


def _no_head(seconds: float) -> TimeoutError:
    return TimeoutError(f"list: no response within {seconds:g} s")
