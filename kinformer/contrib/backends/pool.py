"""The pool: the backends that requests can be sent to, as an immutable snapshot that follows the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from operator import attrgetter
from types import TracebackType
from typing import Self

from kinformer import InformerHealth, LabelSelector, SharedInformerFactory
from kinformer.contrib.backends.backend import Backend, Family, Listing, merge
from kinformer.contrib.backends.source import BackendSource
from kinformer.derived import DerivedCollection
from kinformer.exceptions import NotSyncedError, StoppedError

__all__ = ["Backends", "BackendsHealth"]

_READ_AT_ONCE = 1024  # changes
# Each change of a large pool builds it anew, so under many changes the loop rests: for some times the cost, up to this.
_REST = 5.0
_LONGEST_REST = 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendsHealth:
    """The health of a pool at one moment.

    Attributes:
        live: True if the cache follows the API server, so that the snapshot is current.
        synced: True if the snapshot was built from the first list.
        reason: Why it is not live, not synced, or has no backend. Otherwise "". It has the classes of errors, without
            their messages.
        backends: The number of backends in the snapshot.
        cache: The health of the cache, with the last error.
    """

    live: bool
    synced: bool
    reason: str
    backends: int
    cache: InformerHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What readers see. Replaced as a whole, because they may be in other threads."""

    snapshot: tuple[Backend, ...] = ()
    known: tuple[Backend, ...] = ()
    problem: str = ""
    version: int = 0
    synced: bool = False


