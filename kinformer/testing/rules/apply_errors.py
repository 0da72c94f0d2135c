"""The errors of structured-merge-diff for an apply configuration that does not match its type (typed/validate.go)."""

from __future__ import annotations

import json
from typing import Any

from kinformer.testing.kinds.schema import ANY, SchemaNode

__all__ = ["apply_errors"]

Object = dict[str, Any]

_NUMBERS = ("int32", "int64", "float64")
_STRINGS = ("string", "bytes", "time", "microtime")


def apply_errors(node: SchemaNode, obj: Object) -> str:
    """Return the message with all errors, or "" for a valid configuration."""
    errors: list[str] = []
    _check(node, {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}, "", errors)
    if len(errors) < 2:
        return "".join(errors)
    return "errors:" + "".join(f"\n  {error}" for error in errors)


def _shown(value: Any) -> str:
    """Format a value as Go's %v does."""
    if isinstance(value, list):
        return "[" + " ".join(_shown(item) for item in value) + "]"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{_shown(inner)}" for name, inner in sorted(value.items())) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (list, dict)):
        return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"
    return "float64" if isinstance(value, float) else "int64"


def _check(node: SchemaNode, value: Any, path: str, errors: list[str]) -> None:
    if value is None:
        return
    kind = node.kind
    if kind in ("struct", "map"):
        if not isinstance(value, dict):
            errors.append(f"{path}: expected map, got &{{{_shown(value)}}}")
            return
        undeclared = False
        for name in sorted(value):
            if kind == "struct" and name not in node.fields:
                if not undeclared:  # only the first is reported
                    errors.append(f"{path}.{name}: field not declared in schema")
                undeclared = True
            else:
                _check(node.child(name), value[name], f"{path}.{name}", errors)
    elif kind == "list":
        _check_list(node, value, path, errors)
    elif kind in _NUMBERS and (isinstance(value, bool) or not isinstance(value, (int, float))):
        errors.append(f"{path}: expected numeric (int or float), got {_go_type(value)}")
    elif kind in _STRINGS and not isinstance(value, str):
        shown = json.dumps(value)
        errors.append(f"{path}: expected string, got &value.valueUnstructured{{Value:{shown}}}")
    elif kind == "bool" and not isinstance(value, bool):
        errors.append(f"{path}: expected boolean, got &{{{_shown(value)}}}")


def _check_list(node: SchemaNode, value: Any, path: str, errors: list[str]) -> None:
    if not isinstance(value, list):
        errors.append(f"{path}: expected list, got &{{{_shown(value)}}}")
        return
    item_node, keyed = node.item or ANY, bool(node.keys_of(value))
    seen: list[str] = []
    for index, item in enumerate(value):
        element = f"[{index}]"
        if node.list_type == "map" and isinstance(item, dict):
            if not keyed and not node.keys_of([item]):
                keys = [f'"{key}"' for key in node.keys if key not in item]
                message = f"associative list with keys has an element that omits key field {' '.join(keys)}"
                errors.append(f"{path}: element {index}: {message}")
                continue
            pairs = zip(node.keys, node.key_of(item), strict=True)
            element = "[" + ",".join(f"{name}={json.dumps(key_value)}" for name, key_value in sorted(pairs)) + "]"
        elif node.list_type == "set":
            element = f"[={json.dumps(item)}]"
        if node.list_type != "atomic":
            if element in seen:
                errors.append(f"{path}: duplicate entries for key {element}")
                continue
            seen.append(element)
        _check(item_node, item, f"{path}{element}", errors)
