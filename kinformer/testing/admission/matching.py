"""Matches writes with policies and bindings (apiserver, plugin/policy/matching)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.objects.selectors import LabelSelector
from kinformer.testing.admission.attributes import Attributes
from kinformer.testing.admission.lookup import Lookup

__all__ = ["matches"]

Object = Mapping[str, Any]

_POLICIES = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
)


def matches(lookup: Lookup, constraints: Object | None, write: Attributes) -> bool:
    """Return True if constraints match a write.

    None matches every write. Writes of policies and bindings never match.
    """
    if write.resource.group == "admissionregistration.k8s.io" and write.resource.plural in _POLICIES:
        return False
    if constraints is None:
        return True
    if not _selects_namespace(lookup, constraints.get("namespaceSelector") or {}, write):
        return False
    if not _selects_object(constraints.get("objectSelector") or {}, write):
        return False
    if any(_is_about(rule, write) for rule in constraints.get("excludeResourceRules") or []):
        return False
    rules = constraints.get("resourceRules") or []
    return not rules or any(_is_about(rule, write) for rule in rules)


def _selects_namespace(lookup: Lookup, selector: Object, write: Attributes) -> bool:
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return True
    if not write.namespace:
        return True
    if write.resource.builtin and write.resource.kind == "Namespace" and write.operation != "DELETE":
        labels = write.subject["metadata"].get("labels") or {}
    else:
        namespace = lookup.get("v1/namespaces", "", write.namespace)
        labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
    return LabelSelector.from_object(selector).matches(labels)


def _selects_object(selector: Object, write: Attributes) -> bool:
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return True
    parsed = LabelSelector.from_object(selector)
    states = [state for state in (write.obj, write.old) if state is not None]
    return any(parsed.matches(state["metadata"].get("labels") or {}) for state in states)


def _is_about(rule: Object, write: Attributes) -> bool:
    resource = write.resource
    if not _has(rule.get("operations"), write.operation) or not _has(rule.get("apiGroups"), resource.group):
        return False
    scope = rule.get("scope") or "*"
    if scope != "*" and (scope == "Namespaced") is not resource.namespaced:
        return False
    if rule.get("resourceNames") and write.name not in rule["resourceNames"]:
        return False
    if not _has(rule.get("apiVersions"), resource.version) and rule.get("apiVersions") is not None:
        return False
    name = f"{resource.plural}/{write.subresource}" if write.subresource else resource.plural
    patterns = {name, "*/*"} | ({f"*/{write.subresource}", f"{resource.plural}/*"} if write.subresource else {"*"})
    if not write.subresource:
        patterns.add(f"{resource.plural}/*")
    return bool(patterns & set(rule.get("resources") or ()))


def _has(given: Any, value: str) -> bool:
    return bool(given) and ("*" in given or value in given)
