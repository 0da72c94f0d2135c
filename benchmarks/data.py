"""Objects to measure with: Pods of 8 KB and of 3 KB, and ConfigMaps of 1 KB, as a real API server writes them.

Everything follows from a seed, so that the server process and the measuring process make the same bytes without
sending them to each other. An object is rendered from the template of its workload (there are 400, of different
labels, containers, environment and volumes), whose JSON has been cut at what differs from pod to pod: 100,000
Pods take three seconds.

True to life are the field order, a third of managedFields, label sets shared by the pods of a workload, one
owner reference, and the unequal sizes. The words come from a small vocabulary, so the bytes
compress better than those of a real cluster, which makes no difference to decoding.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

SEED = 20261121
WORKLOADS = 400
NODES = 200
NAMESPACES = 40
FIRST_VERSION = 1_000_000  # object i of the first list has this + i
_SLOTS = ("@name@", "@uid@", "@version@", "@node@", "@ip@", "@time@", "@restarts@")


@dataclass(frozen=True)
class Kind:
    """The served objects: `item` makes an object of a list, `event` a line of a watch."""

    resource: str
    path: str
    list_kind: str
    head: bytes  # kind and apiVersion, which items of a list do not have
    render: Callable[[int, int], bytes]

    def item(self, index: int, version: int | None = None) -> bytes:
        """Object `index` in the state of `version`, by default the one of the first list."""
        return self.render(index, FIRST_VERSION + index if version is None else version)

    def dropped(self) -> Kind:
        """The same objects without managedFields."""

        def render(index: int, version: int) -> bytes:
            document = json.loads(self.render(index, version))
            document["metadata"].pop("managedFields", None)
            return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

        return replace(self, render=render)

    def event(self, type: str, index: int, version: int | None = None) -> bytes:  # noqa: A002 - the wire's word
        """A line of a watch, with its newline."""
        return b'{"type":"%b","object":{%b,%b}\n' % (type.encode(), self.head, self.item(index, version)[1:])


def touched(number: int, objects: int) -> int:
    """The object that event `number` is about: all in turn, each far from the one before."""
    return number * 7919 % objects


def _cut(template: dict[str, Any]) -> list[bytes | str]:
    """The JSON of a template, cut at its slots: bytes to copy and names to fill in, in turn."""
    text = json.dumps(template, separators=(",", ":"))
    for slot in _SLOTS:
        text = text.replace(f'"#{slot}"', f"\0{slot}\0").replace(slot, f"\0{slot}\0")
    parts = [part for part in text.replace("\0\0", "\0").split("\0") if part]
    return [part if part in _SLOTS else part.encode() for part in parts]


def _fill(pieces: list[bytes | str], index: int, version: int) -> bytes:
    mixed = index * 0x9E3779B1 & 0xFFFFFFFF  # Knuth's hash: names and nodes that look drawn by lot
    values = {
        "@name@": b"%05x" % (mixed & 0xFFFFF),
        "@uid@": b"%08x-7d0c-4b5e-9a3f-%012x" % (mixed, index),
        "@version@": b"%d" % version,
        "@node@": b"%03d" % (mixed % NODES),
        "@ip@": b"%d.%d" % (index >> 8 & 0xFF, index & 0xFF),
        "@time@": b"2026-11-%02dT%02d:%02d:%02dZ" % (1 + version % 28, version % 24, version % 60, version % 59),
        "@restarts@": b"%d" % (version % 7),
    }
    return b"".join([values[piece] if isinstance(piece, str) else piece for piece in pieces])


# --- pods ---------------------------------------------------------------------------------------------------

_TEAMS = ("payments", "search", "checkout", "identity", "ledger", "media", "billing", "insights")
_ROLES = ("api", "worker", "cache", "gateway", "scheduler", "ingest", "frontend", "exporter")
_SETTINGS = ("LOG_LEVEL", "HTTP_PORT", "DATABASE_URL", "CACHE_TTL", "REGION", "TRACE_ENDPOINT", "POOL_SIZE", "RETRIES")


@lru_cache(maxsize=1)
def _pod_templates() -> tuple[list[bytes | str], ...]:
    return tuple(_cut(_pod(number, random.Random(SEED + number))) for number in range(WORKLOADS))


def _pod(number: int, chance: random.Random) -> dict[str, Any]:
    team, role = chance.choice(_TEAMS), chance.choice(_ROLES)
    app = f"{team}-{role}-{number:03d}"
    revision = f"{chance.getrandbits(40):010x}"
    containers = [_container(app, extra, chance) for extra in range(chance.choice((1, 1, 1, 2)))]
    labels = {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/component": role,
        "app.kubernetes.io/part-of": team,
        "app.kubernetes.io/version": f"1.{chance.randrange(40)}.{chance.randrange(9)}",
        "environment": chance.choice(("production", "staging", "canary")),
        "pod-template-hash": revision,
    }
    annotations = {
        "kubectl.kubernetes.io/restartedAt": "2026-11-03T09:12:44Z",
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(8000 + number),
        "checksum/config": f"{chance.getrandbits(256):064x}",
    }
    owner_uid = f"{chance.getrandbits(32):08x}-3b1d-4c7e-8f2a-{chance.getrandbits(48):012x}"
    return {
        "metadata": {
            "name": f"{app}-{revision}-@name@",
            "generateName": f"{app}-{revision}-",
            "namespace": f"{team}-{number % NAMESPACES:02d}",
            "uid": "@uid@",
            "resourceVersion": "@version@",
            "generation": 1,
            "creationTimestamp": "2026-11-02T08:00:00Z",
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-{revision}",
                    "uid": owner_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": _managed_fields(labels, annotations, owner_uid, containers),
        },
        "spec": _pod_spec(app, containers, chance),
        "status": _pod_status(containers, chance),
    }


def _container(app: str, number: int, chance: random.Random) -> dict[str, Any]:
    name = app if number == 0 else f"sidecar-{number}"
    environment: list[dict[str, Any]] = [
        {"name": f"{setting}_{place}", "value": f"{chance.getrandbits(64):016x}.{app}.svc.cluster.local:{5000 + place}"}
        for place, setting in enumerate(chance.sample(_SETTINGS, 5 - 3 * number))
    ]
    environment.append(
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
    )
    secret = {"name": f"{app}-credentials", "key": "token"}
    environment.append({"name": "TOKEN", "valueFrom": {"secretKeyRef": secret}})
    probe = {
        "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
        "initialDelaySeconds": chance.randrange(5, 30),
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    return {
        "name": name,
        "image": f"registry.example.com/{app}/{name}:1.{chance.randrange(40)}.0@sha256:{chance.getrandbits(256):064x}",
        "args": ["--config=/etc/config/app.yaml", f"--workers={chance.randrange(1, 16)}"],
        "ports": [{"name": "http", "containerPort": 8080 + number, "protocol": "TCP"}],
        "env": environment,
        "resources": {
            "limits": {"cpu": "2", "memory": f"{chance.randrange(1, 16) * 256}Mi"},
            "requests": {"cpu": f"{chance.randrange(1, 20) * 100}m", "memory": "512Mi"},
        },
        "volumeMounts": [
            {"name": "config", "readOnly": True, "mountPath": "/etc/config"},
            {"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "livenessProbe": probe,
        "readinessProbe": {**probe, "initialDelaySeconds": 2},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"runAsNonRoot": True, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False},
    }


def _pod_spec(app: str, containers: list[dict[str, Any]], chance: random.Random) -> dict[str, Any]:
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    return {
        "volumes": [
            {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
            {"name": "token", "projected": {"sources": [token, authority], "defaultMode": 420}},
        ],
        "containers": containers,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "serviceAccount": app,
        "nodeName": "node-@node@.eu-central-1.compute.internal",
        "securityContext": {"fsGroup": 2000},
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_anti_affinity(app)]}},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for what in ("not-ready", "unreachable")
        ],
        "priority": chance.choice((0, 0, 1000)),
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _anti_affinity(app: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app.kubernetes.io/name": app}}
    return {"weight": 100, "podAffinityTerm": {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}}


def _pod_status(containers: list[dict[str, Any]], chance: random.Random) -> dict[str, Any]:
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "observedGeneration": 1,
        "phase": chance.choice(("Running", "Running", "Running", "Pending", "Succeeded")),
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "@time@"}
            for kind in conditions
        ],
        "hostIP": "10.0.@ip@",
        "hostIPs": [{"ip": "10.0.@ip@"}],
        "podIP": "10.244.@ip@",
        "podIPs": [{"ip": "10.244.@ip@"}],
        "startTime": "2026-11-02T08:00:01Z",
        "containerStatuses": [
            {
                "name": container["name"],
                "state": {"running": {"startedAt": "@time@"}},
                "lastState": {},
                "ready": True,
                "restartCount": "#@restarts@",
                "image": container["image"].split("@")[0],
                "imageID": container["image"],
                "containerID": f"containerd://{chance.getrandbits(256):064x}",
                "started": True,
            }
            for container in containers
        ],
        "qosClass": "Burstable",
    }


def _fields(value: Any, *, keyed_by: str = "name") -> Any:
    """The managedFields of a value: its shape, with `f:` names and `k:` keys of lists."""
    if isinstance(value, dict):
        return {f"f:{name}": _fields(inner) for name, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict) and keyed_by in value[0]:
        return {f'k:{{"{keyed_by}":"{inner[keyed_by]}"}}': {".": {}, **_fields(inner)} for inner in value}
    return {}


def _managed_fields(
    labels: dict[str, str], annotations: dict[str, str], owner_uid: str, containers: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    shape = [
        {name: value for name, value in container.items() if name not in ("env", "securityContext", "args")}
        for container in containers
    ]
    for container, source in zip(shape, containers, strict=True):
        container["env"] = [{"name": setting["name"], "value": ""} for setting in source["env"][:1]]
    created = {
        "f:metadata": {
            "f:annotations": {".": {}, **_fields(annotations)},
            "f:generateName": {},
            "f:labels": {".": {}, **_fields(labels)},
            "f:ownerReferences": {".": {}, f'k:{{"uid":"{owner_uid}"}}': {}},
        },
        "f:spec": {"f:containers": _fields(shape), "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}},
    }
    condition = {".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
    running = {
        "f:status": {
            "f:conditions": {
                f'k:{{"type":"{kind}"}}': condition for kind in ("ContainersReady", "Initialized", "Ready")
            },
            "f:containerStatuses": {},
            "f:hostIP": {},
            "f:phase": {},
            "f:podIP": {},
            "f:startTime": {},
        }
    }
    manager = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return [
        {"manager": "kube-controller-manager", **manager, "time": "2026-11-02T08:00:00Z", "fieldsV1": created},
        {"manager": "kubelet", **manager, "time": "@time@", "fieldsV1": running, "subresource": "status"},
    ]


def _render_pod(index: int, version: int) -> bytes:
    return _fill(_pod_templates()[index % WORKLOADS], index, version)


# --- small pods ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _small_pod_templates() -> tuple[list[bytes | str], ...]:
    return tuple(_cut(_small_pod(number, random.Random(SEED + number))) for number in range(WORKLOADS))


def _small_pod(number: int, chance: random.Random) -> dict[str, Any]:
    """A pod without probes, affinity, environment and volumes of its own: 3 KB, a fifth of it managedFields."""
    pod = _pod(number, chance)
    container = {name: pod["spec"]["containers"][0][name] for name in ("name", "image", "resources", "imagePullPolicy")}
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    metadata["annotations"] = {"prometheus.io/scrape": "true"}
    metadata["managedFields"] = metadata["managedFields"][1:]
    names = ("restartPolicy", "dnsPolicy", "serviceAccountName", "nodeName", "tolerations", "schedulerName", "priority")
    pod["spec"] = {"containers": [container], **{name: spec[name] for name in names}}
    status["conditions"] = status["conditions"][1:]
    status["containerStatuses"] = status["containerStatuses"][:1]
    return pod


def _render_small_pod(index: int, version: int) -> bytes:
    return _fill(_small_pod_templates()[index % WORKLOADS], index, version)


# --- configmaps -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _configmap_templates() -> tuple[list[bytes | str], ...]:
    return tuple(_cut(_configmap(number, random.Random(SEED - number))) for number in range(WORKLOADS))


def _configmap(number: int, chance: random.Random) -> dict[str, Any]:
    team = chance.choice(_TEAMS)
    data = {
        f"{setting.lower()}.yaml": f"value: {chance.getrandbits(200):050x}\nowner: {team}\n"
        for setting in chance.sample(_SETTINGS, 4)
    }
    labels = {"app.kubernetes.io/part-of": team, "app.kubernetes.io/managed-by": "Helm"}
    owned = {"f:data": {".": {}, **_fields(data)}, "f:metadata": {"f:labels": {".": {}, **_fields(labels)}}}
    return {
        "metadata": {
            "name": f"{team}-{number:03d}-@name@",
            "namespace": f"{team}-{number % NAMESPACES:02d}",
            "uid": "@uid@",
            "resourceVersion": "@version@",
            "creationTimestamp": "2026-11-02T08:00:00Z",
            "labels": labels,
            "managedFields": [
                {
                    "manager": "helm",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "@time@",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": owned,
                }
            ],
        },
        "data": data,
    }


def _render_configmap(index: int, version: int) -> bytes:
    return _fill(_configmap_templates()[index % WORKLOADS], index, version)


KINDS = {
    "pods": Kind("v1/pods", "/api/v1/pods", "PodList", b'"kind":"Pod","apiVersion":"v1"', _render_pod),
    "small_pods": Kind("v1/pods", "/api/v1/pods", "PodList", b'"kind":"Pod","apiVersion":"v1"', _render_small_pod),
    "configmaps": Kind(
        "v1/configmaps",
        "/api/v1/configmaps",
        "ConfigMapList",
        b'"kind":"ConfigMap","apiVersion":"v1"',
        _render_configmap,
    ),
}
