"""OpenAPI v3 and v2 documents: the served types, and the paths that accept PATCH with their parameters.

Descriptions of built-in kinds are left out except for metadata, so `kubectl explain` shows only fields and types.
Validation is left to the server (fieldValidation).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kinformer.objects.paths.printing import go_json
from kinformer.testing.kinds.builtin_schemas import builtin_node, object_meta_descriptions, recorded
from kinformer.testing.kinds.resources import Registry, ResourceType
from kinformer.testing.kinds.schema import SchemaNode
from kinformer.testing.openapi.v2_schema import schema_for_v2

__all__ = ["openapi_v2", "openapi_v3"]

Object = dict[str, Any]

_PREFIX = "/openapi/v3"
_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
_PACKAGES = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
_SCALARS: Mapping[str, Object] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"type": "string"},
    "intstr": {"type": "string", "format": "int-or-string"},
}
_OBJECT_META = "meta.v1.ObjectMeta"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CONVENTIONS = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_TYPE_META = {
    "apiVersion": (
        "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized"
        f" schemas to the latest internal value, and may reject unrecognized values. {_CONVENTIONS}#resources"
    ),
    "kind": (
        "Kind is a string value representing the REST resource this object represents. Servers may infer this from the"
        f" endpoint the client submits requests to. Cannot be updated. In CamelCase. {_CONVENTIONS}#types-kinds"
    ),
}
_METADATA = f"Standard object's metadata. {_CONVENTIONS}#metadata"


def definition_name(name: str) -> str:
    """Return the full name of a definition: `core.v1.Pod` -> `io.k8s.api.core.v1.Pod`."""
    package, _, rest = name.partition(".")
    return f"{_PACKAGES.get(package, f'io.k8s.api.{package}')}.{rest}"


def _type_name(node: SchemaNode) -> str:
    """Return the recorded name of a struct's type."""
    type_name = _names.get(id(node.fields))
    if type_name is None:
        for name in recorded()["types"]:
            _names.setdefault(id(builtin_node(name).fields), name)
        type_name = _names[id(node.fields)]
    return type_name


_names: dict[int, str] = {}  # types are created once, and live as long as the program


class _Document:
    """A document in the making. `add_type` and `add_kind` put what they add, and all it refers to, into `types`.

    `root` is the prefix of references.
    """

    def __init__(self, root: str, *, v2: bool = False) -> None:
        self._root = root
        self._v2 = v2
        self.types: Object = {}

    def add_type(self, name: str) -> Object:
        """Add a built-in type, and return a reference to it."""
        full = definition_name(name)
        if full not in self.types:
            entry: Object = {"type": "object", "description": ""}
            self.types[full] = entry  # before its fields, which may refer to it
            entry.update(self._struct(builtin_node(name)))
            if name == _OBJECT_META:
                for field, description in object_meta_descriptions().items():
                    entry["properties"][field]["description"] = description
        return {"$ref": f"{self._root}{full}"}

    def _struct(self, node: SchemaNode) -> Object:
        fields = {name: self.field_schema(field) for name, field in node.fields.items()}
        schema: Object = {"properties": fields} if fields else {}
        required = [name for name, field in node.fields.items() if field.required]
        return {**schema, "required": required} if required else schema

    def field_schema(self, node: SchemaNode) -> Object:
        """Return the schema of a field."""
        schema: Object = {"description": ""}
        if node.kind == "struct":
            reference = self.add_type(_type_name(node))
            schema |= reference if self._v2 else {"allOf": [reference]}
        elif node.kind in ("list", "map"):
            inner = self.field_schema(node.item) if node.item is not None else {}
            schema |= {"type": "array", "items": inner} if node.kind == "list" else {"type": "object"}
            if node.kind == "map":
                schema["additionalProperties"] = inner
        else:
            schema |= _SCALARS.get(node.kind, {"type": "object"})
        if node.kind == "list":
            schema["x-kubernetes-list-type"] = node.list_type
        if node.keys:
            schema["x-kubernetes-list-map-keys"] = list(node.keys)
        if node.merge:
            schema["x-kubernetes-patch-strategy"] = "merge"
        if isinstance(node.merge, str):
            schema["x-kubernetes-patch-merge-key"] = node.merge
        if node.enum:
            schema["enum"] = list(node.enum)
        return schema

    def add_kind(self, resource: ResourceType) -> str:
        """Add a served kind, and return the name of its definition."""
        mark = [{"group": resource.group, "version": resource.version, "kind": resource.kind}]
        if resource.builtin:
            name = _type_name(resource.node)
            self.add_type(name)
            full = definition_name(name)
            self.types[full]["x-kubernetes-group-version-kind"] = mark
            return full
        full = ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])
        self.types[full] = {**self._custom_schema(resource), "x-kubernetes-group-version-kind": mark}
        items = {"description": f"List of {resource.plural}.", "type": "array", "items": {"$ref": self._root + full}}
        self.types[full.removesuffix(resource.kind) + resource.list_kind] = {
            "description": f"{resource.list_kind} is a list of {resource.kind}",
            "type": "object",
            "required": ["items"],
            "properties": {**_own_fields(), "items": items},
            "x-kubernetes-group-version-kind": [{**mark[0], "kind": resource.list_kind}],
        }
        return full

    def _custom_schema(self, resource: ResourceType) -> Object:
        """Return the schema of a custom kind with the fields common to all objects (controller/openapi/builder)."""
        schema = dict(resource.schema or _ANYTHING)
        if self._v2:
            if schema.get("x-kubernetes-preserve-unknown-fields"):
                return {"type": "object"}  # kubectl rejects any property missing from a list of properties
            schema = schema_for_v2(schema)
        metadata = self.add_type(_OBJECT_META)
        own = _own_fields()
        # v2 has the bare reference, because kubectl does not follow allOf there.
        own["metadata"] = {"description": _METADATA, **(metadata if self._v2 else {"allOf": [metadata]})}
        schema = self._with_embedded(schema, own)
        return {**schema, "properties": {**own, **(schema.get("properties") or {}), **own}}

    def _with_embedded(self, schema: Mapping[str, Any], own: Object) -> Object:
        """Return a copy in which embedded resources have the common fields."""
        copied = dict(schema)
        if copied.get("properties"):
            copied["properties"] = {
                name: self._with_embedded(inner, own) for name, inner in copied["properties"].items()
            }
        for name in ("items", "additionalProperties"):
            if isinstance(copied.get(name), Mapping):
                copied[name] = self._with_embedded(copied[name], own)
        keeps = self._v2 and copied.get("x-kubernetes-preserve-unknown-fields")
        if copied.get("x-kubernetes-embedded-resource") and not keeps:
            copied["properties"] = {**(copied.get("properties") or {}), **own}
            copied["required"] = list(dict.fromkeys([*(copied.get("required") or ()), "kind", "apiVersion"]))
        return copied


