"""Partial validation of CustomResourceDefinitions (apiextensions/validation/validation.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kinformer.apiserver.selecting.names import dns_label_1035, dns_subdomain
from kinformer.apiserver.status import Causes, cause
from kinformer.testing.cel.library.formats import is_known_format
from kinformer.testing.cel.library.network import URL
from kinformer.testing.cel.library.re2 import PatternError, compiled_pattern
from kinformer.testing.rules.builtin.pod_rules import required, unsupported
from kinformer.testing.rules.custom_rules import has_rules, schema_causes
from kinformer.testing.rules.expression_rules import schema_rule_causes
from kinformer.testing.rules.metadata_rules import invalid_value

__all__ = ["definition_causes", "unrecognized_formats"]

Object = Mapping[str, Any]

_APPROVAL = "api-approved.kubernetes.io"
_PROTECTED = "see https://github.com/kubernetes/enhancements/pull/1111"
_STRATEGIES = ("None", "Webhook")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_KEEP = "x-kubernetes-preserve-unknown-fields"


def definition_causes(obj: Object, old: Object | None) -> Causes:
    """Return all errors of a definition. `old` is the definition before an update."""
    spec = obj.get("spec") or {}
    names, group = spec.get("names") or {}, spec.get("group", "")
    if old is not None:
        changed = _changed(spec, old.get("spec") or {})
        if changed:
            return changed
    causes: Causes = []
    expected = f"{names.get('plural', '')}.{group}"
    if obj["metadata"].get("name") != expected:
        causes.append(
            invalid_value("metadata.name", obj["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')
        )
    if not group:
        causes.append(required("spec.group"))
    else:
        causes += [invalid_value("spec.group", group, problem) for problem in dns_subdomain(group)]
        if "." not in group:
            causes.append(invalid_value("spec.group", group, "should be a domain with at least one dot"))
    if not spec.get("scope"):
        causes.append(required("spec.scope"))
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        causes.append(unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    versions = spec.get("versions") or []
    causes += _version_causes(spec, versions, _schemas((old or {}).get("spec") or {}))
    causes += _name_causes(names) + _conversion_causes(spec.get("conversion") or {})
    return causes + _stored_causes(obj, versions) + _approval_causes(obj, old)


def _stored_causes(obj: Object, versions: Sequence[Object]) -> Causes:
    """Check that the spec still has every version in which objects are stored."""
    stored = (obj.get("status") or {}).get("storedVersions")
    at = "status.storedVersions"
    if not stored:
        return [invalid_value(at, None, "must have at least one stored version")]
    names = {version.get("name") for version in versions}
    missing = [version["name"] for version in versions if version.get("storage") and version["name"] not in stored]
    return [
        *(invalid_value(at, stored, f"must have the storage version {name}") for name in missing),
        *(
            invalid_value(
                f"{at}[{index}]",
                name,
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from {at}",
            )
            for index, name in enumerate(stored)
            if name not in names
        ),
    ]


def _approval_causes(obj: Object, old: Object | None) -> Causes:
    """Check that a group of Kubernetes is approved. An update may leave a definition as unapproved as it was."""
    if not f".{obj['spec'].get('group', '')}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    state, before = _approval(obj), "" if old is None else _approval(old)
    if state in ("approved", before):
        return []
    at = f"metadata.annotations[{_APPROVAL}]"
    if state == "missing":
        return [required(at, f'protected groups must have approval annotation "{_APPROVAL}", {_PROTECTED}')]
    why = f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason starting with'
    return [invalid_value(at, obj["metadata"]["annotations"][_APPROVAL], f'{why} "unapproved", {_PROTECTED}')]


def _approval(obj: Object) -> str:
    text = (obj["metadata"].get("annotations") or {}).get(_APPROVAL, "")
    try:
        url = URL(text)
    except ValueError:
        url = None
    is_approved = text.startswith("unapproved") or (url is not None and url.host and url.scheme)
    return "missing" if not text else "approved" if is_approved else "invalid"


def unrecognized_formats(obj: Object) -> list[str]:
    """Return the formats of a definition's schemas that are ignored, sorted."""
    formats: set[str] = set()

    def look(schema: Any) -> None:
        if not isinstance(schema, Mapping):
            return
        if not is_known_format(schema):
            formats.add(schema["format"])
        below = [schema.get(name) for name in ("items", "additionalProperties", "not")]
        parts = [part for name in ("allOf", "anyOf", "oneOf") for part in schema.get(name) or ()]
        for inner in (*(schema.get("properties") or {}).values(), *below, *parts):
            look(inner)

    for schema in _schemas(obj.get("spec") or {}):
        look(schema)
    return sorted(formats)


