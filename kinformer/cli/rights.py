"""Rights: asks the server whether the user may do something."""

from __future__ import annotations

from typing import Any

from kinformer import Client
from kinformer.client import APIResource

__all__ = ["may"]

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def may(
    client: Client, verb: str, resource: APIResource, namespace: str | None, name: str = "", *, retries: int = 10
) -> bool:
    """Ask the server, by a SelfSubjectAccessReview, whether the user may do this; nothing is done.

    `retries` is that of `Client.request`.

    Raises:
        APIError, ConnectError, DecodeError: The server does not answer the question.
    """
    attributes = {"verb": verb, "group": resource.group, "version": resource.version, "resource": resource.name}
    attributes |= {"namespace": namespace or "", "name": name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer: Any = await client.request("POST", _REVIEWS, body=body, retries=retries)
    status = answer.get("status") or {}
    return status.get("allowed") is True
