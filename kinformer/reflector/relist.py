"""One full LIST, page by page, into a list of objects."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any

from kinformer._runtime.chunks import Pieces
from kinformer._runtime.clock import SYSTEM, Clock, YieldBudget
from kinformer.exceptions import DecodeError
from kinformer.list_watcher import ListerWatcher, ListOptions
from kinformer.objects.accessors import key_of, resource_version_of, uid_of
from kinformer.reflector.timeouts import Watchdog, answered

__all__ = ["PAGE_SIZE", "Known", "ListRun", "known_or_new", "page_limit"]

PAGE_SIZE = 500  # client-go, tools/pager/pager.go, defaultPageSize

_SLICE = 128  # objects between two looks at the clock: each costs about a microsecond

Known = Callable[[str], Any]


def page_limit(page_size: int | None, version: str, first_came_in_pages: bool) -> int | None:
    """The `limit` of a list at `version` (client-go, tools/cache/reflector.go, `list`).

    A number that was asked for is always sent. Without one it is 500 where the version is unset or "0", and none at a
    numeric one, because a limit would turn "not older than" into "exactly" there, and past the server's watch cache;
    unless the first list, at "0", came in pages, which tells of a server that has no such cache.
    """
    if page_size is not None:
        return page_size
    return PAGE_SIZE if version in ("", "0") or first_came_in_pages else None


def known_or_new(known: Known | None, obj: Any) -> Any:
    """What the store holds of the same uid and resourceVersion, so that a relist needs no second copy; else `obj`."""
    if known is None:
        return obj
    version, uid = resource_version_of(obj), uid_of(obj)
    if not version or not uid:
        return obj
    held = known(key_of(obj))
    if held is not None and resource_version_of(held) == version and uid_of(held) == uid:
        return held
    return obj


class ListRun:
    """One full list.

    Args:
        source: Whom to ask.
        known: See `known_or_new`.
        head_timeout: Seconds for the head of each answer.
        idle_timeout: Seconds without a byte, after which an answer has failed.
        clock: For the slices in which objects are taken in.
    """

    def __init__(
        self,
        source: ListerWatcher,
        *,
        known: Known | None = None,
        head_timeout: float,
        idle_timeout: float,
        clock: Clock = SYSTEM,
    ) -> None:
        self._source = source
        self._known = known
        self._head_timeout = head_timeout
        self._idle_timeout = idle_timeout
        self._budget = YieldBudget(clock=clock)
        self._items: Pieces[Any] = Pieces()
        self.page = 0
        """The page that is being asked for, from 1."""

    async def collect(self, version: str, limit: int | None) -> tuple[Pieces[Any], str]:
        """All objects, and the resourceVersion that the list is of: that of its first page.

        Raises:
            ExpiredError: Of page 1, or (`page` > 1) of a continue token. The token that comes with the latter is of
                another snapshot, so it is not used.
            TimeoutError: No head, or no byte, in time.
            KinformerError, OSError: The request failed.
        """
        options = ListOptions(resource_version=version or None, limit=limit)
        if limit is not None and version not in ("", "0"):
            # Without it a server takes a version with a limit for that very version (legacy "Exact"), however old:
            # after a 410 the watch would be refused from there again, and so on.
            options = options.replace(resource_version_match="NotOlderThan")
        self.page, first_version = 1, ""
        earlier, compared = "", 1  # a token from the past, and the page of it: the last power of two
        while True:
            page = await answered(self._source.list(options), self._head_timeout, "list")
            if isinstance(page.items, AsyncIterable):
                await self._take_lists(page.items)
            else:
                await self._take(page.items)
            if self.page == 1:
                first_version = page.resource_version
            token = page.continue_token
            if not token:
                items, self._items = self._items, Pieces()
                return items, first_version
            if token == earlier:
                raise DecodeError("the server gives the same continue token again and again")
            if self.page == compared:  # a circle of any length is found, by one comparison a page (Brent)
                earlier, compared = token, 2 * compared
            # The version is in the token; the two together are refused.
            options = ListOptions(limit=limit, continue_token=token)
            self.page += 1

    async def _take_lists(self, lists: AsyncIterable[list[Any]]) -> None:
        async with AsyncExitStack() as stack:
            close = getattr(lists, "aclose", None)
            if close is not None:  # a source may hold a connection for it
                stack.push_async_callback(close)
            dog = await stack.enter_async_context(Watchdog(idle=self._idle_timeout))
            async for objects in lists:
                await self._take(objects)
                dog.heard = SYSTEM.loop()
        if dog.verdict:
            raise TimeoutError(f"list: not a byte for {self._idle_timeout:g} s")

    async def _take(self, objects: Iterable[Any]) -> None:
        known, budget = self._known, self._budget
        taken: list[Any] = []
        for obj in objects:
            taken.append(known_or_new(known, obj))
            if len(taken) == _SLICE:
                self._items.add(taken)
                taken = []
                if budget.exhausted():
                    await budget.pause()
        self._items.add(taken)
