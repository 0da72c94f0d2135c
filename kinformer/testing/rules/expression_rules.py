"""CEL rules as causes: the errors of a definition when it is written, and the errors found in an object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kinformer.apiserver.status import Causes, cause
from kinformer.testing.cel.rules import FieldError, check_rules
from kinformer.testing.cel.validation import validator_of

__all__ = ["cause_of", "schema_rule_causes", "value_rule_causes"]

Schema = Mapping[str, Any]

# Beginnings of messages that do not show the value, and of those that do, by reason.
_PLAIN = {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value"}
_SHOWN = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
}


def schema_rule_causes(schema: Schema, place: str) -> Causes:
    """Return the errors in the rules of a schema, which is at `place` in its definition."""
    return [
        cause_of(error, f"{place}{error.path}", error.text.replace("{root}", place)) for error in check_rules(schema)
    ]


def value_rule_causes(schema: Schema, value: Any, old: Any, warnings: list[str] | None) -> Causes:
    """Return the errors that a schema's rules find in an object. Errors that `old` already had become warnings."""
    validator = validator_of(schema)
    if validator is None:
        return []
    wrong, accepted = validator.validate(value, old)
    for error in accepted:
        warned = cause_of(error, error.path or "<nil>", error.text)
        if warnings is not None:
            warnings.append(f"{warned['field']}: {warned['message']}")
    return [cause_of(error, error.path or "<nil>", error.text) for error in wrong]


def _as_json(value: Any) -> str:
    document = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if isinstance(value, dict):  # as Go's encoder formats it. A plain string is quoted differently
        for char in "<>&":
            document = document.replace(char, f"\\u{ord(char):04x}")
    return document


def cause_of(error: FieldError, path: str, text: str) -> dict[str, str]:
    """Return an error as a cause, at a path of the object."""
    if error.reason in _PLAIN:
        return cause(error.reason, f"{_PLAIN[error.reason]}: {text}", path)
    name = _SHOWN[error.reason]
    if error.reason == "FieldValueNotSupported":
        return cause(error.reason, f"{name}: {json.dumps(error.value)}: supported values: {text}", path)
    shown = "" if error.value is None else f": {_as_json(error.value)}"
    detail = "" if error.reason == "FieldValueDuplicate" else f": {text}"
    return cause(error.reason, f"{name}{shown}{detail}", path)
