"""Generates objects in bulk: pods of about 8 KB, as the kubelet leaves them, and configmaps of about 1 KB.

They are rendered from a byte template, so that 100,000 take only seconds.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from kinformer.apiserver.storage import Storage, Stored
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.store.forms import encode_object
from kinformer.testing.store.ownership import FieldManager, track_update

__all__ = ["configmap", "load", "pod", "replica_sets"]

Object = dict[str, Any]

_STARTED = "2026-11-20T08:00:00Z"
_NAMESPACES = 20
_APPS = 120  # a multiple of the namespaces and tiers, so that an application has one of each
_NODES = 500
_ENV = 2  # settings in the environment of a container


def _container(name: str, image: str) -> Object:
    return {
        "name": name,
        "image": image,
        "args": [f"--config=/etc/{name}/config.yaml", "--log-level=info", "--metrics=:9090"],
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
        ],
        "env": [
            *({"name": f"SETTING_{index:02}", "value": f"value-of-setting-{index:02}"} for index in range(_ENV)),
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        ],
        "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [
            {"name": "config", "mountPath": f"/etc/{name}"},
            {
                "name": "kube-api-access",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            },
        ],
        "livenessProbe": _probe("/livez"),
        "readinessProbe": _probe("/readyz"),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _toleration(taint: str) -> Object:
    """Return the toleration that admission adds to each pod."""
    key = f"node.kubernetes.io/{taint}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def _probe(path: str) -> Object:
    return {
        "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def _container_status(name: str, image: str, digest: str) -> Object:
    return {
        "name": name,
        "state": {"running": {"startedAt": _STARTED}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": image,
        "imageID": f"{image.partition(':')[0]}@sha256:{digest}",
        "containerID": f"containerd://{digest}",
        "started": True,
    }


def _status(host: str, address: str, containers: dict[str, str], digest: str) -> Object:
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _STARTED}
            for kind in conditions
        ],
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _STARTED,
        "containerStatuses": [_container_status(name, image, digest) for name, image in containers.items()],
        "qosClass": "Burstable",
    }


class _Placement(NamedTuple):
    """The namespace, application and node of the index-th object, and the addresses of the node and of a pod."""

    namespace: str
    app: str
    node: str
    host: str
    address: str


def _placement(index: int, nodes: int = _NODES) -> _Placement:
    node = index % nodes
    return _Placement(
        f"team-{index % _NAMESPACES:02}",
        f"app-{index % _APPS:03}",
        f"node-{node:03}",
        f"10.0.{node >> 8}.{node & 255}",
        f"10.{1 + (index >> 16) % 127}.{index >> 8 & 255}.{index & 255}",
    )


def _owner(app: str) -> Object:
    """Return the identity of the ReplicaSet that owns the pods of an application."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{app}-5d9c7b",
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, app)),
    }


def replica_sets(count: int) -> Iterator[Object]:
    """Yield the ReplicaSets that own the first `count` pods."""
    for index in range(min(count, _APPS)):
        example, replicas = pod(index), len(range(index, count, _APPS))
        namespace, app, *_ = _placement(index)
        spec = {name: value for name, value in example["spec"].items() if name != "nodeName"}
        owner = _owner(app)
        numbers = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        yield {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "metadata": {"name": owner["name"], "uid": owner["uid"], "namespace": namespace, "labels": {"app": app}},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": app}},
                "template": {"metadata": {"labels": example["metadata"]["labels"]}, "spec": spec},
            },
            "status": {"observedGeneration": 1, **dict.fromkeys(numbers, replicas)},
        }


