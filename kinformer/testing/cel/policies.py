"""Compiles admission policies, with the variables of their expressions (apiserver, plugin/cel/compile.go)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn

from kinformer.testing.cel.environment import (
    CompileError,
    InstantiationError,
    Program,
    compile_expression,
    functions,
)
from kinformer.testing.cel.functions import Library
from kinformer.testing.cel.rules import FieldError
from kinformer.testing.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of, object_type
from kinformer.testing.cel.values import CELError

__all__ = ["Policy", "compile_policy"]

Object = Mapping[str, Any]

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_TEXTS, _LABELS = list_of(STRING), map_of(STRING, STRING)


def _texts(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, STRING)


_KIND = object_type("kubernetes.GroupVersionKind", _texts("group", "version", "kind"))
_RESOURCE = object_type("kubernetes.GroupVersionResource", _texts("group", "version", "resource"))
_USER = object_type(
    "kubernetes.UserInfo", {**_texts("username", "uid"), "groups": _TEXTS, "extra": map_of(STRING, _TEXTS)}
)
_REQUEST = object_type(
    "kubernetes.AdmissionRequest",
    {
        **_texts("subResource", "requestSubResource", "name", "namespace", "operation"),
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)
_CONDITION = object_type(
    "kubernetes.NamespaceCondition", {**_texts("status", "type", "message", "reason"), "lastTransitionTime": TIMESTAMP}
)
_NAMESPACE = object_type(
    "kubernetes.Namespace",
    {
        "metadata": object_type(
            "kubernetes.NamespaceMetadata",
            {
                **_texts("name", "generateName", "namespace", "UID", "resourceVersion"),
                "labels": _LABELS,
                "annotations": _LABELS,
                "creationTimestamp": TIMESTAMP,
                "deletionTimestamp": TIMESTAMP,
                "deletionGracePeriodSeconds": INT,
                "generation": INT,
                "finalizers": _TEXTS,
            },
        ),
        "spec": object_type("kubernetes.NamespaceSpec", {"finalizers": _TEXTS}),
        "status": object_type("kubernetes.NamespaceStatus", {"conditions": list_of(_CONDITION), "phase": STRING}),
    },
)


@dataclass(slots=True)
class Policy:
    """A compiled policy. `compile_policy` fills its lists, of which `errors` has what cannot be compiled."""

    conditions: list[tuple[str, Program]] = field(default_factory=list)
    variables: list[tuple[str, Program]] = field(default_factory=list)
    validations: list[tuple[Object, Program, Program | None]] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)


@cache
def _library() -> Library:
    """Return the functions including the authorizer's, which have types but no implementation."""
    library = Library(functions())
    names = ("path", "group", "resource", "subresource", "namespace", "name", "check", "fieldSelector", "labelSelector")
    for name in names:
        library.add(name, "dyn.(string) -> dyn", run=_unanswered)
    library.add("serviceAccount", "dyn.(string, string) -> dyn", run=_unanswered)
    library.add("check", "dyn.(string) -> dyn", run=_unanswered)
    for name in ("allowed", "errored"):
        library.add(name, "dyn.() -> bool", run=_unanswered)
    for name in ("reason", "error"):
        library.add(name, "dyn.() -> string", run=_unanswered)
    return library


def _unanswered(*_: Any) -> NoReturn:
    raise CELError("the embedded server has no authorizer for expressions")


