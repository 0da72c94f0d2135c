"""Compiles and checks the rules of a schema (`x-kubernetes-validations`).

See apiextensions-apiserver, pkg/apis/apiextensions/validation and pkg/apiserver/schema/cel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kinformer.testing.cel.environment import CompileError, InstantiationError, Program, compile_expression
from kinformer.testing.cel.schema import declared, escaped
from kinformer.testing.cel.types import BOOL, STRING, Type, optional_of

__all__ = ["Compiled", "FieldError", "check_rules", "compile_rule", "field_path"]

Schema = Mapping[str, Any]

RULES = "x-kubernetes-validations"
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


class FieldError(NamedTuple):
    """An error at a field (`field.Error` of apimachinery).

    `path` is relative to the schema. `value` is None if the message does not show it.
    """

    reason: str
    path: str
    value: Any
    text: str


class Compiled(NamedTuple):
    """A compiled rule, or the error of its compilation."""

    rule: Mapping[str, Any]
    program: Program | None = None
    error: str = ""
    message: Program | None = None
    message_error: str = ""
    path: str = ""  # the path of the field that it checks

    @property
    def uses_old(self) -> bool:
        """True for a transition rule."""
        return self.program is not None and "oldSelf" in self.program.names


def compile_rule(rule: Mapping[str, Any], schema: Schema, own: Type) -> Compiled:
    """Compile a rule of a schema for values of a type."""
    expression = rule.get("rule") or ""
    if not expression.strip():
        return Compiled(rule)
    variables = {"self": own, "oldSelf": optional_of(own) if rule.get("optionalOldSelf") else own}
    try:
        program = compile_expression(expression, variables)
    except CompileError as error:
        return Compiled(rule, error=f"compilation failed: {error}")
    except InstantiationError as error:
        return Compiled(rule, error=f"program instantiation failed: {error}")
    if program.type.kind != BOOL.kind:
        return Compiled(rule, error="cel expression must evaluate to a bool")
    message, message_error = None, ""
    if rule.get("messageExpression"):
        try:
            message = compile_expression(rule["messageExpression"], variables)
            if message.type.kind != STRING.kind:
                message, message_error = None, "messageExpression must evaluate to a string"
        except CompileError as error:
            message_error = f"messageExpression compilation failed: {error}"
        except InstantiationError as error:
            message_error = f"messageExpression instantiation failed: {error}"
    path = (field_path(schema, rule["fieldPath"]) or "") if rule.get("fieldPath") else ""
    return Compiled(rule, program, "", message, message_error, path)


# -- paths ------------------------------------------------------------------------------------------------------------


def field_path(schema: Schema, text: str) -> str | None:
    """Format a fieldPath as in errors, with map keys in brackets. Returns None for an invalid path."""
    shown = ""
    while text:
        if text.startswith("."):
            end = next((at for at, char in enumerate(text) if at and char in ".["), len(text))
            name, text = text[1:end], text[end:]
        elif text.startswith("['"):
            end = text.find("']")
            if end < 0:
                return None
            name, text = text[2:end].replace("\\'", "'").replace("\\\\", "\\"), text[end + 2 :]
        else:
            return None
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        if properties:
            if name not in properties:
                return None
            schema, shown = properties[name], f"{shown}.{name}" if shown else name
        elif isinstance(additional, Mapping):
            schema, shown = additional, f"{shown}[{name}]"
        else:
            return None
    return shown or None


# -- errors -----------------------------------------------------------------------------------------------------------


def check_rules(schema: Schema) -> list[FieldError]:
    """Return all errors in the rules of a kind's schema."""
    check = _Check()
    check.visit(schema, "", declared(schema, root=True), within="")
    return check.errors


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


