"""Defaults, pruning and validation of custom resources by their schema (apiextensions-apiserver/pkg/apiserver).

The messages are from kube-openapi's validator. `expression_rules` evaluates CEL rules.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, Final

from kinformer.apiserver.status import Causes, cause
from kinformer.testing.cel.library.formats import has_format, is_known_format
from kinformer.testing.cel.library.re2 import PatternError, compiled_pattern
from kinformer.testing.rules.builtin.pod_rules import duplicate, required, unsupported
from kinformer.testing.rules.embedded_rules import EMBEDDED, META_FIELDS, embedded_causes
from kinformer.testing.rules.metadata_rules import invalid_value

__all__ = ["ABSENT", "blocks_rules", "fill_defaults", "has_rules", "prune", "prune_nulls", "schema_causes"]

Object = dict[str, Any]
Schema = Mapping[str, Any]

ABSENT: Final = object()  # stands for an old value that is not there, unlike None, which is null
_KEEP = "x-kubernetes-preserve-unknown-fields"
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)
# Reasons of errors after which the rules of an object are not evaluated.
_BLOCKING = {
    "FieldValueRequired",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
}
_SAFE = (1 << 53) - 1  # a whole float counts as an integer up to here (swag, `IsFloat64AJSONInteger`)
_LARGEST_FLOAT = (2 - 2**-24) * 2.0**127  # every float32 is smaller


# -- pruning ----------------------------------------------------------------------------------------------------------


def prune(schema: Schema, obj: Object) -> list[str]:
    """Remove unknown fields, in place, and return their paths in order."""
    unknown: list[str] = []
    _prune(obj, {**schema, EMBEDDED: True}, "", unknown)
    return sorted(unknown)


def _prune(value: Any, schema: Schema, path: str, unknown: list[str], *, keeps: bool = False) -> None:
    """Prune a value. With `keeps`, its unknown fields stay, and only the values of known fields are pruned."""
    keeps = keeps or bool(schema.get(_KEEP))
    if isinstance(value, list):
        items = schema.get("items")
        for index, item in enumerate(value):
            # The items of a list that keeps unknown fields keep them too.
            _prune(item, items if isinstance(items, Mapping) else {}, f"{path}[{index}]", unknown, keeps=keeps)
        return
    if not isinstance(value, dict):
        return
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    embedded = schema.get(EMBEDDED)
    for name in list(value):
        below = f"{path}.{name}" if path else name
        if embedded and name in META_FIELDS:
            continue
        if name in properties:
            _prune(value[name], properties[name], below, unknown)
        elif isinstance(additional, Mapping):
            _prune(value[name], additional, below, unknown)
        elif additional is not None:  # `true` allows any value, but no fields of it
            _prune(value[name], {}, below, unknown)
        elif not keeps:
            unknown.append(below)
            del value[name]


# -- defaults ---------------------------------------------------------------------------------------------------------


def prune_nulls(schema: Schema | None, value: Any) -> None:
    """Remove, in place, the nulls of fields that are neither nullable nor have a default."""
    if isinstance(value, dict):
        properties = (schema or {}).get("properties") or {}
        additional = (schema or {}).get("additionalProperties")
        for name in list(value):
            inner = properties.get(name) or (additional if isinstance(additional, Mapping) else None)
            if value[name] is None and inner is not None and _is_wrong_null(None, inner):
                if inner.get("default") is None:
                    del value[name]
            else:
                prune_nulls(inner, value[name])
    elif isinstance(value, list):
        items = (schema or {}).get("items")
        for item in value:
            prune_nulls(items if isinstance(items, Mapping) else None, item)


def fill_defaults(schema: Schema, value: Any) -> None:
    """Fill in defaults, in place, for missing fields and for nulls that are not allowed."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name, inner in properties.items():
            default = inner.get("default")
            if default is not None and (name not in value or _is_wrong_null(value[name], inner)):
                value[name] = copy.deepcopy(default)
        additional = schema.get("additionalProperties")
        for name, inner_value in value.items():
            if name in properties:
                fill_defaults(properties[name], inner_value)
            elif isinstance(additional, Mapping):
                if _is_wrong_null(inner_value, additional):
                    value[name] = inner_value = copy.deepcopy(additional.get("default"))
                fill_defaults(additional, inner_value)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        items = schema["items"]
        for index, item in enumerate(value):
            if _is_wrong_null(item, items):
                value[index] = item = copy.deepcopy(items.get("default"))
            fill_defaults(items, item)


def _is_wrong_null(value: Any, schema: Schema) -> bool:
    return value is None and not schema.get("nullable")


# -- validation -------------------------------------------------------------------------------------------------------


def has_rules(schema: Schema) -> bool:
    """Return True if a schema has a CEL rule."""
    if schema.get("x-kubernetes-validations"):
        return True
    below = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(has_rules(inner) for inner in below if isinstance(inner, Mapping))


