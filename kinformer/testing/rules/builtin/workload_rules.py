"""Validation of workloads: selectors and templates (pkg/apis/apps/validation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.apiserver.selecting.names import qualified_name
from kinformer.apiserver.status import Causes, cause
from kinformer.objects.selectors import LabelSelector
from kinformer.testing.rules.builtin.pod_rules import pod_update_causes, required, template_causes, unsupported
from kinformer.testing.rules.metadata_rules import invalid_value, json_text, label_causes

__all__ = ["at_least", "cron_job_causes", "job_causes", "workload_causes"]

Object = Mapping[str, Any]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_STATEFUL = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy',"
    " 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_MUTABLE = {
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"),
    "persistentVolumeClaimRetentionPolicy",
}


def at_least(field: str, value: Any, least: int) -> Causes:
    """Return the error of a number that is too small, if it is set."""
    if value is None or value >= least:
        return []
    return [invalid_value(field, value, f"must be greater than or equal to {least}")]


def selector_causes(selector: Object, field: str) -> Causes:
    """Return the errors of a LabelSelector."""
    causes = label_causes(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or []):
        at, values = f"{field}.matchExpressions[{index}]", requirement.get("values")
        operator = requirement.get("operator", "")
        if operator in ("In", "NotIn") and not values:
            causes.append(required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist") and values:
            message = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(cause("FieldValueForbidden", message, f"{at}.values"))
        elif operator not in _OPERATORS:
            causes.append(invalid_value(f"{at}.operator", operator, "not a valid selector operator"))
        key = requirement.get("key", "")
        causes += [invalid_value(f"{at}.key", key, problem) for problem in qualified_name(key)]
    return causes


def workload_causes(kind: str, spec: Object, old: Object | None) -> Causes:
    """Return the errors of a Deployment, ReplicaSet, StatefulSet or DaemonSet. `old` is the spec before an update."""
    causes: Causes = []
    if kind == "DaemonSet":
        causes += _selector_and_template(kind, spec)
    else:
        if kind != "StatefulSet":
            causes += at_least("spec.replicas", spec.get("replicas"), 0)
        causes += _selector_and_template(kind, spec)
        if kind == "StatefulSet":
            causes += at_least("spec.replicas", spec.get("replicas"), 0)
    if old is not None and kind == "StatefulSet":
        if _fixed(spec) != _fixed(old):
            causes.append(cause("FieldValueForbidden", f"Forbidden: {_STATEFUL}", "spec"))
    elif old is not None and spec.get("selector") != old.get("selector"):
        causes.append(invalid_value("spec.selector", spec.get("selector"), "field is immutable"))
    return causes


def _fixed(spec: Object) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in _STATEFUL_MUTABLE}


def _selector_and_template(kind: str, spec: Object) -> Causes:
    selector, template = spec.get("selector"), spec.get("template") or {}
    wrong: Causes = []
    if selector is None:
        wrong.append(required("spec.selector"))
    else:
        wrong = selector_causes(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            what = {"StatefulSet": "statefulset", "DaemonSet": "daemonset"}.get(kind, "deployment")
            wrong.append(invalid_value("spec.selector", selector, f"empty selector is invalid for {what}"))
    bad = any(error["field"].startswith("spec.selector.") for error in wrong)
    if kind == "DaemonSet":  # its validation differs, and reports less (ValidateDaemonSetSpec)
        wrong = [error for error in wrong if selector is not None]
    elif bad:
        wrong.append(invalid_value("spec.selector", selector, "invalid label selector"))
    labels = (template.get("metadata") or {}).get("labels")
    causes = list(wrong)
    if not bad and not (selector is not None and LabelSelector.from_object(selector).matches(labels or {})):
        causes.append(
            cause(
                "FieldValueInvalid",
                f"Invalid value: {json_text(labels)}: `selector` does not match template `labels`",
                "spec.template.metadata.labels",
            )
        )
    causes += template_causes(template, "spec.template")
    policy = (template.get("spec") or {}).get("restartPolicy", "Always")
    if policy != "Always":
        causes.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return causes


def job_causes(spec: Object, old: Object | None, field: str = "spec") -> Causes:
    """Return the errors of a Job or a job template."""
    template = spec.get("template") or {}
    causes: Causes = []
    for name in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        causes += at_least(f"{field}.{name}", spec.get(name), 0)
    causes += template_causes(template, f"{field}.template")
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy not in ("OnFailure", "Never"):
        at = f"{field}.template.spec.restartPolicy"
        # Always is the default, so the client may not have set it.
        message = 'valid values: "OnFailure", "Never"'
        always = policy in ("", "Always")
        causes.append(required(at, message) if always else unsupported(at, policy, ("OnFailure", "Never")))
    if old is None:
        return causes
    for name in ("completions", "selector", "template", "completionMode"):
        if name == "template" and not pod_update_causes(
            (spec.get("template") or {}).get("spec") or {}, (old.get("template") or {}).get("spec") or {}
        ):
            continue
        if spec.get(name) != old.get(name) and not (name == "completions" and spec.get("completionMode") == "Indexed"):
            causes.append(invalid_value(f"{field}.{name}", spec.get(name), "field is immutable"))
    return causes


def cron_job_causes(spec: Object) -> Causes:
    """Return the errors of a CronJob."""
    causes: Causes = []
    schedule = spec.get("schedule", "")
    if not schedule:
        causes.append(required("spec.schedule"))
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        count = len(schedule.split())
        causes.append(
            invalid_value("spec.schedule", schedule, f"expected exactly 5 fields, found {count}: [{schedule}]")
        )
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    return causes + job_causes(template, None, "spec.jobTemplate.spec")
