"""The severity of an object: bad exactly when a rule for problems has applied for longer than its grace time."""

from __future__ import annotations

from typing import Any

import pytest

from kinformer import KubeObject
from kinformer.contrib.problems import RULES
from kinformer.kinds import severity_of
from tests.support.kube import pod

THEN = "2026-01-05T10:00:00Z"
LATER = "2026-01-05T11:00:00Z"
AT_10, AT_11 = 1767607200, 1767610800
GRACES = {rule.name: rule.grace for rule in RULES}


def severity(document: dict[str, Any], *, now: float = AT_11 + 1, **more: Any) -> Any:
    """The severity a second after a change at 11 o'clock, so that only rules without a grace time have passed."""
    metadata = {"namespace": "default", "creationTimestamp": LATER, "uid": "u", "resourceVersion": "1"}
    whole = {**document, "metadata": {"name": "a", **metadata, **document.get("metadata", {})}}
    return severity_of(KubeObject.from_dict(whole), now=now, **more)


def level(document: dict[str, Any]) -> str:
    """The level, with "later" if the object counts as bad from some time on."""
    shown = severity(document, since=AT_11)
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
        (statuses(container()), "busy"),
        (statuses(container(), conditions=conditions(Ready="False")), "busy later bad"),
        (statuses(container(ready=True), conditions=conditions(Ready="False")), "busy"),
        (statuses(waiting("ContainerCreating"), phase="Pending"), "busy later bad"),
        (pod(phase="Pending", creationTimestamp="2025-01-05T11:00:00Z"), "bad"),
        (pod(phase="Pending", status={"conditions": condition("PodScheduled", "False", "SchedulingGated")}), "busy"),
        (statuses(waiting("CrashLoopBackOff")), "busy later bad"),
        (statuses(waiting("ImagePullBackOff"), phase="Pending"), "busy later bad"),
        (statuses(waiting("CreateContainerConfigError"), phase="Pending"), "busy later bad"),
        (statuses(ended(1, "Error")), "busy"),
        (statuses(ended(137), conditions=conditions(Ready="False")), "busy later bad"),
        (statuses(ended(0)), "busy"),
        (pod(phase="Failed"), "bad"),
        (pod(phase="Failed", status={"reason": "Evicted"}), "over"),
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
    assert level(document) == "busy"
    document["spec"]["restartPolicy"] = "OnFailure"
    assert level(document) == "good"


def test_a_pod_has_the_grace_of_its_rule_from_the_time_at_which_it_became_unready() -> None:
    document = statuses(container(), conditions=conditions(Ready="False"))
    bad_from = AT_11 + GRACES["not-ready"]
    assert severity(document) == ("busy", bad_from, "container main is not ready")
    assert severity(document, now=bad_from - 1).level == "busy"
    assert severity(document, now=bad_from) == ("bad", None, "container main is not ready")


PARTITION = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}


def workload(kind: str = "Deployment", *, replicas: int = 3, spec: Any = None, **status: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "spec": {"replicas": replicas, **(spec or {})}, "status": status}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (workload(replicas=3, readyReplicas=3, updatedReplicas=3), "good"),
        (workload(replicas=3, readyReplicas=3, updatedReplicas=1), "busy"),
        (workload(replicas=3, readyReplicas=2), "busy later bad"),
        (workload(replicas=3, readyReplicas=1, conditions=conditions(Available="False")), "busy later bad"),
        (workload(replicas=3), "busy later bad"),
        (workload(replicas=0), "over"),
        (workload(readyReplicas=3, conditions=condition("Progressing", "False", "ProgressDeadlineExceeded")), "bad"),
        (workload("ReplicaSet"), "busy later bad"),
        (workload("ReplicaSet", replicas=0), "over"),
        (workload("StatefulSet", readyReplicas=3, updatedReplicas=3), "good"),
        (
            workload("StatefulSet", readyReplicas=3, updatedReplicas=1, spec=PARTITION),
            "good",
        ),
        (
            workload("StatefulSet", readyReplicas=3, updatedReplicas=0, spec={"updateStrategy": {"type": "OnDelete"}}),
            "good",
        ),
        (workload("DaemonSet", desiredNumberScheduled=2, numberReady=2, updatedNumberScheduled=2), "good"),
        (workload("DaemonSet", desiredNumberScheduled=2, numberReady=1), "busy later bad"),
        (workload("DaemonSet", desiredNumberScheduled=2), "busy later bad"),
        (workload("DaemonSet"), "over"),
    ],
    ids=str,
)
def test_a_workload_is_as_well_as_its_pods(document: dict[str, Any], expected: str) -> None:
    assert level(document) == expected


