"""Custom resources of often used projects, as their controllers write them: well, broken, and stopped on purpose.

Each is the content beside apiVersion, kind and name. Conditions changed long ago, by the clock of the scenes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.contrib.problem_scenes import LONG, condition

Content = dict[str, Any]


def conditions(*names: str, reason: str = "", **more: Any) -> Content:
    """Return a status with conditions: `Ready`, `-Ready` for one that is false, or `?Ready` for an unknown one."""
    status = {"-": "False", "?": "Unknown"}
    given = [condition(name.lstrip("-?"), status.get(name[0], "True"), LONG, reason=reason) for name in names]
    return {"status": {"conditions": given, **more}}


class Written(NamedTuple):
    """A kind of a project, with objects by what they show."""

    api_version: str
    kind: str
    well: dict[str, Content]
    broken: dict[str, Content]
    stopped: Mapping[str, Content] = MappingProxyType({})


PROJECTS: dict[str, Written] = {
    "cert-manager": Written(
        "cert-manager.io/v1",
        "Certificate",
        {"issued": conditions("Ready", reason="Ready", renewalTime="2027-01-01T00:00:00Z")},
        {"no issuer": conditions("-Ready", "Issuing", reason="DoesNotExist")},
    ),
    "Argo CD": Written(
        "argoproj.io/v1alpha1",
        "Application",
        {
            "synced": {"status": {"health": {"status": "Healthy"}, "sync": {"status": "Synced"}}},
            "rolling": {"status": {"health": {"status": "Progressing"}, "sync": {"status": "OutOfSync"}}},
        },
        {
            "degraded": {"status": {"health": {"status": "Degraded"}, "sync": {"status": "Synced"}}},
            "no such revision": {
                "status": {"conditions": [{"type": "ComparisonError", "message": "unable to resolve 'main'"}]}
            },
        },
        {"suspended": {"status": {"health": {"status": "Suspended"}}}},
    ),
    "Argo Rollouts": Written(
        "argoproj.io/v1alpha1",
        "Rollout",
        {"healthy": conditions("Available", "Progressing", "Healthy", "Completed", phase="Healthy")},
        {"aborted": conditions("Available", "-Progressing", reason="RolloutAborted", phase="Degraded")},
        {
            "paused in a canary step": conditions("-Healthy", "Paused", reason="CanaryPauseStep", phase="Paused"),
            "scaled to zero": {"spec": {"replicas": 0}, **conditions("-Available", phase="Progressing")},
        },
    ),
    "Flux": Written(
        "kustomize.toolkit.fluxcd.io/v1",
        "Kustomization",
        {"applied": conditions("Ready", reason="ReconciliationSucceeded")},
        {
            "build failed": conditions("-Ready", reason="BuildFailed"),
            "stalled": conditions("Stalled", "-Ready", reason="InstallFailed"),
        },
        {"suspended after a failure": {"spec": {"suspend": True}, **conditions("-Ready", reason="BuildFailed")}},
    ),
    "Crossplane": Written(
        "s3.aws.upbound.io/v1beta1",
        "Bucket",
        {"there": conditions("Synced", "Ready", "LastAsyncOperation", reason="Available")},
        {"refused": conditions("-Synced", "Ready", reason="ReconcileError")},
        {
            "paused": {
                "metadata": {"annotations": {"crossplane.io/paused": "true"}},
                **conditions("-Synced", reason="ReconcilePaused"),
            }
        },
    ),
    "Knative": Written(
        "serving.knative.dev/v1",
        "Revision",
        {"at zero": conditions("Ready", "-Active", "ContainerHealthy", reason="NoTraffic")},
        {"no image": conditions("-Ready", "-ContainerHealthy", reason="ContainerMissing")},
    ),
    "Gateway API": Written(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        {"attached": {"status": {"parents": [conditions("Accepted", "ResolvedRefs")["status"]]}}},
        {
            "no backend": {
                "status": {
                    "parents": [
                        conditions("Accepted", "ResolvedRefs")["status"],
                        conditions("Accepted", "-ResolvedRefs", reason="BackendNotFound")["status"],
                    ]
                }
            }
        },
    ),
    "Strimzi": Written(
        "kafka.strimzi.io/v1beta2",
        "Kafka",
        {"ready": conditions("Ready"), "with a warning": conditions("Ready", "Warning", reason="KafkaStorage")},
        {"no volume": conditions("NotReady", reason="TimeoutException")},
        {
            "paused": {
                "metadata": {"annotations": {"strimzi.io/pause-reconciliation": "true"}},
                **conditions("ReconciliationPaused"),
            }
        },
    ),
    "KEDA": Written(
        "keda.sh/v1alpha1",
        "ScaledObject",
        {"idle": conditions("Ready", "-Active", "-Fallback", "-Paused", reason="ScalerNotActive")},
        {
            "its metric is gone": conditions("Ready", "Fallback", reason="FallbackExists"),
            "no such trigger": conditions("-Ready", "?Active", reason="ScaledObjectCheckFailed"),
        },
        {"paused": conditions("-Ready", "Paused", reason="ScaledObjectPaused")},
    ),
    "External Secrets": Written(
        "external-secrets.io/v1",
        "ExternalSecret",
        {"synced": conditions("Ready", reason="SecretSynced")},
        {"denied": conditions("-Ready", reason="SecretSyncedError")},
    ),
    "CloudNativePG": Written(
        "postgresql.cnpg.io/v1",
        "Cluster",
        {"healthy": conditions("Ready", "ContinuousArchiving", phase="Cluster in healthy state", readyInstances=3)},
        {
            "too few instances": conditions("-Ready", reason="ClusterIsNotReady", phase="Failing over"),
            "no archive": conditions("Ready", "-ContinuousArchiving", reason="ContinuousArchivingFailing"),
        },
        {
            "hibernated": {
                "metadata": {"annotations": {"cnpg.io/hibernation": "on"}},
                **conditions("-Ready", "cnpg.io/hibernation", reason="Hibernated"),
            }
        },
    ),
    "Prometheus Operator": Written(
        "monitoring.coreos.com/v1",
        "Prometheus",
        {"available": conditions("Available", "Reconciled", availableReplicas=2)},
        {"no replica": conditions("-Available", "Reconciled", reason="NoPodReady")},
        {
            "paused": {
                "spec": {"paused": True},
                **conditions("-Available", "?Reconciled", reason="ReconciliationPaused"),
            }
        },
    ),
    "Rook": Written(
        "ceph.rook.io/v1",
        "CephCluster",
        {"created": conditions("Ready", phase="Ready", ceph={"health": "HEALTH_OK"})},
        {"failed": {"status": {"phase": "Failure", "message": "failed to detect the ceph version"}}},
    ),
    "KubeVirt": Written(
        "kubevirt.io/v1",
        "VirtualMachine",
        {"runs": conditions("Ready", "-LiveMigratable", reason="DisksNotLiveMigratable", printableStatus="Running")},
        {"cannot start": conditions("-Ready", reason="PodNotExists", printableStatus="ErrorUnschedulable")},
        {
            "halted": {"spec": {"runStrategy": "Halted"}, **conditions("-Ready", reason="VMINotExists")},
            "not to run": {"spec": {"running": False}, **conditions("-Ready", reason="VMINotExists")},
        },
    ),
    "Cluster API": Written(
        "cluster.x-k8s.io/v1beta1",
        "Machine",
        {
            "running": conditions("Ready", "InfrastructureReady", "NodeHealthy", phase="Running"),
            "with a remark": {"status": {"conditions": [condition("Ready", "False", LONG, severity="Info")]}},
        },
        {"no instance": conditions("-Ready", "-InfrastructureReady", reason="InstanceProvisionFailed", phase="Failed")},
        {
            "paused": {
                "metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}},
                **conditions("-Ready", reason="WaitingForInfrastructure"),
            }
        },
    ),
    "Karpenter": Written(
        "karpenter.sh/v1",
        "NodeClaim",
        {"ready": conditions("Launched", "Registered", "Initialized", "Ready", "Consolidatable")},
        {"never joined": conditions("Launched", "?Registered", "-Ready", reason="NodeNotFound")},
    ),
    "Kyverno": Written(
        "kyverno.io/v1",
        "ClusterPolicy",
        {"served": conditions("Ready", reason="Succeeded", ready=True)},
        {"refused": conditions("-Ready", reason="Failed")},
    ),
    "ECK": Written(
        "elasticsearch.k8s.elastic.co/v1",
        "Elasticsearch",
        {
            "green": {"status": {"health": "green", "phase": "Ready"}},
            "yellow, with one node": {"status": {"health": "yellow", "phase": "Ready"}},
        },
        {"red": {"status": {"health": "red", "phase": "ApplyingChanges"}}},
    ),
    "RabbitMQ": Written(
        "rabbitmq.com/v1beta1",
        "RabbitmqCluster",
        {"up": conditions("AllReplicasReady", "ClusterAvailable", "NoWarnings", "ReconcileSuccess")},
        {"refused": conditions("-AllReplicasReady", "-ClusterAvailable", "ReconcileSuccess", reason="NoEndpoints")},
    ),
    "Velero": Written(
        "velero.io/v1",
        "Backup",
        {
            "complete": {"status": {"phase": "Completed", "completionTimestamp": "2026-01-01T00:00:00Z"}},
            "one that failed a month ago": {
                "status": {"phase": "PartiallyFailed", "completionTimestamp": "2026-01-01T00:00:00Z"}
            },
        },
        {},
    ),
    "Argo Workflows": Written(
        "argoproj.io/v1alpha1",
        "Workflow",
        {"a run that failed": {"status": {"phase": "Failed", "finishedAt": "2026-01-01T00:00:00Z"}}},
        {},
        {"suspended": {"spec": {"suspend": True}, "status": {"phase": "Running"}}},
    ),
    "Tekton": Written(
        "tekton.dev/v1",
        "PipelineRun",
        {"a run that failed": conditions("-Succeeded", reason="Failed", completionTime="2026-01-01T00:00:00Z")},
        {},
    ),
    "OpenShift": Written(
        "config.openshift.io/v1",
        "ClusterOperator",
        {"fine": conditions("Available", "-Degraded", "-Progressing", "-Upgradeable")},
        {"degraded": conditions("Available", "Degraded", reason="OAuthServerRouteEndpoint")},
    ),
    "Kubeflow": Written(
        "kubeflow.org/v1",
        "PyTorchJob",
        {"running": conditions("Created", "Running"), "succeeded": conditions("Created", "-Running", "Succeeded")},
        {"failed": conditions("Created", "-Running", "Failed", reason="PyTorchJobFailed")},
        {"suspended": {"spec": {"runPolicy": {"suspend": True}}, **conditions("Created", "Suspended")}},
    ),
}