class Backends:
    """The backends of a Service, or of the pods with certain labels: ``async with Backends(...) as pool``.

    `snapshot` has the backends that Kubernetes calls ready, so that new requests can be sent to them. A backend that is
    not ready in the cache leaves the snapshot within 100 ms, unless the program blocks the event loop, or a relist
    changes thousands of them (0.05 ms each). While the API server cannot be reached, the snapshot stays, and `health`
    has the reason.

    Entering returns at once, before or after the factory was entered. Exit it before the factory. It needs the rights
    to list and watch `endpointslices` (with `service`) or `pods` (with `selector`).

    Args:
        factory: The factory whose client and options it uses.
        service: `"namespace/name"` of a Service, with or without a selector of its own.
        selector: Instead of `service`: the labels of pods, as text, a dict or a `LabelSelector`.
        namespace: With `selector`: the namespace of the pods. By default, the factory's.
        port: The name of the Service's port (with `selector`, of a container's), or the number on which the backends
            listen. By default, the only port.
        family: `"IPv4"`, `"IPv6"` or `"FQDN"`. By default, all of them, but each pod once: with a Service by its IPv4
            address if it has one, with a selector by its first address.
        name: The name in errors.

    Raises:
        ConfigError: An argument is invalid.
        SelectorError: The selector does not parse.
    """

    def __init__(
        self,
        factory: SharedInformerFactory,
        *,
        service: str | None = None,
        selector: str | Mapping[str, str] | LabelSelector | None = None,
        namespace: str | None = None,
        port: str | int | None = None,
        family: Family | None = None,
        name: str | None = None,
    ) -> None:
        self._source = BackendSource(
            factory=factory, service=service, selector=selector, namespace=namespace, port=port, family=family
        )
        self.name = name or f"backends of {self._source.words}"
        self._collection: DerivedCollection[Listing] | None = None
        self._stack = AsyncExitStack()
        self._state = _State()
        self._news = asyncio.Event()  # set at the next change of the state or of the life, and then replaced
        self._end: BaseException | None = None

    # --- reads ------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[Backend, ...]:
        """Return the backends that new requests can be sent to, in the order of their keys. From any thread, O(1)."""
        return self._state.snapshot

    @property
    def version(self) -> int:
        """The number of changes of the snapshot. From any thread."""
        return self._state.version

    def known(self) -> tuple[Backend, ...]:
        """Return all backends, also those that are not ready or terminating. From any thread, O(1).

        For programs that keep connections: a terminating backend that is `serving` may finish its requests.
        """
        return self._state.known

    def changes(self) -> AsyncIterator[tuple[Backend, ...]]:
        """Return an iterator over the snapshot: first the current one, then each later one.

        ::

            async for backends in pool.changes():
                connections.close_all_except(backend.key for backend in backends)

        A slow reader skips snapshots. The iteration ends when the pool is exited, and raises the error if it crashed.
        """
        return _Changes(self)

    async def wait_synced(self, timeout: float | None = None, *, fail_fast: bool | None = None) -> None:
        """Wait until the snapshot was built from the first list.

        Args:
            timeout: Seconds, or None to wait forever.
            fail_fast: Which refusals of the server end the wait. See `SharedInformerFactory.wait_for_cache_sync`.

        Raises:
            NotSyncedError: `timeout` seconds have passed. The message has the reason.
            APIError: The server keeps refusing the first list.
            StoppedError: The pool was exited. If it crashed, its error is raised instead.
        """
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                if self._collection is not None and self._end is None:
                    await self._collection.wait_synced(fail_fast=fail_fast)
                await self._until(lambda state: state.synced)
        except TimeoutError:
            if not limit.expired():
                raise
            health = self.health()
            error = health.cache.last_error
            raise NotSyncedError(f"{self.name}: {health.reason}", unsynced={self.name: error}) from error

    async def _until(self, is_reached: Callable[[_State], bool]) -> _State:
        """Wait for a state, and return it. Raises the reason of the end."""
        while self._end is None:
            if is_reached(self._state):
                return self._state
            await self._news.wait()
        raise self._end

    def health(self) -> BackendsHealth:
        """Return how well the snapshot follows the cluster."""
        state, cache = self._state, self._cache()
        return BackendsHealth(
            live=cache.live and self._end is None,
            synced=state.synced,
            reason=self._reason(state, cache),
            backends=len(state.snapshot),
            cache=cache,
        )

    def _cache(self) -> InformerHealth:
        if self._collection is None:
            return InformerHealth(state="starting", synced=False, live=False)
        return self._collection.health()

    def _reason(self, state: _State, cache: InformerHealth) -> str:
        why = "" if cache.last_error is None else f" ({type(cache.last_error).__name__})"
        if self._collection is None:
            return "it has not been entered"
        if self._end is not None:
            return str(self._end) if isinstance(self._end, StoppedError) else f"crashed: {type(self._end).__name__}"
        if not state.synced:
            return f"the first list is missing: {cache.state}{why}"
        if not cache.live:
            return f"the cache does not follow the API server: {cache.state}{why}"
        if state.snapshot:
            return ""
        return state.problem or ("no backend is ready" if state.known else f"{self._source.words} has no backend")

    # --- life -------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._collection is not None:
            raise RuntimeError(f"{self.name}: a pool can be entered only once")
        async with AsyncExitStack() as stack:
            self._collection = await stack.enter_async_context(self._source.following(self.name))
            task = asyncio.create_task(self._follow(self._collection), name=f"kinformer {self.name}")
            task.add_done_callback(self._task_ended)
            stack.push_async_callback(_cancelled, task)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        crash = self._end
        self._ended(StoppedError(f"{self.name} was exited"))
        # An exited pool follows nothing, so an old snapshot must not be mistaken for a current one.
        self._publish(replace(self._state, snapshot=(), known=()))
        await self._stack.__aexit__(kind, error, traceback)
        if crash is not None and not isinstance(crash, StoppedError) and error is None:
            raise crash

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        name = task.get_name()
        error = RuntimeError(f"{name} was cancelled") if task.cancelled() else task.exception()
        if error is not None:
            self._ended(error)

    def _ended(self, error: BaseException) -> None:
        if self._end is None:
            self._end = error
            self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # --- work -------------------------------------------------------------------------------------------

    async def _follow(self, collection: DerivedCollection[Listing]) -> None:
        """Build the snapshot anew after changes of the endpoints, until the collection ends."""
        now = asyncio.get_running_loop().time
        async with collection.events(name="backends") as stream:
            await collection.wait_synced(fail_fast=False)
            self._update(collection)
            while await stream.read(_READ_AT_ONCE):
                began = now()
                self._update(collection)
                await asyncio.sleep(min(_REST * (now() - began), _LONGEST_REST))
        raise StoppedError(f"{self.name} has ended, because its informer was exited")

    def _update(self, collection: DerivedCollection[Listing]) -> None:
        listings = collection.lister.list()
        merged = merge(listings, one_family=self._source.family is None)
        known = tuple(sorted(merged.values(), key=attrgetter("key")))
        ready = tuple(backend for backend in known if backend.ready)
        problem = next((listing.problem for listing in listings if listing.problem), "")
        self._publish(replace(self._state, snapshot=ready, known=known, problem=problem, synced=True))

    def _publish(self, state: _State) -> None:
        changed = state.snapshot != self._state.snapshot
        self._state = replace(state, version=state.version + changed)
        self._tell()


class _Changes(AsyncIterator[tuple[Backend, ...]]):
    """An iterator over the snapshots of a pool. Unlike a generator, it goes on after a cancelled `anext`."""

    def __init__(self, pool: Backends) -> None:
        self._pool = pool
        self._seen = -1

    async def __anext__(self) -> tuple[Backend, ...]:
        try:
            state = await self._pool._until(lambda state: state.version != self._seen)
        except StoppedError:
            raise StopAsyncIteration from None
        self._seen = state.version
        return state.snapshot


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait for its end."""
    task.cancel()
    await asyncio.wait({task})
