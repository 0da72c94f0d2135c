"""The header of a list: kind, apiVersion and list metadata, decoded without the items."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from kinformer._runtime.json_depth import bounded

__all__ = ["Head", "ListHeader", "ListMeta", "Rest", "decode_head", "decode_rest", "decode_status"]


class _ShardInfo(msgspec.Struct):
    selector: str | None = None


class ListMeta(msgspec.Struct, rename="camel"):
    """The metadata of a list."""

    name: str | None = None  # of a document that is not a list
    resource_version: str | None = None
    continue_token: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None
    shard_info: _ShardInfo | None = None


class Head(msgspec.Struct, rename="camel"):
    """The fields before the items, or after them."""

    kind: str | None = None
    api_version: str | None = None
    metadata: ListMeta | None = None


class Rest(Head):
    """The last items, and the fields after them."""

    items: list[msgspec.Raw] = []


class _Status(msgspec.Struct):
    message: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class ListHeader:
    """A list without its items (apimachinery, pkg/apis/meta/v1/types.go, ListMeta).

    `remaining_item_count` is an estimate, or None if the server sent none. `shard_info` is the selector of a sharded
    list, or None.
    """

    kind: str
    api_version: str
    resource_version: str
    continue_token: str
    remaining_item_count: int | None
    shard_info: str | None


decode_head = bounded(msgspec.json.Decoder(Head).decode)
decode_rest = msgspec.json.Decoder(Rest).decode
decode_status = bounded(msgspec.json.Decoder(_Status).decode)
