"""The key of a shared cache: everything that decides which objects it has, and in which form.

A request of a follower is an ordinary LIST or WATCH of an API server, so path, selectors and `Accept` header describe
the cache. Only `fields` needs a query parameter of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Self

from kinformer.client.client import Client
from kinformer.exceptions import ConfigError
from kinformer.list_watcher import ListOptions
from kinformer.listwatch.list_watch import ListWatch
from kinformer.objects.meta import GroupVersionResource
from kinformer.wire.lines import MAX_EVENT_BYTES

__all__ = ["CHANGES", "SourceKey"]

CHANGES = "kinformerChanges"
"""The query parameter of a watch that ends after the changes until now. Its value is a label selector, or empty."""

_FIELDS = "kinformerFields"
_SELECTORS = ("labelSelector", "fieldSelector", "shardSelector")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKey:
    """The key of a shared cache. Equal keys mean the same objects in the same form.

    Attributes:
        resource: The resource.
        namespace: The namespace, or None for all.
        label_selector, field_selector, shard_selector: The filters that the server applies.
        metadata_only, keep_managed_fields, fields: The form. See `ListWatch`.
    """

    resource: GroupVersionResource
    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    shard_selector: str | None = None
    metadata_only: bool = False
    keep_managed_fields: bool = False
    fields: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.resource} in {self.namespace}" if self.namespace else str(self.resource)

    @property
    def token(self) -> str:
        """A text that is the same in all processes, and differs for each key."""
        return json.dumps(astuple(self))

    def source(self, client: Client, *, max_event_bytes: int | None = None) -> ListWatch:
        """Return a source of these objects, at the server."""
        return self._list_watch(client, max_event_bytes, None)

    def source_at_holder(self, client: Client, *, max_event_bytes: int | None = None) -> ListWatch:
        """Return a source of these objects, at a holder that is reached through `client`."""
        if self.fields is None:
            return self._list_watch(client, max_event_bytes, None)
        wanted = {_FIELDS: json.dumps(self.fields)}
        return self._list_watch(client, max_event_bytes, wanted)

    def _list_watch(self, client: Client, max_event_bytes: int | None, extra: Mapping[str, str] | None) -> ListWatch:
        def tweak(options: ListOptions) -> ListOptions:
            return options.replace(extra={**options.extra, **(extra or {})})

        return ListWatch(
            client,
            self.resource,
            namespace=self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            shard_selector=self.shard_selector,
            tweak_list_options=None if extra is None else tweak,
            metadata_only=self.metadata_only,
            fields=self.fields,
            keep_managed_fields=self.keep_managed_fields,
            max_event_bytes=MAX_EVENT_BYTES if max_event_bytes is None else max_event_bytes,
        )

    @classmethod
    def of_request(cls, path: str, query: Mapping[str, str], accept: str) -> Self:
        """Return the key that a request of a follower describes.

        Raises:
            ConfigError: It is not a request for a collection.
        """
        resource, namespace = _parsed(path)
        fields = query.get(_FIELDS)
        return cls(
            resource=resource,
            namespace=namespace,
            label_selector=query.get("labelSelector") or None,
            field_selector=query.get("fieldSelector") or None,
            shard_selector=query.get("shardSelector") or None,
            metadata_only="as=PartialObjectMetadata" in accept,
            keep_managed_fields="drop=metadata.managedFields" not in accept,
            fields=None if fields is None else tuple(json.loads(fields)),
        )

    @staticmethod
    def without_selection(query: Mapping[str, str]) -> dict[str, str]:
        """Return a query without what the key has: all objects of the cache are selected."""
        return {name: value for name, value in query.items() if name not in (*_SELECTORS, _FIELDS, CHANGES)}

    @staticmethod
    def for_server(query: Mapping[str, str]) -> dict[str, str]:
        """Return a query as the server understands it."""
        return {name: value for name, value in query.items() if name != _FIELDS}


def _parsed(path: str) -> tuple[GroupVersionResource, str | None]:
    """Return the resource and the namespace of the path of a collection. Raises ConfigError."""
    root, *parts = path.strip("/").split("/")
    if root == "api" and len(parts) >= 2:
        group, version, *rest = "", *parts
    elif root == "apis" and len(parts) >= 3:
        group, version, *rest = parts
    else:
        raise ConfigError(f"{path} is not the path of a collection")
    match rest:
        case [resource]:
            return GroupVersionResource(group, version, resource), None
        case ["namespaces", namespace, resource]:
            return GroupVersionResource(group, version, resource), namespace
    raise ConfigError(f"{path} is not the path of a collection")
