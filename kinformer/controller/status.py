"""Writing an object's status: only what differs, and only if nobody was faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.client.client import Client
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject

__all__ = ["write_status"]


async def write_status(
    client: Client, resource: str | GroupVersionResource, obj: KubeObject, status: Mapping[str, Any]
) -> KubeObject:
    """Set fields of the status; no request where they all are as they should be.

    A merge patch of the status subresource: a field that `status` does not name stays, None takes one away. One that it
    names becomes what it says, as a whole, a mapping too: members of it that are not named go. The patch carries the
    uid and the resourceVersion of `obj`, because what it says was concluded from that state.

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
    differing = _differing(known, status)
    if not differing:
        return obj
    path = GroupVersionResource.parse(resource).path(obj.namespace, obj.name, "status")
    metadata = {"uid": obj.uid, "resourceVersion": obj.resource_version}
    answer = await client.request("PATCH", path, body={"metadata": metadata, "status": differing})
    if not isinstance(answer, KubeObject):
        raise TypeError(f"PATCH {path}: the server answered with no object: {answer!r}")
    return answer


def _differing(known: dict[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch that has the fields of `wanted` be as they are there; the others stay."""
    patch: dict[str, Any] = {}
    for field, value in wanted.items():
        there = known.get(field)
        if isinstance(there, dict) and isinstance(value, Mapping):
            # The server merges it into what is there, so what is to go has to be said.
            change = _differing(there, dict.fromkeys(there) | dict(value))
            if change:
                patch[field] = change
        elif there != value:
            patch[field] = value
    return patch