def _own_fields() -> Object:
    return {name: {"type": "string", "description": description} for name, description in _TYPE_META.items()}


def _root_path(resource: ResourceType) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _patch(resource: ResourceType, parameter: Callable[[str], Object]) -> Object:
    return {
        "patch": {
            "description": f"partially update the specified {resource.kind}",
            "parameters": [parameter(name) for name in _PARAMETERS],
            "responses": {"200": {"description": "OK"}, "201": {"description": "Created"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": {
                "group": resource.group,
                "version": resource.version,
                "kind": resource.kind,
            },
        }
    }


def _paths(types: Iterable[ResourceType], parameter: Callable[[str], Object]) -> Object:
    paths: Object = {}
    for resource in types:
        if "patch" in resource.verbs:
            place = "/namespaces/{namespace}" if resource.namespaced else ""
            path = f"/{_root_path(resource)}{place}/{resource.plural}/{{name}}"
            paths[path] = _patch(resource, parameter)
    return paths


_INFO = {"title": "Kubernetes", "version": "v1.36.3"}


def _document(types: list[ResourceType]) -> Object:
    document = _Document("#/components/schemas/")
    for resource in types:
        document.add_kind(resource)
    paths = _paths(types, lambda name: {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}})
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": document.types}}


def openapi_v3(registry: Registry, path: str) -> Object | None:
    """Return the document at a path, or None. `/openapi/v3` lists the documents of the group versions."""
    by_path: dict[str, list[ResourceType]] = {}
    for resource in registry:
        by_path.setdefault(_root_path(resource), []).append(resource)
    if path == _PREFIX:
        return {
            "paths": {
                name: {"serverRelativeURL": f"{_PREFIX}/{name}?hash={_hash(types)}"} for name, types in by_path.items()
            }
        }
    served = by_path.get(path.removeprefix(f"{_PREFIX}/"))
    return _document(served) if served else None


def _hash(types: list[ResourceType]) -> str:
    """Return a hash that changes with the served kinds. The types of built-in kinds never change."""
    parts = [[resource.name, resource.kind, None if resource.builtin else resource.schema] for resource in types]
    return hashlib.sha512(go_json(parts)).hexdigest().upper()


def openapi_v2(registry: Registry) -> Object:
    """Return the Swagger 2.0 document."""
    document = _Document("#/definitions/", v2=True)
    types = list(registry)
    for resource in types:
        document.add_kind(resource)
    paths = _paths(types, lambda name: {"name": name, "in": "query", "type": "string", "uniqueItems": True})
    return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": document.types}
