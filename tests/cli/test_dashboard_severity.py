"""The colour of an object on the dashboard is its readiness.

Internals: the rows, since a server takes no time of a test for its objects.
"""

from __future__ import annotations

from typing import Any

import pytest

from kinformer import KubeObject
from kinformer.cli.dashboard.view.rows import Row, row_of
from kinformer.contrib.problems import RULES
from tests.support.kube import pod

THEN = "2026-01-05T10:00:00Z"
LATER = "2026-01-05T11:00:00Z"
AT_11 = 1767610800
GRACES = {rule.name: rule.grace for rule in RULES}


def row(document: dict[str, Any]) -> Row:
    metadata = {"namespace": "default", "creationTimestamp": THEN, "uid": "u", "resourceVersion": "1"}
    whole = {**document, "metadata": {"name": "a", **metadata, **document.get("metadata", {})}}
    return row_of(KubeObject.from_dict(whole))


def level(document: dict[str, Any]) -> str:
    """The level, with "later" if the object counts as bad from some time on."""
    shown = row(document)
    return f"{shown.level}{' later bad' if shown.bad_from is not None else ''}"


def container(*, ready: bool = False, **state: Any) -> dict[str, Any]:
    return {"name": "main", "ready": ready, "restartCount": 0, "state": state or {"running": {"startedAt": THEN}}}


def statuses(*containers: dict[str, Any], phase: str = "Running", **more: Any) -> dict[str, Any]:
    return pod(status={"phase": phase, "containerStatuses": list(containers), **more})


def conditions(**values: str) -> list[dict[str, Any]]:
    return [{"type": name, "status": value, "lastTransitionTime": LATER} for name, value in values.items()]


def condition(kind: str, status: str, reason: str) -> list[dict[str, Any]]:
    return [{"type": kind, "status": status, "reason": reason, "lastTransitionTime": LATER}]


def waiting(reason: str) -> dict[str, Any]:
    return container(waiting={"reason": reason})


def ended(code: int, reason: str = "") -> dict[str, Any]:
    return container(terminated={"exitCode": code, "reason": reason})


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (pod(), "good"),
        (statuses(container()), "busy later bad"),
        (statuses(container(ready=True), conditions=conditions(Ready="False")), "busy later bad"),
        (statuses(waiting("ContainerCreating"), phase="Pending"), "busy later bad"),
        (pod(phase="Pending", status={"conditions": condition("PodScheduled", "False", "SchedulingGated")}), "busy"),
        (statuses(waiting("CrashLoopBackOff")), "bad"),
        (statuses(waiting("ImagePullBackOff"), phase="Pending"), "bad"),
        (statuses(waiting("CreateContainerConfigError"), phase="Pending"), "bad"),
        (statuses(ended(1, "Error")), "bad"),
        (statuses(ended(137)), "bad"),
        (statuses(ended(0)), "busy later bad"),
        (pod(phase="Failed", status={"reason": "Evicted"}), "bad"),
        (pod(phase="Succeeded"), "over"),
        (pod(deletionTimestamp=LATER), "busy later bad"),
        (pod(phase=None), ""),
    ],
    ids=str,
)
def test_a_pod_is_as_well_as_its_containers(document: dict[str, Any], expected: str) -> None:
    assert level(document) == expected


def test_a_container_that_has_ended_well_is_not_missed_if_it_is_not_started_again() -> None:
    main, sidecar = container(ready=True), {**ended(0, "Completed"), "name": "copy"}
    document = statuses(main, sidecar)
    document["spec"]["containers"].append({"name": "copy", "image": "copy:1"})
    assert level(document) == "busy later bad"
    document["spec"]["restartPolicy"] = "OnFailure"
    assert level(document) == "good"


def test_a_pod_has_the_grace_of_its_rule_from_the_time_at_which_it_became_unready() -> None:
    shown = row(statuses(container(), conditions=conditions(Ready="False")))
    assert shown.bad_from == AT_11 + GRACES["not-ready"]
    assert shown.reason == "0 of 1 containers are ready"