def test_a_workload_has_the_grace_of_its_rule_from_the_last_write_of_its_status() -> None:
    document = workload()
    entries = [{"time": LATER}, {"time": THEN, "subresource": "status"}]
    document["metadata"] = {"managedFields": entries}
    assert severity(document, now=AT_10).bad_from == AT_10 + GRACES["replicas"]


def test_a_state_without_a_time_counts_from_the_time_that_the_reader_knows() -> None:
    assert severity(workload()) == ("busy", None, "0 of 3 replicas ready")
    assert severity(workload(), since=AT_10).level == "bad"


def other(kind: str, api_version: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, **fields}


def custom(*, phase: str = "", **values: str) -> dict[str, Any]:
    return other("Widget", "example.com/v1", status={"phase": phase, "conditions": conditions(**values)})


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (other("Node", status={"conditions": conditions(Ready="True", DiskPressure="False")}), "good"),
        (other("Node", status={"conditions": conditions(Ready="Unknown")}), "busy later bad"),
        (other("Node", status={"conditions": conditions(Ready="True", DiskPressure="True")}), "busy later bad"),
        (other("Node", spec={"unschedulable": True}, status={"conditions": conditions(Ready="True")}), "busy"),
        (other("Job", "batch/v1", status={"active": 1}), "good"),
        (other("Job", "batch/v1", status={"active": 1, "failed": 2}), "busy"),
        (other("Job", "batch/v1", status={"conditions": conditions(Complete="True")}), "over"),
        (other("Job", "batch/v1", status={"conditions": conditions(Failed="True")}), "bad"),
        (other("PersistentVolumeClaim", status={"phase": "Lost"}), "bad"),
        (other("PersistentVolume", status={"phase": "Released"}), "busy"),
        (other("Namespace", status={"phase": "Active"}), "good"),
        (other("Namespace", status={"phase": "Terminating"}, metadata={"deletionTimestamp": THEN}), "bad"),
        (other("ConfigMap", data={}), ""),
        (other("Event", type="Warning"), "busy"),
        (custom(Ready="True"), "good"),
        (custom(Ready="False"), "busy later bad"),
        (custom(Ready="Unknown"), "busy later bad"),
        (custom(Ready="True", Stalled="True"), "busy later bad"),
        (custom(Available="False"), "busy later bad"),
        (custom(phase="Degraded"), "busy later bad"),
        (other("Backup", "velero.io/v1", status={"phase": "Failed", "completionTimestamp": THEN}), "busy"),
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
    assert severity(document).reason == "DiskPressure"


def test_a_state_that_other_objects_may_explain_is_never_bad_by_itself() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "c", "controller": True}
    failed = other("Job", "batch/v1", status={"conditions": conditions(Failed="True")})
    assert severity(failed, now=AT_11 + 1e6).level == "bad"
    assert severity({**failed, "metadata": {"ownerReferences": [owner]}}, now=AT_11 + 1e6).level == "busy"
    claim = other("PersistentVolumeClaim", spec={"storageClassName": "local"}, status={"phase": "Pending"})
    assert severity(claim, now=AT_11 + 1e6).level == "busy"
    assert severity({**claim, "spec": {}}, now=AT_11 + 1e6).level == "bad"
