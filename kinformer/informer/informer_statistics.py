"""Where the figures of an informer come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kinformer.cache.indexer import Indexer
from kinformer.informer.statistics import InformerStatistics, added_up
from kinformer.list_watcher import ListerWatcher
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.processor import Processor
from kinformer.queue.delta_fifo import DeltaFIFO
from kinformer.reflector.reflector import Reflector

__all__ = ["gather_statistics"]


def gather_statistics(
    *,
    fifo: DeltaFIFO,
    indexer: Indexer,
    processor: Processor,
    handlers: HandlerSet,
    sources: Iterable[ListerWatcher],
    reflectors: Iterable[Reflector],
    snapshots: Mapping[str, int],
) -> InformerStatistics:
    """The figures of this moment, each from its owner."""
    reflectors, sources = tuple(reflectors), tuple(sources)
    mailboxes = handlers.mailboxes
    ingest = [stats for source in sources if (stats := getattr(source, "stats", None)) is not None]
    return InformerStatistics(
        objects=len(indexer),
        queued=len(fifo),
        events=dict(processor.events),
        bytes=sum(stats.bytes for stats in ingest),
        pending={mailbox.name: len(mailbox) for mailbox in mailboxes},
        coalesced=sum(mailbox.coalesced for mailbox in mailboxes),
        handler_errors=handlers.errors,
        index_errors=indexer.index_errors,
        decode_errors=sum(stats.decode_errors for stats in ingest),
        transform_errors=sum(getattr(source, "transform_errors", 0) for source in sources),
        relists=added_up(reflector.relists for reflector in reflectors),
        watch_restarts=added_up(reflector.watch_restarts for reflector in reflectors),
        snapshots=dict(snapshots),
    )
