"""The options of an informer: of one on any source, and of one that a factory makes for a resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from kinformer.cache.indexer import Indexers
from kinformer.cache.lister import Selector
from kinformer.exceptions import ConfigError
from kinformer.informer.collection import Collection
from kinformer.list_watcher import ListOptions
from kinformer.metrics import Metrics
from kinformer.objects.selectors import LabelSelector
from kinformer.processor.callbacks import Transform
from kinformer.reflector.options import ReflectorKeywords, ReflectorOptions
from kinformer.wire.lines import MAX_EVENT_BYTES

if TYPE_CHECKING:
    from kinformer.snapshot.option import SnapshotOption

__all__ = ["InformerKeywords", "InformerOptions", "ResourceKeywords", "ResourceOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerOptions(ReflectorOptions):
    """The options of an informer: those of its reflectors, and those for the cache, handlers and snapshots.

    Attributes:
        page_size, watch_list, watch_timeout, idle_timeout, backoff: See `ReflectorOptions`.
        transform: dict -> dict (or None to leave the object out), applied once, before the cache.
        resync_period: Seconds between replays of the cache to handlers that set none; 0, the default, is off, because a
            replay asks no server: it helps only handlers that depend on something else as well.
        shutdown_timeout: Seconds that leaving may take before tasks are cancelled.
        optional: A resource that is absent counts as synced.
        on_error: Called with (informer, error) for every error that ends a request or a stream. If it raises, the
            informer stops, and the error becomes its `last_error`.
        compact: Keep objects compressed, a Pod in a ninth of its JSON; each read decompresses (`kinformer[compact]`).
        snapshot: A path, or a `Snapshot`: the cache is kept there, and the next start resumes from it.
        metrics: A sink, such as `kinformer.contrib.prometheus.PrometheusMetrics`.
    """

    transform: Transform | None = None
    resync_period: float = 0
    shutdown_timeout: float = 5
    optional: bool = False
    on_error: Callable[[Any, BaseException], object] | None = None
    compact: bool = False
    snapshot: SnapshotOption = None
    metrics: Metrics | None = None


class InformerKeywords(ReflectorKeywords, total=False):
    """The same options, as keyword arguments."""

    transform: Transform | None
    resync_period: float
    shutdown_timeout: float
    optional: bool
    on_error: Callable[[Any, BaseException], object] | None
    compact: bool
    snapshot: SnapshotOption
    metrics: Metrics | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOptions(InformerOptions):
    """The options of an informer for a resource: the objects to follow, beside the options of any informer.

    Attributes:
        namespace, namespaces: One, or several in one merged cache; all by default. Those that a `LabelSelector`
            chooses, or that are the keys of a collection, come and go.
        label_selector, field_selector, shard_selector: Filters that the server applies.
        tweak_list_options: `ListOptions` -> `ListOptions`, applied to each request.
        fields: JSON paths; nothing else of an object is kept, except what identifies it.
        metadata_only: Ask the server for PartialObjectMetadata.
        keep_managed_fields: False, because few programs read them and they are a third of a Pod.
        max_event_bytes: Bytes of one event or item, above which the stream fails; 16 MiB as in client-go.
        indexers: Name to index function or JSON path (``"spec.nodeName"``).
    """

    namespace: str | None = None
    namespaces: Iterable[str] | LabelSelector | Collection[Any] | None = None
    label_selector: Selector | None = None
    field_selector: str | None = None
    shard_selector: str | None = None
    tweak_list_options: Callable[[ListOptions], ListOptions] | None = None
    fields: Iterable[str] | None = None
    metadata_only: bool = False
    keep_managed_fields: bool = False
    max_event_bytes: int = MAX_EVENT_BYTES
    indexers: Indexers[Any] = field(default_factory=dict)

    @staticmethod
    def _refuse_unknown(keywords: Iterable[str]) -> None:
        """Raise ConfigError for a keyword that is not an option."""
        options = sorted(option.name for option in fields(ResourceOptions))
        for keyword in keywords:
            if keyword not in options:
                raise ConfigError(f"unknown option {keyword!r}; there are {', '.join(options)}")

    def _refuse_difference(self, resource: object, asked: ResourceOptions) -> None:
        """Raise ConfigError if `asked` differs from this in an option that an informer can have only once."""
        for option in _COMPARED:
            has, wants = getattr(self, option), getattr(asked, option)
            if has != wants:
                raise ConfigError(
                    f"{resource} is held with {option}={has!r}, and now asked for with {option}={wants!r}"
                )


class ResourceKeywords(InformerKeywords, total=False):
    """The same options, as keyword arguments; `indexers` is a parameter of its own, for its type."""

    namespace: str | None
    namespaces: Iterable[str] | LabelSelector | Collection[Any] | None
    label_selector: Selector | None
    field_selector: str | None
    shard_selector: str | None
    tweak_list_options: Callable[[ListOptions], ListOptions] | None
    fields: Iterable[str] | None
    metadata_only: bool
    keep_managed_fields: bool
    max_event_bytes: int


# Those that are not part of what makes two requests the same one, and that all holders of an informer share.
_COMPARED = (
    *(option.name for option in fields(ReflectorOptions)),
    "resync_period",
    "max_event_bytes",
    "shutdown_timeout",
    "tweak_list_options",
    "snapshot",
    "optional",
    "on_error",
)
