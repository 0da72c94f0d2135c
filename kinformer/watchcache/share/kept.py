"""The caches of a holder: each is made when it is first asked for, and let go a minute after its last reader."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import msgspec

from kinformer._runtime.logs import get_logger
from kinformer._runtime.signatures import keywords_of
from kinformer._runtime.tasks import Tasks, wait_for_end
from kinformer.client.client import Client
from kinformer.connection.refusals import FINAL
from kinformer.exceptions import (
    APIError,
    ConnectError,
    ForbiddenError,
    ResourceVersionTooLargeError,
    UnauthorizedError,
    WatchError,
    describe,
)
from kinformer.informer.informer import SharedInformer
from kinformer.list_watcher import ListerWatcher, ListOptions, ListPage, WatchEvent
from kinformer.listwatch.head_limit import HEAD_TIMEOUT
from kinformer.listwatch.sharing import CacheState
from kinformer.listwatch.wrapper import ListerWatcherWrapper
from kinformer.objects.meta import version_number
from kinformer.reflector.continuity import ContinuityCheck
from kinformer.reflector.errors import ClusterReplacedError, RewindError
from kinformer.reflector.options import ReflectorKeywords, ReflectorOptions
from kinformer.watchcache.informer_server import WatchCache
from kinformer.watchcache.share.key import SourceKey

__all__ = ["LOST", "Kept", "KeptCaches", "Seeds"]

log = get_logger("kinformer.share")

LOST = ""
"""Stands for the server itself among the tokens of the caches that do not follow it."""

_CATCH_UP = 25.0  # seconds for which a reader that is ahead waits, less than for the head of a response
_LINGER = 60.0  # seconds for which a cache without readers is kept


Seeds = Callable[[SourceKey], Awaitable[CacheState | None]]
"""Returns the state of the process's own cache of these objects, or None if it has none."""


class _WholeSource(ListerWatcherWrapper):
    """A source of all objects of a key, which for a watch cache are all there are.

    Args:
        inner: The source.
        state: The state that another cache had, which takes the place of the first list, so that a watch goes on from
            there. None lists.
        cluster: The identity of the cluster of that state, or "" if unknown.
    """

    selects_all = True

    def __init__(self, inner: ListerWatcher, state: CacheState | None, cluster: str) -> None:
        super().__init__(inner)
        self._state = state  # None once it was passed on as the first list
        self._taken = ""  # the version of the state, until the server has proved that it has reached it
        self._cluster = cluster
        self._resumes = state is not None

    @property
    def supports_watch_list(self) -> bool:  # type: ignore[override]
        """False after a state, as an initial stream would be everything once more."""
        return not self._resumes and self._inner.supports_watch_list

    async def cluster(self) -> str | None:
        """Return the identity of the cluster that the processes agree on, which needs no request."""
        return self._cluster or await self._inner.cluster()

    async def list(self, options: ListOptions) -> ListPage:
        """List the state of the other cache, or one page from the inner source."""
        state, self._state = self._state, None
        if state is not None:
            self._taken = state[1]
            return ListPage(*state)
        page = await self._inner.list(options)
        self._taken = ""
        return page

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[builtins.list[WatchEvent]]]:
        """Open the inner source's stream. The first one after a state needs a server that has reached it.

        The server may have gone back since the last holder had a stream, and would accept a version of the future.
        """
        if self._taken:
            check = ContinuityCheck(self._inner, name=self.name, timeout=HEAD_TIMEOUT)
            check.cluster = self._cluster or None
            try:
                await check.verify(self._taken)
            except (RewindError, ClusterReplacedError) as error:
                raise _too_large(self._taken, str(error)) from error
            self._taken = ""
        async with self._inner.watch(options) as stream:
            yield stream


