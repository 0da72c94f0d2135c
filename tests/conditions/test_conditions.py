"""The ready-made conditions, as in kubectl and kube-rs."""

from __future__ import annotations

from typing import Any

import pytest

from kinformer import ConfigError, KubeObject
from kinformer.conditions import (
    Check,
    has_condition,
    is_crd_established,
    is_deleted,
    is_deployment_rolled_out,
    is_job_complete,
    is_job_failed,
    is_loadbalancer_ready,
    is_pod_ready,
    is_pod_running,
    is_pod_serving,
    matches,
)

ALL: list[Check] = [
    has_condition("Ready"),
    is_crd_established,
    is_deployment_rolled_out,
    is_job_complete,
    is_job_failed,
    is_loadbalancer_ready,
    is_pod_ready,
    is_pod_running,
    is_pod_serving,
    matches("spec.nodeName"),
]


def an(kind: str = "Pod", *, generation: int = 0, deleted: bool = False, **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "a", "namespace": "default", "uid": "uid-a", "resourceVersion": "1"}
    if generation:
        metadata["generation"] = generation
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def having(type_: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": "Other", "status": "True"}, {"type": type_, "status": status, **more}]}


def holds(check: Check, document: dict[str, Any]) -> bool:
    """The answer for a document, which is the same for an object."""
    answer = check(document)
    assert check(KubeObject.from_dict(document)) is answer
    return answer


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_nothing_is_true_of_an_object_that_does_not_exist_or_says_nothing(check: Check) -> None:
    assert check(None) is False
    assert holds(check, an()) is False
    assert holds(check, an(status={}, spec={})) is False
    assert holds(check, an(status=None)) is False


def test_a_pod_runs_by_its_phase_and_is_ready_by_its_condition() -> None:
    running = an(status={"phase": "Running"})
    assert holds(is_pod_running, running)
    assert not holds(is_pod_ready, running)
    assert not holds(is_pod_running, an(status={"phase": "Succeeded"}))
    assert holds(is_pod_ready, an(status=having("Ready")))
    assert not holds(is_pod_ready, an(status=having("Ready", "False")))


def test_a_pod_that_is_being_deleted_may_be_ready_and_gets_no_requests() -> None:
    leaving = an(deleted=True, status=having("Ready"))
    assert holds(is_pod_ready, leaving)
    assert not holds(is_pod_serving, leaving)
    assert holds(is_pod_serving, an(status=having("Ready")))


def test_a_job_ends_in_one_of_two_ways() -> None:
    assert holds(is_job_complete, an("Job", status=having("Complete")))
    assert not holds(is_job_complete, an("Job", status=having("Failed")))
    assert holds(is_job_failed, an("Job", status=having("Failed")))
    assert not holds(is_job_failed, an("Job", status=having("FailureTarget")))


def deployment(
    *, replicas: int | None = 3, generation: int = 2, reason: str = "NewReplicaSetAvailable", **status: int
) -> dict[str, Any]:
    counts = {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3} | status
    spec = {} if replicas is None else {"replicas": replicas}
    return an("Deployment", generation=generation, spec=spec, status=counts | having("Progressing", reason=reason))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (deployment(), True),
        (deployment(generation=3), False),  # the controller has not seen the newest template
        (deployment(updatedReplicas=2), False),
        (deployment(replicas=4), False),
        (deployment(updatedReplicas=3, replicas=3, availableReplicas=2), False),
        (deployment(replicas=3, availableReplicas=3, reason="ProgressDeadlineExceeded"), False),
        (deployment(replicas=0, updatedReplicas=0, availableReplicas=0) | {"spec": {"replicas": 0}}, False),
        (an("Deployment", generation=1, spec={"replicas": 0}, status={"observedGeneration": 1}), True),
        (an("Deployment", generation=1, spec={}, status={"observedGeneration": 1}), False),  # the default is one
    ],
)
def test_a_deployment_is_rolled_out_by_the_rules_of_kubectl_rollout_status(
    document: dict[str, Any], expected: bool
) -> None:
    assert holds(is_deployment_rolled_out, document) is expected


