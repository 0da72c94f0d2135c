"""The key of a shared cache: everything that decides which objects it has, and in which form.

A request of a follower is an ordinary LIST or WATCH of an API server, so path, selectors and `Accept` header describe
the cache. `fields` and `max_event_bytes` need query parameters of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Self

from kinformer.client.client import Client
from kinformer.exceptions import ConfigError
from kinformer.list_watcher import ListOptions
from kinformer.listwatch.http_source import ListWatch
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.requests.path import RequestPath
from kinformer.wire.lines import MAX_EVENT_BYTES

__all__ = ["SourceKey"]

_FIELDS = "kinformerFields"
_MAX_EVENT_BYTES = "kinformerMaxEventBytes"
_OWN = (_FIELDS, _MAX_EVENT_BYTES)
_SELECTORS = ("labelSelector", "fieldSelector", "shardSelector")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKey:
    """The key of a shared cache. Equal keys mean the same objects in the same form.

    Attributes:
        resource: The resource.
        namespace: The namespace, or None for all.
        label_selector, field_selector, shard_selector: The filters that the server applies.
        metadata_only, keep_managed_fields, fields, max_event_bytes: The form. See `ListWatch`.
    """

    resource: GroupVersionResource
    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    shard_selector: str | None = None
    metadata_only: bool = False
    keep_managed_fields: bool = False
    fields: tuple[str, ...] | None = None
    max_event_bytes: int = MAX_EVENT_BYTES

    def __str__(self) -> str:
        return f"{self.resource} in {self.namespace}" if self.namespace else str(self.resource)

    @property
    def token(self) -> str:
        """A text that is the same in all processes, and differs for each key."""
        return json.dumps(astuple(self))

    def source(self, client: Client) -> ListWatch:
        """Return a source of these objects, at the server."""
        return self._list_watch(client, {})

    def source_at_holder(self, client: Client) -> ListWatch:
        """Return a source of these objects, at a holder that is reached through `client`."""
        extra: dict[str, str] = {}
        if self.fields is not None:
            extra[_FIELDS] = json.dumps(self.fields)
        if self.max_event_bytes != MAX_EVENT_BYTES:
            extra[_MAX_EVENT_BYTES] = str(self.max_event_bytes)
        return self._list_watch(client, extra)

    def _list_watch(self, client: Client, extra: Mapping[str, str]) -> ListWatch:
        def tweak(options: ListOptions) -> ListOptions:
            return options.replace(extra={**options.extra, **extra})

        return ListWatch(
            client,
            self.resource,
            namespace=self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            shard_selector=self.shard_selector,
            tweak_list_options=tweak if extra else None,
            metadata_only=self.metadata_only,
            fields=self.fields,
            keep_managed_fields=self.keep_managed_fields,
            max_event_bytes=self.max_event_bytes,
        )

    @classmethod
    def of_request(cls, path: str, query: Mapping[str, str], accept: str) -> Self:
        """Return the key that a request of a follower describes.

        Raises:
            ConfigError: It is not a request for a collection, or a parameter cannot be read.
        """
        resource, namespace = _parsed(path)
        try:
            fields = None if _FIELDS not in query else tuple(json.loads(query[_FIELDS]))
            most = int(query.get(_MAX_EVENT_BYTES, MAX_EVENT_BYTES))
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{path}: {error}") from None
        return cls(
            resource=resource,
            namespace=namespace,
            label_selector=query.get("labelSelector") or None,
            field_selector=query.get("fieldSelector") or None,
            shard_selector=query.get("shardSelector") or None,
            metadata_only="as=PartialObjectMetadata" in accept,
            keep_managed_fields="drop=metadata.managedFields" not in accept,
            fields=fields,
            max_event_bytes=most,
        )

    @staticmethod
    def without_selection(query: Mapping[str, str]) -> dict[str, str]:
        """Return a query without what the key has: all objects of the cache are selected."""
        return {name: value for name, value in query.items() if name not in (*_SELECTORS, *_OWN)}

    @staticmethod
    def for_server(query: Mapping[str, str]) -> dict[str, str]:
        """Return a query as the server understands it."""
        return {name: value for name, value in query.items() if name not in _OWN}


def _parsed(path: str) -> tuple[GroupVersionResource, str | None]:
    """Return the resource and the namespace of the path of a collection. Raises ConfigError."""
    target = RequestPath.of(path)
    if target is None or target.name:
        raise ConfigError(f"{path} is not the path of a collection")
    return GroupVersionResource(*target[:3]), target.namespace or None