def workload(kind: str = "Deployment", *, replicas: int = 3, spec: Any = None, **status: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "spec": {"replicas": replicas, **(spec or {})}, "status": status}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (workload(replicas=3, readyReplicas=3, updatedReplicas=3), "good"),
        (workload(replicas=3, readyReplicas=3, updatedReplicas=1), "busy"),
        (workload(replicas=3, readyReplicas=2), "busy"),
        (workload(replicas=3, readyReplicas=1, conditions=conditions(Available="False")), "busy later bad"),
        (workload(replicas=3), "busy later bad"),
        (workload(replicas=0), "over"),
        (workload(readyReplicas=3, conditions=condition("Progressing", "False", "ProgressDeadlineExceeded")), "bad"),
        (workload("ReplicaSet"), "busy later bad"),
        (workload("ReplicaSet", replicas=0), "over"),
        (workload("StatefulSet", readyReplicas=3, updatedReplicas=3), "good"),
        (
            workload("StatefulSet", readyReplicas=3, updatedReplicas=0, spec={"updateStrategy": {"type": "OnDelete"}}),
            "good",
        ),
        (workload("DaemonSet", desiredNumberScheduled=2, numberReady=2, updatedNumberScheduled=2), "good"),
        (workload("DaemonSet", desiredNumberScheduled=2, numberReady=1), "busy"),
        (workload("DaemonSet", desiredNumberScheduled=2), "busy later bad"),
        (workload("DaemonSet"), "over"),
    ],
    ids=str,
)
def test_a_workload_is_as_well_as_its_pods(document: dict[str, Any], expected: str) -> None:
    assert level(document) == expected


def test_a_workload_has_the_grace_of_its_rule_from_its_last_write() -> None:
    document = workload()
    document["metadata"] = {"managedFields": [{"time": THEN}, {"time": LATER}]}
    assert row(document).bad_from == AT_11 + GRACES["replicas"]


def other(kind: str, api_version: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, **fields}


def custom(*, phase: str = "", **values: str) -> dict[str, Any]:
    return other("Widget", "example.com/v1", status={"phase": phase, "conditions": conditions(**values)})


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (other("Node", status={"conditions": conditions(Ready="True", DiskPressure="False")}), "good"),
        (other("Node", status={"conditions": conditions(Ready="Unknown")}), "bad"),
        (other("Node", status={"conditions": conditions(Ready="True", DiskPressure="True")}), "bad"),
        (other("Node", spec={"unschedulable": True}, status={"conditions": conditions(Ready="True")}), "busy"),
        (other("Job", "batch/v1", status={"active": 1}), "good"),
        (other("Job", "batch/v1", status={"active": 1, "failed": 2}), "busy"),
        (other("Job", "batch/v1", status={"conditions": conditions(Complete="True")}), "over"),
        (other("Job", "batch/v1", status={"conditions": conditions(Failed="True")}), "bad"),
        (other("PersistentVolumeClaim", status={"phase": "Lost"}), "bad"),
        (other("PersistentVolume", status={"phase": "Released"}), "busy"),
        (other("Namespace", status={"phase": "Active"}), "good"),
        (other("Namespace", status={"phase": "Terminating"}, metadata={"deletionTimestamp": THEN}), "busy later bad"),
        (other("ConfigMap", data={}), ""),
        (other("Event", type="Warning"), "busy"),
        (custom(Ready="True"), "good"),
        (custom(Ready="False"), "busy later bad"),
        (custom(Ready="Unknown"), "busy"),
        (custom(Ready="True", Stalled="True"), "bad"),
        (custom(Available="False"), "busy later bad"),
        (custom(phase="Degraded"), "bad"),
        (custom(phase="Mysterious"), ""),
        (other("Widget", "example.com/v1", status={"conditions": {"Ready": "odd"}, "phase": ["odd"]}), ""),
        (other("Widget", "example.com/v1", status="odd"), ""),
        (other("Deployment", "apps/v1", spec="odd", status=["odd"]), "busy later bad"),
    ],
    ids=str,
)
def test_other_kinds_are_as_well_as_their_conditions_say(document: dict[str, Any], expected: str) -> None:
    assert level(document) == expected


def test_a_node_under_pressure_says_so() -> None:
    document = other("Node", status={"conditions": conditions(Ready="True", DiskPressure="True")})
    assert row(document).reason == "DiskPressure"