def _changed(spec: Object, before: Object) -> Causes:
    names, names_before = spec.get("names") or {}, before.get("names") or {}
    causes: Causes = []
    for field, new, old in (
        ("spec.group", spec.get("group"), before.get("group")),
        ("spec.scope", spec.get("scope"), before.get("scope")),
        ("spec.names.kind", names.get("kind"), names_before.get("kind")),
        ("spec.names.plural", names.get("plural"), names_before.get("plural")),
    ):
        if new != old:
            causes.append(invalid_value(field, new, "field is immutable"))
    return causes


def _as_go_shows(versions: Sequence[Object]) -> list[Object]:
    """Return the versions as Go prints their internal type: without JSON tags and without versioned-only fields."""
    return [
        {
            "Name": version.get("name", ""),
            "Served": version.get("served", False),
            "Storage": version.get("storage", False),
            "Deprecated": version.get("deprecated", False),
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": None,
            "Subresources": None,
            "AdditionalPrinterColumns": None,
            "SelectableFields": None,
        }
        for version in versions
    ]


def _schemas(spec: Object) -> list[Object]:
    return [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in spec.get("versions") or []]


def _version_causes(spec: Object, versions: Sequence[Object], before: Sequence[Object]) -> Causes:
    causes: Causes = []
    for index, version in enumerate(versions):
        at = f"spec.versions[{index}]"
        name = version.get("name", "")
        causes += [invalid_value(f"{at}.name", name, problem) for problem in dns_label_1035(name)]
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            causes.append(required(f"{at}.schema.openAPIV3Schema"))
            if version.get("selectableFields"):
                place = "spec.selectableFields" if len(versions) == 1 else f"{at}.selectableFields"
                causes.append(invalid_value(place, "", "may only be set when validations.schema is included"))
            continue
        # A single version is moved to the old top-level field, and errors name that.
        place = "spec.validation.openAPIV3Schema" if len(versions) == 1 else f"{at}.schema.openAPIV3Schema"
        wrong = _root_causes(schema, place, status="status" in (version.get("subresources") or {}))
        if not wrong and schema not in before and has_rules(schema):
            wrong = schema_rule_causes(schema, place)
        causes += wrong
        place = "spec" if len(versions) == 1 else at
        for number, column in enumerate(version.get("additionalPrinterColumns") or []):
            path = column.get("jsonPath") or ""
            where = f"{place}.additionalPrinterColumns[{number}].JSONPath"
            if not path:
                causes.append(required(where))
            elif not path.startswith("."):
                causes.append(invalid_value(where, path, "must be a simple json path starting with ."))
    shown = _as_go_shows(versions) if versions else spec.get("versions")
    if len({version.get("name") for version in versions}) < len(versions):
        causes.append(invalid_value("spec.versions", shown, "must contain unique version names"))
    if sum(1 for version in versions if version.get("storage")) != 1:
        causes.append(invalid_value("spec.versions", shown, "must have exactly one version marked as storage version"))
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.append(invalid_value("spec.preserveUnknownFields", True, why))
    return causes


