"""The options of an informer, on any source or for a resource of a factory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kinformer._runtime.life import SHUTDOWN_TIMEOUT
from kinformer._runtime.signatures import keywords_of, shows_options
from kinformer.cache.indexer import Indexers
from kinformer.cache.lister import Selector
from kinformer.exceptions import ConfigError
from kinformer.informer.collection import Collection
from kinformer.kinds.builtin import DefaultNamespace, is_namespaced, wrong_scope
from kinformer.list_watcher import ListOptions
from kinformer.listwatch.part import Part
from kinformer.metrics import Metrics
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.selectors import LabelSelector
from kinformer.processor.callbacks import Transform
from kinformer.reflector.options import ReflectorKeywords, ReflectorOptions
from kinformer.wire.lines import MAX_EVENT_BYTES

if TYPE_CHECKING:
    from kinformer.snapshot.option import SnapshotOption

_NO_DEFAULT = (
    "shard cannot be a default of all informers; pass it to for_resource(). The objects that a controller creates are "
    "in all shards by their own uids, so it would miss most of them, and create them again. Pass shard.of_owners() for "
    "them"
)

__all__ = ["InformerKeywords", "InformerOptions", "ResourceKeywords", "ResourceOptions", "shows_defaults"]


class InformerOptions(ReflectorOptions, frozen=True, kw_only=True):
    """The options of an informer on any source. `SharedInformerFactory.for_resource` documents them."""

    transform: Transform | None = None
    resync_period: float = 0
    shutdown_timeout: float = SHUTDOWN_TIMEOUT
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


class ResourceOptions(InformerOptions, frozen=True, kw_only=True):
    """The options of an informer for a resource, in addition to those of any informer."""

    namespace: str | None = None
    namespaces: Iterable[str] | LabelSelector | Collection | None = None
    label_selector: Selector | None = None
    field_selector: str | None = None
    shard_selector: str | None = None
    shard: Part | None = None
    tweak_list_options: Callable[[ListOptions], ListOptions] | None = None
    fields: Iterable[str] | None = None
    metadata_only: bool = False
    keep_managed_fields: bool = False
    max_event_bytes: int = MAX_EVENT_BYTES
    indexers: Indexers = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, keywords: Mapping[str, Any], defaults: ResourceOptions | None = None) -> ResourceOptions:
        """Create options from keywords, and from `defaults` for missing ones. Without `defaults`, they are defaults.

        Raises:
            ConfigError: A keyword is not an option, or its value is invalid. The message names it.
        """
        options = sorted(cls.__struct_fields__)
        for keyword in keywords:
            if keyword not in options:
                raise ConfigError(f"unknown option {keyword!r}; known options: {', '.join(options)}")
        if defaults is not None:
            return msgspec.structs.replace(defaults, **keywords)
        if keywords.get("shard") is not None:
            raise ConfigError(_NO_DEFAULT)
        return cls(**keywords)

    def fit_scope(self, resource: GroupVersionResource, asked: Mapping[str, Any]) -> ResourceOptions:
        """Return options without a default namespace if the resource has no namespaces.

        Raises:
            ConfigError: The resource is built in and has no namespaces, and one was asked for.
        """
        scope = is_namespaced(resource)
        if scope is None and isinstance(self.namespace, str) and "namespace" not in asked:
            return msgspec.structs.replace(self, namespace=DefaultNamespace(self.namespace))
        if scope is not False:
            return self
        for option in ("namespace", "namespaces"):
            if (value := asked.get(option)) is not None:
                raise wrong_scope(resource, value, option)
        return msgspec.structs.replace(self, namespace=None, namespaces=None)

    @property
    def following(self) -> Mapping[str, object]:
        """The options of a reflector among these, as keyword arguments."""
        return keywords_of(self, ReflectorKeywords)

    def refuse_difference(self, resource: object, asked: ResourceOptions) -> None:
        """Raise ConfigError if `asked` differs in an option that an informer can have only once."""
        for option in _COMPARED:
            has, wants = getattr(self, option), getattr(asked, option)
            if has != wants:
                raise ConfigError(
                    f"{resource} already has an informer with {option}={has!r}, but {option}={wants!r} was requested"
                )


class ResourceKeywords(InformerKeywords, total=False):
    """The same options, as keyword arguments. `indexers` is a separate parameter, for its type."""

    namespace: str | None
    namespaces: Iterable[str] | LabelSelector | Collection | None
    label_selector: Selector | None
    field_selector: str | None
    shard_selector: str | None
    shard: Part | None
    tweak_list_options: Callable[[ListOptions], ListOptions] | None
    fields: Iterable[str] | None
    metadata_only: bool
    keep_managed_fields: bool
    max_event_bytes: int


shows_defaults = shows_options(ResourceOptions, without=("shard", "indexers"))
"""For a function whose `**defaults` are options of all informers. A shard is never one, and `indexers` has its type."""

# Options that do not distinguish requests, and that all holders of an informer share.
_COMPARED = (
    *ReflectorOptions.__struct_fields__,
    "resync_period",
    "max_event_bytes",
    "shutdown_timeout",
    "snapshot",
    "optional",
    "on_error",
)
