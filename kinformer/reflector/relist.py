"""Full lists: chooses the options of each one, and collects its pages."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from itertools import islice

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM, Clock, YieldBudget
from kinformer.exceptions import DecodeError
from kinformer.list_watcher import ListerWatcher, ListOptions, ListPage, source_of
from kinformer.listwatch.head_limit import HeadLimit
from kinformer.objects.accessors import Known, known_or_new
from kinformer.objects.meta import compare_resource_versions
from kinformer.reflector.errors import StaleListError
from kinformer.reflector.initial_stream import WatchListChoice
from kinformer.reflector.options import ReflectorOptions
from kinformer.reflector.recovery import Facts
from kinformer.reflector.states import InitialStream, List
from kinformer.reflector.store_adapter import ListSink, StreamingStore
from kinformer.reflector.timeouts import IdleTimeout
from kinformer.reflector.timers import PollTimer

__all__ = ["FIRST", "PAGE_SIZE", "ListRun", "RelistPlan", "reaches", "refuse_older"]

FIRST = "first"  # the cause of the first list

PAGE_SIZE = 500  # client-go, tools/pager/pager.go, defaultPageSize

_SLICE = 128  # objects between two checks of the clock. Each takes about a microsecond


class ListRun:
    """Makes one full list, page by page.

    Args:
        source: The source.
        known: See `known_or_new`.
        options: The time limits.
        head_limit: The limit for the head of each response, at first at most that of the options.
        on_late: Called if a head is late for the first time. Returns the seconds before the list is requested again.
        clock: The clock that measures the slices in which objects are collected.
        streaming: A store that takes the objects as they arrive, or None.

    Attributes:
        page: The page that is being requested, from 1, or 0 before the first.
        received: The number of received objects.
    """

    def __init__(
        self,
        source: ListerWatcher,
        options: ReflectorOptions,
        *,
        known: Known | None = None,
        head_limit: HeadLimit,
        on_late: Callable[[TimeoutError], float],
        clock: Clock = SYSTEM,
        streaming: StreamingStore | None = None,
    ) -> None:
        self._source = source
        self._streaming = streaming
        self._sink = streaming.sink() if streaming is not None else None
        self._known = known
        self._head_limit = head_limit
        self._head_timeout = options.head_timeout
        self._on_late = on_late
        self._idle_timeout = options.idle_timeout
        self._budget = YieldBudget(clock=clock)
        self._items: ChunkedList[object] = ChunkedList()  # `_take` fills it, and `collect` returns it
        self.page = 0
        self.received = 0

    @property
    def progress(self) -> str:
        """The progress of the list."""
        if self.page == 1 and not self.received:
            return "no response yet"
        return f"still listing: page {self.page}, {self.received:,} objects so far"

    async def collect(self, version: str, limit: int | None) -> tuple[ChunkedList[object], str]:
        """Return all objects, and the resourceVersion of the list (the version of its first page).

        Raises:
            ExpiredError: The version expired (`page` is 1), or a continue token did (`page` > 1). The fresh token in
                the error belongs to another snapshot of the data, so it is not used.
            TimeoutError: The head of a response, or its next byte, did not arrive in time.
            KinformerError, OSError: The request failed.
            RuntimeError: The source's objects changed while they were read.
        """
        options = ListOptions(resource_version=version or None, limit=limit)
        if limit is not None and version not in ("", "0"):
            # Without a match, a server interprets a version with a limit as exactly that version (legacy "Exact"),
            # however old it is. After a 410, the watch from there would be refused again, and so on.
            options = options.replace(resource_version_match="NotOlderThan")
        self.page, first_version = 1, ""
        earlier, compared = "", 1  # an earlier token, and the number of its page, which is a power of two
        while True:
            page = await self._head_limit.listed(
                partial(self._source.list, options), first=self._head_timeout, failed=self._on_late
            )
            try:
                await self._read(page)
            except RuntimeError as error:
                if "during iteration" not in str(error):
                    raise
                raise RuntimeError(
                    f"{source_of(self._source).name}: a list changed while it was read ({error}); return a "
                    "copy of changing objects: ListPage(list(...))"
                ) from error
            if self.page == 1:
                first_version = page.resource_version
            token = page.continue_token
            if not token:
                items, self._items = self._items, ChunkedList()
                return items if self._sink is None else self._sink.result(), first_version
            if token == earlier:
                raise DecodeError(
                    f"page {self.page} has the continue token of an earlier page: the list would never end"
                )
            if self.page == compared:  # Brent's algorithm finds a cycle of any length, with one comparison per page
                earlier, compared = token, 2 * compared
            # The token contains the version. A server refuses both together.
            options = ListOptions(limit=limit, continue_token=token)
            self.page += 1

    async def _read(self, page: ListPage) -> None:
        if isinstance(page.items, AsyncIterable):
            await self._take_lists(page.items)
        else:
            await self._take(page.items)

    async def _take_lists(self, lists: AsyncIterable[list[object]]) -> None:
        async with AsyncExitStack() as stack:
            close = getattr(lists, "aclose", None)
            if close is not None:  # the iterator may hold a connection
                stack.push_async_callback(close)
            timeout = await stack.enter_async_context(IdleTimeout(idle=self._idle_timeout))
            async for objects in lists:
                await self._take(objects, timeout)
                timeout.heard = SYSTEM.loop()
        if timeout.verdict:
            raise TimeoutError(f"list: no byte within {self._idle_timeout:g} s")

    async def _take(self, objects: Iterable[object], timeout: IdleTimeout | None = None) -> None:
        if self._sink is not None:
            await self._stream(objects, self._sink, timeout)
            return
        known, budget, left = self._known, self._budget, iter(objects)
        while taken := list(islice(left, _SLICE)):
            self._items.add(taken if known is None else [known_or_new(known, obj) for obj in taken])
            self.received += len(taken)
            if len(taken) == _SLICE and budget.exhausted():
                await budget.pause()

    async def _stream(self, objects: Iterable[object], sink: ListSink, timeout: IdleTimeout | None) -> None:
        streaming, budget = self._streaming, self._budget
        assert streaming is not None
        for number, obj in enumerate(objects, 1):
            sink.put(obj)
            self.received += 1
            if number % _SLICE == 0 and budget.exhausted():
                await budget.pause()
            if streaming.is_full():
                with timeout.paused() if timeout is not None else nullcontext():
                    await streaming.room()


class RelistPlan:
    """Chooses the version and the page size of the next full list from the options and earlier lists.

    Args:
        options: The page size, and the mode of streamed lists.
        watch_list: False if the source does not support streamed lists.
        now: The clock for the hour in which automatic mode lists after a stream has failed.

    Attributes:
        choice: Decides whether the next full list is a stream.
        polling: The times of the lists of a resource that is polled. Each has the newest state, as a proof of it.
        stood_still: True if the last relist followed a 410 and returned no newer version.
        wanted: The version requested with `want`, if it is not reached yet.
    """

    def __init__(self, options: ReflectorOptions, *, watch_list: bool, now: Callable[[], float]) -> None:
        mode = options.watch_list if options.poll is None else False
        self.polling = PollTimer(options.poll)
        self.choice = WatchListChoice(mode if watch_list else bool(mode), now)
        self.stood_still = False
        self.wanted: str | None = None
        self._page_size = options.page_size
        self._came_in_pages = False  # set by `pages`, for good
        self._wanted_when_asked: str | None = None  # `wanted` at the last `ask`: another task may want more meanwhile

    def facts(self, stream_errors: int) -> Facts:
        """Return the facts of a transition, with the server errors of watches since the last new version."""
        return Facts(
            streaming=self.choice.wanted,
            may_list=self.choice.may_list,
            failed_streams=self.choice.failures,
            stream_errors=stream_errors,
            stood_still=self.stood_still,
            polls=self.polling.is_on,
        )

    def want(self, version: str) -> None:
        """Request that the store becomes as new as `version`. Raises ValueError if it is not a number."""
        if compare_resource_versions(version, self.wanted or version) >= 0:
            self.wanted = version

    def is_wanted(self, version: str) -> bool:
        """True if a store that has reached `version` is older than the wanted version."""
        if self.wanted is not None and reaches(version, self.wanted):
            self.wanted = None
        return self.wanted is not None

    def ask(self, state: List | InitialStream, version: str, *, first: str) -> str:
        """Return the version to request, and store it in `state.asked`.

        It is "" if the state requires it. Otherwise it is the wanted version if the store has not reached it, or else
        the version of the store, or `first` if the store has none.
        """
        if state.unset:
            state.asked = ""
        elif self.wanted is not None and not reaches(version, self.wanted):
            state.asked = self.wanted
        else:
            state.asked = version or first
        self._wanted_when_asked = self.wanted
        return state.asked

    def limit(self, state: List) -> int | None:
        """Return the `limit` of the list (client-go, tools/cache/reflector.go, `list`).

        A `page_size` in the options is always sent. Without one, the limit is 500 if the version is unset or "0". At a
        numeric version there is no limit, because it would turn "not older than" into "exactly", and bypass the
        server's watch cache. The exception is a server whose first list, at "0", was paged, which has no such cache.
        """
        if not state.paged:
            return None
        if self._page_size is not None:
            return self._page_size
        return PAGE_SIZE if state.asked in ("", "0") or self._came_in_pages else None

    def pages(self, state: List) -> None:
        """Record a complete list. More than one page at "0" means that the server has no watch cache."""
        if state.asked == "0" and state.page > 1:
            self._came_in_pages = True

    def done(self, state: List | InitialStream, before: str, version: str) -> str | None:
        """Record that a list moved the store from `before` to `version`.

        Returns its cause, or None for the first list.
        """
        cause = state.cause
        self.stood_still = cause == "expired" and version == before
        if cause not in (FIRST, "cluster_replaced") and state.unset and not reaches(version, before, unknown=True):
            cause = "rewind"
        # A list without a version is the newest. If it is older than the wanted version, that version does not exist.
        # A server that responds to the wanted version with an older one ignores it, and would do so again.
        answered = state.asked in ("", self.wanted) and self.wanted == self._wanted_when_asked
        if self.wanted is not None and (answered or reaches(version, self.wanted)):
            self.wanted = None
        return None if cause == FIRST else cause


def refuse_older(state: List | InitialStream, version: str, reached: str) -> None:
    """Refuse a list that goes back in time, unless it was requested without a version and so is the newest."""
    if state.asked and not reaches(version, reached, unknown=True):
        raise StaleListError(f"the list has version {version}, but not older than {state.asked} was requested")


def reaches(version: str, wanted: str, *, unknown: bool = False) -> bool:
    """Return True if `version` is `wanted` or newer, and `unknown` if the two cannot be compared."""
    try:
        return compare_resource_versions(version, wanted) >= 0
    except ValueError:
        return unknown