def _name_causes(names: Object) -> Causes:
    causes: Causes = []
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            causes.append(required(f"spec.names.{field}"))
            continue
        prefix = "may have mixed case, but should otherwise match: " if field in ("kind", "listKind") else ""
        wrong = dns_label_1035(value.lower() if prefix else value)
        causes += [invalid_value(f"spec.names.{field}", value, prefix + problem) for problem in wrong]
    return causes


def _conversion_causes(conversion: Object) -> Causes:
    at, strategy = "spec.conversion", conversion.get("strategy")
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        message = "Forbidden: should not be set when strategy is not set to Webhook"
        unsupported_strategy = [] if strategy == "None" else [unsupported(f"{at}.strategy", strategy, _STRATEGIES)]
        given = {"webhookClientConfig": config, "conversionReviewVersions": versions}
        forbidden = [cause("FieldValueForbidden", message, f"{at}.{name}") for name, value in given.items() if value]
        return unsupported_strategy + forbidden
    causes: Causes = []
    if config is None:
        causes.append(required(f"{at}.webhookClientConfig", "required when strategy is set to Webhook"))
    elif (config.get("url") is None) == (config.get("service") is None):
        causes.append(required(f"{at}.webhookClientConfig", "exactly one of url or service is required"))
    at = f"{at}.conversionReviewVersions"
    if not versions:
        return [*causes, required(at)]
    for index, version in enumerate(versions):
        repeated = ["duplicate version"] if version in versions[:index] else dns_label_1035(version)
        causes += [invalid_value(f"{at}[{index}]", version, problem) for problem in repeated]
    if not {"v1", "v1beta1"} & set(versions):
        causes.append(invalid_value(at, versions, "must include at least one of v1, v1beta1"))
    return causes


def _root_causes(schema: Object, at: str, *, status: bool) -> Causes:
    kind = schema.get("type")
    causes: Causes = []
    if kind and kind != "object":
        if status:
            message = (
                'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            )
            causes.append(invalid_value(f"{at}.type", kind, message))
        causes.append(invalid_value(f"{at}.type", kind, "must be object at the root"))
    elif not kind:
        causes.append(required(f"{at}.type", "must not be empty at the root"))
    return causes + sorted(
        _schema_causes(schema, at, root=True), key=lambda error: f"{error['field']}: {error['message']}"
    )


def _schema_causes(schema: Object, at: str, *, root: bool = False) -> Causes:
    """Check that a schema is structural: every field has a type, every list has items, and defaults match."""
    causes: Causes = []
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        causes.append(unsupported(f"{at}.type", kind, _TYPES))
    elif not (kind or root or schema.get("x-kubernetes-int-or-string") or schema.get(_KEEP)):
        causes.append(required(f"{at}.type", "must not be empty for specified object fields"))
    if kind == "array" and not schema.get("items"):
        causes.append(required(f"{at}.items", "must be specified"))
    if schema.get("default") is not None:
        causes += [
            {**error, "field": f"{at}.default"} for error in schema_causes(schema, schema["default"], "", rules=False)
        ]
    causes += _pattern_causes(schema, at)
    for name, inner in (schema.get("properties") or {}).items():
        causes += _schema_causes(inner, f"{at}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            causes += _schema_causes(schema[name], f"{at}.{name}")
    return causes


def _pattern_causes(schema: Object, at: str) -> Causes:
    """Check that the pattern of a schema, and those of the schemas that it combines, are regular expressions."""
    causes: Causes = []
    for name in ("anyOf", "allOf", "oneOf"):
        for index, inner in enumerate(schema.get(name) or []):
            causes += _pattern_causes(inner, f"{at}.{name}[{index}]")
    if schema.get("not"):
        causes += _pattern_causes(schema["not"], f"{at}.not")
    pattern = schema.get("pattern")
    if pattern:
        try:
            compiled_pattern(pattern)
        except PatternError as error:
            message = f"must be a valid regular expression, but isn't: {error}"
            causes.append(invalid_value(f"{at}.pattern", pattern, message))
    return causes
