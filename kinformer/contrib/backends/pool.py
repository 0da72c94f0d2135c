"""The pool: the backends that requests can be sent to, as an immutable snapshot that follows the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from operator import attrgetter
from types import TracebackType
from typing import Any, Literal, Self, get_args

from kinformer import LabelSelector, SharedInformerFactory
from kinformer.contrib.backends.backend import Backend, Family, Found, identity_of, is_same, merge
from kinformer.contrib.backends.probing import Probe, ProbeOptions, Prober
from kinformer.contrib.backends.reports import NOT_ENTERED, BackendsHealth, BackendsStatistics
from kinformer.contrib.backends.source import Source
from kinformer.derived import DerivedCollection
from kinformer.exceptions import ConfigError, NotSyncedError, StoppedError

__all__ = ["Backends", "Changes"]

log = logging.getLogger("kinformer.backends")

WhenAllFail = Literal["keep", "empty"]

_READ_AT_ONCE = 1024  # changes
# Each change of a large pool builds it anew, so under many changes the loop rests: for some times the cost, up to this.
_REST = 5.0
_LONGEST_REST = 0.025


@dataclass(frozen=True, slots=True)
class _State:
    """What readers see. Replaced as a whole, because they may be in other threads."""

    snapshot: tuple[Backend, ...] = ()
    version: int = 0
    known: tuple[Backend, ...] = ()
    failing: int = 0
    unprobed: int = 0
    all_failed: bool = False
    problem: str = ""


class Backends:
    """The backends of a Service, or of the pods with certain labels: ``async with Backends(...) as pool``.

    `snapshot` has the backends that new requests can be sent to: Kubernetes calls them ready, and they pass the
    program's probe, if there is one. A backend that is not ready in the cache leaves the snapshot within 100 ms, unless
    the program blocks the event loop, or a relist changes thousands of them (0.05 ms each). While the API server cannot
    be reached, the snapshot stays, probes go on, and `health` has the reason.

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
        probe: ``async def probe(backend)``. It fails if it raises, returns False or takes more than `timeout` seconds.
            Anything else that it returns becomes `Backend.probed`. Only ready backends are probed.
        interval: Seconds between two probes of a backend, varied by 10 %.
        timeout: Seconds that a probe may take.
        success_threshold, failure_threshold: Results in a row that change a verdict. The first result of a backend
            decides alone. Before it, the backend is not in the snapshot.
        concurrency: The largest number of probes at a time. Backends that fail already get a quarter of them.
        when_all_fail: `"keep"` keeps all ready backends in the snapshot while none passes its probe, with `healthy`
            False, because the probe is more often wrong than all backends are. `"empty"` empties the snapshot. Both
            are logged, and reported by `health`.
        name: The name in the log and errors.

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
        probe: Probe | None = None,
        interval: float = 10.0,
        timeout: float = 5.0,
        success_threshold: int = 1,
        failure_threshold: int = 3,
        concurrency: int = 64,
        when_all_fail: WhenAllFail = "keep",
        name: str | None = None,
    ) -> None:
        self._source = Source(
            factory=factory, service=service, selector=selector, namespace=namespace, port=port, family=family
        )
        self._probing = ProbeOptions(
            probe=probe,
            interval=interval,
            timeout=timeout,
            success_threshold=success_threshold,
            failure_threshold=failure_threshold,
            concurrency=concurrency,
        )
        if when_all_fail not in get_args(WhenAllFail):
            raise ConfigError(f"when_all_fail: expected 'keep' or 'empty', got {when_all_fail!r}")
        self._when_all_fail = when_all_fail
        self.name = name or f"backends of {self._source.words}"
        self._collection: DerivedCollection[Found] | None = None
        self._prober: Prober | None = None
        self._stack = AsyncExitStack()
        self._state = _State()
        self._all_failed = 0
        self._first: set[tuple[str, str]] | None = None  # the backends of the first list
        self._dirty = asyncio.Event()
        self._news = asyncio.Event()  # set at the next change of the snapshot or of the life, and then replaced
        self._synced = False
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
        """Return all backends, also those that are not ready, terminating or failing. From any thread, O(1).

        For programs that keep connections: a terminating backend that is `serving` may finish its requests.
        """
        return self._state.known

    def changes(self) -> Changes:
        """Return an iterator over the snapshot: first the current one, then each later one.

        ::

            async for backends in pool.changes():
                connections.close_all_except(backend.key for backend in backends)

        A slow reader skips snapshots. The iteration ends when the pool is exited, and raises the error if it crashed.
        """
        return Changes(self)

    async def _after(self, version: int) -> tuple[int, tuple[Backend, ...]]:
        """Wait for another version of the snapshot. Raises StopAsyncIteration at the end, or the error of a crash."""
        while True:
            if isinstance(self._end, StoppedError):
                raise StopAsyncIteration
            if self._end is not None:
                raise self._end
            state = self._state
            if state.version != version:
                return state.version, state.snapshot
            await self._news.wait()

    async def wait_synced(self, timeout: float | None = None, *, fail_fast: bool | None = None) -> None:
        """Wait until the first list is in the cache, and each backend of it was probed once.

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
                while not self._synced:
                    if self._end is not None:
                        raise self._end
                    await self._news.wait()
        except TimeoutError:
            if not limit.expired():
                raise
            health = self.health()
            error = health.cache.last_error
            raise NotSyncedError(f"{self.name}: {health.reason}", unsynced={self.name: error}) from error

    def health(self) -> BackendsHealth:
        """Return how well the snapshot follows the cluster."""
        state = self._state
        cache = NOT_ENTERED if self._collection is None else self._collection.health()
        health = BackendsHealth(
            live=cache.live and self._end is None,
            synced=self._synced,
            reason="",
            backends=len(state.snapshot),
            ready=sum(backend.ready for backend in state.known),
            failing=state.failing,
            all_failed=state.all_failed,
            cache=cache,
        )
        return replace(health, reason=self._reason(health, state))

    def _reason(self, health: BackendsHealth, state: _State) -> str:
        cache, error = health.cache, health.cache.last_error
        why = "" if error is None else f" ({type(error).__name__})"
        if self._collection is None:
            return "it has not been entered"
        if self._end is not None:
            return str(self._end) if isinstance(self._end, StoppedError) else f"crashed: {type(self._end).__name__}"
        if not cache.synced:
            return f"the first list is missing: {cache.state}{why}"
        if not cache.live:
            return f"the cache does not follow the API server: {cache.state}{why}"
        if health.all_failed:
            return f"all {health.ready} ready backends fail their probes"
        if state.unprobed and not health.backends:
            return f"{state.unprobed} backends wait for their first probe"
        if not self._synced:
            return "the first backends have not all been probed"
        if health.backends:
            return ""
        return state.problem or ("no backend is ready" if state.known else f"{self._source.words} has no backend")

    def statistics(self) -> BackendsStatistics:
        """Return counts of changes and probes."""
        prober = self._prober
        return BackendsStatistics(
            changes=self._state.version,
            probes=prober.probes if prober else 0,
            probe_failures=prober.failures if prober else 0,
            probe_timeouts=prober.timeouts if prober else 0,
            all_failed=self._all_failed,
        )

    # --- life -------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._collection is not None:
            raise RuntimeError(f"{self.name}: a pool can be entered only once")
        async with AsyncExitStack() as stack:
            self._collection = await stack.enter_async_context(self._source.following(self.name))
            if (probe := self._probing.probe) is not None:
                self._prober = Prober(probe, self._probing, self.name, changed=self._dirty.set, crashed=self._ended)
                stack.push_async_callback(self._prober.aclose)
            for work in (self._follow(self._collection), self._update_when_dirty(self._collection)):
                task = asyncio.create_task(work, name=f"kinformer {self.name}")
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

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
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

    async def _follow(self, collection: DerivedCollection[Found]) -> None:
        """Note each change of the endpoints, until the collection ends."""
        async with collection.events(name="backends") as stream:
            await collection.wait_synced(fail_fast=False)
            self._dirty.set()
            while await stream.read(_READ_AT_ONCE):
                self._dirty.set()
        raise StoppedError(f"{self.name} has ended, because its informer was exited")

    async def _update_when_dirty(self, collection: DerivedCollection[Found]) -> None:
        """Build the snapshot anew after changes of the endpoints or of verdicts."""
        now = asyncio.get_running_loop().time
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            began = now()
            if collection.has_synced:
                self._update(collection)
            await asyncio.sleep(min(_REST * (now() - began), _LONGEST_REST))

    def _update(self, collection: DerivedCollection[Found]) -> None:
        found = collection.lister.list()
        merged = merge(found, one_family=self._source.family is None)
        if self._prober is not None:
            self._prober.follow(backend for backend in merged.values() if backend.ready)
            merged.update((backend.key, backend) for backend in self._prober.shown())
        known = tuple(sorted(merged.values(), key=attrgetter("key")))
        ready = tuple(backend for backend in known if backend.ready)
        problem = next((one.problem for one in found if one.problem), "")
        state = _State(snapshot=ready, known=known, problem=problem, version=self._state.version)
        if self._prober is None:
            self._synced = True
        else:
            state = self._choose(state, ready)
        self._publish(state)

    def _choose(self, state: _State, ready: Sequence[Backend]) -> _State:
        """Return the state with the backends that pass their probes, or the ones used instead."""
        passing = tuple(backend for backend in ready if backend.healthy)
        failing = sum(backend.healthy is False for backend in ready)
        unprobed = {identity_of(backend) for backend in ready if backend.healthy is None}
        if self._first is None:
            self._first = unprobed
        self._synced = self._synced or not self._first & unprobed
        all_failed = failing > 0 and not passing and self._synced
        if all_failed and self._when_all_fail == "keep":
            passing = tuple(ready)
        return replace(state, snapshot=passing, failing=failing, unprobed=len(unprobed), all_failed=all_failed)

    def _publish(self, state: _State) -> None:
        before = self._state
        if not is_same(state.snapshot, before.snapshot):
            state = replace(state, version=before.version + 1)
        self._state = state
        if state.all_failed != before.all_failed:
            self._all_failed += state.all_failed
            self._log_all_failed(state)
        self._tell()

    def _log_all_failed(self, state: _State) -> None:
        if state.all_failed:
            used = "none is used" if self._when_all_fail == "empty" else "all are used regardless of it"
            log.warning(
                "%s: all %d backends fail their probe; %s",
                self.name,
                state.failing,
                used,
                extra={"resource": self.name, "key": "", "reason": "all_failed"},
            )
        else:
            log.info(
                "%s: backends pass their probes again",
                self.name,
                extra={"resource": self.name, "key": "", "reason": "all_failed"},
            )


class Changes:
    """An async iterator over the snapshots of a pool, from `Backends.changes`."""

    def __init__(self, pool: Backends) -> None:
        self._pool = pool
        self._seen = -1

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[Backend, ...]:
        """Wait until the snapshot differs from the last one that was returned, and return it."""
        self._seen, snapshot = await self._pool._after(self._seen)
        return snapshot


async def _cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and wait for its end."""
    task.cancel()
    await asyncio.wait({task})
