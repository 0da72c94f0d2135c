"""Roles, bindings and service accounts that grant rights, as YAML for `kubectl apply`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinformer.cli.output.documents import to_yaml
from kinformer.client import APIResource

__all__ = ["Rule", "grant", "grant_program"]

_GROUP = "rbac.authorization.k8s.io"

Rule = dict[str, list[str]]


def grant(resource: APIResource, verbs: Sequence[str], namespace: str | None, user: str) -> str:
    """Return the role and binding that give a user these rights.

    Args:
        resource: The resource.
        verbs: The verbs, such as ["list", "watch"].
        namespace: The namespace, or None for all namespaces or a cluster-scoped resource.
        user: The user name reported by the server, or "" for a placeholder.
    """
    rule = {"apiGroups": [resource.group], "resources": [resource.name], "verbs": list(verbs)}
    return _stream(_role_and_binding(f"{resource.name}-reader", [rule], namespace, _subject(user)))


def grant_program(name: str, namespace: str, rules: Sequence[Rule]) -> str:
    """Return a service account, and the role and binding that give it these rights in all namespaces."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return _stream([account, *_role_and_binding(name, rules, None, subject)])


def _role_and_binding(
    name: str, rules: Sequence[Rule], namespace: str | None, subject: dict[str, str]
) -> list[dict[str, Any]]:
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    common = {"apiVersion": f"{_GROUP}/v1", "metadata": metadata}
    reference = {"apiGroup": _GROUP, "kind": kind, "name": name}
    return [
        {**common, "kind": kind, "rules": list(rules)},
        {**common, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]},
    ]


def _stream(documents: Sequence[dict[str, Any]]) -> str:
    return "---\n".join(to_yaml(document, short=True) for document in documents)


def _subject(user: str) -> dict[str, str]:
    if user.startswith("system:serviceaccount:") and user.count(":") == 3:
        namespace, name = user.split(":")[2:]
        return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"apiGroup": _GROUP, "kind": "User", "name": user or "WHO"}
