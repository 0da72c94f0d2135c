"""The folders of manifests in examples/: their documents, applied as kubectl does, by file name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from kinformer import Client, KubeObject
from kinformer.conditions import is_crd_established

__all__ = ["EXAMPLES", "apply", "documents", "files"]

EXAMPLES = Path(__file__).parents[2] / "examples"
_DEFINITIONS = "apiextensions.k8s.io/v1/customresourcedefinitions"


def files(folder: Path) -> list[Path]:
    """Return the manifests of a folder in the order of their names, in which `kubectl apply -f` reads them."""
    return sorted(file for file in folder.iterdir() if file.suffix == ".yaml")


def documents(file: Path) -> list[dict[str, Any]]:
    """Return the documents of a file."""
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


async def apply(client: Client, wanted: Iterable[dict[str, Any]]) -> list[KubeObject]:
    """Apply documents on the server's side, one after the other. A definition is waited for."""
    applied = []
    for document in wanted:
        applied.append(await client.apply(document, field_manager="tests"))
        if document["kind"] == "CustomResourceDefinition":
            await client.wait_for(_DEFINITIONS, document["metadata"]["name"], is_crd_established, timeout=20)
    return applied
