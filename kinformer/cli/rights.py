"""Asks the server about the user's rights."""

from __future__ import annotations

from typing import Any

from kinformer import Client
from kinformer.client import APIResource

__all__ = ["may"]

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def may(
    client: Client, verb: str, resource: APIResource, namespace: str | None, name: str = "", *, retries: int = 10
) -> bool:
    """Ask the server with a SelfSubjectAccessReview whether the user may do this. Nothing is changed.

    `retries` is passed to `Client.request`.

    Raises:
        APIError, ConnectError, DecodeError: The request failed.
    """
    attributes = {"verb": verb, "group": resource.group, "version": resource.version, "resource": resource.name}
    attributes |= {"namespace": namespace or "", "name": name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    response: Any = await client.request("POST", _REVIEWS, body=body, retries=retries)
    status = response.get("status") or {}
    return status.get("allowed") is True
