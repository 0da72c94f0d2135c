"""Evaluates the rules of a schema on an object and its previous state."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kinformer.testing.cel.environment import CALL_LIMIT, Program
from kinformer.testing.cel.rules import RULES, Compiled, FieldError, compile_rule
from kinformer.testing.cel.schema import declared, escaped, value_of
from kinformer.testing.cel.types import Type
from kinformer.testing.cel.values import CELError, CostExceeded, OptionalValue

__all__ = ["Validator", "validator_of"]

Schema = Mapping[str, Any]

_BUDGET = 10_000_000  # of all evaluations for one object (apiserver/pkg/apis/cel/config.go)
_MESSAGE_BYTES = 5 * 1024
_KEPT = 512  # schemas whose compiled rules are cached
_MISSING = object()
# By the id of the schema. The entry refers to the schema, so that no other schema can get the id.
_validators: OrderedDict[int, tuple[Schema, Validator | None]] = OrderedDict()


class _Spent(Exception):
    """The cost budget is used up, so no further rule is evaluated."""


class Validator:
    """The compiled rules of a schema and its children."""

    def __init__(self, schema: Schema, own: Type | None, *, root: bool) -> None:
        self._schema = schema
        self._root = root
        own = own or declared(schema, root=root)
        self._rules = [compile_rule(rule, schema, own) for rule in schema.get(RULES) or [] if own is not None]
        self._properties = _below(schema.get("properties") or {}, own)
        last = own.params[-1] if own is not None and own.params else None
        self._items = _validator(schema.get("items"), last)
        self._additional = _validator(schema.get("additionalProperties"), last)
        parts = [_validator(part, own) for part in schema.get("allOf") or []]
        self._all = [validator for validator in parts if validator is not None]

    @property
    def is_empty(self) -> bool:
        """True if there is no rule."""
        return not (self._rules or self._properties or self._items or self._additional or self._all)

    def validate(self, value: Any, old: Any = None) -> tuple[list[FieldError], list[FieldError]]:
        """Return the errors of a value, and separately those that `old` already had, which are accepted."""
        run = _Run()
        with suppress(_Spent):
            self._visit(run, value, _MISSING if old is None else old, "", unchanged=old is not None and value == old)
        return run.wrong, run.accepted

    def _visit(self, run: _Run, value: Any, old: Any, path: str, *, unchanged: bool) -> None:
        if value is None:
            return
        if self._rules:
            self._evaluate(run, value, None if old is _MISSING else old, path, unchanged=unchanged)
        for validator in self._all:
            validator._visit(run, value, old, path, unchanged=unchanged)
        if isinstance(value, list):
            self._visit_list(run, value, old, path, unchanged=unchanged)
        elif isinstance(value, dict):
            self._visit_object(run, value, old if isinstance(old, dict) else {}, path, unchanged=unchanged)

    def _visit_object(self, run: _Run, value: Schema, old: Schema, path: str, *, unchanged: bool) -> None:
        for name in sorted(value):
            before = old.get(name, _MISSING)
            same = unchanged or (before is not _MISSING and before == value[name])
            inner = self._properties.get(name)
            if inner is not None:
                inner._visit(run, value[name], before, f"{path}.{name}" if path else name, unchanged=same)
            if self._additional is not None:
                self._additional._visit(run, value[name], before, f"{path}[{name}]", unchanged=same)

    def _visit_list(self, run: _Run, value: list[Any], old: Any, path: str, *, unchanged: bool) -> None:
        if self._items is None:
            return
        keys = self._schema.get("x-kubernetes-list-map-keys") or ()
        by_key = {}
        if self._schema.get("x-kubernetes-list-type") == "map" and isinstance(old, list):
            by_key = {_key(item, keys): item for item in old}
        for index, item in enumerate(value):
            before = by_key.get(_key(item, keys), _MISSING) if by_key else _MISSING
            same = unchanged or (before is not _MISSING and before == item)
            self._items._visit(run, item, before, f"{path}[{index}]", unchanged=same)

    def _evaluate(self, run: _Run, value: Any, old: Any, path: str, *, unchanged: bool) -> None:
        own = value_of(self._schema, value, root=self._root)
        before = None if old is None else value_of(self._schema, old, root=self._root)
        for compiled in self._rules:
            if compiled.program is None:
                continue
            optional = bool(compiled.rule.get("optionalOldSelf"))
            if compiled.uses_old and old is None and not optional:
                continue
            variables = {"self": own, "oldSelf": before}
            if optional:
                variables["oldSelf"] = OptionalValue.none() if old is None else OptionalValue(before)
            if run.holds(compiled, compiled.program, variables, path, self._schema.get("type", "")):
                continue
            error = _refusal(compiled, run.message(compiled, variables), path, value, self._schema.get("type", ""))
            (run.accepted if unchanged and not compiled.uses_old else run.wrong).append(error)


class _Run:
    """One validation: the errors so far, and the remaining cost budget.

    Validators append to `wrong` and `accepted`, and each evaluation reduces `_left`.
    """

    def __init__(self) -> None:
        self.wrong: list[FieldError] = []
        self.accepted: list[FieldError] = []
        self._left = _BUDGET

    def holds(self, compiled: Compiled, program: Program, variables: Mapping[str, Any], path: str, kind: str) -> bool:
        """Return True if a rule holds, or if its evaluation fails, which is recorded."""
        shown = (compiled.rule.get("message") or "").strip() or compiled.rule["rule"].strip()
        try:
            value, cost = program.priced(variables, CALL_LIMIT)
        except CELError as error:
            self._spend(error.cost, path, kind)
            if isinstance(error, CostExceeded):
                message = (
                    f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule:"
                    f" {shown}"
                )
                self.wrong.append(FieldError("FieldValueInvalid", path, kind, message))
                raise _Spent from None
            message = f"{error} evaluating rule: {shown}"
            if str(error).startswith("no such overload"):
                message = (
                    f"'{error}': call arguments did not match a supported operator, function or macro signature for"
                    f" rule: {shown}"
                )
            self.wrong.append(FieldError("FieldValueInvalid", path, kind, message))
            return True
        self._spend(cost, path, kind)
        return value is True

    def _spend(self, cost: int, path: str, kind: str) -> None:
        if cost > self._left:
            message = "validation failed due to running out of cost budget, no further validation rules will be run"
            self.wrong.append(FieldError("FieldValueInvalid", path, kind, message))
            raise _Spent
        self._left -= cost

    def message(self, compiled: Compiled, variables: Mapping[str, Any]) -> str:
        """Return the message of a rule that does not hold."""
        if compiled.message is not None:
            try:
                message = str(compiled.message.evaluate(variables, CALL_LIMIT)).strip()
            except CELError:
                message = ""
            if message and len(message.encode()) <= _MESSAGE_BYTES and "\n" not in message:
                return message
        return (compiled.rule.get("message") or "").strip() or f"failed rule: {compiled.rule['rule'].strip()}"


def _refusal(compiled: Compiled, text: str, path: str, value: Any, kind: str) -> FieldError:
    if compiled.path:
        path = f"{path}.{compiled.path}" if path and not compiled.path.startswith("[") else f"{path}{compiled.path}"
    shown = None if kind in ("object", "array") else value
    return FieldError(compiled.rule.get("reason") or "FieldValueInvalid", path, shown, text)


def _key(item: Any, keys: Any) -> str:
    return repr([item.get(key) for key in keys]) if isinstance(item, dict) else ""


def _below(properties: Mapping[str, Schema], own: Type | None) -> dict[str, Validator]:
    validators = {}
    for name, inner in properties.items():
        validator = _validator(inner, (own.fields or {}).get(escaped(name)) if own is not None else None)
        if validator is not None:
            validators[name] = validator
    return validators


def _validator(schema: Any, own: Type | None) -> Validator | None:
    if not isinstance(schema, Mapping):
        return None
    validator = Validator(schema, own, root=False)
    return None if validator.is_empty else validator


def validator_of(schema: Schema) -> Validator | None:
    """Return the compiled rules of a kind's schema, or None if it has none. They are cached."""
    cached = _validators.get(id(schema))
    if cached is not None and cached[0] is schema:
        return cached[1]
    made = Validator(schema, None, root=True)
    validator = None if made.is_empty else made
    _validators[id(schema)] = (schema, validator)
    while len(_validators) > _KEPT:
        _validators.popitem(last=False)
    return validator