def pod(index: int) -> Object:
    """Return the index-th pod without the fields that the server sets: about 6 KB, or 8 KB with managedFields."""
    namespace, app, node, host, address = _placement(index)
    image = f"registry.example.com/{app}:1.{index % _APPS % 7}"
    containers = {"server": image, "proxy": "registry.example.com/proxy:2.4"}
    digest = f"{index:064x}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{app}-{index:06}",
            "namespace": namespace,
            "labels": {
                "app": app,
                "app.kubernetes.io/name": app,
                "app.kubernetes.io/part-of": namespace,
                "tier": ("front", "back", "batch")[index % 3],
            },
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
            "ownerReferences": [{**_owner(app), "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "volumes": [
                {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
                {"name": "kube-api-access", "projected": {"sources": [], "defaultMode": 420}},
            ],
            "containers": [_container(name, image) for name, image in containers.items()],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": app,
            "serviceAccount": app,
            "tolerations": [_toleration("not-ready"), _toleration("unreachable")],
            "nodeName": node,
            "securityContext": {"runAsNonRoot": True},
            "schedulerName": "default-scheduler",
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": _status(host, address, containers, digest),
    }


def configmap(index: int) -> Object:
    """Return the index-th configmap, of about 1 KB."""
    namespace, app, *_ = _placement(index)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{app}-{index:06}", "namespace": namespace, "labels": {"app": app}},
        "data": {f"key-{number:02}": f"value {number} of {app} " + "x" * 40 for number in range(8)},
    }


_KINDS = {"pods": pod, "configmaps": configmap}
# Placeholders in the template for the values that differ between objects of one shape.
_NAME, _UID, _REVISION, _NODE = "name-mark", "uid-mark", "918273645", "node-mark"
_HOST, _ADDRESS = "host-mark", "address-mark"
_MARKS = re.compile(f"({_NAME}|{_UID}|{_REVISION}|{_NODE}|{_HOST}|{_ADDRESS})".encode())


def load(storage: Storage, resource: ResourceType, count: int, nodes: int = _NODES) -> Iterator[int]:
    """Put `count` generated objects into a storage, without history. Yields the number so far, after each thousand.

    `resource` is pods or configmaps. Raises ValueError for any other. Open watches get no events, so load first.
    """
    make = _KINDS.get(resource.plural) if resource.builtin and not resource.group else None
    if make is None:
        raise ValueError(f"cannot generate {resource.plural}: expected {' or '.join(_KINDS)}")
    collection = storage.collection(resource.storage_name)
    templates: dict[int, tuple[list[bytes], dict[str, str]]] = {}
    seed = random.Random(0)
    for index in range(count):
        shape = index % _APPS  # each application's common part is rendered once
        if shape not in templates:
            templates[shape] = _template(resource, make(index))
        parts, labels = templates[shape]
        namespace, app, node, host, address = _placement(index, nodes)
        name = f"{app}-{index:06}"
        uid = str(uuid.UUID(int=seed.getrandbits(128), version=4))
        revision = storage.next_revision()
        values = {_NAME: name, _UID: uid, _REVISION: str(revision), _NODE: node, _HOST: host, _ADDRESS: address}
        marks = {mark.encode(): value.encode() for mark, value in values.items()}
        raw = b"".join([marks.get(part, part) for part in parts])
        collection.load(Stored(resource.key(namespace, name), namespace, name, uid, revision, labels, raw))
        if index % 1000 == 999:
            yield index + 1
    yield count


def _template(resource: ResourceType, obj: Object) -> tuple[list[bytes], dict[str, str]]:
    metadata = obj["metadata"]
    metadata.update(name=_NAME, uid=_UID, resourceVersion=_REVISION, creationTimestamp=_STARTED)
    if resource.generation:
        metadata["generation"] = 1
    status = obj.get("status")
    if status is not None:
        obj["spec"]["nodeName"] = _NODE
        status.update(podIP=_ADDRESS, podIPs=[{"ip": _ADDRESS}], hostIP=_HOST, hostIPs=[{"ip": _HOST}])
        track_update(resource, None, obj | {"status": None}, FieldManager("kube-controller-manager"), _STARTED)
        before = {**obj, "metadata": dict(metadata), "status": None}
        track_update(resource, before, obj, FieldManager("kubelet", subresource="status"), _STARTED)
    else:
        track_update(resource, None, obj, FieldManager("kubectl-create"), _STARTED)
    raw = encode_object(resource, obj)
    msgspec.json.decode(raw)  # invalid JSON in the template would break every object
    return _MARKS.split(raw), dict(metadata["labels"])
