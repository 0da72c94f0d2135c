"""CEL rules as causes: the errors of a definition when it is written, and the errors found in an object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kinformer.apiserver.status import Causes, cause
from kinformer.testing.cel.rules import FieldError, check_rules
from kinformer.testing.cel.validation import validator_of

__all__ = ["cause_of", "definition_findings", "value_findings"]

Schema = Mapping[str, Any]

_PLAIN = {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value"}
_SHOWN = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
}


def definition_findings(schema: Schema, place: str) -> Causes:
    """Return the errors in the rules of a schema, which is at `place` in its definition."""
    return [cause_of(one, f"{place}{one.path}", one.text.replace("{root}", place)) for one in check_rules(schema)]


def value_findings(schema: Schema, value: Any, old: Any, warnings: list[str] | None) -> Causes:
    """Return the errors that a schema's rules find in an object. Errors that `old` already had become warnings."""
    validator = validator_of(schema)
    if validator is None:
        return []
    wrong, known = validator.validate(value, old)
    for one in known:
        found = cause_of(one, one.path or "<nil>", one.text)
        if warnings is not None:
            warnings.append(f"{found['field']}: {found['message']}")
    return [cause_of(one, one.path or "<nil>", one.text) for one in wrong]


def _as_json(value: Any) -> str:
    document = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if isinstance(value, dict):  # as Go's encoder formats it. A plain string is quoted differently
        for char in "<>&":
            document = document.replace(char, f"\\u{ord(char):04x}")
    return document


def cause_of(one: FieldError, path: str, text: str) -> dict[str, str]:
    """Return a finding as a cause, at a path of the object."""
    if one.reason in _PLAIN:
        return cause(one.reason, f"{_PLAIN[one.reason]}: {text}", path)
    name = _SHOWN[one.reason]
    if one.reason == "FieldValueNotSupported":
        return cause(one.reason, f"{name}: {json.dumps(one.value)}: supported values: {text}", path)
    shown = "" if one.value is None else f": {_as_json(one.value)}"
    detail = "" if one.reason == "FieldValueDuplicate" else f": {text}"
    return cause(one.reason, f"{name}{shown}{detail}", path)
