"""Generates the RBAC role and binding that grant rights."""

from __future__ import annotations

from collections.abc import Sequence

from kinformer.cli.output.documents import to_yaml
from kinformer.client import APIResource

__all__ = ["grant"]

_RBAC = "rbac.authorization.k8s.io"


def grant(resource: APIResource, verbs: Sequence[str], namespace: str | None, user: str) -> str:
    """Return the role and binding that give a user these rights, as YAML for `kubectl apply`.

    Args:
        resource: The resource.
        verbs: The verbs, such as ["list", "watch"].
        namespace: The namespace, or None for all namespaces or a cluster-scoped resource.
        user: The user name reported by the server, or "" for a placeholder.
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
