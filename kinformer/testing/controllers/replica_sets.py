"""The ReplicaSet controller: keeps the wanted number of pods, and writes the status (pkg/controller/replicaset)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from kinformer.apiserver.status import StatusError
from kinformer.testing.controllers.cluster import (
    Actor,
    APIClient,
    Object,
    condition_of,
    controller_of,
    is_active,
    is_terminating,
    labels_of,
    matcher,
    set_condition,
)
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["PODS", "REPLICA_SETS", "ReplicaSetController", "is_ready", "owner_reference", "pod_from_template"]

REPLICA_SETS, PODS = "apps/v1/replicasets", "v1/pods"
_ACTOR = Actor("replicaset-controller")
_RETRY = 5.0  # seconds after pods could not be created
_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_ready(pod: Object) -> bool:
    """Return True if a pod has the condition Ready."""
    condition = condition_of(pod.get("status"), "Ready")
    return condition is not None and condition["status"] == "True"


def owner_reference(owner: Object) -> Object:
    """Return the reference with which an object is the controller of another."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from_template(cluster: APIClient, owner: Object, template: Object) -> Object:
    """Return a pod to create for an owner, with a fresh name (pkg/controller/controller_utils.go)."""
    metadata, given = owner["metadata"], template.get("metadata") or {}
    prefix = f"{metadata['name']}-"
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": prefix,
            "name": cluster.fresh_name(PODS, metadata["namespace"], prefix),
            "namespace": metadata["namespace"],
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": copy.deepcopy(template["spec"]),
    }
    for field in ("labels", "annotations", "finalizers"):
        if given.get(field):
            pod["metadata"][field] = copy.deepcopy(given[field])
    return pod


