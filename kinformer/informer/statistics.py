"""The statistics of an informer: counts of objects, events, calls, errors and relists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kinformer.cache.indexer import Indexer
from kinformer.informer.memory import cache_memory
from kinformer.informer.namespaces import DepartedCounts
from kinformer.list_watcher import IngestCounts
from kinformer.listwatch.transform import TransformingListerWatcher
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.processor import Processor
from kinformer.queue.atomic_delta_fifo import AtomicDeltaFIFO
from kinformer.reflector.reflector import Reflector

__all__ = ["InformerStatistics", "added_up", "gather_statistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerStatistics:
    """Counts since the informer started; `objects`, `memory`, `queued` and `pending` are of this moment.

    Attributes:
        objects: In the cache.
        memory: Bytes that the objects in the cache take, estimated from some of them; not compared.
        queued: Changes that have been received and are not in the cache yet; a full list is one.
        events: Of changes that were applied, by type.
        bytes: Received, before decoding.
        pending: Calls that wait, by the name of the handler.
        coalesced: Calls that were folded into another because a handler was too slow for its `queue_size`.
        handler_errors: Calls of handlers and filters that raised.
        index_errors: Objects left out of an index because its function raised.
        decode_errors: Objects left out because they could not be read.
        transform_errors: Objects left out because the transform failed on them.
        relists: Full lists after the first, by their cause (`Reflector.relists`).
        watch_restarts: Watches that ended, by their cause (`Reflector.watch_restarts`).
        snapshots: Snapshots by outcome: `saved`, `failed` and `refused` count writes; the one read at the start counts
            as `loaded` or as the reason why not (docs/snapshots.md has the reasons).
    """

    objects: int = 0
    memory: int = field(default=0, compare=False)
    queued: int = 0
    events: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    pending: Mapping[str, int] = field(default_factory=dict)
    coalesced: int = 0
    handler_errors: int = 0
    index_errors: int = 0
    decode_errors: int = 0
    transform_errors: int = 0
    relists: Mapping[str, int] = field(default_factory=dict)
    watch_restarts: Mapping[str, int] = field(default_factory=dict)
    snapshots: Mapping[str, int] = field(default_factory=dict)


def added_up(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """One count of several, name by name."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def gather_statistics(
    *,
    queue: AtomicDeltaFIFO,
    indexer: Indexer,
    processor: Processor,
    handlers: HandlerSet,
    received: Iterable[IngestCounts],
    transforms: Iterable[TransformingListerWatcher | DepartedCounts],
    reflectors: Iterable[Reflector | DepartedCounts],
    snapshots: Mapping[str, int],
) -> InformerStatistics:
    """The figures of this moment, each from its owner."""
    reflectors, received = tuple(reflectors), tuple(received)
    mailboxes = handlers.mailboxes
    return InformerStatistics(
        objects=len(indexer),
        memory=cache_memory(indexer),
        queued=len(queue),
        events=dict(processor.events),
        bytes=sum(counts.bytes for counts in received),
        pending={mailbox.name: len(mailbox) for mailbox in mailboxes},
        coalesced=sum(mailbox.coalesced for mailbox in mailboxes),
        handler_errors=handlers.errors,
        index_errors=indexer.index_errors,
        decode_errors=sum(counts.decode_errors for counts in received),
        transform_errors=sum(transform.transform_errors for transform in transforms),
        relists=added_up(reflector.relists for reflector in reflectors),
        watch_restarts=added_up(reflector.watch_restarts for reflector in reflectors),
        snapshots=dict(snapshots),
    )
