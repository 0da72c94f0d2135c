"""Rights: whether one has them, and what somebody who may give them has to apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinformer.cli.output.documents import to_yaml
from kinformer.client.client import Client
from kinformer.client.discovery import APIResource

__all__ = ["grant", "may"]

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_RBAC = "rbac.authorization.k8s.io"


async def may(client: Client, verb: str, resource: APIResource, namespace: str | None, name: str = "") -> bool:
    """Whether the server would allow it, by a SelfSubjectAccessReview; nothing is done.

    Raises:
        APIError, ConnectError, DecodeError: It does not say.
    """
    attributes = {"verb": verb, "group": resource.group, "version": resource.version, "resource": resource.name}
    attributes |= {"namespace": namespace or "", "name": name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer: Any = await client.request("POST", _REVIEWS, body=body)
    status = answer.get("status") or {}
    return status.get("allowed") is True


def grant(resource: APIResource, verbs: Sequence[str], namespace: str | None, user: str) -> str:
    """What to `kubectl apply`, so that a user may do this with a resource: a role and its binding, as YAML.

    Args:
        resource: The resource.
        verbs: Such as ["list", "watch"].
        namespace: The one; None is all of them, or a cluster-scoped resource.
        user: As the server knows him; "" leaves a place to fill in.
    """
    kind = "Role" if namespace else "ClusterRole"
    name = f"{resource.name}-reader"
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    rule = {"apiGroups": [resource.group], "resources": [resource.name], "verbs": list(verbs)}
    role = {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": [rule]}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [_subject(user)],
    }
    return f"{to_yaml(role, short=True)}---\n{to_yaml(binding, short=True)}"


def _subject(user: str) -> dict[str, str]:
    if user.startswith("system:serviceaccount:") and user.count(":") == 3:
        namespace, name = user.split(":")[2:]
        return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"apiGroup": _RBAC, "kind": "User", "name": user or "WHO"}
