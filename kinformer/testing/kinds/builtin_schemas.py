"""The types of the built-in kinds of a kube-apiserver v1.36, recorded in `builtins.json`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from kinformer.testing.kinds.schema import SchemaNode

__all__ = ["builtin_node", "object_meta", "object_meta_descriptions", "recorded", "type_of"]


@cache
def recorded() -> dict[str, Any]:
    """Return the recording: the resources as in discovery, and the types."""
    document: dict[str, Any] = msgspec.json.decode(
        files("kinformer.testing.kinds").joinpath("builtins.json").read_bytes()
    )
    return document


# Kinds that are not resources, in any version.
_EXTRA = {
    "Binding": "core.v1.Binding",
    "Scale": "autoscaling.v1.Scale",
    "Eviction": "policy.v1.Eviction",
    "TokenRequest": "authentication.v1.TokenRequest",
    "DeleteOptions": "meta.v1.DeleteOptions",
}


@cache
def builtin_node(name: str) -> SchemaNode:
    """Return the node of a type such as `core.v1.Pod`. Raises KeyError if no built-in kind uses it."""
    recorded()["types"][name]  # raises the KeyError, because the fields of a node are read later
    return _node(f"@{name}", f"v1.{name.rpartition('.')[2]}", {})


@cache
def type_of(api_version: str, kind: str) -> str:
    """Return the type of a built-in kind, or "" for another kind."""
    for row in recorded()["resources"]:
        own = f"{row['group']}/{row['version']}" if row["group"] else row["version"]
        if (own, row["kind"]) == (api_version, kind):
            return str(row["type"])
    return _EXTRA.get(kind, "")


@cache
def object_meta_descriptions() -> dict[str, str]:
    """Return Kubernetes' description of each field of metadata (recorded in `object_meta.json`)."""
    texts: dict[str, str] = msgspec.json.decode(
        files("kinformer.testing.kinds").joinpath("object_meta.json").read_bytes()
    )
    return texts


def object_meta() -> SchemaNode:
    """Return the node of metadata, which custom resources also have."""
    return builtin_node("meta.v1.ObjectMeta")


@cache
def _fields(name: str) -> dict[str, SchemaNode]:
    # One dict for each type, because types refer to themselves and to each other.
    listed = recorded()["types"][name]["fields"]
    return {field: _node(kind, go, flags[0] if flags else {}) for field, kind, go, *flags in listed}


def _node(kind: str, go: str, flags: dict[str, Any]) -> SchemaNode:
    common: dict[str, Any] = {
        "always": flags.get("always", False),
        "pointer": flags.get("pointer", False),
        "required": flags.get("required", False),
        "enum": flags.get("enum", ()),
        "merge": flags.get("merge", False),
        "number": flags.get("number", 0),
        "go": go,
    }
    if kind.startswith("@"):
        name = kind[1:]
        atomic = flags.get("atomic") or recorded()["types"][name].get("atomic", False)
        struct = name.rpartition(".")[2]
        return SchemaNode("struct", fields=lambda: _fields(name), atomic=atomic, struct=struct, **common)
    if kind.startswith("[]"):
        list_type = "map" if "map" in flags else "set" if "set" in flags else "atomic"
        item = _node(kind[2:], go.removeprefix("[]"), {})
        return SchemaNode("list", item=item, list_type=list_type, keys=flags.get("map", ()), **common)
    if kind.startswith("{}"):
        item = _node(kind[2:], go.rpartition("]")[2], {})
        return SchemaNode("map", item=item, atomic=flags.get("atomic", False), **common)
    return SchemaNode(kind, atomic=kind == "any", **common)
