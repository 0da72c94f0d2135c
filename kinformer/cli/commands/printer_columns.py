"""The columns that a definition sets for its custom resources: `additionalPrinterColumns`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer import APIError, Client, GroupVersionResource
from kinformer.cli.output.columns import ColumnSet, columns_of_definition
from kinformer.client import APIResource
from kinformer.kinds.builtin import is_custom

__all__ = ["printer_columns"]

_DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


async def printer_columns(client: Client, resource: APIResource, *, wide: bool = False) -> ColumnSet | None:
    """Return the columns of a custom resource from its definition, or None for a kind with built-in columns.

    It also returns None if the definition has none or cannot be read, which requires a separate right.

    Args:
        client: The client of the server.
        resource: The resource.
        wide: Add the columns with a lower priority, as `-o wide` does.
    """
    if not is_custom(resource.group):
        return None
    try:
        definition: Any = await client.request("GET", _DEFINITIONS.path(name=f"{resource.name}.{resource.group}"))
    except APIError:
        return None
    document: Mapping[str, Any] = definition.to_dict()
    for version in document["spec"]["versions"]:
        if version.get("name") == resource.version:
            return columns_of_definition(version.get("additionalPrinterColumns") or (), wide=wide)
    return None
