"""The shape of an object: a `SchemaNode` for each field, from Go's types or from the schema of a CRD.

A node describes how a value is encoded, which lists are keyed like maps, and which values are owned and patched as a
whole. Decoding, field ownership, apply and strategic merge patches use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["ANY", "SchemaNode", "custom_node"]

# The default of a list item's key (`+default` of k8s.io/api).
_KEY_DEFAULTS = {"protocol": "TCP"}


class SchemaNode:
    """The shape of one value.

    `kind` is `struct`, `map`, `list`, `any`, or a scalar: `string`, `bool`, `int32`, `int64`, `float64`, `bytes`,
    `time`, `microtime`, `quantity`, `intstr`. The fields of a struct are created on first use, because types refer to
    themselves.
    """

    __slots__ = (
        "_fields",
        "_make",
        "always",
        "atomic",
        "default",
        "enum",
        "go",
        "item",
        "keys",
        "kind",
        "list_type",
        "merge",
        "number",
        "pointer",
        "required",
        "struct",
    )

    def __init__(
        self,
        kind: str,
        *,
        fields: Mapping[str, SchemaNode] | Callable[[], dict[str, SchemaNode]] | None = None,
        item: SchemaNode | None = None,
        list_type: str = "atomic",
        keys: Sequence[str] = (),
        atomic: bool = False,
        merge: bool | str = False,
        always: bool = False,
        pointer: bool = False,
        required: bool = False,
        enum: Sequence[str] = (),
        default: Any = None,
        go: str = "",
        struct: str = "",
        number: int = 0,
    ) -> None:
        self.kind = kind
        self._fields: Mapping[str, SchemaNode] | None = fields if isinstance(fields, Mapping) else None
        self._make = fields if callable(fields) else None
        self.item = item  # the values of a list or a map
        self.list_type = list_type  # atomic, map or set
        self.keys = tuple(keys)  # fields that identify the items of a list of type map
        self.atomic = atomic  # a map or struct that is owned as a whole
        self.merge = merge  # the merge key of a strategic merge patch, or True for a merged list of scalars
        self.always = always  # Go writes it even if it is empty
        self.pointer = pointer  # absent and empty differ
        self.required = required
        self.enum = tuple(enum)
        self.default = default  # from a custom resource's schema
        self.go = go  # the name of its Go type
        self.number = number  # in protobuf. An inlined field adds 1000 times the number of the message that contains it
        self.struct = struct  # the unqualified name of a struct

    @property
    def fields(self) -> Mapping[str, SchemaNode]:
        """The fields of a struct in Go's order. Empty for other kinds."""
        if self._fields is None:
            self._fields = self._make() if self._make is not None else {}
        return self._fields

    def child(self, name: str) -> SchemaNode:
        """Return the node of a field or of a map's value, or `ANY` if unknown."""
        fields = self._fields
        if fields is None:
            fields = self.fields
        field = fields.get(name)
        if field is not None:
            return field
        return self.item if self.kind == "map" and self.item is not None else ANY

    def keys_of(self, items: Sequence[Any]) -> tuple[str, ...]:
        """Return the fields that identify the items of a list, or `()` for a list that is a single value."""
        keys = self.keys if self.list_type == "map" else ()
        if keys and all(
            isinstance(item, dict) and all(k in item or self._default(k) is not None for k in keys) for item in items
        ):
            return keys
        return ()

    def key_of(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the identity of an item of this list."""
        return tuple(item[key] if key in item else self._default(key) for key in self.keys)

    def _default(self, key: str) -> Any:
        field = self.item.fields.get(key) if self.item is not None else None
        if field is None:
            return _KEY_DEFAULTS.get(key)
        if field.default is None and field.always and key not in _KEY_DEFAULTS:
            return "" if field.kind == "string" else 0  # Go's zero value
        return field.default if field.default is not None else _KEY_DEFAULTS.get(key)


ANY = SchemaNode("any")


_CUSTOM_SCALARS = {"string": "string", "boolean": "bool", "integer": "int64", "number": "float64"}


def custom_node(schema: Mapping[str, Any], metadata: SchemaNode, *, root: bool = False) -> SchemaNode:
    """Return the node that an `openAPIV3Schema` describes.

    `metadata` is the node of metadata, which embedded resources and the root of a kind have.
    """
    default = schema.get("default")
    if schema.get("type") == "array":
        items = schema.get("items")
        return SchemaNode(
            "list",
            item=custom_node(items, metadata) if isinstance(items, Mapping) else ANY,
            list_type=schema.get("x-kubernetes-list-type") or "atomic",
            keys=schema.get("x-kubernetes-list-map-keys") or (),
        )
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    fields = {name: custom_node(inner, metadata) for name, inner in (schema.get("properties") or {}).items()}
    if schema.get("x-kubernetes-embedded-resource"):
        fields.update(apiVersion=SchemaNode("string"), kind=SchemaNode("string"))
    if root or schema.get("x-kubernetes-embedded-resource"):
        fields["metadata"] = metadata
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping) and not fields:
        return SchemaNode("map", item=custom_node(additional, metadata), atomic=atomic)
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string"):
        return SchemaNode("any", fields=fields, atomic=atomic, default=default)
    scalar = _CUSTOM_SCALARS.get(schema.get("type", ""))
    if scalar is not None:
        return SchemaNode(scalar, default=default)
    return SchemaNode("struct" if fields else "any", fields=fields, atomic=atomic, default=default)
