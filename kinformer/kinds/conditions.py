"""Conditions of objects, as in kubectl and kube-rs: for any kind, and for specific ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, cast

from kinformer.objects.accessors import number_at, string_at, tables_at, uid_of, value_at
from kinformer.objects.conditions import condition_of, is_current, is_observed
from kinformer.objects.paths.json_path import parse_path
from kinformer.objects.types import Object

__all__ = [
    "Check",
    "Object",
    "condition_status",
    "equals",
    "has_condition",
    "is_crd_established",
    "is_deleted",
    "is_deployment_rolled_out",
    "is_job_complete",
    "is_job_failed",
    "is_loadbalancer_ready",
    "is_pod_ready",
    "is_pod_running",
    "is_pod_serving",
    "matches",
]


class Check(Protocol):
    """A condition that is false for None, so that `wait_for` with it returns an object."""

    false_of_none: Literal[True]

    def __call__(self, obj: Object | None, /) -> bool:
        """Return True if the condition holds."""
        ...


def false_of_none(check: Callable[[Object | None], bool]) -> Check:
    """Mark a condition as false for None, for type checkers."""
    marked = cast("Check", check)
    marked.false_of_none = True
    return marked


_TEXTS = {True: "True", False: "False", None: "Unknown"}
_ANY: object = object()


def has_condition(type: str, status: bool | str | None = True) -> Check:  # noqa: A002 - the field's word
    """Return the condition that a status condition has this status, as in `kubectl wait --for=condition=Ready`.

    (kubectl, pkg/cmd/wait/condition.go, `checkCondition`)

    Type and status are compared case-insensitively. A status for an earlier generation of the object does not count,
    according to its observedGeneration or the observedGeneration of `status`. (`kinformer.objects.condition_is(obj,
    "Ready")` checks one object.)

    Args:
        type: The type, such as `"Ready"`.
        status: True, False, None for `Unknown`, or the status as a string.

    Raises:
        TypeError: The type is not a string, but for example an object, as for `kinformer.objects.condition_is`.
    """
    if not isinstance(type, str):
        raise TypeError(
            f"has_condition({type!r}): pass the type of a condition, such as 'Ready'; "
            "kinformer.objects.condition_is takes an object and a type"
        )
    expected = status if isinstance(status, str) else _TEXTS[status]
    return _named(
        lambda obj: condition_status(obj, type).casefold() == expected.casefold(),
        f"condition {type}" if expected == "True" else f"condition {type}={expected}",
    )


def condition_status(obj: Object | None, type: str) -> str:  # noqa: A002
    """Return the status of a condition, `"True"`, `"False"` or `"Unknown"`, or "" if there is no current one."""
    for condition in tables_at(obj, "status", "conditions"):
        if str(condition.get("type")).casefold() == type.casefold():
            return str(condition.get("status") or "") if is_current(condition, obj) else ""
    return ""


def is_deleted(uid: str | None = None) -> Callable[[Object | None], bool]:
    """Return the condition that there is no object or, with `uid`, that another object now has its name.

    (kube-rs, kube-runtime/src/wait.rs, `is_deleted`)

    Raises:
        ValueError: The uid is empty or not a string, so every object would count as deleted.
    """
    if uid is not None and (not isinstance(uid, str) or not uid):
        raise ValueError(f"is_deleted({uid!r}): pass the uid of the object, `obj.uid`, or no argument for any object")

    def check(obj: Object | None) -> bool:
        return obj is None or (uid is not None and uid_of(obj) != uid)

    check.__name__ = "deletion"
    return check


def matches(path: str, value: object = _ANY) -> Check:
    """Return the condition that a JSON path has this value or, without `value`, any value.

    `kubectl wait --for=jsonpath='{.spec.nodeName}'=node-1` is `matches("spec.nodeName", "node-1")` (kubectl,
    pkg/cmd/wait/json.go, `compareResults`). As there, a string matches a number or boolean with the same
    representation. For a path with several values, `"spec.containers[*].image"`, at
    least one must match.

    Raises:
        ConfigError: The path is invalid. The message names the position.
    """
    parsed = parse_path(path)

    def check(obj: Object | None) -> bool:
        values = () if obj is None else parsed.values(obj)
        return any(value is _ANY or equals(actual, value) for actual in values)

    return _named(check, path if value is _ANY else f"{path}={value}")


def equals(actual: object, expected: object) -> bool:
    """Return True if two values are equal. A string also equals a number or boolean that is written so."""
    if isinstance(expected, str) and not isinstance(actual, (str, list, dict)):
        actual = str(actual).lower() if isinstance(actual, bool) else str(actual)
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    return actual == expected


def _named(check: Callable[[Object | None], bool], name: str) -> Check:
    """Name a condition for errors."""
    check.__name__ = name
    return false_of_none(check)


# --- kinds -----------------------------------------------------------------------------------------------------


@false_of_none
def is_pod_running(pod: Object | None) -> bool:
    """Return True if the phase of the pod is Running. Its containers have started, but may not respond yet.

    (kube-rs, kube-runtime/src/wait.rs, `is_pod_running`)
    """
    return string_at(pod, "status", "phase") == "Running"


@false_of_none
def is_pod_ready(pod: Object | None) -> bool:
    """Return True if the pod's condition Ready is True, which may still hold while the pod is being deleted.

    (kubernetes, pkg/api/v1/pod/util.go, `IsPodReady`)
    """
    return condition_status(pod, "Ready") == "True"


@false_of_none
def is_pod_serving(pod: Object | None) -> bool:
    """Return True if a Service sends requests to the pod, because it is ready and not being deleted.

    (kubernetes, staging/src/k8s.io/endpointslice/utils.go, `podToEndpoint`: `ready`)
    """
    return is_pod_ready(pod) and not value_at(pod, "metadata", "deletionTimestamp")


@false_of_none
def is_job_complete(job: Object | None) -> bool:
    """Return True if the job's condition Complete is True. This is never so for a failed job. See `is_job_failed`.

    (kube-rs, kube-runtime/src/wait.rs, `is_job_completed`)
    """
    return condition_status(job, "Complete") == "True"


@false_of_none
def is_job_failed(job: Object | None) -> bool:
    """Return True if the job's condition Failed is True, so that it will not be retried.

    (kubernetes, pkg/controller/job/utils.go, `IsJobFinished`: Complete or Failed)
    """
    return condition_status(job, "Failed") == "True"


@false_of_none
def is_deployment_rolled_out(deployment: Object | None) -> bool:
    """Return True if all replicas have the newest template and are available, and no old ones are left.

    The rules are the same as in `kubectl rollout status` (kubectl, pkg/polymorphichelpers/rollout_status.go,
    `DeploymentStatusViewer`). A deployment whose progress deadline has passed is not rolled out. This is an error in
    kubectl but not here, because it may still succeed. Use `has_condition("Progressing", False)` to detect it.
    """
    if deployment is None or not is_observed(deployment):
        return False
    if (condition_of(deployment, "Progressing") or {}).get("reason") == "ProgressDeadlineExceeded":
        return False
    desired = 1 if value_at(deployment, "spec", "replicas") is None else number_at(deployment, "spec", "replicas")
    replicas, updated, available = (
        number_at(deployment, "status", name) for name in ("replicas", "updatedReplicas", "availableReplicas")
    )
    return updated >= desired and replicas <= updated <= available


@false_of_none
def is_crd_established(crd: Object | None) -> bool:
    """Return True if the CustomResourceDefinition is established, so that its objects can be read and written.

    (kube-rs, kube-runtime/src/wait.rs, `is_crd_established`) Discovery may list it a little later.
    """
    return condition_status(crd, "Established") == "True"


@false_of_none
def is_loadbalancer_ready(obj: Object | None) -> bool:
    """Return True if the load balancer of a Service or an Ingress has an address, or if a Service needs none.

    (kube-rs, kube-runtime/src/wait.rs, `is_service_loadbalancer_provisioned`, `is_ingress_provisioned`. Here, an empty
    list of addresses counts as no address.)
    """
    if obj is None:
        return False
    if obj.get("kind") == "Service" and string_at(obj, "spec", "type") != "LoadBalancer":
        return True
    addresses = tables_at(obj, "status", "loadBalancer", "ingress")
    return bool(addresses) and all(address.get("ip") or address.get("hostname") for address in addresses)