def schema_causes(schema: Schema, value: Any, path: str, *, old: Any = ABSENT, rules: bool = True) -> Causes:
    """Return all errors of a value at a path. With `rules`, another one reports that its CEL rules were not checked.

    An invalid part that is unchanged from `old` is accepted (ratcheting, apiserver/validation/ratcheting.go).
    """
    causes: Causes = []
    _validate(schema, value, path, causes, old)
    causes += embedded_causes(schema, value, path)
    duplicates: Causes = []
    if old is not ABSENT:
        _check_lists(schema, old, path, duplicates)
    if not duplicates:
        _check_lists(schema, value, path, causes)
    if rules and blocks_rules(causes) and has_rules(schema):
        causes.append(cause("FieldValueInvalid", f"Invalid value: null: {_UNCHECKED}", "<nil>"))
    return causes


def blocks_rules(causes: Causes) -> bool:
    """Return True if CEL rules are not evaluated on an object with these errors."""
    return any(error["reason"] in _BLOCKING for error in causes)


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return "integer"
    if isinstance(value, (int, float)):  # for Go, a larger integer is a float
        return "integer" if abs(value) <= _SAFE and value == int(value) else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _type_error(path: str, expected: str, shown: Any) -> dict[str, str]:
    message = f"Invalid value: {json.dumps(shown)}: {path} in body must be of type {expected}: {json.dumps(shown)}"
    return cause("FieldValueTypeInvalid", message, path)


def _validate(schema: Schema, value: Any, path: str, causes: Causes, old: Any = ABSENT) -> None:
    errors: Causes = []
    _validate_value(schema, value, path, errors, old)
    if errors and (old is ABSENT or old != value):
        causes += errors


def _validate_value(schema: Schema, value: Any, path: str, causes: Causes, old: Any) -> None:
    kind, expected = _kind_of(value), schema.get("type")
    if value is None and schema.get("nullable"):
        return
    if schema.get("x-kubernetes-int-or-string"):
        if kind not in ("integer", "string"):
            causes.append(_type_error(path, "integer,string", kind))
            return
    elif expected and kind != expected and not (expected == "number" and kind == "integer"):
        if expected == "integer" and kind == "number" and isinstance(value, (int, float)):
            name = schema.get("format") if is_known_format(schema) else None
            causes.append(_type_error(path, name or expected, "float64" if name else kind))
            _check_range(schema, value, path, causes)
        else:
            causes.append(_type_error(path, expected, kind))
        return
    if schema.get("enum") and value not in schema["enum"]:
        causes.append(unsupported(path, value, tuple(schema["enum"])))
    if isinstance(value, str):
        _validate_string(schema, value, path, causes)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _validate_number(schema, value, path, causes)
    elif isinstance(value, list):
        _validate_list(schema, value, path, causes, old)
    elif isinstance(value, dict):
        _validate_object(schema, value, path, causes, old)
    _validate_combined(schema, value, path, causes, old)


def _matches(pattern: str, value: str) -> bool:
    try:
        return compiled_pattern(pattern).search(value) is not None
    except PatternError:
        return False  # a real server takes a definition with such a pattern, which no value matches


def _validate_string(schema: Schema, value: str, path: str, causes: Causes) -> None:
    most, least = schema.get("maxLength"), schema.get("minLength")
    if most is not None and len(value) > most:
        causes.append(
            cause("FieldValueTooLong", f"Too long: may not be more than {most} byte{'' if most == 1 else 's'}", path)
        )
    if least is not None and len(value) < least:
        causes.append(invalid_value(path, value, f"{path} in body should be at least {least} chars long"))
        return
    pattern = schema.get("pattern")
    if pattern and not _matches(pattern, value):
        causes.append(invalid_value(path, value, f"{path} in body should match '{pattern}'"))
    if not has_format(schema, value):
        causes.append(_type_error(path, schema["format"], value))


def _check_range(schema: Schema, value: float, path: str, causes: Causes) -> None:
    """Check that a number fits into the type and format of its schema."""
    kind, name = schema.get("type"), (schema.get("format") if is_known_format(schema) else "") or ""
    bound = 1 << (31 if name == "int32" else 63)
    if kind == "integer":
        fits = -bound <= value < bound and value == int(value)
    else:
        fits = kind != "number" or name != "float" or abs(value) < _LARGEST_FLOAT
    if not fits:
        shown = f"with format {name}" if name else "(default format)"
        message = f'Invalid value: "": Checked value must be of type {kind} {shown} in {path}'
        causes.append(cause("FieldValueInvalid", message, "<nil>"))


def _validate_number(schema: Schema, value: float, path: str, causes: Causes) -> None:
    _check_range(schema, value, path, causes)
    # Go shows a whole float without a fraction.
    value = int(value) if abs(value) <= _SAFE and value == int(value) else value
    step, most, least = schema.get("multipleOf"), schema.get("maximum"), schema.get("minimum")
    if step is not None and not float(value / step).is_integer():
        causes.append(invalid_value(path, value, f"{path} in body should be a multiple of {step:g}"))
    if most is not None:
        if schema.get("exclusiveMaximum") and value >= most:
            causes.append(invalid_value(path, value, f"{path} in body should be less than {most:g}"))
        elif value > most:
            causes.append(invalid_value(path, value, f"{path} in body should be less than or equal to {most:g}"))
    if least is not None:
        if schema.get("exclusiveMinimum") and value <= least:
            causes.append(invalid_value(path, value, f"{path} in body should be greater than {least:g}"))
        elif value < least:
            causes.append(invalid_value(path, value, f"{path} in body should be greater than or equal to {least:g}"))


