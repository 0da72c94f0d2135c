"""Defaults and validation of ValidatingAdmissionPolicies and their bindings, and the defaults of webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.apiserver.status import Causes
from kinformer.objects.accessors import value_at
from kinformer.testing.cel.policies import compile_policy
from kinformer.testing.rules.builtin.pod_rules import required, unsupported
from kinformer.testing.rules.expression_rules import cause_of
from kinformer.testing.rules.metadata_rules import invalid_value

__all__ = ["binding_causes", "fill_binding", "fill_policy", "fill_service", "fill_webhooks", "policy_causes"]

Object = Mapping[str, Any]

_FAILURES = ("Fail", "Ignore")
_ACTIONS = ("Audit", "Deny", "Warn")


def fill_policy(obj: dict[str, Any]) -> None:
    """Set the defaults of a policy, in place."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    if spec.get("matchConstraints") is not None:
        _fill_match(spec["matchConstraints"])


def fill_binding(obj: dict[str, Any]) -> None:
    """Set the defaults of a binding, in place."""
    spec = obj.setdefault("spec", {})
    if spec.get("matchResources") is not None:
        _fill_match(spec["matchResources"])


def _fill_match(match: dict[str, Any]) -> None:
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for name in ("rules", "resourceRules", "excludeResourceRules"):
        for rule in match.get(name) or []:
            rule.setdefault("scope", "*")


def fill_webhooks(obj: dict[str, Any]) -> None:
    """Set the defaults of the webhooks of a configuration, in place."""
    for hook in obj.get("webhooks") or []:
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("timeoutSeconds", 10)
        if obj.get("kind") == "MutatingWebhookConfiguration":
            hook.setdefault("reinvocationPolicy", "Never")
        fill_service(hook.get("clientConfig"))
        _fill_match(hook)


def fill_service(config: object) -> None:
    """Set the default port of a webhook that names a service, in place."""
    service = value_at(config, "service")
    if isinstance(service, dict):
        service.setdefault("port", 443)


def policy_causes(obj: Object, old: Object | None) -> Causes:
    """Return the errors of a policy. An unchanged spec is not compiled again."""
    spec = obj.get("spec") or {}
    if old is not None and spec == (old.get("spec") or {}):
        return []
    causes: Causes = []
    if spec.get("failurePolicy") not in _FAILURES:
        causes.append(unsupported("spec.failurePolicy", spec.get("failurePolicy"), _FAILURES))
    kind = spec.get("paramKind")
    if kind is not None:
        causes += [required(f"spec.paramKind.{name}") for name in ("apiVersion", "kind") if not kind.get(name)]
    match = spec.get("matchConstraints")
    if match is None:
        causes.append(required("spec.matchConstraints"))
    elif not match.get("resourceRules"):
        causes.append(required("spec.matchConstraints.resourceRules"))
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        message = "validations or auditAnnotations must contain at least one item"
        causes += [required("spec.validations", message), required("spec.auditAnnotations", message)]
    return causes + [cause_of(error, error.path, error.text) for error in compile_policy(spec).errors]


def binding_causes(obj: Object, old: Object | None) -> Causes:
    """Return the errors of a binding."""
    spec = obj.get("spec") or {}
    causes: Causes = []
    if not spec.get("policyName"):
        causes.append(required("spec.policyName"))
    reference = spec.get("paramRef")
    if reference is not None:
        if reference.get("name") and reference.get("selector") is not None:
            message = "name and selector are mutually exclusive"
            causes.append(
                {"reason": "FieldValueForbidden", "message": f"Forbidden: {message}", "field": "spec.paramRef.name"}
            )
        elif not reference.get("name") and reference.get("selector") is None:
            causes.append(required("spec.paramRef", "one of name or selector must be specified"))
    actions = spec.get("validationActions") or []
    if not actions:
        causes.append(required("spec.validationActions", "at least one validation action is required"))
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            causes.append(unsupported(f"spec.validationActions[{index}]", action, _ACTIONS))
    if "Deny" in actions and "Warn" in actions:
        message = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response"
            " and headers serves no purpose)"
        )
        causes.append(invalid_value("spec.validationActions", list(actions), message))
    return causes
