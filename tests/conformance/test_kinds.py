"""Every built-in kind: the stored form of the smallest valid object, and its columns in kubectl."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.site import Site
from tests.conformance.test_lists import TABLE

TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main", "image": "registry.invalid/main:1"}]},
}
JOB_TEMPLATE = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
SELECTOR = {"matchLabels": {"app": "a"}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}
CLUSTER_ROLE = {**ROLE, "kind": "ClusterRole"}
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
BACKEND = {"service": {"name": "a", "port": {"number": 80}}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
PATHS = {"paths": [{"path": "/", "pathType": "Prefix", "backend": BACKEND}]}
POD = {"kind": "Pod", "namespace": "NS", "name": "a"}
METRICS = [{"type": "Resource", "resource": CPU}]
SCALING = {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 3, "metrics": METRICS}

# resource -> what is sent beside the name; a resource with an asterisk is the cluster's
KINDS: dict[str, dict[str, Any]] = {
    "v1/pods": {"spec": TEMPLATE["spec"]},
    "v1/nodes*": {},
    "v1/namespaces*": {},
    "v1/services": {"spec": {"ports": [{"port": 80}], "selector": {"app": "a"}, "clusterIP": "None"}},
    "v1/configmaps": {"data": {"x": "1"}, "binaryData": {"y": "AAEC"}},
    "v1/secrets": {"stringData": {"x": "1"}},
    "v1/serviceaccounts": {},
    "v1/endpoints": {"subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]},
    "v1/persistentvolumes*": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/a"}}
    },
    "v1/persistentvolumeclaims": {"spec": CLAIM},
    "v1/replicationcontrollers": {"spec": {"template": TEMPLATE}},
    "v1/limitranges": {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    "v1/podtemplates": {"template": TEMPLATE},
    "apps/v1/deployments": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "apps/v1/replicasets": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "apps/v1/statefulsets": {
        "spec": {
            "selector": SELECTOR,
            "template": TEMPLATE,
            "serviceName": "a",
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
        }
    },
    "apps/v1/daemonsets": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "batch/v1/jobs": {"spec": {"template": JOB_TEMPLATE}},
    "batch/v1/cronjobs": {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}},
    "coordination.k8s.io/v1/leases": {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    "discovery.k8s.io/v1/endpointslices": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.1.1"]}],
        "ports": [{"port": 80}],
    },
    "networking.k8s.io/v1/ingresses": {"spec": {"rules": [{"host": "a.example.com", "http": PATHS}]}},
    "networking.k8s.io/v1/ingressclasses*": {"spec": {"controller": "example.com/a"}},
    "networking.k8s.io/v1/networkpolicies": {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}},
    "policy/v1/poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    "autoscaling/v2/horizontalpodautoscalers": {"spec": SCALING},
    "autoscaling/v1/horizontalpodautoscalers": {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}},
    "storage.k8s.io/v1/storageclasses*": {"provisioner": "example.com/a"},
    "scheduling.k8s.io/v1/priorityclasses*": {"value": 1000},
    "rbac.authorization.k8s.io/v1/roles": {"rules": RULES},
    "rbac.authorization.k8s.io/v1/rolebindings": {
        "roleRef": ROLE,
        "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "NS"}],
    },
    "rbac.authorization.k8s.io/v1/clusterroles*": {"rules": RULES},
    "rbac.authorization.k8s.io/v1/clusterrolebindings*": {"roleRef": CLUSTER_ROLE},
    "v1/events": {"involvedObject": POD, "reason": "Tested", "message": "m"},
    "events.k8s.io/v1/events": {
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/a",
        "reportingInstance": "a-1",
        "action": "Test",
        "reason": "Tested",
        "type": "Normal",
        "note": "m",
        "regarding": POD,
    },
}


def collection(site: Site, resource: str) -> str:
    version, _, name = resource.rstrip("*").rpartition("/")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/{name}" if resource.endswith("*") else f"{root}/namespaces/{site.namespace}/{name}"


def filled(value: Any, namespace: str) -> Any:
    if isinstance(value, dict):
        return {key: filled(item, namespace) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, namespace) for item in value]
    return namespace if value == "NS" else value


@pytest.mark.parametrize("resource", KINDS, ids=[name.rstrip("*").replace("/", "-") for name in KINDS])
async def test_the_least_of(site: Site, resource: str) -> None:
    path = collection(site, resource)
    name = "a"
    if resource.endswith("*"):  # the cluster is shared: a name of our own
        name = f"own-{site.namespace}"
        site.transcript.name(name, "OWN")
    body = {"metadata": {"name": name}, **filled(KINDS[resource], site.namespace)}
    assert (await site.post(path, body)).status == 201
    await site.get(f"{path}/{name}")
    await site.get(f"{path}?fieldSelector=metadata.name%3D{name}")
    await site.get(f"{path}?includeObject=None&fieldSelector=metadata.name%3D{name}", accept=TABLE)
    await site.patch(f"{path}/{name}", {"metadata": {"labels": {"x": "1"}}})
    if resource != "v1/namespaces*":  # its end is a controller's
        await site.delete(f"{path}/{name}")
