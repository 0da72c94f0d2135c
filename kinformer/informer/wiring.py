"""The parts of an informer and their connections: sources, reflectors, queue, processor, cache and snapshot."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from kinformer._runtime.signatures import check_callback, keywords_of
from kinformer.cache.index import check_indexers
from kinformer.cache.indexer import Indexer, Indexers
from kinformer.cache.namespace_index import NAMESPACE_INDEX, meta_namespace_index_func
from kinformer.exceptions import ConfigError, ConnectError, NotFoundError, StoppedError, describe
from kinformer.informer.freshness.proof import ScopeProof
from kinformer.informer.memory import cache_memory
from kinformer.informer.metrics import InformerStatistics
from kinformer.informer.namespaces import ChosenNamespaces, followed_namespaces
from kinformer.informer.options import InformerOptions
from kinformer.list_watcher import IngestCounts, ListerWatcher, Source, source_of
from kinformer.listwatch.compact import CompactingListerWatcher, Compaction
from kinformer.listwatch.decoding import DecodingListerWatcher
from kinformer.listwatch.transform import TransformingListerWatcher
from kinformer.objects.meta import version_number
from kinformer.objects.object import KubeObject
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.processor import UNKNOWN_SCOPES, Processor
from kinformer.processor.resync_schedule import ResyncSchedule
from kinformer.queue.atomic_delta_fifo import AtomicDeltaFIFO, QueueWriter, ScopeStep
from kinformer.reflector.health import InformerHealth
from kinformer.reflector.options import ReflectorKeywords
from kinformer.reflector.reflector import Reflector

if TYPE_CHECKING:
    from kinformer.snapshot.keeper import SnapshotKeeper

__all__ = ["Scope", "Wiring"]

Scope = str | None
"""A namespace among several, or None for the only source of a cache."""

_NAMED = 3  # the most namespaces that a reason names


class SourceStack(msgspec.Struct, frozen=True):
    """The source of one scope, with its wrappers.

    Attributes:
        source: The source that the user passed.
        outermost: The source that the reflector reads.
        decoder: The wrapper of a source that does not decode by itself.
        transform: The wrapper with the user's transform, if there is one.
    """

    source: Source
    outermost: Source
    decoder: DecodingListerWatcher | None
    transform: TransformingListerWatcher | None

    @property
    def counts(self) -> Iterator[IngestCounts]:
        """The counts of received data: the source's and its decoder's, if they have any."""
        if self.source.stats is not None:
            yield self.source.stats
        if self.decoder is not None:
            yield self.decoder


class ScopeParts(msgspec.Struct, frozen=True):
    """The parts of one scope, from its source to the queue."""

    stack: SourceStack
    writer: QueueWriter
    reflector: Reflector
    proof: ScopeProof


class ReceivedCounts:
    """Sums of the counts of sources and reflectors, including those for namespaces that have left."""

    def __init__(self) -> None:
        self.bytes = 0
        self.decode_errors = 0
        self.transform_errors = 0
        self.relists: Counter[str] = Counter()
        self.watch_restarts: Counter[str] = Counter()

    def add(self, parts: ScopeParts) -> None:
        """Add the counts of one scope."""
        self.relists.update(parts.reflector.relists)
        self.watch_restarts.update(parts.reflector.watch_restarts)
        for counts in parts.stack.counts:
            self.bytes += counts.bytes
            self.decode_errors += counts.decode_errors
        if parts.stack.transform is not None:
            self.transform_errors += parts.stack.transform.transform_errors

    def and_of(self, scopes: Iterable[ScopeParts]) -> ReceivedCounts:
        """Return the sums of these counts and the counts of some scopes."""
        total = copy.deepcopy(self)
        for parts in scopes:
            total.add(parts)
        return total


class Wiring:
    """The parts of one informer. Data flows from the reflectors through the queue and the processor to the handlers.

    Args:
        sources: The sources by scope, or the chosen namespaces, which join and leave.
        name: The name of the informer.
        options: The informer's options.
        indexers: The indexes besides the one by namespace, which always exists.
        on_error: Called with the reflector and each error that ends a request or a stream.

    Attributes:
        indexer: The cache. Only the processor writes to it.
        queue: The changes that the reflectors have written and the processor has not applied yet.
        schedule: The times of the next resyncs, and their handlers.
        processor: Applies the queue to the cache and passes the changes to the handlers.
        snapshots: The snapshot, if there is one.
        chosen: The chosen namespaces, or None if they are fixed.

    Raises:
        ConfigError: The options are invalid.
        TypeError: A callback cannot be called with the arguments that it will get.
    """

    def __init__(
        self,
        sources: Mapping[Scope, ListerWatcher] | ChosenNamespaces,
        name: str,
        options: InformerOptions,
        *,
        indexers: Indexers,
        on_error: Callable[[Any, Exception], None],
    ) -> None:
        check_indexers(indexers, f"informer {name}")
        if options.on_error is not None:
            check_callback(options.on_error, "on_error", "informer, error", f"informer {name}", plain=True)
        if options.transform is not None:
            check_callback(options.transform, "transform", "document", f"informer {name}", plain=True)
        self.chosen = sources if isinstance(sources, ChosenNamespaces) else None
        if self.chosen is not None and options.snapshot is not None:
            raise ConfigError(f"informer {name}: a snapshot of changing namespaces is not possible; pass snapshot=None")
        if options.poll is not None and options.snapshot is not None:
            raise ConfigError(f"informer {name}: a snapshot with poll= is not possible, as no watch goes on from it")
        first = {} if isinstance(sources, ChosenNamespaces) else dict(sources)
        self.indexer: Indexer = Indexer(attrgetter("key"), {NAMESPACE_INDEX: meta_namespace_index_func, **indexers})
        self.queue = AtomicDeltaFIFO(self.indexer.get_by_key)
        self.schedule = ResyncSchedule(self.queue.resync)
        self.processor = Processor(
            self.indexer, scopes=tuple(first), scopes_follow=self.chosen is not None, resyncs=self.schedule
        )
        self.queue.direct = self.processor.apply_now
        self._name = name
        self._options = options
        self._on_error = on_error
        self._compaction = Compaction() if options.compact else None
        self._departed = ReceivedCounts()
        self._scopes: dict[Scope, ScopeParts] = {}
        stacks = {scope: self._stacked(source) for scope, source in first.items()}
        self.snapshots = self._keep(stacks) if options.snapshot is not None else None
        for scope, stack in stacks.items():
            self._add(scope, stack)

    def _stacked(self, source: ListerWatcher) -> SourceStack:
        """Wrap a source in the decoder, the transform and the compression that it needs, in this order."""
        own = source_of(source)
        outermost, decoder, transform = own, None, None
        if own.decodes is not True:
            outermost = decoder = DecodingListerWatcher(outermost)
        if self._options.transform is not None:
            cached = self.indexer.get_by_key
            outermost = transform = TransformingListerWatcher(outermost, self._options.transform, known=cached)
        if self._compaction is not None:
            outermost = CompactingListerWatcher(outermost, self._compaction, known=self.indexer.get_by_key)
        outermost.read_paths(self.indexer.paths)
        return SourceStack(own, outermost, decoder, transform)

    def _add(self, scope: Scope, stack: SourceStack) -> Reflector:
        writer = self.queue.writer(scope)
        reflector = Reflector(
            stack.outermost,
            writer,
            name=self._name if scope is None else f"{self._name} in {scope}",
            on_error=self._on_error,
            resume=self.snapshots.resume(scope) if self.snapshots is not None else None,
            **keywords_of(self._options, ReflectorKeywords),
        )
        proof = ScopeProof(self._name, scope, stack.source, reflector, self.processor.applied, writer)
        self._scopes[scope] = ScopeParts(stack, writer, reflector, proof)
        return reflector

    def _keep(self, stacks: Mapping[Scope, SourceStack]) -> SnapshotKeeper:
        from kinformer.snapshot.keeper import SnapshotKeeper  # imported only by programs with snapshots

        assert self._options.snapshot is not None
        return SnapshotKeeper(
            self._options.snapshot,
            {scope: stack.source for scope, stack in stacks.items()},
            {scope: stack.outermost for scope, stack in stacks.items()},
            transform=self._options.transform,
            name=self._name,
            indexer=self.indexer,
            versions=self.processor.applied.current,
            queue=self.queue,
            cluster=self._cluster,
        )

    def _cluster(self) -> str | None:
        """Return the uid of the cluster that the cache mirrors, or None while it is not known."""
        return next((reflector.cluster for reflector in self.reflectors if reflector.cluster), None)

    # --- namespaces that join and leave -----------------------------------------------------------

    def join(self, namespace: str) -> Reflector:
        """Create the parts of a namespace that joins, and return its reflector for the caller to run."""
        assert self.chosen is not None
        reflector = self._add(namespace, self._stacked(self.chosen.source_of(namespace)))
        self.queue.change_scope(namespace, ScopeStep.JOINED)
        return reflector

    def leave(self, namespace: str) -> Reflector:
        """Remove the objects of a namespace, as deletes, and return its reflector. The caller cancels that."""
        parts = self._scopes.pop(namespace)
        parts.writer.is_closed = True
        self._departed.add(parts)
        self.queue.change_scope(namespace, ScopeStep.LEFT)
        return parts.reflector

    def complete_without(self, reflector: Reflector) -> None:
        """Stop the first sync from waiting for a reflector whose resource may not or cannot be listed."""
        for scope, parts in self._scopes.items():
            if parts.reflector is not reflector:
                continue
            if self.chosen is None:
                self.processor.scope_synced(scope)
            elif scope is not None and not self.processor.synced.is_open:
                self.queue.change_scope(scope, ScopeStep.COMPLETE)  # queued, so that it comes after the JOINED step

    # --- sources ----------------------------------------------------------------------------------

    @property
    def reflectors(self) -> tuple[Reflector, ...]:
        """The reflectors, one for each scope."""
        return tuple(parts.reflector for parts in tuple(self._scopes.values()))

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces that are followed, or None for all."""
        return followed_namespaces({scope: parts.stack.source for scope, parts in tuple(self._scopes.items())})

    def read_paths(self) -> None:
        """Make the sources read the paths of the cache's indexes with each object from now on."""
        for parts in self._scopes.values():
            parts.stack.outermost.read_paths(self.indexer.paths)

    def selects(self, obj: KubeObject) -> bool:
        """Return False if a namespace or a selector certainly excludes this object, which is a server's response."""
        parts = self._scopes.get(None, self._scopes.get(obj.namespace))
        return parts is not None and parts.stack.source.selects(obj)

    @property
    def selects_all(self) -> bool:
        """True if the sources certainly include all objects of their namespaces."""
        return all(parts.stack.source.selects_all is True for parts in self._scopes.values())

    @property
    def proofs(self) -> dict[Scope, ScopeProof]:
        """The proofs of the scopes that are followed."""
        return {scope: parts.proof for scope, parts in self._scopes.items()}

    def state_of(self, namespace: str | None) -> tuple[list[KubeObject], str] | None:
        """Return the objects of a source and their version, or None unless the cache has all that was received."""
        scope = None if None in self._scopes else namespace
        parts = self._scopes.get(scope)
        version = self.processor.applied.current.get(scope, "")
        if parts is None or not version or len(self.queue) or not self.lists_applied:
            return None
        if parts.reflector.last_sync_resource_version != version:
            return None
        objects = self.indexer.list() if scope is None else self.indexer.in_namespace(scope)
        return list(objects), version

    @property
    def lists_applied(self) -> bool:
        """True if every received list, the first and later ones, is in the cache."""
        return self.queue.lists == self.processor.applied.lists

    async def reached(self, version: str, namespace: str | None) -> None:
        """Wait until the cache has reached `version` in a namespace. See `SharedInformer.wait_for_resource_version`."""
        applied = self.processor.applied
        scope = applied.scope_of(namespace, self._name)
        parts = self._scopes.get(scope)
        if parts is None:
            raise StoppedError(f"namespace {scope} is no longer followed")
        await parts.proof.reached(version_number(version))

    @property
    def has_namespaces(self) -> bool:
        """True if the namespaces are fixed, and were named by the program."""
        return self.chosen is None and bool(self.namespaces)

    async def check_namespaces(self) -> None:
        """Look for namespaces that do not exist, among those that are empty. Each source logs a warning."""
        for scope, parts in tuple(self._scopes.items()):
            namespace = scope or parts.stack.source.namespace
            if namespace and not self.indexer.in_namespace(namespace):
                await parts.stack.source.check_existence()

    # --- reports ----------------------------------------------------------------------------------

    def health(self) -> list[InformerHealth]:
        """Return the health of each reflector, and of the collection that chooses the namespaces."""
        healths = [reflector.health() for reflector in self.reflectors]
        return healths if self.chosen is None else [*healths, self.chosen.collection.health()]

    def unlisted_reason(self) -> str:
        """Return why the first lists of scopes are not in the cache, with the namespaces of each reason."""
        missing = self.processor.missing
        if self.chosen is not None and UNKNOWN_SCOPES in missing and (reason := self.chosen.unsynced_reason()):
            return reason
        by_reason: dict[str, list[str]] = {}
        for scope, parts in self._scopes.items():
            if scope in missing:
                by_reason.setdefault(_reason(parts.reflector), []).append(scope or "")
        return ", ".join(f"{reason}{_in_namespaces(scopes)}" for reason, scopes in by_reason.items())

    def statistics(self, handlers: HandlerSet) -> InformerStatistics:
        """Return the current figures of all parts."""
        received = self._departed.and_of(tuple(self._scopes.values()))
        mailboxes = handlers.mailboxes
        return InformerStatistics(
            objects=len(self.indexer),
            memory=cache_memory(self.indexer),
            queued=len(self.queue),
            events=dict(self.processor.events),
            bytes=received.bytes,
            pending={mailbox.name: len(mailbox) for mailbox in mailboxes},
            coalesced=sum(mailbox.coalesced for mailbox in mailboxes),
            handler_errors=handlers.errors,
            index_errors=self.indexer.index_errors,
            decode_errors=received.decode_errors,
            transform_errors=received.transform_errors,
            relists=dict(received.relists),
            watch_restarts=dict(received.watch_restarts),
            snapshots=dict(self.snapshots.counts) if self.snapshots is not None else {},
        )


def _reason(reflector: Reflector) -> str:
    health = reflector.health()
    if health.last_error is not None:
        return _explain(health.last_error)
    return "the list has arrived and is being written to the cache" if health.synced else reflector.progress


def _explain(error: BaseException) -> str:
    """Return a one-line reason for a failed request, with advice if possible."""
    if isinstance(error, NotFoundError) and error.nearest is not None:
        if error.nearest:
            return f"the server has no such resource; nearest: {error.nearest}"
        return "the server has no such resource; if it is a custom one, its CustomResourceDefinition is not installed"
    if isinstance(error, ConnectError):
        return f"the server is not reachable: {error}"
    return describe(error)


def _in_namespaces(scopes: list[str]) -> str:
    if scopes == [""]:
        return ""
    more = f" and {len(scopes) - _NAMED} more" if len(scopes) > _NAMED else ""
    return f" (in {', '.join(scopes[:_NAMED])}{more})"