def test_replicas_of_an_old_template_that_are_left_keep_a_deployment_from_being_rolled_out() -> None:
    document = deployment()
    document["status"]["replicas"] = 4
    assert not holds(is_deployment_rolled_out, document)


def test_a_resource_definition_is_established() -> None:
    assert holds(is_crd_established, an("CustomResourceDefinition", status=having("Established")))
    assert not holds(is_crd_established, an("CustomResourceDefinition", status=having("NamesAccepted")))


@pytest.mark.parametrize(
    ("kind", "type_", "addresses", "expected"),
    [
        ("Service", "LoadBalancer", [{"ip": "10.0.0.1"}], True),
        ("Service", "LoadBalancer", [{"hostname": "lb.example"}, {"ip": "10.0.0.1"}], True),
        ("Service", "LoadBalancer", [{"ip": "10.0.0.1"}, {}], False),
        ("Service", "LoadBalancer", [], False),
        ("Service", "ClusterIP", [], True),
        ("Ingress", None, [{"ip": "10.0.0.1"}], True),
        ("Ingress", None, [], False),
    ],
)
def test_a_load_balancer_is_ready_with_an_address(
    kind: str, type_: str | None, addresses: list[dict[str, str]], expected: bool
) -> None:
    spec = {"type": type_} if type_ else {"rules": []}
    document = an(kind, spec=spec, status={"loadBalancer": {"ingress": addresses}})
    assert holds(is_loadbalancer_ready, document) is expected


def test_a_status_condition_is_compared_as_kubectl_does_it() -> None:
    assert holds(has_condition("ready"), an(status=having("Ready", "true")))
    assert holds(has_condition("Ready", False), an(status=having("Ready", "False")))
    assert holds(has_condition("Ready", None), an(status=having("Ready", "Unknown")))
    assert holds(has_condition("Ready", "Perhaps"), an(status=having("Ready", "perhaps")))
    assert not holds(has_condition("Ready", False), an(status=having("Other", "False")))


def test_a_status_condition_of_an_earlier_generation_does_not_count() -> None:
    of_now = having("Ready", observedGeneration=2)
    assert holds(has_condition("Ready"), an(generation=2, status=of_now))
    assert not holds(has_condition("Ready"), an(generation=3, status=of_now))
    by_status = having("Ready") | {"observedGeneration": 2}
    assert holds(has_condition("Ready"), an(generation=2, status=by_status))
    assert not holds(has_condition("Ready"), an(generation=3, status=by_status))
    assert not holds(has_condition("Ready", False), an(generation=3, status=by_status))


def test_an_object_is_deleted_if_there_is_none_or_another_of_its_name() -> None:
    assert is_deleted("uid-a")(None)
    assert not holds(is_deleted("uid-a"), an())
    assert holds(is_deleted("uid-b"), an())


def test_a_value_at_a_path_matches_as_kubectl_compares_it() -> None:
    document = an(spec={"nodeName": "node-1", "replicas": 3, "paused": True, "containers": [{"image": "a"}]})
    assert holds(matches("spec.nodeName", "node-1"), document)
    assert holds(matches(".spec.nodeName", "node-1"), document)
    assert holds(matches("spec.nodeName"), document)
    assert not holds(matches("spec.nodeName", "node-2"), document)
    assert not holds(matches("spec.other"), document)
    assert holds(matches("spec.replicas", 3), document)
    assert holds(matches("spec.replicas", "3"), document)
    assert holds(matches("spec.paused", "true"), document)
    assert holds(matches("spec.paused", True), document)
    assert not holds(matches("spec.paused", 1), document)
    assert holds(matches("spec.containers[*].image", "a"), document)
    assert not holds(matches("spec.containers[*].image", "b"), document)
    assert holds(matches("spec.containers", [{"image": "a"}]), document)


def test_bad_arguments_are_named_at_once() -> None:
    with pytest.raises(ConfigError, match="position"):
        matches("spec.[")
    with pytest.raises(ValueError, match=r"is_deleted\(''\): pass the uid"):
        is_deleted("")
    with pytest.raises(TypeError, match=r"kinformer\.objects\.condition_is takes an object"):
        has_condition(KubeObject.from_dict(an()))  # type: ignore[arg-type]
