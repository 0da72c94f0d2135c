"""The options of an informer that a factory makes, with their types: what `for_resource` and factories take by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

from kinformer._runtime.backoff import Backoff
from kinformer.cache.lister import Selector
from kinformer.list_watcher import ListOptions
from kinformer.metrics import Metrics
from kinformer.processor.callbacks import Transform
from kinformer.snapshot.option import SnapshotOption

__all__ = ["InformerOptions"]


class InformerOptions(TypedDict, total=False):
    """See `SharedInformerFactory.for_resource` for what each means; indexers and model are parameters of their own."""

    namespace: str | None
    namespaces: Iterable[str] | None
    label_selector: Selector | None
    field_selector: str | None
    shard_selector: str | None
    tweak_list_options: Callable[[ListOptions], ListOptions] | None
    transform: Transform | None
    fields: Iterable[str] | None
    metadata_only: bool
    compact: bool
    keep_managed_fields: bool
    resync_period: float
    page_size: int | None
    watch_list: bool | None
    watch_timeout: float
    idle_timeout: float
    backoff: Backoff
    max_event_bytes: int
    shutdown_timeout: float
    snapshot: SnapshotOption
    metrics: Metrics | None
    optional: bool
    on_error: Callable[[Any, BaseException], Any] | None
