"""The key by which a factory finds an existing informer: equal requests have equal keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import msgspec

from kinformer.exceptions import ConfigError
from kinformer.informer.collection import Collection
from kinformer.informer.options import ResourceOptions
from kinformer.listwatch.part import Part, selector_of
from kinformer.listwatch.sharing import SharingForm
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.paths.projection import covers
from kinformer.objects.selectors import LabelSelector

__all__ = ["InformerIdentity", "check_index_paths"]


class InformerIdentity(msgspec.Struct, frozen=True):
    """The identity of an informer. Equal identities mean the same objects in the same form, so one is enough."""

    resource: GroupVersionResource
    namespaces: tuple[str, ...]
    label_selector: str | None
    field_selector: str | None
    shard_selector: str | None
    shard: Part | None
    metadata_only: bool
    fields: tuple[str, ...] | None
    compact: bool
    keep_managed_fields: bool
    transform: Callable[..., Any] | None
    tweak: Callable[..., Any] | None
    poll: float | None
    chosen: LabelSelector | Collection | None = None

    @property
    def is_whole(self) -> bool:
        """True if it means all objects of its namespaces, with all fields but perhaps the managedFields."""
        chosen = (self.label_selector, self.field_selector, self.shard_selector, self.shard, self.tweak)
        return not self.metadata_only and all(limit is None for limit in (*chosen, self.fields, self.transform))

    def form(self, max_event_bytes: int) -> SharingForm:
        """Return the form in which a source asks for the objects."""
        return SharingForm(
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            shard_selector=self.shard_selector,
            metadata_only=self.metadata_only,
            keep_managed_fields=self.keep_managed_fields,
            fields=self.fields,
            max_event_bytes=max_event_bytes,
        )

    @classmethod
    def of(cls, resource: GroupVersionResource, options: ResourceOptions) -> Self:
        """Return the identity that a set of options requests.

        Raises:
            ConfigError: Options contradict one another. The message names them.
        """
        fields = options.fields
        if isinstance(fields, str):
            raise ConfigError(f"{resource}: fields={fields!r} is one string; pass a list of JSON paths")
        if fields is not None and options.metadata_only:
            raise ConfigError(f"{resource}: fields and metadata_only cannot be combined")
        selector_of(options.shard, options.shard_selector, str(resource))  # raises if both are set
        selector = options.label_selector
        several = options.namespaces
        chosen = several if isinstance(several, LabelSelector | Collection) else None
        names = _namespaces(resource, options.namespace, None if chosen is not None else several)  # type: ignore[arg-type]
        if chosen is not None and names:
            raise ConfigError(f"{resource}: pass namespace or namespaces, not both")
        return cls(
            resource=resource,
            namespaces=names,
            chosen=chosen,
            label_selector=str(LabelSelector.parse(selector)) or None if selector else None,
            field_selector=options.field_selector or None,
            shard_selector=options.shard_selector or None,
            shard=options.shard,
            metadata_only=options.metadata_only,
            fields=None if fields is None else tuple(sorted(set(fields))),
            compact=options.compact,
            keep_managed_fields=options.keep_managed_fields,
            transform=options.transform,
            tweak=options.tweak_list_options,
            poll=options.poll,
        )


def _namespaces(resource: GroupVersionResource, single: str | None, several: Iterable[str] | None) -> tuple[str, ...]:
    if single is not None and several is not None:
        raise ConfigError(f"{resource}: pass namespace or namespaces, not both")
    if single is not None and not isinstance(single, str):
        raise ConfigError(f"{resource}: namespace={single!r} must be one string; for several names use namespaces=")
    if isinstance(several, str):
        raise ConfigError(f"{resource}: namespaces={several!r} is one string; use namespace=")
    if several is None:
        return (single,) if single else ()
    names = tuple(sorted(set(several)))
    if not names or "" in names:
        raise ConfigError(f"{resource}: namespaces={list(names)!r} must have at least one name, and no empty name")
    return names


def check_index_paths(
    resource: GroupVersionResource, indexers: Mapping[str, object], *, fields: Iterable[str] | None, metadata_only: bool
) -> None:
    """Reject an index over a JSON path that the cache will not keep.

    Raises:
        ConfigError: The message names the index, the path and the option that drops it.
    """
    kept = ["metadata"] if metadata_only else None if fields is None else list(fields)
    if kept is None:
        return
    what = "metadata_only" if metadata_only else f"fields={kept!r}"
    for name, path in indexers.items():
        if isinstance(path, str) and not covers(kept, path):
            raise ConfigError(f"{resource}: index {name!r} reads {path!r}, which {what} does not keep")
