"""The options of a sharded controller, including the options of a controller and of a Lease."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer.cache.indexer import Indexers
from kinformer.controller.options import ControllerKeywords, ControllerOptions
from kinformer.exceptions import ConfigError
from kinformer.informer.options import InformerKeywords
from kinformer.leaderelection.lease import LeaseKeywords, LeaseOptions
from kinformer.list_watcher import ListerWatcher
from kinformer.objects.meta import GroupVersionResource

__all__ = ["ShardingKeywords", "ShardingOptions", "ShareInformerKeywords", "SourceFactory"]

SourceFactory = Callable[[GroupVersionResource, bool], ListerWatcher]
"""Creates a source of a resource. The second argument is True for metadata only."""


class ShareInformerKeywords(InformerKeywords, total=False):
    """The options of an informer that a sharded controller creates: the options of a `SharedInformer` except `name`."""

    indexers: Indexers


class ShardingKeywords(ControllerKeywords, LeaseKeywords, total=False):
    """The fields of `ShardingOptions`, for constructors that accept them as keyword arguments."""

    namespace: str | None
    label_selector: str | None
    field_selector: str | None
    lease_namespace: str | None
    group: str | None
    identity: str | None
    informer: ShareInformerKeywords | None
    source: SourceFactory | None
    clock: Clock


@dataclass(frozen=True, kw_only=True)
class ShardingOptions(ControllerOptions, LeaseOptions):
    """The options of a `ShardedController`, which documents them, including the options of a controller and a Lease.

    `shutdown_timeout` must be below `renew_deadline`, or a share would lapse while it is being given away.

    Raises:
        ConfigError: A value is invalid. The message names the option.
    """

    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    lease_namespace: str | None = None
    group: str | None = None
    identity: str | None = None
    informer: ShareInformerKeywords | None = None
    source: SourceFactory | None = None
    clock: Clock = SYSTEM

    def __post_init__(self) -> None:
        ControllerOptions.__post_init__(self)
        LeaseOptions.__post_init__(self)
        if self.shutdown_timeout >= self.renew_deadline:
            raise ConfigError(
                f"shutdown_timeout={self.shutdown_timeout!r} must be below renew_deadline={self.renew_deadline!r}, "
                "or a share lapses while it is being released"
            )
