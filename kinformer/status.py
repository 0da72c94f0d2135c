"""Writing an object's status: only what differs, and only if nobody was faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.client import Client
from kinformer.meta import GroupVersionResource
from kinformer.object import KubeObject

__all__ = ["write_status"]


async def write_status(
    client: Client, resource: str | GroupVersionResource, obj: KubeObject, status: Mapping[str, Any]
) -> KubeObject:
    """Set fields of the status; no request where they all are as they should be.

    A merge patch of the status subresource: a field that `status` does not name stays, None takes one away, a list is
    written as a whole. It carries the uid and the resourceVersion of `obj`, because what it says was concluded from
    that state.

    Args:
        client: An entered one.
        resource: Of the object.
        obj: As it was read, usually from a cache.
        status: The fields, as `{"readyReplicas": 3, "conditions": with_conditions(...)}`.

    Returns:
        The object as the server has it now; `obj` itself where nothing had to be written.

    Raises:
        ConflictError: `obj` is not the latest; a `Controller` tries again by itself.
        APIError, ConnectError: As `Client.request`.
    """
    known = obj.get("status")
    known = known if isinstance(known, dict) else {}
    differing = {field: value for field, value in status.items() if known.get(field) != value}
    if not differing:
        return obj
    path = GroupVersionResource.parse(resource).path(obj.namespace, obj.name, "status")
    metadata = {"uid": obj.uid, "resourceVersion": obj.resource_version}
    answer = await client.request("PATCH", path, body={"metadata": metadata, "status": differing})
    if not isinstance(answer, KubeObject):
        raise TypeError(f"PATCH {path}: the server answered with no object: {answer!r}")
    return answer
