"""Full lists: when one is due, how it is asked for, and how its pages are collected."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import AsyncExitStack

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM, Clock, YieldBudget
from kinformer.exceptions import DecodeError
from kinformer.list_watcher import ListerWatcher, ListOptions
from kinformer.objects.accessors import Known, known_or_new
from kinformer.objects.meta import compare_resource_versions
from kinformer.reflector.options import ReflectorOptions
from kinformer.reflector.states import InitialStream, List
from kinformer.reflector.timeouts import IdleTimeout, answered
from kinformer.reflector.watch_list import WatchListChoice

__all__ = ["FIRST", "PAGE_SIZE", "ListRun", "RelistPlan", "reaches"]

FIRST = "first"  # the cause of the list that is no relist

PAGE_SIZE = 500  # client-go, tools/pager/pager.go, defaultPageSize

_SLICE = 128  # objects between two looks at the clock: each costs about a microsecond


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
        self._items: ChunkedList[object] = ChunkedList()
        self.page = 0
        """The page that is being asked for, from 1."""

    async def collect(self, version: str, limit: int | None) -> tuple[ChunkedList[object], str]:
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
                items, self._items = self._items, ChunkedList()
                return items, first_version
            if token == earlier:
                raise DecodeError("the server gives the same continue token again and again")
            if self.page == compared:  # a circle of any length is found, by one comparison a page (Brent)
                earlier, compared = token, 2 * compared
            # The version is in the token; the two together are refused.
            options = ListOptions(limit=limit, continue_token=token)
            self.page += 1

    async def _take_lists(self, lists: AsyncIterable[list[object]]) -> None:
        async with AsyncExitStack() as stack:
            close = getattr(lists, "aclose", None)
            if close is not None:  # a source may hold a connection for it
                stack.push_async_callback(close)
            dog = await stack.enter_async_context(IdleTimeout(idle=self._idle_timeout))
            async for objects in lists:
                await self._take(objects)
                dog.heard = SYSTEM.loop()
        if dog.verdict:
            raise TimeoutError(f"list: not a byte for {self._idle_timeout:g} s")

    async def _take(self, objects: Iterable[object]) -> None:
        known, budget = self._known, self._budget
        taken: list[object] = []
        for obj in objects:
            taken.append(known_or_new(known, obj))
            if len(taken) == _SLICE:
                self._items.add(taken)
                taken = []
                if budget.exhausted():
                    await budget.pause()
        self._items.add(taken)


class RelistPlan:
    """How the next full list is asked for, as far as earlier lists and the caller say.

    Args:
        options: The page size, and whether lists are streamed.
        now: The clock of the hour for which automatic mode remembers to list.

    Attributes:
        choice: Whether the next full list is a stream.
        stood_still: A watch from the version of the last list had expired before that list.
        wanted: The version that was asked for from outside, and is not reached yet.
    """

    def __init__(self, options: ReflectorOptions, *, watch_list: bool, now: Callable[[], float]) -> None:
        mode = options.watch_list
        self.choice = WatchListChoice(mode if watch_list else bool(mode), now)
        self.stood_still = False
        self.wanted: str | None = None
        self._page_size = options.page_size
        self._came_in_pages = False
        self._wanted_when_asked: str | None = None

    def want(self, version: str) -> None:
        """Something has to be as new as `version`; ValueError if that is no number."""
        if compare_resource_versions(version, self.wanted or version) >= 0:
            self.wanted = version

    def is_wanted(self, version: str) -> bool:
        """True if a store that is as far as `version` lacks what is wanted."""
        if self.wanted is not None and reaches(version, self.wanted):
            self.wanted = None
        return self.wanted is not None

    def ask(self, state: List | InitialStream, version: str, *, first: str) -> str:
        """The version to ask at: none if the last one is of no use, else that, or what is wanted, or `first`."""
        if state.unset:
            state.asked = ""
        elif self.wanted is not None and not reaches(version, self.wanted):
            state.asked = self.wanted
        else:
            state.asked = version or first
        self._wanted_when_asked = self.wanted
        return state.asked

    def limit(self, state: List) -> int | None:
        """The `limit` of the list (client-go, tools/cache/reflector.go, `list`).

        A number that was asked for is always sent. Without one it is 500 if the version is unset or "0", and none at a
        numeric one, because a limit would turn "not older than" into "exactly" there, and past the server's watch
        cache; unless the first list, at "0", came in pages, which tells of a server that has no such cache.
        """
        if not state.paged:
            return None
        if self._page_size is not None:
            return self._page_size
        return PAGE_SIZE if state.asked in ("", "0") or self._came_in_pages else None

    def pages(self, state: List) -> None:
        """The list has come. At "0" more than one page means that the server has no watch cache."""
        if state.asked == "0" and state.page > 1:
            self._came_in_pages = True

    def done(self, state: List | InitialStream, before: str, version: str) -> str | None:
        """The store was at `before` and is at `version` now; the cause of this relist, None for the first list."""
        cause = state.cause
        self.stood_still = cause == "expired" and version == before
        if cause not in (FIRST, "cluster_replaced") and state.unset and not reaches(version, before, unknown=True):
            cause = "rewind"
        # Asked without a version, the server gives the newest that it has: what was wanted before does not exist.
        # Asked at the very version, a server that answers with an older one ignores it, and would the next time.
        answered = state.asked in ("", self.wanted) and self.wanted == self._wanted_when_asked
        if self.wanted is not None and (answered or reaches(version, self.wanted)):
            self.wanted = None
        return None if cause == FIRST else cause


def reaches(version: str, wanted: str, *, unknown: bool = False) -> bool:
    """True if `version` is `wanted` or newer; `unknown` if the two cannot be compared."""
    try:
        return compare_resource_versions(version, wanted) >= 0
    except ValueError:
        return unknown