class _Compiler:
    def __init__(self, *, params: bool) -> None:
        self.policy = Policy()
        self._variables: dict[str, Type] = {"object": DYN, "oldObject": DYN, "namespaceObject": _NAMESPACE}
        self._variables["request"] = _REQUEST
        if params:
            self._variables["params"] = DYN
        self._fields: dict[str, Type] = {}  # the variables so far, which the expressions after them may use

    def program(self, text: str, at: str, expected: Type | None, *, authorizer: bool = True) -> Program | None:
        """Compile an expression. Returns None if it is invalid, and records the error."""
        variables = {**self._variables, "authorizer": DYN} if authorizer else dict(self._variables)
        if self._fields:
            variables["variables"] = object_type("kubernetes.variables", self._fields)
        try:
            program = compile_expression(text, variables, _library())
        except CompileError as error:
            self.note(at, text, f"compilation failed: {error}")
        except InstantiationError as error:
            self.note(at, text, f"program instantiation failed: {error}")
        else:
            if expected is None or program.type.same(expected):
                return program
            self.note(at, text, f"must evaluate to {expected} but got {program.type}")
        return None

    def note(self, at: str, value: Any, text: str, reason: str = "FieldValueInvalid") -> None:
        self.policy.errors.append(FieldError(reason, at, value, text))

    def condition(self, condition: Object, at: str) -> None:
        expression = (condition.get("expression") or "").strip()
        if not expression:
            self.note(f"{at}.expression", None, "", "FieldValueRequired")
            return
        program = self.program(expression, f"{at}.expression", BOOL)
        if program is not None:
            self.policy.conditions.append((condition.get("name", ""), program))

    def variable(self, variable: Object, at: str) -> None:
        name, expression = variable.get("name") or "", variable.get("expression") or ""
        if not name.strip():
            self.note(f"{at}.name", None, "name is not specified", "FieldValueRequired")
        elif not (name.isidentifier() and name.isascii()):
            self.note(f"{at}.name", name, "must be a valid CEL identifier")
        if not expression.strip():
            self.note(f"{at}.expression", None, "expression is not specified", "FieldValueRequired")
            return
        program = self.program(expression, f"{at}.expression", None)
        self._fields[name] = DYN if program is None else program.type
        if program is not None:
            self.policy.variables.append((name, program))

    def validation(self, validation: Object, at: str) -> None:
        expression, message = validation.get("expression") or "", validation.get("message")
        message_expression = validation.get("messageExpression") or ""
        program = shown = None
        if not expression.strip():
            self.note(f"{at}.expression", None, "expression is not specified", "FieldValueRequired")
        else:
            program = self.program(expression, f"{at}.expression", BOOL)
        if message_expression and not message_expression.strip():
            self.note(f"{at}.messageExpression", message_expression, "must be non-empty if specified")
        elif message_expression:
            shown = self.program(message_expression, f"{at}.messageExpression", STRING, authorizer=False)
        if message and not message.strip():
            self.note(f"{at}.message", message, "must be non-empty if specified")
        elif message and ("\n" in message.strip() or "\r" in message.strip()):
            self.note(f"{at}.message", message, "must not contain line breaks")
        reason = validation.get("reason")
        if reason is not None and reason not in _REASONS:
            self.note(f"{at}.reason", reason, ", ".join(f'"{name}"' for name in _REASONS), "FieldValueNotSupported")
        if program is not None:
            self.policy.validations.append((validation, program, shown))

    def annotation(self, annotation: Object, at: str) -> None:
        expression = (annotation.get("valueExpression") or "").strip()
        if not expression:
            self.note(f"{at}.valueExpression", None, "valueExpression is not specified", "FieldValueRequired")
        else:
            self.program(expression, f"{at}.valueExpression", None)


def compile_policy(spec: Object) -> Policy:
    """Compile the spec of a ValidatingAdmissionPolicy."""
    compiler = _Compiler(params=spec.get("paramKind") is not None)
    for index, condition in enumerate(spec.get("matchConditions") or []):
        compiler.condition(condition, f"spec.matchConditions[{index}]")
    for index, variable in enumerate(spec.get("variables") or []):
        compiler.variable(variable, f"spec.variables[{index}]")
    for index, validation in enumerate(spec.get("validations") or []):
        compiler.validation(validation, f"spec.validations[{index}]")
    for index, annotation in enumerate(spec.get("auditAnnotations") or []):
        compiler.annotation(annotation, f"spec.auditAnnotations[{index}]")
    return compiler.policy
