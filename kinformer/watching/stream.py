"""The stream of all changes of a resource, without a cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self, Unpack, cast

from kinformer._runtime.cancellation import ShieldedExitStack, shielded_from_scopes
from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.fence import unfenced
from kinformer._runtime.signatures import check_callback, keywords_of, options_of, shows_options
from kinformer._runtime.tasks import wait_for_end
from kinformer.connection.refusals import FINAL
from kinformer.exceptions import (
    ConfigError,
    ExpiredError,
    ResourceVersionTooLargeError,
    StoppedError,
)
from kinformer.list_watcher import ListerWatcher, source_of
from kinformer.listwatch.decoding import DecodingListerWatcher
from kinformer.objects.meta import compare_resource_versions
from kinformer.objects.object import KubeObject
from kinformer.reflector.health import InformerHealth
from kinformer.reflector.options import ReflectorKeywords, ReflectorOptions, Resumption
from kinformer.reflector.reflector import Reflector
from kinformer.watching.differences import StreamEvent
from kinformer.watching.stream_store import StreamStore

__all__ = ["WatchStream", "following", "watch"]

_TOO_LARGE = 2  # "too large" responses after which a version is assumed not to exist


@shows_options(ReflectorOptions, without=("poll",))
def watch(
    list_watch: ListerWatcher,
    *,
    initial: bool = True,
    resource_version: str | None = None,
    queue_size: int = 1024,
    name: str | None = None,
    on_error: Callable[[WatchStream, Exception], object] | None = None,
    **options: Unpack[ReflectorKeywords],
) -> WatchStream:
    """Return a stream of all changes of a resource, without keeping any objects.

    ::

        async with watch(ListWatch(client, "v1/pods")) as events:
            async for event in events:
                print(event.type, event.key)

    The stream yields the existing objects as ADDED, then every change, in the server's order, without folding. A
    reflector follows the server, as in an informer. After a 410, or a restart that lost history, it lists, and the
    stream yields the difference, including deletes. For this it keeps the uid and resourceVersion of each object,
    about 100 bytes, but no objects. So a DELETED detected by a list has None as its `object`. (kube-rs,
    kube-runtime/src/watcher.rs, keeps nothing, and starts over instead.)

    Args:
        list_watch: The source, such as a `ListWatch`.
        initial: False to get only changes after the first list. The list is still made, for the versions, and its
            objects are dropped as they arrive.
        resource_version: A version of an earlier stream (`events.resource_version`) to resume from. The stream then
            yields every change since, but not the existing objects. If the server no longer has that version, the
            iteration raises ExpiredError, because deletes may have been missed. Start without a version in that case.
        queue_size: The number of events that may wait for the reader. Beyond that, no more are read from the server
            until half of them have been read. Events that arrive together are accepted as a whole.
        name: The name for the log and errors. By default, the name of the source.
        on_error: Called as `on_error(stream, error)` for each error that ends a request or a stream, before the
            reflector recovers. If it raises, the iteration raises that exception.
        page_size, watch_list, watch_timeout, idle_timeout, backoff: See `Reflector`.

    Raises:
        ConfigError: An option is invalid. The message names it.
        NotWatchableError: (from the iteration) The resource has no verb `watch`. Only an informer can poll it.
    """
    return WatchStream(
        list_watch,
        initial=initial,
        resource_version=resource_version,
        queue_size=queue_size,
        name=name,
        on_error=on_error,
        options=options_of(ReflectorOptions, "watch", options),
    )


class WatchStream:
    """An async context manager and iterator over `StreamEvent`s. Created by `watch`.

    It follows the server from entry until exit. A cancelled `anext` loses nothing, because an event is taken in the
    same step in which it is returned. Only one task may read at a time. The iteration ends on exit, and raises the
    error that ended the reflector, if any. Exiting drops unread events.
    """

    def __init__(
        self,
        list_watch: ListerWatcher,
        *,
        initial: bool,
        resource_version: str | None,
        queue_size: int,
        name: str | None,
        on_error: Callable[[WatchStream, Exception], object] | None,
        options: ReflectorOptions,
    ) -> None:
        if options.poll is not None:
            raise ConfigError(f"poll={options.poll!r}: a stream keeps no objects that a list could be compared with")
        if not isinstance(queue_size, int) or queue_size < 1:
            raise ConfigError(f"queue_size={queue_size!r}: pass a number of at least 1")
        source = source_of(list_watch)
        self.name = name or source.name
        self._since = _checked(resource_version)
        self._source = list_watch if source.decodes else DecodingListerWatcher(list_watch)
        self._options = options
        if on_error is not None:
            check_callback(on_error, "on_error", "stream, error", f"watch of {self.name}", plain=True)
        self._on_error = on_error
        self._store = StreamStore(queue_size, tell_initial=initial and not self._since, position=self._since)
        self._reflector = Reflector(
            self._source,
            self._store,
            name=self.name,
            on_error=self._failed,
            resume=self._resumption if self._since else None,
            **keywords_of(options, ReflectorKeywords),
        )
        self._stack: AsyncExitStack | None = None
        self._running: asyncio.Task[None] | None = None
        self._left = False
        self._reading = False

    def __repr__(self) -> str:
        return f"<WatchStream {self.name}>"

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def resource_version(self) -> str:
        """The version up to which all changes have been read, or "" before the last initial object.

        Store it after handling an event. A stream resumed from it yields all later changes. It stays the same while the
        difference of a list is read, so a stream that is left within it yields those changes again.
        """
        return self._store.position

    @property
    def has_synced(self) -> bool:
        """True once the last initial object has been read."""
        return self._store.initial_read

    @property
    def objects(self) -> int:
        """The number of objects of the resource, as far as known."""
        return self._store.objects

    @property
    def pending(self) -> int:
        """The number of unread events. The difference of a list counts as one."""
        return len(self._store)

    def health(self) -> InformerHealth:
        """Return the current health, that is, how well the stream follows the server."""
        return self._reflector.health()

    # --- lifecycle
    # -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._stack is not None:
            raise RuntimeError(f"stream {self.name} has already been entered; create a new one")
        self._budget = YieldBudget(blames=False)  # the reader may wait between two events
        self._stack = ShieldedExitStack()
        self._running = await self._stack.enter_async_context(following(self._reflector))
        self._running.add_done_callback(lambda _: self._store.end())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._stack is not None
        self._left = True
        self._store.end(drop=True)
        await self._stack.aclose()

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        if self._running is None:
            raise RuntimeError(f"stream {self.name} is not open; use it inside `async with`")
        if self._reading:
            raise RuntimeError(f"stream {self.name} is being read by another task; give each task its own")
        self._reading, budget = True, self._budget
        try:
            if budget.exhausted():  # the reader's work on the last event may not have suspended
                await budget.pause()
            while not self._left:
                taken = self._store.take()
                if isinstance(taken, StreamEvent):
                    return taken
                if taken is not None:  # PAUSE
                    await budget.pause()
                elif self._running.cancelled():
                    raise StoppedError(f"stream {self.name}: its reflector was cancelled")
                elif self._running.done():
                    self._running.result()  # raises the error that ended it
                    break
                else:
                    await self._store.wait()
                    budget.enter()
            raise StopAsyncIteration
        finally:
            self._reading = False

    # --- the reflector ----------------------------------------------------------------------------------------------

    async def _resumption(self) -> Resumption:
        """Get the versions of all objects from a list, and resume from the program's stored version.

        The list is not older than that version. Changes in the watch up to the version of the list are already in the
        list, but are still reported.
        """
        items, version = await self._reflector.list_run().collect(self._since, None)
        self._store.catch_up = version
        return Resumption(cast("ChunkedList[KubeObject]", items), self._since)

    def _failed(self, reflector: Reflector, error: Exception) -> None:
        if isinstance(error, FINAL):
            raise error
        if self._since and (self._store.catch_up or not reflector.health().synced):
            if isinstance(error, ExpiredError):
                raise self._store.unresumable(error.message) from error
            failures = reflector.health().consecutive_failures
            if isinstance(error, ResourceVersionTooLargeError) and failures >= _TOO_LARGE:
                raise error
        if self._on_error is not None:
            self._on_error(self, error)


def _checked(resource_version: str | None) -> str:
    if resource_version is None:
        return ""
    try:
        compare_resource_versions(resource_version, resource_version)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"resource_version={resource_version!r}: pass a version from a stream, or None") from error
    return resource_version


@asynccontextmanager
async def following(reflector: Reflector) -> AsyncIterator[asyncio.Task[None]]:
    """Run a reflector in a task that ends with the body. If it ends before, its exception is the reason."""
    with unfenced():  # it only reads, and may run in a leader's body
        task = asyncio.get_running_loop().create_task(reflector.run(), name=f"kinformer reflector of {reflector.name}")
    try:
        yield task
    finally:
        await _end(task)


@shielded_from_scopes
async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await wait_for_end([task])