def _too_many(path: str, count: int, most: int) -> dict[str, str]:
    items = "item" if most == 1 else "items"
    return cause("FieldValueTooMany", f"Too many: {count}: must have at most {most} {items}", path)


def _validate_list(schema: Schema, value: list[Any], path: str, causes: Causes, old: Any) -> None:
    most, least, items = schema.get("maxItems"), schema.get("minItems"), schema.get("items")
    if isinstance(items, Mapping):
        for index, item in enumerate(value):
            _validate(items, item, f"{path}[{index}]", causes, _old_item(schema, item, old))
    if least is not None and len(value) < least:
        causes.append(invalid_value(path, len(value), f"{path} in body should have at least {least} items"))
    if most is not None and len(value) > most:
        causes.append(_too_many(path, len(value), most))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _old_item(schema: Schema, item: Any, old: Any) -> Any:
    """Return the corresponding old item. Only the items of a keyed list can be identified."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list) or not isinstance(item, dict):
        return ABSENT
    identity = [item.get(key) for key in keys]
    candidates = (entry for entry in old if isinstance(entry, dict))
    return next((entry for entry in candidates if [entry.get(key) for key in keys] == identity), ABSENT)


def _old_field(name: str, old: Any) -> Any:
    return old.get(name, ABSENT) if isinstance(old, dict) else ABSENT


def _validate_object(schema: Schema, value: Object, path: str, causes: Causes, old: Any) -> None:
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and len(value) > most:
        causes.append(_too_many(path, len(value), most))
    if least is not None and len(value) < least:
        causes.append(invalid_value(path, len(value), f"{path} in body should have at least {least} properties"))
    properties = schema.get("properties") or {}
    for name in sorted(properties.keys() & value.keys()):
        if not (path == "" and name == "metadata"):
            _validate(properties[name], value[name], _below(path, name), causes, _old_field(name, old))
    causes += [required(_below(path, name)) for name in schema.get("required") or () if name not in value]
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        for name in sorted(value.keys() - properties.keys()):
            _validate(additional, value[name], _below(path, name), causes, _old_field(name, old))


def _validate_combined(schema: Schema, value: Any, path: str, causes: Causes, old: Any) -> None:
    parts, wrong = schema.get("allOf") or (), 0
    for part in parts:
        below: Causes = []
        _validate_value(part, value, path, below, old)
        causes += below
        wrong += bool(below)
    if wrong:
        message = f"must validate all the schemas (allOf){'. None validated' if wrong == len(parts) else ''}"
        causes.append(cause("FieldValueInvalid", f'Invalid value: "": "{path}" {message}', "<nil>"))
    for name, message in (("anyOf", "must validate at least one schema (anyOf)"), ("oneOf", "")):
        if not schema.get(name):
            continue
        alternatives: list[Causes] = []
        for part in schema[name]:
            below = []
            _validate_value(part, value, path, below, old)
            alternatives.append(below)
        valid = sum(1 for below in alternatives if not below)
        if name == "oneOf" and valid != 1:
            count = "Found none valid" if not valid else f"Found {valid} valid alternatives"
            message = f"must validate one and only one schema (oneOf). {count}"
        if valid == 0 or (name == "oneOf" and valid != 1):
            causes.append(cause("FieldValueInvalid", f'Invalid value: "": "{path}" {message}', "<nil>"))
            if not valid:
                causes += next(below for below in alternatives if len(below) == min(map(len, alternatives)))
    if schema.get("not"):
        below = []
        _validate_value(schema["not"], value, path, below, old)
        if not below:
            causes.append(
                cause("FieldValueInvalid", f'Invalid value: "": "{path}" must not validate the schema (not)', "<nil>")
            )


def _check_lists(schema: Schema, value: Any, path: str, causes: Causes) -> None:
    """Check that lists of type set or map have no duplicate items."""
    if isinstance(value, dict):
        for name, inner in (schema.get("properties") or {}).items():
            if name in value:
                _check_lists(inner, value[name], _below(path, name), causes)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
        seen: list[Any] = []
        for index, item in enumerate(value):
            _check_lists(schema["items"], item, f"{path}[{index}]", causes)
            if kind == "map" and isinstance(item, dict):
                item = {key: item[key] for key in keys if key in item}
            if kind in ("set", "map"):
                if item in seen:
                    causes.append(_duplicate(f"{path}[{index}]", item))
                seen.append(item)


def _duplicate(path: str, item: Any) -> dict[str, str]:
    error = duplicate(path, item)
    shown = json.dumps(item, separators=(",", ":"), sort_keys=True)
    return {**error, "message": f"Duplicate value: {shown}"}