class _Check:
    def __init__(self) -> None:
        self.errors: list[FieldError] = []  # what is wrong with the rules visited so far

    def visit(self, schema: Schema, path: str, own: Type | None, *, within: str) -> bool:
        """Check a schema and its children. Returns False if a rule is malformed, so that rules above are not compiled.

        `within` is the list in which `oldSelf` is unknown.
        """
        sound = True
        for name, inner, suffix, below in _children(schema, own):
            where = f"{path}{suffix}"
            inside = path if name == "items" and schema.get("x-kubernetes-list-type") != "map" else ""
            sound = self.visit(inner, where, below, within=within or inside) and sound
        rules = schema.get(RULES) or []
        for index, rule in enumerate(rules):
            wrong = list(_form(schema, rule, f"{path}.{RULES}[{index}]"))
            self.errors += wrong
            sound = sound and not wrong
        if sound and rules:
            if own is None:
                own = declared(schema)
            for index, rule in enumerate(rules):
                if own is not None:
                    self._compile(rule, schema, f"{path}.{RULES}[{index}]", own, within)
        return sound

    def _compile(self, rule: Schema, schema: Schema, at: str, own: Type, within: str) -> None:
        compiled = compile_rule(rule, schema, own)
        if compiled.error:
            self.errors.append(FieldError("FieldValueInvalid", f"{at}.rule", _as_go(rule), compiled.error))
        if compiled.message_error:
            self.errors.append(
                FieldError("FieldValueInvalid", f"{at}.messageExpression", _as_go(rule), compiled.message_error)
            )
        if compiled.uses_old and within:
            message = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {{root}}{within}"
            self.errors.append(FieldError("FieldValueInvalid", f"{at}.rule", rule["rule"], message))
        elif not compiled.uses_old and rule.get("optionalOldSelf") is not None:
            message = "may not be set if oldSelf is not used in rule"
            self.errors.append(
                FieldError("FieldValueInvalid", f"{at}.optionalOldSelf", rule["optionalOldSelf"], message)
            )


def _children(schema: Schema, own: Type | None) -> Iterator[tuple[str, Schema, str, Type | None]]:
    """Yield the child schemas: kind of child, schema, path suffix, and type if known."""
    for name, inner in (schema.get("properties") or {}).items():
        yield "properties", inner, f".properties[{name}]", (own.fields or {}).get(escaped(name)) if own else None
    last = own.params[-1] if own is not None and own.params else None
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            yield name, schema[name], f".{name}", last


def _form(schema: Schema, rule: Schema, at: str) -> Iterator[FieldError]:
    message = rule.get("message") or ""
    trimmed, shown = (rule.get("rule") or "").strip(), message.strip()
    if not trimmed:
        yield FieldError("FieldValueRequired", f"{at}.rule", None, "rule is not specified")
    elif message and not shown:
        yield FieldError("FieldValueInvalid", f"{at}.message", message, "must be non-empty if specified")
    elif _has_breaks(shown):
        yield FieldError("FieldValueInvalid", f"{at}.message", message, "must not contain line breaks")
    elif _has_breaks(trimmed) and not shown:
        yield FieldError(
            "FieldValueRequired", f"{at}.message", None, "message must be specified if rule contains line breaks"
        )
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        yield FieldError(
            "FieldValueRequired", f"{at}.messageExpression", None, "messageExpression must be non-empty if specified"
        )
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield FieldError("FieldValueNotSupported", f"{at}.reason", reason, ", ".join(f'"{name}"' for name in _REASONS))
    path = rule.get("fieldPath") or ""
    if path and not path.strip():
        yield FieldError("FieldValueInvalid", f"{at}.fieldPath", path, "must be non-empty if specified")
    if _has_breaks(path):
        yield FieldError("FieldValueInvalid", f"{at}.fieldPath", path, "must not contain line breaks")
    if path and field_path(schema, path) is None:
        yield FieldError("FieldValueInvalid", f"{at}.fieldPath", path, "must be a valid path")


def _as_go(rule: Schema) -> dict[str, Any]:
    """Return a rule as a real server prints it: as its internal type, which has no JSON tags."""
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
