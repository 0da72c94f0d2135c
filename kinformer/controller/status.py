"""Status writes: only the fields that differ, and only if the object has not changed in the meantime."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kinformer.client.client import Client
from kinformer.kinds.builtin import parse_resource
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.models.typed import read_like
from kinformer.objects.object import KubeObject
from kinformer.objects.requests.encoding import encode
from kinformer.objects.types import M

__all__ = ["write_status"]


async def write_status(
    client: Client, resource: str | GroupVersionResource, obj: KubeObject[M], status: Mapping[str, object]
) -> KubeObject[M]:
    """Set fields of the status. Makes no request if they all have the wanted values.

    Sends a merge patch of the status subresource. A field that is not in `status` stays, and None removes a field. A
    field in `status` is replaced as a whole, so members missing from a mapping are removed. The patch has the uid and
    the resourceVersion of `obj`, because the new status was computed from that state.

    Args:
        client: An entered client.
        resource: The resource of the object.
        obj: The object as it was read, usually from a cache.
        status: The fields, such as `{"readyReplicas": 3, "conditions": with_conditions(...)}`.

    Returns:
        The server's new state of the object, with the model of `obj`, or `obj` itself if there was nothing to write.

    Raises:
        ConfigError: `resource` is invalid.
        TypeError: The status has a value without JSON, such as nan. The message names its path.
        ConflictError: `obj` is not the latest state. A `Controller` retries this.
        APIError, ConnectError: As in `Client.request`.
    """
    path = parse_resource(resource).path(obj.namespace, obj.name, "status")
    current = obj.get("status")
    current = current if isinstance(current, dict) else {}
    differing = _differing_fields(current, msgspec.json.decode(encode(dict(status))))  # a tuple differs from its list
    if not differing:
        return obj
    metadata = {"uid": obj.uid, "resourceVersion": obj.resource_version}
    response = await client.request("PATCH", path, body={"metadata": metadata, "status": differing})
    if not isinstance(response, KubeObject):
        raise TypeError(f"PATCH {path}: expected an object in the server's response, not {response!r}")
    return read_like(obj, response)


def _differing_fields(known: Mapping[str, object], wanted: Mapping[str, object]) -> dict[str, object]:
    """Return a merge patch that sets the fields of `wanted` and no others."""
    patch: dict[str, object] = {}
    for field, value in wanted.items():
        there = known.get(field)
        if isinstance(there, dict) and isinstance(value, Mapping):
            # The server merges a mapping into the existing one, so members to be removed must be named.
            change = _differing_fields(there, dict.fromkeys(there) | dict(value))
            if change:
                patch[field] = change
        elif there != value:
            patch[field] = value
    return patch
