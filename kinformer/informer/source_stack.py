"""The sources of an informer, with all that stands between them and its cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kinformer.list_watcher import ListerWatcher
from kinformer.listwatch.compact import CompactingListerWatcher, Compaction
from kinformer.listwatch.transform import TransformingListerWatcher
from kinformer.queue.writer import QueueWriter

__all__ = ["stack_sources"]

Scope = str | None


def stack_sources(
    sources: Mapping[Scope, ListerWatcher],
    intakes: Mapping[Scope, QueueWriter],
    *,
    transform: Callable[[dict[str, Any]], dict[str, Any] | None] | None,
    compact: bool,
) -> dict[Scope, ListerWatcher]:
    """Each source with the transform, and then the compression, around it.

    Raises:
        ConfigError: The transform cannot be one, or `compact` lacks its library.
    """
    compaction = Compaction() if compact else None
    stacked: dict[Scope, ListerWatcher] = {}
    for scope, source in sources.items():
        known = intakes[scope].known
        if transform is not None:
            source = TransformingListerWatcher(source, transform, known=known)
        if compaction is not None:
            source = CompactingListerWatcher(source, compaction, known=known)
        stacked[scope] = source
    return stacked
