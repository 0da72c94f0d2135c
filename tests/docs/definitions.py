"""Definitions of custom resources with the schema of a page, for its hidden checks."""

from __future__ import annotations

from typing import Any

from kinformer import Client
from kinformer.exceptions import BadRequestError, InvalidError

_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def refused(client: Client, spec: dict[str, Any]) -> str:
    """Create the resource `example.com/v1/bars` with this schema of its spec; return the error, or ""."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "bars.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "bars", "singular": "bar", "kind": "Bar", "listKind": "BarList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    try:
        await client.request("POST", _PATH, body=definition)
    except (BadRequestError, InvalidError) as error:
        return str(error)
    return ""
