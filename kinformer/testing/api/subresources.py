"""Subresources that are not just a part of their object: scale, binding, eviction."""

from __future__ import annotations

from typing import Any

from kinformer.apiserver.status import StatusError, bad_request, conflict, failure, internal, invalid
from kinformer.objects.selectors import LabelSelector
from kinformer.testing.api.replacement import failed_precondition, version_in
from kinformer.testing.api.write import Writer
from kinformer.testing.api.write_options import WriteOptions
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.rules.metadata_rules import invalid_value
from kinformer.testing.store.forms import decode_stored
from kinformer.testing.store.ledger import Ledger, WriteResult
from kinformer.testing.store.ownership import FieldManager

__all__ = ["bind_pod", "mark_evicted", "scale_of", "use_disruption_budget", "with_scale"]

Object = dict[str, Any]

_SCALE_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def _value_at(obj: Object, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _selector(resource: ResourceType, obj: Object) -> str:
    if resource.scale is not None:
        path = resource.scale.get("labelSelectorPath")
        return str(_value_at(obj, path) or "") if path else ""
    selector = (obj.get("spec") or {}).get("selector") or {}
    labels = selector.get("matchLabels", selector)
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def scale_of(resource: ResourceType, obj: Object) -> Object:
    """Return the `autoscaling/v1` Scale of an object."""
    status_path = (resource.scale or {}).get("statusReplicasPath", ".status.replicas")
    status: Object = {"replicas": _value_at(obj, status_path) or 0}
    selector = _selector(resource, obj)
    if selector:
        status["selector"] = selector
    metadata = obj["metadata"]
    replicas = _value_at(obj, resource.replicas_path)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _SCALE_META if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def with_scale(resource: ResourceType, obj: Object, scale: Object, name: str) -> Object:
    """Return the object with the replicas of a Scale, and its preconditions. Raises a 400 or 422 `StatusError`."""
    metadata = scale.get("metadata") or {}
    if metadata.get("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request(
            'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal'
            f" {'string' if isinstance(replicas, str) else 'object'} into Go struct field ScaleSpec.spec.replicas of"
            " type int32"
        )
    if replicas < 0 and resource.builtin:
        causes = [invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")]
        raise invalid("autoscaling", "Scale", name, causes)
    *parents, last = resource.replicas_path.split(".")
    node = obj
    for part in parents:
        node = node.setdefault(part, {})
    node[last] = replicas
    for field in ("resourceVersion", "uid"):
        if metadata.get(field):
            obj["metadata"][field] = metadata[field]
    return obj


def bind_pod(
    writer: Writer, resource: ResourceType, namespace: str, name: str, binding: Object, options: WriteOptions
) -> WriteResult:
    """Bind a pod to a node (POST of `/binding`). Raises a 409 `StatusError` if it is already bound."""
    target = binding.get("target") or {}
    if target.get("kind", "Node") not in ("Node", ""):
        raise internal(f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        raise internal("target.name: Required value")

    given = binding.get("metadata") or {}
    existing = writer.ledger.stored(resource, namespace, name)
    for what, expected, actual in (
        ("UID", given.get("uid"), existing.uid),
        ("ResourceVersion", version_in(given), str(existing.revision)),
    ):
        if expected and expected != actual:
            raise failed_precondition(resource, existing.key, what, expected, actual)

    def assign(pod: Object) -> Object:
        node = (pod.get("spec") or {}).get("nodeName")
        if pod["metadata"].get("deletionTimestamp"):
            raise conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        if node:
            raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{node}"')
        if (pod.get("spec") or {}).get("schedulingGates"):
            raise conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
        pod.setdefault("spec", {})["nodeName"] = target["name"]
        for kind in ("labels", "annotations"):  # the scheduler may pass some
            if given.get(kind):
                pod["metadata"].setdefault(kind, {}).update(given[kind])
        pod.get("status", {}).pop("nominatedNodeName", None)
        _set_condition(pod, {"type": "PodScheduled", "status": "True"}, writer.ledger.timestamp())
        return pod

    options.tracks_fields = False  # a binding owns no fields of the pod
    return writer.patch(resource, namespace, name, assign, options, subresource="binding")


def _set_condition(pod: Object, condition: Object, now: str) -> None:
    status = pod.setdefault("status", {})
    others = [other for other in status.get("conditions") or [] if other.get("type") != condition["type"]]
    head = {"type": condition.pop("type"), "status": condition.pop("status")}
    status["conditions"] = [*others, {**head, "lastProbeTime": None, "lastTransitionTime": now, **condition}]


def mark_evicted(writer: Writer, resource: ResourceType, namespace: str, name: str) -> None:
    """Mark a pod that is about to be evicted (eviction.go, addConditionAndDeletePod)."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }

    def mark(pod: Object) -> Object:
        _set_condition(pod, dict(condition), writer.ledger.timestamp())
        return pod

    options = WriteOptions(FieldManager("kube-apiserver"), internal=True, tracks_fields=False)
    writer.patch(resource, namespace, name, mark, options, subresource="status")


def use_disruption_budget(ledger: Ledger, pod: Object, *, dry_run: bool) -> None:
    """Raise a 429 `StatusError` if a PodDisruptionBudget forbids the eviction, and otherwise count it down."""
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Pending", "Succeeded", "Failed") or pod["metadata"].get("deletionTimestamp"):
        return
    budgets = ledger.registry.find("policy/v1/poddisruptionbudgets")
    labels = pod["metadata"].get("labels") or {}
    for stored in ledger.collection(budgets).snapshot().within(pod["metadata"]["namespace"]).items:
        budget = decode_stored(budgets, stored)
        selector, status = (budget.get("spec") or {}).get("selector"), budget.get("status") or {}
        if selector is None or not LabelSelector.from_object(selector).matches(labels):
            continue
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            raise _too_many(
                f"The disruption budget {stored.name} is still being processed by the server.", retry_after=10
            )
        allowed = status.get("disruptionsAllowed", 0)
        if allowed <= 0:
            healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            raise _too_many(
                f"The disruption budget {stored.name} needs {desired} healthy pods and has {healthy} currently"
            )
        if not dry_run:
            old = decode_stored(budgets, stored)
            disrupted = status.setdefault("disruptedPods", {})
            disrupted[pod["metadata"]["name"]] = ledger.timestamp()
            status["disruptionsAllowed"] = allowed - 1
            ledger.save(budgets, old, {**budget, "status": status})


def _too_many(text: str, *, retry_after: int = 0) -> StatusError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return failure(429, "Cannot evict pod as it would violate the pod's disruption budget.", details=details)
