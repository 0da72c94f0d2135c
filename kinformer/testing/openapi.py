"""OpenAPI v3, as far as kubectl needs it before a write: which paths take PATCH, and with which parameters.

There are no schemas in it: `kubectl explain` has nothing to show, and validation is the server's (fieldValidation).
"""

from __future__ import annotations

import hashlib
from typing import Any

from kinformer.testing.forms import dumps
from kinformer.testing.resources import Registry, ResourceType

__all__ = ["openapi"]

Object = dict[str, Any]

_PREFIX = "/openapi/v3"
_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")


def _root_path(resource: ResourceType) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _document(types: list[ResourceType]) -> Object:
    paths: Object = {}
    for resource in types:
        place = "/namespaces/{namespace}" if resource.namespaced else ""
        path = f"/{_root_path(resource)}{place}/{resource.plural}/{{name}}"
        paths[path] = {
            "patch": {
                "description": f"partially update the specified {resource.kind}",
                "parameters": [
                    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
                    for name in _PARAMETERS
                ],
                "responses": {"200": {"description": "OK"}, "201": {"description": "Created"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": {
                    "group": resource.group,
                    "version": resource.version,
                    "kind": resource.kind,
                },
            }
        }
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.3"}, "paths": paths}


def openapi(registry: Registry, path: str) -> Object | None:
    """The document under a path, or None: `/openapi/v3` lists those of the group versions."""
    by_path: dict[str, list[ResourceType]] = {}
    for resource in registry:
        by_path.setdefault(_root_path(resource), []).append(resource)
    if path == _PREFIX:
        return {
            "paths": {
                name: {
                    "serverRelativeURL": f"{_PREFIX}/{name}?hash="
                    + hashlib.sha512(dumps(_document(types))).hexdigest().upper()
                }
                for name, types in by_path.items()
            }
        }
    found = by_path.get(path.removeprefix(f"{_PREFIX}/"))
    return _document(found) if found else None
