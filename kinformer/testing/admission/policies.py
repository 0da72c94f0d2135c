"""Denies writes by ValidatingAdmissionPolicies and their bindings (apiserver, plugin/policy/validating)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from kinformer.apiserver.status import StatusError
from kinformer.apiserver.storage import Stored
from kinformer.objects.selectors import LabelSelector
from kinformer.testing.admission.attributes import Attributes
from kinformer.testing.admission.lookup import Lookup
from kinformer.testing.admission.matching import matches
from kinformer.testing.cel.environment import CALL_LIMIT, Program
from kinformer.testing.cel.evaluator import Lazy
from kinformer.testing.cel.library.times import parse_timestamp
from kinformer.testing.cel.policies import Policy, compile_policy
from kinformer.testing.cel.values import CELError

__all__ = ["Policies"]

Object = Mapping[str, Any]

KIND = "admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_MESSAGE_BYTES = 5 * 1024  # the most that a message from an expression may have


class _Denial(NamedTuple):
    text: str
    reason: str = "Invalid"


class _Unusable(Exception):
    """A policy or a binding that cannot be applied."""


class _FieldMap(dict[str, Any]):
    """The variables of a policy, each computed on first use."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        return value.value() if isinstance(value, Lazy) else value


class Policies:
    """All policies of a server. Compiled policies are cached until they are written again."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._compiled: dict[str, tuple[Stored, Object, Policy]] = {}  # by name, with the object it is compiled from

    def check(self, write: Attributes) -> None:
        """Raise the `StatusError` of the first policy that denies a write."""
        by_policy: dict[str, list[Object]] = {}
        for binding in self._lookup.list(BINDINGS):
            by_policy.setdefault((binding.get("spec") or {}).get("policyName", ""), []).append(binding)
        for stored in self._lookup.stored(KIND):
            bindings = by_policy.get(stored.name)
            if bindings:
                self._check_policy(stored, bindings, write)

    def _policy(self, stored: Stored) -> tuple[Object, Policy]:
        cached = self._compiled.get(stored.name)
        if cached is None or cached[0] is not stored:
            document = self._lookup.ledger.read(self._lookup.type_of(KIND), stored)
            spec = document.get("spec") or {}
            cached = self._compiled[stored.name] = (stored, spec, compile_policy(spec))
        return cached[1], cached[2]

    def _check_policy(self, stored: Stored, bindings: list[Object], write: Attributes) -> None:
        spec, policy = self._policy(stored)
        if not matches(self._lookup, spec.get("matchConstraints"), write):
            return
        for binding in bindings:
            bound = binding.get("spec") or {}
            if not matches(self._lookup, bound.get("matchResources"), write):
                continue
            name = binding["metadata"]["name"]
            try:
                params = self._params(spec, bound, write)
            except _Unusable as error:
                if spec.get("failurePolicy") != "Ignore":
                    raise _denied(stored.name, name, f"failed to configure binding: {error}", write) from None
                continue
            for param in params:
                self._apply(stored.name, name, bound, _Evaluation(self._lookup, spec, policy, write, param), write)

    def _apply(self, policy: str, name: str, bound: Object, evaluation: _Evaluation, write: Attributes) -> None:
        actions = bound.get("validationActions") or []
        for denial in evaluation.denials():
            if "Warn" in actions:
                message = (
                    f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{name}': {denial.text}"
                )
                write.warnings.append(message)
            if "Deny" in actions:
                raise _denied(policy, name, denial.text, write, denial.reason)

    # -- params ---------------------------------------------------------------------------------------------------

    def _params(self, spec: Object, bound: Object, write: Attributes) -> list[Object | None]:
        kind, reference = spec.get("paramKind"), bound.get("paramRef")
        if kind is None or reference is None:
            return [None]
        resource = self._lookup.ledger.registry.of_kind(kind.get("apiVersion", ""), kind.get("kind", ""))
        if resource is None:
            shown = f"{kind.get('apiVersion', '')}, Kind={kind.get('kind', '')}"
            raise _Unusable(f"paramKind kind `{shown}` not known")
        namespace = reference.get("namespace") or ""
        if resource.namespaced and not namespace:
            namespace = write.namespace
            if not namespace:
                raise _Unusable(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        elif not resource.namespaced and namespace:
            raise _Unusable("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        if reference.get("name"):
            param = self._lookup.get(resource.name, namespace, reference["name"])
            params = [] if param is None else [param]
        else:
            selector = LabelSelector.from_object(reference.get("selector") or {})
            everything = self._lookup.list(resource.name, namespace)
            params = [param for param in everything if selector.matches(param["metadata"].get("labels") or {})]
        if not params and reference.get("parameterNotFoundAction", "Deny") == "Deny":
            raise _Unusable("no params found for policy binding with `Deny` parameterNotFoundAction")
        return list(params)


class _Evaluation:
    """The evaluation of one policy for one write and one parameter."""

    def __init__(self, lookup: Lookup, spec: Object, policy: Policy, write: Attributes, param: Object | None) -> None:
        self._policy = policy
        self._strict = spec.get("failurePolicy") != "Ignore"
        variables: dict[str, Any] = {
            "object": write.obj,
            "oldObject": write.old,
            "request": _request(write),
            "namespaceObject": _namespace(lookup, write),
            "params": param,
            "authorizer": None,
        }
        variables["variables"] = _FieldMap(
            {name: Lazy(partial(program.evaluate, variables)) for name, program in policy.variables}
        )
        self._variables = variables

    def denials(self) -> list[_Denial]:
        """Return the denials. An expression that fails is a denial unless failurePolicy is Ignore."""
        denials: list[_Denial] = []
        if self._policy.errors:
            return [_Denial(self._policy.errors[0].text)] if self._strict else []
        matched = self._matches()
        if isinstance(matched, _Denial):
            return [matched] if self._strict else []
        if not matched:
            return []
        for validation, program, message in self._policy.validations:
            try:
                holds = program.evaluate(self._variables, CALL_LIMIT)
            except CELError as error:
                if self._strict:
                    denials.append(_Denial(f"expression '{program.text}' resulted in error: {error}"))
                continue
            if holds is not True:
                denials.append(_Denial(self._message(validation, message), validation.get("reason") or "Invalid"))
        return denials

    def _matches(self) -> bool | _Denial:
        errors = []
        for _, program in self._policy.conditions:
            try:
                if program.evaluate(self._variables, CALL_LIMIT) is False:
                    return False
            except CELError as error:
                errors.append(f"expression '{program.text}' resulted in error: {error}")
        if not errors:
            return True
        return _Denial(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")

    def _message(self, validation: Object, program: Program | None) -> str:
        message = ""
        if program is not None:
            with suppress(CELError):
                message = str(program.evaluate(self._variables, CALL_LIMIT)).strip()
        if not message or "\n" in message or len(message.encode()) > _MESSAGE_BYTES:
            message = (validation.get("message") or "").strip()
        return message or f"failed expression: {validation['expression'].strip()}"


def _request(write: Attributes) -> dict[str, Any]:
    resource = write.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    of = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    return {
        "kind": kind,
        "resource": of,
        "requestKind": kind,
        "requestResource": of,
        "name": write.name,
        "operation": write.operation,
        "userInfo": {"username": "", "groups": [], **write.user},
        "dryRun": write.dry_run,
        "options": None,
        **({"namespace": write.namespace} if write.namespace else {}),
        **({"subResource": write.subresource, "requestSubResource": write.subresource} if write.subresource else {}),
    }


def _namespace(lookup: Lookup, write: Attributes) -> dict[str, Any] | None:
    if not write.namespace or (write.resource.builtin and write.resource.kind == "Namespace"):
        return None
    namespace = lookup.get("v1/namespaces", "", write.namespace)
    if namespace is None:
        return None
    metadata = {name: value for name, value in namespace["metadata"].items() if name not in ("managedFields", "uid")}
    metadata["UID"] = namespace["metadata"].get("uid", "")
    for name in ("creationTimestamp", "deletionTimestamp"):
        if name in metadata:
            metadata[name] = parse_timestamp(metadata[name])
    return {"metadata": metadata, "spec": namespace.get("spec") or {}, "status": namespace.get("status") or {}}


def _denied(policy: str, binding: str, text: str, write: Attributes, reason: str = "Invalid") -> StatusError:
    message = f"ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {text}"
    error = write.refused(message)
    code = _CODES[reason]
    if not isinstance(error.body, dict):
        return error
    details = {**error.body["details"], "causes": [{"message": message}]}
    body = {**error.body, "reason": reason, "code": code, "details": details}
    return StatusError(code, body, headers=error.headers)
