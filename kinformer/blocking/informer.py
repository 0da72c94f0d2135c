"""The informer for threads: the face of a `SharedInformer` that runs on the event loop of another thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, overload

from kinformer.blocking.event_stream import EventStream
from kinformer.blocking.loop_thread import Awaited, LoopThread
from kinformer.cache.indexer import Indexers
from kinformer.cache.lister import IndexView, Lister
from kinformer.informer.informer import SharedInformer
from kinformer.informer.metrics import InformerStatistics
from kinformer.informer.object_wait import wait_for
from kinformer.objects.conditions import Narrowing
from kinformer.objects.object import KubeObject
from kinformer.objects.types import M
from kinformer.processor.callbacks import EventHandler, Filter, OnAdd, OnDelete, OnUpdate
from kinformer.processor.handler import HandlerRegistration as AsyncHandlerRegistration
from kinformer.reflector.health import InformerHealth

__all__ = ["HandlerRegistration", "Informer"]


class HandlerRegistration:
    """The handle to a handler that was added; made by `Informer.add_event_handler`."""

    def __init__(self, loop_thread: LoopThread, registration: AsyncHandlerRegistration) -> None:
        self._loop_thread = loop_thread
        self._registration = registration

    @property
    def name(self) -> str:
        """The handler's name, as in `statistics().pending` and the log."""
        return self._registration.name

    @property
    def has_synced(self) -> bool:
        """True if the handler has finished its initial adds."""
        return self._registration.has_synced

    def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until `has_synced`; errors as of `kinformer.HandlerRegistration.wait_synced`."""
        self._registration._refuse_inside("wait_synced")
        self._loop_thread.call("wait_synced", partial(self._registration.wait_synced, timeout))

    def __repr__(self) -> str:
        return repr(self._registration)


class Informer(Generic[M]):
    """A live, indexed copy of one resource, for threads; made by `Informers.for_resource`.

    It has the members of `SharedInformer`. Those that are coroutines there block here, with the same arguments and the
    same errors, and all may be called from any thread. Reads, `health()` and `statistics()` wait for no other thread.

    Attributes:
        indexer: The cache by key and by index; the very object that the informer has.
        lister: The cache by name, namespace and selector; the very object that the informer has.
        by_key: The cache as a mapping; the very object that the informer has.
    """

    def __init__(self, loop_thread: LoopThread, informer: SharedInformer[M]) -> None:
        self._loop_thread = loop_thread
        self._informer = informer
        self.indexer: IndexView[KubeObject[M]] = informer.indexer
        self.lister: Lister[KubeObject[M]] = informer.lister
        self.by_key: Mapping[str, KubeObject[M]] = informer.by_key

    @property
    def name(self) -> str:
        """The name, for the log, `health()` and errors."""
        return self._informer.name

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces that it follows; None is all."""
        return self._informer.namespaces

    @property
    def has_synced(self) -> bool:
        """True if the first full list is in the cache."""
        return self._informer.has_synced

    @property
    def last_sync_resource_version(self) -> str:
        """The version of the cache; of several namespaces the lowest; "" before the first list."""
        return self._informer.last_sync_resource_version

    wait_synced = Awaited(SharedInformer.wait_synced, of="_informer")
    """Wait until `has_synced`: `SharedInformer.wait_synced`."""

    wait_for_resource_version = Awaited(SharedInformer.wait_for_resource_version, of="_informer")
    """Read your own writes: `SharedInformer.wait_for_resource_version`."""

    def health(self) -> InformerHealth:
        """Return how well the cache follows the server, at this moment."""
        return self._informer.health()

    def statistics(self) -> InformerStatistics:
        """Return counts of everything that was received and told, and of what waits."""
        return self._informer.statistics()

    @overload
    def wait_for(self, key: str, condition: Narrowing, timeout: float | None = None) -> KubeObject: ...
    @overload
    def wait_for(
        self, key: str, condition: Callable[[KubeObject | None], object], timeout: float | None = None
    ) -> KubeObject | None: ...
    def wait_for(
        self, key: str, condition: Callable[[KubeObject | None], object], timeout: float | None = None
    ) -> KubeObject | None:
        """Wait until a condition is true of the object with this key, as the cache has it; see `kinformer.wait_for`.

        Args:
            key: `"namespace/name"` or `"name"`.
            condition: A function of the object, or of None while there is none. It runs on the loop's thread.
            timeout: Seconds; None waits for as long as it takes.

        Returns:
            The object for which it was true; None if that was its absence.

        Raises:
            TimeoutError: `timeout` seconds have passed; the text names the object as it is.
            StoppedError: The informer has been left. If it has crashed, its error is raised instead.
        """
        return self._loop_thread.call("wait_for", partial(wait_for, self._informer, key, condition, timeout))

    # --- handlers and streams -------------------------------------------------------------------------

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
    ) -> HandlerRegistration:
        """Have plain functions called for the cached objects, as adds, and for every change.

        They run in a worker thread, in order and one at a time, and may block; handlers do not wait for each other. The
        arguments and errors are those of `SharedInformer.add_event_handler`. A filter runs on the loop's thread.

        Raises:
            ConfigError: A callback is a coroutine function, beside the reasons that it has there.
        """
        add = partial(
            self._informer.add_event_handler,
            handler,
            on_add=on_add,
            on_update=on_update,
            on_delete=on_delete,
            resync_period=resync_period,
            filter=filter,
            queue_size=queue_size,
            name=name,
            thread=True,
        )
        registration: AsyncHandlerRegistration = self._loop_thread.call("add_event_handler", add)
        return HandlerRegistration(self._loop_thread, registration)

    def remove_event_handler(self, registration: HandlerRegistration, *, drain: bool = False) -> None:
        """Call a handler no more. Idempotent; see `SharedInformer.remove_event_handler`.

        Raises:
            RuntimeError: `drain` from inside the handler itself.
        """
        asked = registration._registration
        if drain:
            asked._refuse_inside("remove_event_handler(drain=True)")
        self._loop_thread.call("remove_event_handler", partial(self._informer.remove_event_handler, asked, drain=drain))

    def events(
        self,
        *,
        queue_size: int | None = 1024,
        filter: Filter[M] | None = None,  # noqa: A002 - the contract's name
        name: str | None = None,
    ) -> EventStream[M]:
        """Return the changes to iterate over: ``with informer.events() as events: for event in events``.

        The arguments are those of `SharedInformer.events`. A filter runs on the loop's thread.
        """
        make = partial(self._informer.events, queue_size=queue_size, filter=filter, name=name)
        return EventStream(self._loop_thread, make)

    # --- indexes --------------------------------------------------------------------------------------

    def add_indexers(self, indexers: Indexers[KubeObject[M]]) -> None:
        """Add indexes, which are there on return; built in slices, as by `SharedInformer.build_indexers`.

        Raises:
            ValueError: Another function is known under one of the names; then none is added.
        """
        self._loop_thread.call("add_indexers", partial(self._informer.build_indexers, indexers))

    def __repr__(self) -> str:
        return repr(self._informer).replace("SharedInformer", "blocking.Informer", 1)