class Kept:
    """One cache, with the informer that fills it.

    Args:
        key: The key.
        client: The client for the server.
        seed: The state to go on from, or None to list.
        cluster: The identity of the cluster, or "" if unknown.
        options: How the informer follows the server.
        on_refused: Called when the server has refused a request with 401 or 403.

    Attributes:
        cache: The cache.
        informer: The informer.
        readers: The number of requests that are being answered.
    """

    def __init__(
        self,
        key: SourceKey,
        client: Client,
        seed: CacheState | None,
        *,
        cluster: str,
        options: ReflectorOptions,
        on_refused: Callable[[], None],
    ) -> None:
        source = _WholeSource(key.source(client), seed, cluster)
        if seed is not None:
            options = msgspec.structs.replace(options, watch_list=False)
        self.informer: SharedInformer = SharedInformer(
            source, name=f"shared {key}", on_error=self._failed, **keywords_of(options, ReflectorKeywords)
        )
        self._on_refused = on_refused
        self.cache = WatchCache(self.informer, client=client)
        self.readers = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Start to follow the server."""
        await self._stack.enter_async_context(self.informer)
        await self._stack.enter_async_context(self.cache)

    async def close(self) -> None:
        """End all streams, and stop following."""
        await self._stack.aclose()

    async def ready(self) -> None:
        """Wait until the objects are complete.

        Raises:
            APIError: The server refuses.
            StoppedError: It was closed.
        """
        if self.informer.has_synced:
            return
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(refused)
        synced = asyncio.ensure_future(self.informer.wait_synced(fail_fast=False))
        try:
            await asyncio.wait({refused, synced}, return_when=asyncio.FIRST_COMPLETED)
            (synced if synced.done() else refused).result()
        finally:
            self._waiting.discard(refused)
            refused.cancel()
            synced.cancel()
            await wait_for_end([synced])

    async def catch_up(self, version: str) -> None:
        """Wait until the cache has the version that a watch begins at. Its reader may be ahead after a takeover.

        Raises:
            ResourceVersionTooLargeError: The server does not have it, or no longer. The reader lists then.
        """
        now = self.informer.health().resource_version
        if not version.isdecimal() or not now.isdecimal() or version_number(now) >= version_number(version):
            return
        try:
            await self.informer.wait_for_resource_version(version, namespace=None, timeout=_CATCH_UP)
        except (TimeoutError, WatchError) as error:
            raise _too_large(version, str(error)) from error

    def _failed(self, _: object, error: BaseException) -> None:
        if isinstance(error, (ForbiddenError, UnauthorizedError)):
            self._on_refused()
        if isinstance(error, (APIError, *FINAL)):
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(error)


class KeptCaches:
    """The caches of a holder.

    Args:
        client: The client for the server.
        cluster: The identity of its cluster, or "" if unknown.
        seeds: See `Seeds`.
        options: How the caches follow the server.
        on_refused: Called when the server has refused a request of a cache with 401 or 403.
    """

    def __init__(
        self,
        client: Client,
        cluster: str,
        seeds: Seeds,
        options: ReflectorOptions,
        on_refused: Callable[[], None],
    ) -> None:
        self._client = client
        self._seeds = seeds
        self._kept_as = partial(Kept, cluster=cluster, options=options, on_refused=on_refused)
        self._tasks = Tasks(self._crashed)
        self._kept: dict[SourceKey, asyncio.Task[Kept]] = {}
        self._timers: dict[SourceKey, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """Return the number of caches."""
        return len(self._kept)

    def down(self) -> list[str]:
        """Return the tokens of the caches that do not follow the server at present, and `LOST` if it is not reached."""
        tokens = [key.token for key, making in self._kept.items() if not _is_live(making)]
        return [*tokens, LOST] if any(map(_has_lost_server, self._kept.values())) else tokens

    @asynccontextmanager
    async def using(self, key: SourceKey) -> AsyncIterator[Kept]:
        """Give a complete cache, and keep it while it is used. The first user has it made, and all wait for it.

        Raises:
            APIError: The server refuses to list or watch.
        """
        making = self._kept.get(key)
        if making is None or (making.done() and _has_ended(making)):
            making = self._kept[key] = asyncio.get_running_loop().create_task(
                self._make(key), name=f"kinformer shared cache of {key}"
            )
        kept = await asyncio.shield(making)
        kept.readers += 1
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        try:
            await kept.ready()
            yield kept
        finally:
            kept.readers -= 1
            if not kept.readers and self._kept.get(key) is making:
                loop = asyncio.get_running_loop()
                self._timers[key] = loop.call_later(_LINGER, self._let_go, key, making)

    async def close(self) -> None:
        """End all caches."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        making = list(self._kept.values())
        self._kept.clear()
        for task in making:
            if not task.done():
                task.cancel()
        await wait_for_end(making)
        await self._tasks.cancel()
        for task in making:
            if not task.cancelled() and task.exception() is None:
                await task.result().close()

    async def _make(self, key: SourceKey) -> Kept:
        kept = self._kept_as(key, self._client, await self._seeds(key))
        try:
            await kept.start()
        except BaseException:
            await kept.close()
            raise
        return kept

    def _let_go(self, key: SourceKey, making: asyncio.Task[Kept]) -> None:
        self._timers.pop(key, None)
        if self._kept.get(key) is making and not making.result().readers:
            del self._kept[key]
            self._tasks.start(making.result().close(), f"kinformer end of the shared cache of {key}")

    def _crashed(self, task: str, error: BaseException) -> None:
        log.error("%s ended with %s", task, describe(error), exc_info=error, reason=error)


def _too_large(version: str, why: str) -> ResourceVersionTooLargeError:
    """Return the error for a version that the server does not have."""
    return ResourceVersionTooLargeError(504, "Timeout", f"Too large resource version: {version}: {why}")


def _has_ended(making: asyncio.Task[Kept]) -> bool:
    if making.cancelled() or making.exception() is not None:
        return True
    return making.result().informer.health().state == "stopped"


def _has_lost_server(making: asyncio.Task[Kept]) -> bool:
    if not making.done() or _has_ended(making) or _is_live(making):
        return False
    return isinstance(making.result().informer.health().last_error, ConnectError | OSError)


def _is_live(making: asyncio.Task[Kept]) -> bool:
    if not making.done() or making.cancelled() or making.exception() is not None:
        return False
    return making.result().informer.health().live
