"""The shared informer factory: one informer for each distinct request, on one client, started and stopped together."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar, Unpack

import msgspec

from kinformer._runtime.life import Life
from kinformer._runtime.logs import cluster_of, get_logger
from kinformer._runtime.signatures import keywords_of, shows_options
from kinformer._runtime.tasks import all_of
from kinformer.cache.indexer import Indexers
from kinformer.client.client import Client
from kinformer.connection.refusals import Refusals
from kinformer.exceptions import ConfigError
from kinformer.informer.collection import ComputedCollection, Entered, FollowedClusters, core_of
from kinformer.informer.core import CollectionCore, ProgramPart, leave_parts, numbered
from kinformer.informer.informer import SharedInformer
from kinformer.informer.informer_key import InformerIdentity, check_index_paths
from kinformer.informer.metrics import InformerStatistics
from kinformer.informer.namespaces import ChosenNamespaces
from kinformer.informer.options import InformerKeywords, ResourceKeywords, ResourceOptions, shows_defaults
from kinformer.informer.typed import ModelInformer
from kinformer.list_watcher import ListerWatcher
from kinformer.listwatch.http_source import ListWatch
from kinformer.listwatch.sharing import SharedCache
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.models.decoding import check_model
from kinformer.objects.models.typed import Model
from kinformer.objects.selectors import LabelSelector
from kinformer.objects.types import ModelT
from kinformer.processor.first_sync import FirstSync
from kinformer.reflector.health import InformerHealth

__all__ = ["SharedInformerFactory", "refuse_release"]

log = get_logger("kinformer.factory")

_SECRETS = "v1/secrets"
_NAMESPACES = "v1/namespaces"
_NAMED = 10  # the most informers that a message about unsynced ones names

P = TypeVar("P")


class _Held:
    """An informer, the options that it was requested with, and the number of its holders."""

    def __init__(self, informer: SharedInformer, options: ResourceOptions, chosen: SharedInformer | None) -> None:
        self.informer = informer
        self.options = options
        self.holders = 1
        self.namespaces = chosen  # the informer of its namespaces, if this factory follows them
        self._by_model: dict[object, SharedInformer] = {}

    def read_as(self, model: Any) -> SharedInformer:
        """Return the informer with a model. The same model gives the same object."""
        if model is not None and model not in self._by_model:
            self._by_model[model] = ModelInformer(self.informer, model)
        return self.informer if model is None else self._by_model[model]


class SharedInformerFactory(Entered):
    """Shared informers on one client (client-go, informers/factory.go).

    ``async with`` starts every informer that was requested. An informer that is requested later starts immediately.
    Exiting stops them all within one `shutdown_timeout`. There is no `start()` to forget.

    Args:
        client: The connection, which the factory does not close.
        share: A `kinformer.watchcache.Share`: one watch for the processes of a machine, except for shards and tweaks.
        indexers, **defaults: Options of `for_resource`, except `model` and `shard`, as defaults for all informers.

    Raises:
        ConfigError: An option does not exist or is invalid.
    """

    @shows_defaults
    def __init__(
        self,
        client: Client,
        *,
        indexers: Indexers | None = None,
        share: SharedCache | None = None,
        **defaults: Unpack[ResourceKeywords],
    ) -> None:
        self._client = client
        self._share = share
        self._defaults = ResourceOptions.of({"indexers": indexers or {}, **defaults})
        self._held: dict[InformerIdentity, _Held] = {}
        self._added: list[Any] = []
        life = Life(
            "the factory",
            start=self._start,
            finish=self._finish,
            refuse_inside=lambda _: self._refuse_leaving(),
            shutdown_timeout=self._defaults.shutdown_timeout,
        )
        self._core = ProgramPart("the factory", life, self._first_sync(handlers=False))

    # --- life ----------------------------------------------------------------------------------------

    def _parts(self) -> list[ProgramPart]:
        """Return the informers, followed by the parts that were added."""
        return [core_of(member) for member in (*self.informers, *self._added)]

    def _start(self) -> None:
        if self._share is not None:
            self._share.begin(self._client, self._defaults.following)
        for part in self._parts():
            part.life.begin()

    def _refuse_leaving(self) -> None:
        for part in self._parts():
            part.life.refuse_leaving()

    async def _finish(self, deadline: float) -> None:
        added = [core_of(part) for part in reversed(self._added)]  # before the informers that they read
        informers = [core_of(informer) for informer in self.informers]
        try:
            errors = await leave_parts(added, informers, deadline=deadline)
        finally:
            if self._share is not None:
                await self._share.end()
        errors += [part.life.crash for part in informers if part.life.crash is not None]
        self._core.life.error = next(iter(errors), None)

    # --- informers -----------------------------------------------------------------------------------

    @property
    def informers(self) -> tuple[SharedInformer, ...]:
        """The informers that were requested and not released, in the order of the requests."""
        return tuple(held.informer for held in list(self._held.values()))  # a copy: exports read this in other threads

    @property
    def whole_informers(self) -> tuple[SharedInformer, ...]:
        """Those of them that have all objects of their namespaces, whole.

        :meta private:
        """
        return tuple(held.informer for identity, held in list(self._held.items()) if identity.is_whole)

    @property
    def shared_cache(self) -> SharedCache | None:
        """The `role` of this process in the shared cache, and the process id of the `holder`."""
        return self._share

    @property
    def derived(self) -> tuple[ComputedCollection, ...]:
        """The derived collections that were added, in order."""
        return tuple(part for part in self._added if isinstance(core_of(part), CollectionCore))

    @property
    def fleets(self) -> tuple[FollowedClusters, ...]:
        """The fleets that were added, in order."""
        return tuple(part for part in self._added if not isinstance(core_of(part), CollectionCore))

    @shows_options(ResourceOptions, unset="<the factory's>")
    def for_resource(
        self,
        resource: str | GroupVersionResource,
        *,
        model: type[ModelT] | None = None,
        indexers: Indexers | None = None,
        **options: Unpack[ResourceKeywords],
    ) -> SharedInformer[ModelT]:
        """Return the informer for a resource. Equal requests share one informer.

        Requests are equal if these are equal: resource, namespaces, selectors, shard, metadata_only, fields, compact,
        keep_managed_fields, transform and poll. New `indexers` are added to an existing informer. `model` only
        determines how its objects are read: one cache serves any number of models. Options default to the factory's.

        Args:
            resource: ``"v1/pods"``, ``"apps/v1/deployments"`` or a `GroupVersionResource`.
            model: A msgspec Struct, dataclass, TypedDict, pydantic model or model of kubernetes_asyncio. Handlers,
                streams and listers get objects with ``.model``, an instance of it, decoded when it is first read.
            namespace, namespaces: *Selection.* One namespace, or several in one merged cache. All namespaces by
                default. A `LabelSelector` chooses namespaces by their labels: the factory follows them, and they join
                and leave the cache. So do the keys of a collection, such as an informer of Namespaces or a collection
                derived from one. A default of the factory does not apply to resources without namespaces.
            label_selector, field_selector, shard_selector: Filters that the server applies.
            shard: A `kinformer.sharding.Shard`: only its objects. Never a default of the factory.
            tweak_list_options: `ListOptions` -> `ListOptions`, applied to each request.
            optional: True to count an absent resource as synced. False by default.
            indexers: *Cache.* Name to index function or JSON path (``"spec.nodeName"``).
            fields: The JSON paths to keep of each object, besides its identity. None keeps everything.
            metadata_only: Ask the server for PartialObjectMetadata.
            transform: dict -> dict (or None to leave the object out), applied once, before the cache.
            compact: Keep objects compressed (`kinformer[compact]`): a Pod takes a ninth of its JSON.
            keep_managed_fields: False by default, because they are a third of a Pod and rarely read.
            snapshot: A path or a `Snapshot`. The cache is saved there, and the next start resumes from it. As a default
                of the factory, it should be a folder, and does not apply to Secrets and what is polled.
            page_size: *Requests.* The most objects in a response of a list. None, the default, leaves it to the version
                that is asked for. `Reflector` has the details of this option and of the next four.
            watch_list: None, the default, streams the first list if the server can. True only streams, False lists.
            watch_timeout: Seconds that a watch lasts: a random time in [x, 2x]. 300 by default, as in client-go.
            idle_timeout: Seconds of silence after which a stream is replaced. 120 by default.
            poll: Seconds between two lists of a resource that cannot be watched. None, the default, watches.
            resync_period: Seconds between replays of the cache to handlers that set no period. 0, the default, disables
                them, because a replay sends no request: it only helps handlers that also depend on something else.
            max_event_bytes: The most bytes of one event or item, above which a stream fails. 16 MiB, as in client-go.
            backoff: *Failures.* The delays after failed requests. `Backoff()`, client-go's delays, by default.
            on_error: Called with (informer, error) for each error of a request or a stream. If it raises, the informer
                ends, and that is its `last_error`.
            shutdown_timeout: Seconds that exiting may take before tasks are cancelled. 5 by default.
            metrics: A sink, such as `kinformer.contrib.prometheus.PrometheusMetrics`.

        Raises:
            ConfigError: An option or the model is invalid, or not that of the existing informer, or a built-in resource
                has no namespaces. (Each wait raises it for a custom one.)
            RuntimeError: The factory was exited, or was entered on another event loop.
        """
        self._require_running(f"for_resource({str(resource)!r})")
        if model is not None:
            check_model(model)
        gvr = GroupVersionResource.parse(resource)
        if str(gvr) == _SECRETS or options.get("poll") is not None:  # a default neither permits nor fits this
            options = {"snapshot": None, **options}
        settings = ResourceOptions.of(options, self._defaults).fit_scope(gvr, options)
        if settings.poll is not None and self._share is not None:
            raise ConfigError(f"{gvr}: poll={settings.poll!r} is not possible with share=; use another factory")
        identity = InformerIdentity.of(gvr, settings)
        if model is not None and indexers:
            reads_as = Model(model, str(gvr))
            indexers = {name: reads_as.reading(func) if callable(func) else func for name, func in indexers.items()}
        indexers = {**self._defaults.indexers, **(indexers or {})}
        check_index_paths(gvr, indexers, fields=settings.fields, metadata_only=settings.metadata_only)
        held = self._held.get(identity)
        if held is not None:
            held.options.refuse_difference(gvr, settings)
            held.informer.add_indexers(indexers)
            held.holders += 1
            return held.read_as(model)
        chosen = self._namespaces(identity.chosen) if isinstance(identity.chosen, LabelSelector) else None
        informer = self._make(identity, indexers, settings, chosen or identity.chosen)
        self._refuse_shared_file(informer)
        if self._core.life.has_begun:
            core_of(informer).life.begin()
        self._held[identity] = held = _Held(informer, settings, chosen)
        return held.read_as(model)

    def _namespaces(self, selector: LabelSelector) -> SharedInformer:
        """Return the informer of the namespaces that match a selector."""
        timeout = self._defaults.shutdown_timeout
        settings = ResourceOptions(metadata_only=True, label_selector=selector, shutdown_timeout=timeout)
        identity = InformerIdentity.of(GroupVersionResource.parse(_NAMESPACES), settings)
        held = self._held.get(identity)
        if held is not None:
            held.holders += 1
            return held.informer
        informer = self._make(identity, {}, msgspec.structs.replace(settings, metrics=self._defaults.metrics), None)
        if self._core.life.has_begun:
            core_of(informer).life.begin()
        self._held[identity] = _Held(informer, settings, None)
        return informer

    def _make(
        self, identity: InformerIdentity, indexers: Indexers, settings: ResourceOptions, chosen: Any
    ) -> SharedInformer:
        made: list[SharedInformer] = []  # the informer, once it exists

        def source(namespace: str | None) -> ListerWatcher:
            direct = ListWatch(
                self._client,
                identity.resource,
                namespace=namespace,
                label_selector=identity.label_selector,
                field_selector=identity.field_selector,
                shard_selector=identity.shard_selector,
                part=identity.shard,
                tweak_list_options=settings.tweak_list_options,
                metadata_only=identity.metadata_only,
                fields=identity.fields,
                keep_managed_fields=identity.keep_managed_fields,
                max_event_bytes=settings.max_event_bytes,
            )
            if self._share is None or identity.shard is not None or settings.tweak_list_options is not None:
                return direct
            form = identity.form(settings.max_event_bytes)
            return self._share.source(direct, form, lambda within: core_of(made[0]).state_of(namespace, within))

        namespaces = identity.namespaces
        sources: Any = {name: source(name) for name in namespaces} if namespaces else source(None)
        informer: SharedInformer = SharedInformer(
            sources if chosen is None else ChosenNamespaces(chosen, source),
            name=str(identity.resource),
            indexers=indexers,
            **keywords_of(settings, InformerKeywords),
        )
        made.append(informer)
        core_of(informer).cluster = cluster_of(self._client)
        return informer

    def _refuse_shared_file(self, informer: SharedInformer) -> None:
        for held in self._held.values():
            if informer.snapshot_file is not None and held.informer.snapshot_file == informer.snapshot_file:
                raise ConfigError(
                    f"snapshot: {informer.name} and {held.informer.name} would write to the same file, "
                    f"{informer.snapshot_file}; pass a folder, or a file for each"
                )

    def _require_running(self, method: str) -> None:
        if self._core.life.is_left:
            raise RuntimeError("the factory was exited")
        self._core.life.require_loop(method)

    def add(self, part: P) -> P:
        """Start and stop a derived collection or a `Fleet` with this factory.

        It starts after the informers, and stops before them. If one part reads another, add the one that is read first.

        Raises:
            RuntimeError: The factory was exited, or was entered on another event loop.
            TypeError: `part` is neither.
        """
        core = core_of(part)
        if core is None:
            raise TypeError(f"invalid add({part!r}): expected a derived collection or a fleet")
        self._require_running(f"add({core.name!r})")
        if isinstance(core, CollectionCore):
            core.cluster = cluster_of(self._client)
        if self._core.life.has_begun:
            core.life.begin()
        self._added.append(part)
        return part

    async def release(self, informer: SharedInformer) -> None:
        """Give an informer back. The last holder to do so stops it.

        Raises:
            ValueError: The factory does not hold it, or it was released as often as it was requested.
            RuntimeError: The last holder called this inside one of the informer's handlers. The informer stays held.
        """
        refuse_release(self, informer)
        identity, held = self._find(informer)
        if held.holders > 1:
            held.holders -= 1
            return
        life = core_of(informer).life
        del self._held[identity]
        if life.has_begun:
            await life.leave_in_time()
        if held.namespaces is not None:
            await self.release(held.namespaces)

    def __repr__(self) -> str:
        return f"<SharedInformerFactory of {self._client!r}: {', '.join(numbered(self.informers)) or 'no informers'}>"

    def _find(self, informer: SharedInformer) -> tuple[InformerIdentity, _Held]:
        for identity, held in self._held.items():
            if held.informer == informer:
                return identity, held
        raise ValueError(f"{informer!r} is not held by this factory")

    # --- all of them --------------------------------------------------------------------------------------

    async def wait_for_cache_sync(
        self, timeout: float | None = None, *, fail_fast: bool | None = None, handlers: bool = False
    ) -> None:
        """Wait until every informer has its first full list, and every added part has synced.

        After 5 s, and every 10 s from then on, log one warning with the name and the reason of each unsynced one.

        Args:
            timeout: Seconds, or None to wait forever.
            fail_fast: None ends the wait once a resource has been answered by 401, 403 or 404 alone for 15 s, at least
                4 times. An API server that starts answers so for a few seconds. True ends it at the second such answer,
                False never. A resource with `optional=True` does not end it, unless this is True.
            handlers: Also wait until the handlers have finished their initial adds.

        Raises:
            NotSyncedError: The time has passed. `unsynced` maps each resource to its last error or None.
            APIError: The server keeps refusing. If it refuses several resources, the message lists them.
            NotWatchableError: A resource can only be polled.
            RuntimeError: Called with `handlers` inside one of the handlers.
        """
        if handlers:
            for part in self._parts():
                if isinstance(part, CollectionCore):
                    part.refuse_inside(f"wait_for_cache_sync(handlers=True) would wait for {part.life.owner}")
        await (self._first_sync(handlers=True) if handlers else self._core.sync).wait(timeout, fail_fast=fail_fast)

    def _first_sync(self, *, handlers: bool) -> FirstSync:
        sync = FirstSync(
            "the factory",
            partial(self._all_synced, handlers),
            is_done=lambda: not self._unsynced(handlers),
            reason=partial(self._reasons, handlers),
            errors=partial(self._errors, handlers),
            refusals=self._refusals,
            log=log,
        )
        sync.cluster = cluster_of(self._client)
        return sync

    def _refusals(self, strict: bool) -> list[Refusals]:
        return list(dict.fromkeys(refusals for part in self._parts() for refusals in part.sync.refusals(strict)))

    async def _all_synced(self, handlers: bool) -> None:
        await all_of(part.synced(handlers=handlers) for part in self._parts())

    def _unsynced(self, handlers: bool) -> dict[str, ProgramPart]:
        unsynced = {
            name: part for name, part in numbered(self._parts()).items() if not part.is_synced(handlers=handlers)
        }
        return dict(sorted(unsynced.items()))

    def _reasons(self, handlers: bool) -> str:
        unsynced = list(self._unsynced(handlers).items())
        more = f" and {len(unsynced) - _NAMED} more" if len(unsynced) > _NAMED else ""
        if not self._core.life.has_begun:
            names = ", ".join(name for name, _ in unsynced[:_NAMED]) + more
            return f"{names}: it has not been entered, so nothing has started; use `async with` on it"
        return "; ".join(f"{name}: {part.sync.reason()}" for name, part in unsynced[:_NAMED]) + more

    def _errors(self, handlers: bool) -> dict[str, BaseException | None]:
        return {name: next(iter(part.sync.errors().values()), None) for name, part in self._unsynced(handlers).items()}

    def health(self) -> dict[str, InformerHealth]:
        """Return the health of each informer, by resource. The second one of a resource has a number: `"v1/pods#2"`."""
        return {name: informer.health() for name, informer in numbered(self.informers).items()}

    def statistics(self) -> dict[str, InformerStatistics]:
        """Return the statistics of each informer, by resource."""
        return {name: informer.statistics() for name, informer in numbered(self.informers).items()}


def refuse_release(factory: SharedInformerFactory, informer: SharedInformer) -> None:
    """Raise as `SharedInformerFactory.release` would, without releasing anything."""
    _, held = factory._find(informer)
    if held.holders == 1:
        core_of(informer).life.refuse_leaving()
        if held.namespaces is not None:
            refuse_release(factory, held.namespaces)