class ReplicaSetController:
    """Creates and deletes the pods of ReplicaSets.

    Args:
        cluster: The objects.
        now: Returns the time of the event loop, for `minReadySeconds`.
    """

    def __init__(self, cluster: APIClient, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now = now
        self._ready_since: dict[str, float] = {}  # by uid of the pod

    def keys(self, resource: ResourceType, old: Object | None, new: Object | None) -> list[tuple[str, str]]:
        """Return the ReplicaSets that a change concerns."""
        changed = new or old
        assert changed is not None
        metadata = changed["metadata"]
        if resource.kind == "ReplicaSet" and resource.group == "apps":
            return [(metadata["namespace"], metadata["name"])]
        if resource.kind != "Pod" or resource.group:
            return []
        if new is None:
            self._ready_since.pop(metadata["uid"], None)
        references = [reference for pod in (old, new) if pod is not None and (reference := controller_of(pod))]
        keys = [(metadata["namespace"], owner["name"]) for owner in references if owner["kind"] == "ReplicaSet"]
        if new is not None and controller_of(new) is None:  # an orphan that a ReplicaSet may adopt
            sets = self._cluster.all_of(REPLICA_SETS, metadata["namespace"])
            keys += [(rs["metadata"]["namespace"], rs["metadata"]["name"]) for rs in sets if _selects(rs, new)]
        return list(dict.fromkeys(keys))

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Bring the number of pods to the wanted one, and write the status."""
        replica_set = self._cluster.get(REPLICA_SETS, namespace, name)
        if replica_set is None:
            return None
        pods = self._claimed(replica_set)
        failure: StatusError | None = None
        if not is_terminating(replica_set):
            try:
                self._scale(replica_set, [pod for pod in pods if is_active(pod)])
            except StatusError as error:
                failure = error
        # Its own writes come back as changes, so the status is that of the pods as they are now.
        return self._report(replica_set, self._cluster.owned(PODS, replica_set), failure)

    def _claimed(self, replica_set: Object) -> list[Object]:
        """Return the pods of a ReplicaSet, after adopting orphans that it selects and releasing others."""
        metadata, pods = replica_set["metadata"], []
        for pod in self._cluster.all_of(PODS, metadata["namespace"]):
            reference = controller_of(pod)
            if reference is None and is_active(pod) and not is_terminating(replica_set) and _selects(replica_set, pod):
                pods.append(self._cluster.patch(_ACTOR, PODS, pod, lambda newest: _own(newest, replica_set)))
            elif reference is not None and reference["uid"] == metadata["uid"]:
                if _selects(replica_set, pod):
                    pods.append(pod)
                else:
                    self._cluster.patch(_ACTOR, PODS, pod, lambda newest: _release(newest, replica_set))
        return pods

    def _scale(self, replica_set: Object, active: list[Object]) -> None:
        desired = replica_set["spec"].get("replicas", 1)
        for _ in range(desired - len(active)):
            pod = pod_from_template(self._cluster, replica_set, replica_set["spec"]["template"])
            try:
                self._cluster.create(_ACTOR, pod)
            except StatusError as error:
                self._cluster.event(_ACTOR, replica_set, "FailedCreate", f"Error creating: {error}", "Warning")
                raise
            message = f"Created pod: {pod['metadata']['name']}"
            self._cluster.event(_ACTOR, replica_set, "SuccessfulCreate", message)
        if len(active) > desired:
            for pod in self._ranked(replica_set, active)[: len(active) - desired]:
                self._cluster.delete(PODS, pod)
                message = f"Deleted pod: {pod['metadata']['name']}"
                self._cluster.event(_ACTOR, replica_set, "SuccessfulDelete", message)

    def _ranked(self, replica_set: Object, active: list[Object]) -> list[Object]:
        """Return the pods in the order in which they are deleted (controller_utils.go, ActivePodsWithRanks)."""
        nodes = [pod["spec"].get("nodeName") for pod in active]

        def rank(pod: Object) -> tuple[Any, ...]:
            metadata, status, node = pod["metadata"], pod.get("status") or {}, pod["spec"].get("nodeName")
            return (
                node is not None,
                _PHASES.get(status.get("phase", ""), 0),
                is_ready(pod),
                int((metadata.get("annotations") or {}).get(_COST, "0")),
                -nodes.count(node),
                -self._ready_since.get(metadata["uid"], 0.0),
                metadata["name"],
            )

        newest = sorted(active, key=lambda pod: int(pod["metadata"]["resourceVersion"]), reverse=True)
        return sorted(newest, key=rank)

    def _report(self, replica_set: Object, pods: list[Object], failure: StatusError | None) -> float | None:
        spec, now = replica_set["spec"], self._now()
        active = [pod for pod in pods if is_active(pod)]
        ready = [pod for pod in active if is_ready(pod)]
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if pod in ready:
                self._ready_since.setdefault(uid, now)
            else:
                self._ready_since.pop(uid, None)
        least = spec.get("minReadySeconds", 0)
        ages = [now - self._ready_since[pod["metadata"]["uid"]] for pod in ready]
        template = (spec["template"].get("metadata") or {}).get("labels") or {}
        status: Object = {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(template.items() <= labels_of(pod).items() for pod in active),
            "readyReplicas": len(ready),
            "availableReplicas": sum(age >= least for age in ages),
            "terminatingReplicas": sum(is_terminating(pod) and _runs(pod) for pod in pods),
            "observedGeneration": replica_set["metadata"]["generation"],
        }
        self._cluster.set_status(_ACTOR, REPLICA_SETS, replica_set, self._with_failure(replica_set, status, failure))
        waiting = [least - age for age in ages if age < least]
        return _RETRY if failure is not None else min(waiting, default=None)

    def _with_failure(self, replica_set: Object, status: Object, failure: StatusError | None) -> Object:
        may_be_absent = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        shown = {name: value for name, value in status.items() if value or name not in may_be_absent}
        conditions = (replica_set.get("status") or {}).get("conditions") or []
        others = [other for other in conditions if other["type"] != "ReplicaFailure"]
        if failure is None:
            return {**shown, "conditions": others} if others else shown
        shown["conditions"] = conditions
        condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": str(failure)}
        set_condition(shown, {**condition, "lastTransitionTime": self._cluster.timestamp()})
        return shown


def _runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _selects(replica_set: Object, pod: Object) -> bool:
    return matcher(replica_set["spec"].get("selector"))(pod)


def _own(pod: Object, owner: Object) -> None:
    pod["metadata"].setdefault("ownerReferences", []).append(owner_reference(owner))


def _release(pod: Object, owner: Object) -> None:
    references = pod["metadata"]["ownerReferences"]
    pod["metadata"]["ownerReferences"] = [other for other in references if other["uid"] != owner["metadata"]["uid"]]
