"""Reads CustomResourceDefinitions from files, folders and dicts."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kinformer._runtime.yaml_reader import read_yaml_documents
from kinformer.exceptions import ConfigError

__all__ = ["CRD_KIND", "DEFINITIONS", "read_crds", "read_documents", "read_objects"]

CRD_KIND = "CustomResourceDefinition"
DEFINITIONS = "apiextensions.k8s.io/v1/customresourcedefinitions"
SUFFIXES = (".yaml", ".yml", ".json")
_VALUES = 5_000_000  # of a file, which may have the definitions of a whole project


def read_crds(*sources: str | os.PathLike[str] | Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions in all sources, in order, as new dicts.

    A file may contain several YAML documents, and Lists. Documents of other kinds are skipped, because kustomize
    folders mix kinds. In a folder, the `.yaml`, `.yml` and `.json` files are read in the order of their names, without
    subfolders, as in controller-runtime (pkg/envtest/crd.go).

    Raises:
        ConfigError: A source is missing or unreadable, or contains no CustomResourceDefinition.
    """
    definitions: list[dict[str, Any]] = []
    for source in sources:
        crds = [obj for obj in read_objects(source) if obj.get("kind") == CRD_KIND]
        if not crds:
            origin = f"kind {source.get('kind')!r}" if isinstance(source, Mapping) else str(source)
            raise ConfigError(f"no {CRD_KIND} in {origin}")
        definitions.extend(crds)
    return definitions


def read_objects(*sources: str | os.PathLike[str] | Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all objects in dicts, files and folders, in order, as new dicts.

    Raises:
        ConfigError: A source cannot be read.
    """
    objects: list[dict[str, Any]] = []
    for source in sources:
        if isinstance(source, Mapping):
            objects.append(copy.deepcopy(dict(source)))
        else:
            objects += read_documents(Path(source).expanduser())
    return objects


def read_documents(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return all objects in a file, or in the files of a folder, in order. Raises ConfigError if it cannot be read."""
    path = Path(path)
    if path.is_dir():
        files = sorted(child for child in path.iterdir() if child.suffix in SUFFIXES)
    elif path.is_file():
        files = [path]
    else:
        raise ConfigError(f"{path}: no such file or folder")
    return [crd for file in files for crd in _documents(file)]


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error}") from error
    for document in read_yaml_documents(content, str(file), most_values=_VALUES):
        if not isinstance(document, dict):
            continue
        items = document.get("items")
        if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from (item for item in items if isinstance(item, dict))
        else:
            yield document
