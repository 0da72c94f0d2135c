"""The columns that a definition gives its custom resources: `additionalPrinterColumns`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kinformer import APIError, Client
from kinformer.cli.output.columns import Column, columns_of_definition, is_built_in
from kinformer.client import APIResource

__all__ = ["printer_columns"]

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def printer_columns(client: Client, resource: APIResource, *, wide: bool = False) -> Sequence[Column] | None:
    """Return the columns of a custom resource as its definition has them; None for a kind that has columns here.

    None too if the definition gives none, or cannot be read: to read definitions is a right of its own.

    Args:
        client: The client of the server.
        resource: The resource.
        wide: Add the columns of a lower priority, as `-o wide` does.
    """
    if "." not in resource.group or is_built_in(resource.group, resource.kind):
        return None
    try:
        definition: Any = await client.request("GET", f"{_DEFINITIONS}/{resource.name}.{resource.group}")
    except APIError:
        return None
    document: Mapping[str, Any] = definition.to_dict()
    for version in document["spec"]["versions"]:
        if version.get("name") == resource.version:
            return columns_of_definition(version.get("additionalPrinterColumns") or (), wide=wide)
    return None
