"""The shared informer: a live, indexed copy of one resource, with its lifetime, handlers and health."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, Unpack

from kinformer._runtime.signatures import options_of, shows_options
from kinformer._runtime.waiters import within
from kinformer.cache.indexer import Indexers
from kinformer.cache.key_view import KeyView
from kinformer.cache.lister import IndexView, Lister
from kinformer.exceptions import ConfigError
from kinformer.informer.collection import CollectionFace
from kinformer.informer.freshness.confirm import confirmed
from kinformer.informer.informer_core import InformerCore
from kinformer.informer.metrics import InformerStatistics
from kinformer.informer.namespaces import ChosenNamespaces
from kinformer.informer.object_wait import wait_for
from kinformer.informer.options import InformerKeywords, InformerOptions
from kinformer.informer.written import Written
from kinformer.kinds.conditions import is_deleted
from kinformer.list_watcher import ListerWatcher
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ApiObject, M
from kinformer.processor.callbacks import EventHandler, Filter, OnAdd, OnDelete, OnUpdate
from kinformer.processor.event_stream import EventStream
from kinformer.processor.handler import HandlerRegistration

__all__ = ["SharedInformer"]


class SharedInformer(CollectionFace[KubeObject[M]], Generic[M]):
    """A live, indexed copy of one resource, shared by any number of handlers and readers.

    ``async with`` starts and stops it. Entering returns immediately, and `wait_synced` waits for the first list.
    Exiting stops the reflectors, delivers queued changes to the handlers within `shutdown_timeout` seconds, then
    cancels each task once and gives it 1 s. Entering and exiting may happen in different tasks of one loop. (client-go,
    tools/cache/shared_informer.go)

    The cache has a change before any handler is called for it. A handler's calls are in order and never overlap. A slow
    or failing handler delays only itself. A handler that is added late starts with the cached objects as adds, and
    misses nothing after that.

    Args:
        list_watch: The source, or a mapping from namespace to source for one merged cache.
        name: The name in the log, `health()` and errors. By default the source's `name` or class.
        indexers: Name to index function (object -> values) or JSON path.
        transform, compact, snapshot, page_size, watch_list, watch_timeout, idle_timeout, poll, resync_period, optional,
            backoff, on_error, shutdown_timeout, metrics: See `SharedInformerFactory.for_resource`.

    Raises:
        ConfigError: An option is invalid. The message names it.
    """

    _core: InformerCore
    indexer: IndexView[KubeObject[M]]
    """The cache by key and by index. Reads return snapshots and may come from any thread."""

    @shows_options(InformerOptions)
    def __init__(
        self,
        list_watch: ListerWatcher | Mapping[str, ListerWatcher] | ChosenNamespaces,
        *,
        name: str | None = None,
        indexers: Indexers[KubeObject[M]] | None = None,
        **options: Unpack[InformerKeywords],
    ) -> None:
        chosen = options_of(InformerOptions, "SharedInformer", options)
        core = InformerCore(list_watch, name, indexers or {}, chosen)
        core.face = self
        self._show(core, IndexView(core.parts.indexer))

    def _show(self, core: InformerCore, indexer: IndexView[KubeObject[M]]) -> None:
        """Become a face of `core`, which reads its objects through `indexer`."""
        self._core = core
        self.name = core.name
        self.resource: Any = core.source.resource  # a GroupVersionResource, if the source is a ListWatch
        self.indexer = indexer
        self.lister = Lister(indexer, default_namespace=core.source.namespace or "")
        self.by_key = KeyView(indexer)

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces that it follows, or None for all."""
        return self._core.parts.namespaces

    @property
    def optional(self) -> bool:
        """True if an absent resource counts as synced."""
        return self._core.options.optional

    @property
    def snapshot_file(self) -> Path | None:
        """The file that the cache is saved in, or None."""
        return self._core.parts.snapshots.file if self._core.parts.snapshots is not None else None

    async def run(self) -> None:
        """Run until cancelled, then stop. For programs with their own task group. Raises the error of a crash."""
        async with self:
            assert self._core.ended is not None
            await asyncio.shield(self._core.ended)

    # --- the sync ---------------------------------------------------------------------------------------

    @property
    def handlers_synced(self) -> bool:
        """True if every handler has finished its initial adds."""
        return self._core.handlers.synced

    async def wait_handlers_synced(self, timeout: float | None = None, *, fail_fast: bool | None = None) -> None:
        """Wait until `handlers_synced`, for the present handlers. The arguments and errors are as in `wait_synced`."""
        await self._core.handlers.sync.wait(timeout, fail_fast=fail_fast)

    @property
    def last_sync_resource_version(self) -> str:
        """The resourceVersion of the cache (the lowest of several namespaces), or "" before the first list."""
        return self._core.parts.processor.applied.lowest()

    async def wait_for_resource_version(
        self, resource_version: str | ApiObject, *, namespace: str | None = None, timeout: float | None = None
    ) -> None:
        """Wait until the cache holds everything up to a resourceVersion, to read your own writes.

        If no event passes that version within 5 s (a quiet selector gets none), a list at that version is made.

        Args:
            resource_version: The unmodified response to a write (a KubeObject, a dict, or a model of a client library),
                or its resourceVersion. If it is the last state of an object, this waits until the object is gone.
            namespace: Required if the informer follows several namespaces and the response has none.

        Raises:
            ValueError: The resourceVersion is missing or not a number, or the namespace is missing or not followed.
            ConfigError: It is polled, so its cache has reached a version at the next list only. Use `confirm`.
            TimeoutError: `timeout` seconds have passed. The message has the version of the cache.
            NotWatchableError, APIError: As for `wait_synced`.
            WatchError: The server went back in time, so the cache will never hold that version.
        """
        self._core.life.require_running("wait_for_resource_version")
        if (poll := self._core.options.poll) is not None:
            raise ConfigError(f"wait_for_resource_version: {self.name} is polled (poll={poll:g}); use confirm()")
        written = Written.of(resource_version, namespace)

        def late() -> TimeoutError:
            reached = self.last_sync_resource_version or "none"
            reason = self._core.unlisted_reason() or f"the cache has version {reached}"
            return TimeoutError(f"{self.name}: version {written.version} was not seen within {timeout:g} s: {reason}")

        async with within(timeout, late):
            await self.wait_synced()
            await self._core.reached(written.version, written.namespace)
            if written.ended is not None:
                await wait_for(self, written.ended.key, is_deleted(written.ended.uid))

    async def confirm(
        self,
        *,
        label_selector: str | Mapping[str, str] | None = None,
        namespace: str | None = None,
        name: str | None = None,
        timeout: float | None = 10,
    ) -> list[KubeObject[M]]:
        """Return objects that are at least as new as the server was at the call, for a decision that must be right.

        ::

            running = await pods.confirm(namespace="shop", label_selector="app=db")

        Without conditions, the whole cache is proved to be current: by a LIST of one object and, on a quiet resource, a
        watch that takes about a second. With a condition, the metadata of the selected objects is listed, which is
        cheaper for a few objects. Then this waits until the cache holds these states or newer ones. Concurrent calls
        share a proof that has not been requested.

        Args:
            label_selector, namespace, name: Conditions for the objects. A name needs its namespace, as in `lister.get`.
            timeout: Seconds, or None to wait forever.

        Raises:
            TimeoutError: `timeout` seconds have passed. The message names the version, or the objects, that the cache
                lacks. An object that cannot be decoded, or that a transform leaves out, is among them.
            APIError, ConnectError: A request failed. (403: the rights are those of the informer.)
            WatchError: The server went back in time, or is another one. The cache will be listed again.
            SelectorError, ValueError: A condition is invalid, or the informer does not follow the namespace.
        """
        self._core.life.require_running("confirm")
        return await confirmed(self, label_selector, namespace, name, timeout)

    # --- handlers ---------------------------------------------------------------------------------------

    def add_event_handler(
        self,
        handler: EventHandler[M] | None = None,
        *,
        on_add: OnAdd[M] | None = None,
        on_update: OnUpdate[M] | None = None,
        on_delete: OnDelete[M] | None = None,
        resync_period: float | None = None,
        filter: Filter[M] | None = None,  # noqa: A002 - the contract's name
        queue_size: int | None = 1024,
        name: str | None = None,
        thread: bool = False,
    ) -> HandlerRegistration:
        """Call callbacks for the cached objects, as adds, and for every change. Allowed at any time before the stop.

        Args:
            handler: An object with some of `on_add(obj, *, is_in_initial_list)`, `on_update(old, new)`,
                `on_delete(obj, *, final_state_unknown)`. The callbacks may be passed instead. They are coroutine
                functions or plain functions, and get the flags only if they take them.
            resync_period: Seconds between replays of the cache to this handler. None uses the informer's period, and 0
                disables them.
            filter: A function that returns True for the objects that the handler sees. A change by which an object
                starts or stops matching is an add or a delete.
            queue_size: The number of waiting calls above which calls for the same key are folded. 1024, which is
                client-go's initial ring, bounds memory, and a handler that keeps up never reaches it. None never folds:
                each change is one call, and the queue of a slow handler is not limited.
            name: The name in `statistics().pending` and the log. By default the handler's own name.
            thread: Call plain functions in a worker thread, in order and one at a time, so that they may block. The
                informers of a client share `Client.handler_limiter`.

        Raises:
            StoppedError: The informer was stopped.
            ConfigError: There is no callback, or both a handler and callbacks, or a coroutine function with `thread`.
            TypeError: A callback or the filter cannot be called with the arguments that it will get.
        """
        return super().add_event_handler(
            handler,
            on_add=on_add,
            on_update=on_update,
            on_delete=on_delete,
            resync_period=resync_period,
            filter=filter,
            queue_size=queue_size,
            name=name,
            thread=thread,
        )

    def events(
        self,
        *,
        queue_size: int | None = 1024,
        filter: Filter[M] | None = None,  # noqa: A002 - the contract's name
        name: str | None = None,
    ) -> EventStream[M]:
        """Return a stream of the changes: ``async with informer.events() as stream: async for event in stream``.

        It is registered on entering, which may be late, as for a handler. Above `queue_size`, its events are folded
        like calls, or never if that is None.
        """
        return super().events(queue_size=queue_size, filter=filter, name=name)

    # --- indexes ----------------------------------------------------------------------------------------

    def add_indexers(self, indexers: Indexers[KubeObject[M]]) -> None:
        """Add indexes, before or after the start. The cached objects are indexed immediately, which takes a while.

        Raises:
            ValueError: A name is in use for another function. No index is added then.
            TypeError: A function cannot be called with an object.
        """
        self._core.add_indexers(indexers)

    async def build_indexers(self, indexers: Indexers[KubeObject[M]]) -> None:
        """Add indexes like `add_indexers`, but in slices that let other tasks run. Returns when they are complete."""
        await self._core.build_indexers(indexers)

    # --- state ------------------------------------------------------------------------------------------

    def statistics(self) -> InformerStatistics:
        """Return counts of received, delivered and waiting changes."""
        return self._core.statistics()

    def __repr__(self) -> str:
        return f"<SharedInformer {self.name}: {len(self.lister)} objects, {self.health().state}>"

    def __eq__(self, other: object) -> bool:
        """True for the same informer, even if one of the two is read with a model."""
        return isinstance(other, SharedInformer) and self._core is other._core

    def __hash__(self) -> int:
        return hash(self._core)
