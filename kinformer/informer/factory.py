"""One informer for each thing that is asked for, all on one client, started and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, Unpack, overload

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import require_loop, wait_for_end
from kinformer._runtime.waiters import warnings_while
from kinformer.cache.indexer import Indexers
from kinformer.client.client import Client
from kinformer.exceptions import ConfigError, NotSyncedError
from kinformer.informer.collection import CollectionReads, ComputedCollection, FactoryPart, FleetPart
from kinformer.informer.informer import SharedInformer
from kinformer.informer.informer_key import InformerIdentity, check_index_paths
from kinformer.informer.namespaces import ChosenNamespaces
from kinformer.informer.options import ResourceKeywords, ResourceOptions
from kinformer.informer.statistics import InformerStatistics
from kinformer.informer.typed import with_model
from kinformer.listwatch.list_watch import ListWatch
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.models import check_model
from kinformer.objects.object import KubeObject
from kinformer.objects.selectors import LabelSelector
from kinformer.objects.typed import Model
from kinformer.objects.types import M, NoModel
from kinformer.reflector.health import InformerHealth

__all__ = ["SharedInformerFactory", "numbered"]

log = get_logger("kinformer.factory")

_SECRETS = "v1/secrets"
_NAMESPACES = "v1/namespaces"
_NAMED = 10  # informers that a text about all that have not synced names

P = TypeVar("P", bound=FactoryPart)


class _Named(Protocol):
    name: str


N = TypeVar("N", bound=_Named)


class _Held:
    """An informer, with the options that it was asked for, and how many hold it."""

    def __init__(self, informer: SharedInformer, options: ResourceOptions) -> None:
        self.informer = informer
        self.options = options
        self.holders = 1
        self.namespaces: SharedInformer | None = None  # those that it follows, if this factory follows them for it
        self._by_model: dict[Any, SharedInformer] = {}

    def read_as(self, model: Any) -> SharedInformer:
        """Return the informer with a model; for the same model it is the same."""
        if model is None:
            return self.informer
        if model not in self._by_model:
            self._by_model[model] = with_model(self.informer, model)
        return self._by_model[model]


class SharedInformerFactory:
    """Shared informers on one client (client-go, informers/factory.go).

    ``async with`` starts every informer that has been asked for, one that is asked for later starts at
    once, and leaving stops them all within one `shutdown_timeout`. There is no `start()` to forget.

    Args:
        client: The connection; it is not closed by the factory.
        indexers, **defaults: Options of `for_resource`, without `model`, as the default for all informers.

    Raises:
        ConfigError: An option that does not exist.
    """

    def __init__(
        self, client: Client, *, indexers: Indexers | None = None, **defaults: Unpack[ResourceKeywords]
    ) -> None:
        ResourceOptions._refuse_unknown(defaults)
        self._client = client
        self._defaults = ResourceOptions(indexers=indexers or {}, **defaults)
        self._held: dict[InformerIdentity, _Held] = {}
        self._parts: list[FactoryPart] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # once it has been entered
        self._left = False

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise RuntimeError("a SharedInformerFactory is entered once; make a new one")
        self._loop = asyncio.get_running_loop()
        for held in self._held.values():
            held.informer._start_tasks()
        for part in self._parts:
            part._start_tasks()
        return self

    @shielded_from_scopes
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        informers = self.informers
        entered: list[Any] = [*informers, *self._parts]
        for part in entered:
            part._refuse_leaving()
        self._left = True
        deadline = asyncio.get_running_loop().time() + self._defaults.shutdown_timeout
        for one in reversed(self._parts):  # before what they read
            await one._leave(deadline)
        leaving = [asyncio.ensure_future(informer._leave(deadline)) for informer in informers if informer._started]
        try:
            if leaving:
                await asyncio.wait(leaving)
        except asyncio.CancelledError:
            await _hurry(leaving)
            raise
        results = [task.exception() for task in leaving if not task.cancelled()]
        failures = [result for result in results if isinstance(result, BaseException)]
        failures += [informer._error for informer in informers if informer._error is not None]
        if failures and error is None:
            raise failures[0]

    # --- informers -----------------------------------------------------------------------------------

    @property
    def informers(self) -> tuple[SharedInformer, ...]:
        """The informers that have been asked for and not released, in the order of asking."""
        return tuple(
            held.informer for held in list(self._held.values())
        )  # a copy first: exports read it in other threads

    @property
    def derived(self) -> tuple[ComputedCollection[Any], ...]:
        """The derived collections that were given to it, in that order."""
        return tuple(part for part in self._parts if isinstance(part, CollectionReads))  # type: ignore[misc]

    @property
    def fleets(self) -> tuple[FleetPart, ...]:
        """The fleets that were given to it, in that order."""
        return tuple(part for part in self._parts if isinstance(part, FleetPart))

    @overload
    def for_resource(
        self,
        resource: str | GroupVersionResource,
        *,
        model: type[M],
        indexers: Indexers[KubeObject[M]] | None = None,
        **options: Unpack[ResourceKeywords],
    ) -> SharedInformer[M]: ...
    @overload
    def for_resource(
        self,
        resource: str | GroupVersionResource,
        *,
        model: None = None,
        indexers: Indexers[KubeObject[NoModel]] | None = None,
        **options: Unpack[ResourceKeywords],
    ) -> SharedInformer[NoModel]: ...
    def for_resource(
        self,
        resource: str | GroupVersionResource,
        *,
        model: type[Any] | None = None,
        indexers: Indexers | None = None,
        **options: Unpack[ResourceKeywords],
    ) -> SharedInformer[Any]:
        """Return the informer for a resource; asking twice for the same returns the same.

        Two requests are the same if these are equal: resource, namespaces, selectors, metadata_only, fields, compact,
        keep_managed_fields and transform. New `indexers` are added to an existing informer. `model` only says how
        its objects are read: one cache serves any number of models.

        Args:
            resource: ``"v1/pods"``, ``"apps/v1/deployments"`` or a `GroupVersionResource`.
            namespace, namespaces: One, or several in one merged cache; all by default. A `LabelSelector` chooses
                namespaces by their labels: this factory follows them, and they come and go in the cache. So do those
                of a collection, an informer of Namespaces or what is derived from one, by its keys.
            label_selector, field_selector, shard_selector: Filters that the server applies.
            model: A msgspec Struct, dataclass, TypedDict, pydantic model or model of kubernetes_asyncio: handlers,
                streams and listers get objects with ``.model``, an instance of it, decoded when it is first read.
            tweak_list_options: `ListOptions` -> `ListOptions`, applied to each request.
            indexers: Name to index function or JSON path (``"spec.nodeName"``).
            transform: dict -> dict, applied to each object before it is kept.
            fields: JSON paths; nothing else of an object is kept, except its identity.
            metadata_only: Ask the server for PartialObjectMetadata.
            keep_managed_fields: False, because they are a third of a Pod and hardly ever read.
            resync_period, page_size, watch_list, watch_timeout, idle_timeout, backoff, max_event_bytes,
            shutdown_timeout, optional, on_error, compact, snapshot, metrics: See `InformerOptions`. A `snapshot` that
                is the factory's default should be a folder, and leaves Secrets out.

        Raises:
            ConfigError: An option that does not exist, or differs from what the informer has; a model that is none.
            RuntimeError: The factory has been left, or was entered on another event loop.
        """
        if self._left:
            raise RuntimeError("the factory has been left")
        require_loop(self._loop, f"for_resource({str(resource)!r})", "the factory")
        ResourceOptions._refuse_unknown(options)
        if model is not None:
            check_model(model)
        gvr = GroupVersionResource.parse(resource)
        if str(gvr) == _SECRETS:
            # A default for all informers does not say that Secrets may be written to disk.
            options = {"snapshot": None, **options}
        settings = replace(self._defaults, **options)
        identity = InformerIdentity.of(gvr, settings)
        if model is not None and indexers:
            reads_as = Model(model, str(gvr))
            indexers = {name: reads_as.reading(func) if callable(func) else func for name, func in indexers.items()}
        indexers = {**self._defaults.indexers, **(indexers or {})}
        check_index_paths(gvr, indexers, fields=settings.fields, metadata_only=settings.metadata_only)
        held = self._held.get(identity)
        if held is not None:
            held.options._refuse_difference(gvr, settings)
            held.informer.add_indexers(indexers)
            held.holders += 1
            return held.read_as(model)
        namespaces = self._namespaces(identity.chosen) if isinstance(identity.chosen, LabelSelector) else None
        informer = self._make(gvr, identity, indexers, settings, namespaces or identity.chosen)
        self._refuse_shared_file(informer)
        if self._loop is not None:
            informer._start_tasks()
        self._held[identity] = held = _Held(informer, settings)
        held.namespaces = namespaces
        return held.read_as(model)

    def _namespaces(self, selector: LabelSelector) -> SharedInformer:
        """Return the informer of the namespaces with some labels."""
        timeout = self._defaults.shutdown_timeout
        settings = ResourceOptions(metadata_only=True, label_selector=selector, shutdown_timeout=timeout)
        gvr = GroupVersionResource.parse(_NAMESPACES)
        held = self._held.get(identity := InformerIdentity.of(gvr, settings))
        if held is not None:
            held.holders += 1
            return held.informer
        informer = self._make(gvr, identity, {}, replace(settings, metrics=self._defaults.metrics), None)
        if self._loop is not None:
            informer._start_tasks()
        self._held[identity] = _Held(informer, settings)
        return informer

    def _make(
        self,
        gvr: GroupVersionResource,
        identity: InformerIdentity,
        indexers: Indexers,
        settings: ResourceOptions,
        chosen: Any,
    ) -> SharedInformer:
        def source(namespace: str | None) -> ListWatch:
            return ListWatch(
                self._client,
                gvr,
                namespace=namespace,
                label_selector=identity.label_selector,
                field_selector=identity.field_selector,
                shard_selector=identity.shard_selector,
                tweak_list_options=settings.tweak_list_options,
                metadata_only=identity.metadata_only,
                fields=identity.fields,
                keep_managed_fields=identity.keep_managed_fields,
                max_event_bytes=settings.max_event_bytes,
            )

        namespaces = identity.namespaces
        sources: Any = {name: source(name) for name in namespaces} if namespaces else source(None)
        return SharedInformer(
            sources if chosen is None else ChosenNamespaces(chosen, source),
            name=str(gvr),
            indexers=indexers,
            options=settings,
        )

    def _refuse_shared_file(self, informer: SharedInformer) -> None:
        for held in self._held.values():
            if informer.snapshot_file is not None and held.informer.snapshot_file == informer.snapshot_file:
                raise ConfigError(
                    f"snapshot: {informer.name} and {held.informer.name} would write to the same file, "
                    f"{informer.snapshot_file}; give a folder, or a file for each"
                )

    def add(self, part: P) -> P:
        """Have a derived collection or a `Fleet` entered and left by this factory: after its informers, before them.

        Those that read one another are added in that order, the one that is read first.

        Raises:
            RuntimeError: The factory has been left, or was entered on another event loop.
        """
        if self._left:
            raise RuntimeError("the factory has been left")
        require_loop(self._loop, f"add({part.name!r})", "the factory")
        if self._loop is not None:
            part._start_tasks()
        self._parts.append(part)
        return part

    async def release(self, informer: SharedInformer) -> None:
        """Give an informer back. The last holder to do so stops it.

        Raises:
            ValueError: It is not of this factory, or was released as often as it was asked for.
            RuntimeError: The last holder asks from inside one of its handlers; the informer stays held.
        """
        identity = next((key for key, held in self._held.items() if held.informer == informer), None)
        if identity is None:
            raise ValueError(f"{informer!r} is not held by this factory")
        held = self._held[identity]
        if held.holders > 1:
            held.holders -= 1
            return
        informer._refuse_leaving()
        del self._held[identity]
        if informer._started:
            await informer._leave(asyncio.get_running_loop().time() + informer.shutdown_timeout)
        if held.namespaces is not None:
            await self.release(held.namespaces)

    # --- all of them --------------------------------------------------------------------------------------

    async def wait_for_cache_sync(
        self, timeout: float | None = None, *, fail_fast: bool = False, handlers: bool = False
    ) -> None:
        """Wait until every informer has its first full list.

        After 5 s, and every 10 s from then on, one warning names what is missing and why.

        Args:
            timeout: Seconds.
            fail_fast: Raise on the second 401, 403 or 404 of a resource.
            handlers: Wait, too, until the handlers have finished their initial adds.

        Raises:
            NotSyncedError: At the timeout; `unsynced` maps each resource to its last error or None.
            APIError: With `fail_fast`.
            RuntimeError: With `handlers`, from inside one of the handlers.
        """
        if handlers:
            for informer in self.informers:
                informer._refuse_inside_handlers("wait_for_cache_sync(handlers=True)")
        waits = {
            asyncio.ensure_future(_wait_one(informer, fail_fast=fail_fast, handlers=handlers))
            for informer in self.informers
        }
        if not waits:
            return
        try:
            with warnings_while(partial(self._warn_of_sync, handlers=handlers)):
                done, pending = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_EXCEPTION)
            for finished in done:
                finished.result()
            if pending:
                raise self._not_synced(timeout, handlers=handlers)
        finally:
            for wait in waits:
                wait.cancel()
            # All of them: of two that fail in one step only the first has been looked at.
            await wait_for_end(waits)

    def _unsynced(self, *, handlers: bool) -> dict[str, SharedInformer]:
        found = {
            name: one for name, one in self._by_name() if not one.has_synced or (handlers and not one.handlers_synced)
        }
        return dict(sorted(found.items()))

    def _reasons(self, unsynced: dict[str, SharedInformer]) -> str:
        named = list(unsynced.items())[:_NAMED]
        more = f" and {len(unsynced) - _NAMED} more" if len(unsynced) > _NAMED else ""
        if self._loop is None:
            names = ", ".join(name for name, _ in named) + more
            return f"{names}: the factory has not been entered, so nothing has started; use `async with` on it"
        return "; ".join(f"{name}: {informer._sync.reason()}" for name, informer in named) + more

    def _warn_of_sync(self, *, handlers: bool) -> None:
        unsynced = self._unsynced(handlers=handlers)
        text, resources = "still waiting for caches: %s", ",".join(list(unsynced)[:_NAMED])
        log.warning(text, self._reasons(unsynced), resource=resources, reason="unsynced")

    def _not_synced(self, timeout: float | None, *, handlers: bool) -> NotSyncedError:
        unsynced = self._unsynced(handlers=handlers)
        reasons, number = self._reasons(unsynced), f"{len(unsynced)} of {len(self._held)}"
        errors = {name: informer.health().last_error for name, informer in unsynced.items()}
        return NotSyncedError(f"{number} caches have not synced after {timeout:g} s: {reasons}", errors)

    def health(self) -> dict[str, InformerHealth]:
        """Return the health of each informer, by resource (a resource that is held twice has a number behind it)."""
        return {name: informer.health() for name, informer in self._by_name()}

    def statistics(self) -> dict[str, InformerStatistics]:
        """Return the statistics of each informer, by resource."""
        return {name: informer.statistics() for name, informer in self._by_name()}

    def _by_name(self) -> Iterable[tuple[str, SharedInformer]]:
        return numbered(self.informers).items()


def numbered(parts: Iterable[N]) -> dict[str, N]:
    """Return informers, collections or fleets by name; the second of a name has a number behind it."""
    seen: dict[str, int] = {}
    found: dict[str, N] = {}
    for one in parts:
        number = seen[one.name] = seen.get(one.name, 0) + 1
        found[one.name if number == 1 else f"{one.name}#{number}"] = one
    return found


async def _hurry(leaving: list[asyncio.Task[None]]) -> None:
    """Leaving was cancelled: end the tasks that are left at once. Each must have begun, or it would end nothing."""
    await asyncio.sleep(0)
    for task in leaving:
        task.cancel()
    await asyncio.wait(leaving)


async def _wait_one(informer: SharedInformer, *, fail_fast: bool, handlers: bool) -> None:
    await informer._sync.first(fail_fast=fail_fast)
    if handlers:
        await informer.wait_handlers_synced()
