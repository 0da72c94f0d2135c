"""The parts of an informer, put together: sources, reflectors, queue, processor, cache and snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from kinformer._runtime.signatures import check_callback
from kinformer.cache.index import check_indexers
from kinformer.cache.indexer import NAMESPACE_INDEX, Indexer, Indexers, meta_namespace_index_func
from kinformer.exceptions import ConfigError, StoppedError
from kinformer.informer.namespaces import ChosenNamespaces, DepartedCounts
from kinformer.informer.options import InformerOptions
from kinformer.informer.statistics import InformerStatistics, gather_statistics
from kinformer.list_watcher import IngestCounts, ListerWatcher, PathReadingSource, capabilities_of
from kinformer.listwatch.compact import CompactingListerWatcher, Compaction
from kinformer.listwatch.decoding import DecodingListerWatcher
from kinformer.listwatch.transform import TransformingListerWatcher
from kinformer.objects.meta import version_number
from kinformer.objects.object import KubeObject
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.processor import Processor
from kinformer.processor.resync_schedule import ResyncSchedule
from kinformer.queue.atomic_delta_fifo import AtomicDeltaFIFO, QueueWriter, ScopeStep
from kinformer.reflector.health import InformerHealth
from kinformer.reflector.reflector import Reflector
from kinformer.reflector.resume import Resume

__all__ = ["Scope", "SnapshotHooks", "Wiring"]

Scope = str | None
"""A namespace among several, or None for the only source of a cache."""


class SnapshotHooks(Protocol):
    """A snapshot of the cache on disk, as far as an informer knows of it.

    `resume` gives the question that a reflector asks before its first list, and `cut_if_wanted` is called between two
    batches of changes; `run` and `save_last` write while the informer runs, and once more when it is left.
    """

    @property
    def file(self) -> Path: ...
    @property
    def counts(self) -> Mapping[str, int]: ...
    def resume(self, scope: Scope) -> Resume: ...
    async def cut_if_wanted(self) -> None: ...
    async def run(self) -> None: ...
    async def save_last(self) -> None: ...


@dataclass(slots=True)
class _Around:
    """What is around the source of one scope."""

    decoder: DecodingListerWatcher | None = None
    transform: TransformingListerWatcher | None = None
    path_reader: PathReadingSource | None = None


def _add_nothing(scope: Scope, source: ListerWatcher) -> None:
    """Stand in for what adds a scope until the parts are connected."""


@dataclass(slots=True)
class Wiring:
    """The parts of one informer. Data flows from the reflectors through the queue into the processor, and on.

    Attributes:
        indexer: The cache; the processor alone writes to it.
        queue: The changes that the reflectors have written and the processor has not applied yet.
        schedule: The times of the next resyncs, and their handlers.
        processor: Applies the queue to the cache and tells the handlers.
        sources: As the user gave them, by scope.
        decoders: The decoder around each source that does not decode by itself.
        path_readers: The sources that read the paths of indexes while they decode.
        transforms: The transform around each source, if there is one.
        reflectors: By scope.
        snapshots: The snapshot, if there is one.
        chosen: The namespaces, if they come and go.
        departed: The counts of those that have left.
    """

    indexer: Indexer
    queue: AtomicDeltaFIFO
    schedule: ResyncSchedule
    processor: Processor
    sources: dict[Scope, ListerWatcher]
    decoders: list[DecodingListerWatcher] = field(default_factory=list)
    transforms: list[TransformingListerWatcher] = field(default_factory=list)
    path_readers: list[PathReadingSource] = field(default_factory=list)
    reflectors: dict[Scope, Reflector] = field(default_factory=dict)
    snapshots: SnapshotHooks | None = None
    chosen: ChosenNamespaces | None = None
    departed: DepartedCounts = field(default_factory=DepartedCounts)
    _writers: dict[Scope, QueueWriter] = field(default_factory=dict)
    _around: dict[Scope, _Around] = field(default_factory=dict)
    _add: Callable[[Scope, ListerWatcher], None] = _add_nothing

    @classmethod
    def of(
        cls,
        sources: Mapping[Scope, ListerWatcher] | ChosenNamespaces,
        name: str,
        options: InformerOptions,
        *,
        indexers: Indexers[Any],
        on_error: Callable[[Any, Exception], None],
    ) -> Wiring:
        """Make the parts and connect them.

        Args:
            sources: By scope; or the namespaces, which come and go.
            name: Of the informer.
            options: Of the informer.
            indexers: Beside the index by namespace, which is always there.
            on_error: Told of each error that ends a request or a stream.

        Raises:
            ConfigError: Options that cannot work.
            TypeError: A callback cannot be called with the arguments that it will get.
        """
        check_indexers(indexers, f"informer {name}")
        if options.on_error is not None:
            check_callback(options.on_error, "on_error", "informer, error", f"informer {name}", plain=True)
        if options.transform is not None:
            check_callback(options.transform, "transform", "document", f"informer {name}", plain=True)
        indexer: Indexer = Indexer(attrgetter("key"), {NAMESPACE_INDEX: meta_namespace_index_func, **indexers})
        queue = AtomicDeltaFIFO(indexer.known)
        schedule = ResyncSchedule(queue.resync)
        chosen = sources if isinstance(sources, ChosenNamespaces) else None
        if chosen is not None and options.snapshot is not None:
            raise ConfigError(f"informer {name}: a snapshot cannot be kept of namespaces that come and go; pass None")
        first = {} if isinstance(sources, ChosenNamespaces) else dict(sources)
        processor = Processor(indexer, scopes=tuple(first), scopes_follow=chosen is not None, resyncs=schedule)
        queue.direct = processor.apply_now
        wiring = cls(indexer, queue, schedule, processor, first, chosen=chosen)
        compaction = Compaction() if options.compact else None
        stacked = {scope: wiring._stacked(scope, source, options, compaction) for scope, source in first.items()}
        wiring.read_paths()
        if options.snapshot is not None:
            wiring.snapshots = wiring._keep(stacked, name, options)

        def add(scope: Scope, source: ListerWatcher) -> None:
            writer = wiring._writers[scope] = queue.writer(scope)
            wiring.reflectors[scope] = Reflector(
                source,
                writer,
                name=name if scope is None else f"{name} in {scope}",
                on_error=on_error,
                resume=wiring.snapshots.resume(scope) if wiring.snapshots is not None else None,
                options=options,
            )

        def join(scope: Scope, source: ListerWatcher) -> None:
            add(scope, wiring._stacked(scope, source, options, compaction))

        for scope, source in stacked.items():
            add(scope, source)
        wiring._add = join
        return wiring

    # --- namespaces that come and go --------------------------------------------------------------

    def join(self, namespace: str) -> Reflector:
        """Make the parts of a namespace that joins, and return its reflector, to be run."""
        assert self.chosen is not None
        source = self.sources[namespace] = self.chosen.source_of(namespace)
        self._add(namespace, source)
        reader = self._around[namespace].path_reader
        if reader is not None:
            reader.read_paths(self.indexer.paths)
        self.queue.change_scope(namespace, ScopeStep.JOINED)
        return self.reflectors[namespace]

    def leave(self, namespace: str) -> Reflector:
        """Have the objects of a namespace told as deletes, and return its reflector, to be cancelled."""
        source, reflector = self.sources.pop(namespace), self.reflectors.pop(namespace)
        self._writers.pop(namespace).is_closed = True
        around = self._around.pop(namespace)
        received = (capabilities_of(source).stats, around.decoder)
        self.departed.add(reflector, [one for one in received if one is not None], around.transform)
        if around.decoder is not None:
            self.decoders.remove(around.decoder)
        if around.transform is not None:
            self.transforms.remove(around.transform)
        if around.path_reader is not None:
            self.path_readers.remove(around.path_reader)
        self.queue.change_scope(namespace, ScopeStep.LEFT)
        return reflector

    def complete_without(self, reflector: Reflector) -> None:
        """Have the first sync wait no more for what a reflector follows, because it may not or cannot be listed."""
        for scope, candidate in self.reflectors.items():
            if candidate is not reflector:
                continue
            if self.chosen is None:
                self.processor.scope_synced(scope)
            elif scope is not None and not self.processor.synced.is_open:
                self.queue.change_scope(scope, ScopeStep.COMPLETE)  # behind the one by which it joined

    def health(self) -> list[InformerHealth]:
        """The health of each reflector, and of the collection that chooses the namespaces."""
        found = [reflector.health() for reflector in tuple(self.reflectors.values())]
        return found if self.chosen is None else [*found, self.chosen.collection.health()]

    @property
    def cluster(self) -> str | None:
        """The uid of the cluster that the cache is of, or None while it is not known."""
        return next((reflector.cluster for reflector in self.reflectors.values() if reflector.cluster), None)

    def read_paths(self) -> None:
        """Let the sources read the paths by which the cache is indexed, with each object from now on."""
        for reader in self.path_readers:
            reader.read_paths(self.indexer.paths)

    def selects(self, obj: KubeObject) -> bool:
        """True if the object, as the server has just answered it, may be among those that the sources give."""
        source = self.sources.get(None, self.sources.get(obj.namespace))
        if source is None:
            return False
        selecting = capabilities_of(source).selecting
        return selecting is None or selecting.selects(obj)

    @property
    def selects_all(self) -> bool:
        """True if the sources certainly give all objects of their namespaces."""
        return all(capabilities_of(source).selects_all for source in self.sources.values())

    async def reached(self, version: str, namespace: str | None, name: str) -> None:
        """Wait until the cache has reached `version` in a namespace; see `SharedInformer.wait_for_resource_version`."""
        applied = self.processor.applied
        scope = applied.scope_of(namespace, name)
        reflector = self.reflectors.get(scope)
        if reflector is None:
            raise StoppedError(f"namespace {scope} is followed no more")
        await applied.wait(scope, version_number(version), partial(reflector.refresh, version))

    def statistics(self, handlers: HandlerSet) -> InformerStatistics:
        """Gather the counts of all parts."""
        return gather_statistics(
            queue=self.queue,
            indexer=self.indexer,
            processor=self.processor,
            handlers=handlers,
            received=self.received,
            transforms=[*self.transforms, self.departed],
            reflectors=[*self.reflectors.values(), self.departed],
            snapshots=self.snapshots.counts if self.snapshots is not None else {},
        )

    @property
    def received(self) -> list[IngestCounts]:
        """The counts of the sources that keep some, and of the decoders around the others."""
        counts = (capabilities_of(source).stats for source in self.sources.values())
        return [*(each for each in counts if each is not None), *self.decoders, self.departed]

    def _stacked(
        self, scope: Scope, source: ListerWatcher, options: InformerOptions, compaction: Compaction | None
    ) -> ListerWatcher:
        """A source with the decoder, the transform and the compression that it needs around it, in this order."""
        around = self._around[scope] = _Around()
        if not capabilities_of(source).decodes:
            source = around.decoder = DecodingListerWatcher(source)
            self.decoders.append(around.decoder)
        if options.transform is not None:
            source = around.transform = TransformingListerWatcher(source, options.transform, known=self.indexer.known)
            self.transforms.append(around.transform)
        if compaction is not None:
            source = CompactingListerWatcher(source, compaction, known=self.indexer.known)
        around.path_reader = capabilities_of(source).path_reading
        if around.path_reader is not None:
            self.path_readers.append(around.path_reader)
        return source

    def _keep(self, stacked: Mapping[Scope, ListerWatcher], name: str, options: InformerOptions) -> SnapshotHooks:
        from kinformer.snapshot.keeper import SnapshotKeeper  # a program without snapshots does not pay for them

        assert options.snapshot is not None
        return SnapshotKeeper(
            options.snapshot,
            self.sources,
            stacked,
            transform=options.transform,
            name=name,
            indexer=self.indexer,
            versions=self.processor.applied.current,
            queue=self.queue,
            cluster=self._cluster_of,
        )

    def _cluster_of(self) -> str | None:
        return self.cluster
