"""The rows of tables for built-in kinds, as `kubectl get` shows them (pkg/printers/internalversion/printers.go).

A row has the cells of all columns, including the columns of `-o wide`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kinformer.testing.codec.table_pods import pod_row
from kinformer.testing.codec.table_text import (
    age,
    containers,
    human_duration,
    label_selector,
    labels_text,
    listed,
    or_none,
    since,
)

__all__ = ["ROWS", "default_row"]

Object = Mapping[str, Any]
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _parts(obj: Object) -> tuple[Object, Object]:
    return obj.get("spec") or {}, obj.get("status") or {}


def _deployment(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    template, selector = spec.get("template") or {}, label_selector(spec.get("selector"))
    return [_name(obj), ready, *counts, age(obj), *containers(template), selector]


def _replica_set(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    template, selector = spec.get("template") or {}, label_selector(spec.get("selector"))
    return [_name(obj), *counts, age(obj), *containers(template), selector]


def _replication_controller(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [_name(obj), *counts, age(obj), *containers(spec.get("template") or {}), labels_text(spec.get("selector"))]


def _stateful_set(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [_name(obj), ready, age(obj), *containers(spec.get("template") or {})]


def _daemon_set(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    counts = [status.get(name, 0) for name in (*names, "numberAvailable")]
    template = spec.get("template") or {}
    nodes = labels_text((template.get("spec") or {}).get("nodeSelector"))
    return [_name(obj), *counts, nodes, age(obj), *containers(template), label_selector(spec.get("selector"))]


def _job(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    done, completions, parallelism = status.get("succeeded", 0), spec.get("completions"), spec.get("parallelism", 0)
    if completions is not None:
        progress = f"{done}/{completions}"
    else:
        progress = f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"
    true = {one.get("type") for one in status.get("conditions") or [] if one.get("status") == "True"}
    state = next((one for one in ("Complete", "Failed") if one in true), "")
    if not state and obj["metadata"].get("deletionTimestamp"):
        state = "Terminating"
    state = state or next(
        (one for one in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if one in true), "Running"
    )
    duration = ""
    if status.get("startTime"):
        duration = since(status["startTime"])
        if status.get("completionTime"):
            duration = human_duration(_between(status["startTime"], status["completionTime"]))
    template = spec.get("template") or {}
    return [
        _name(obj),
        state,
        progress,
        duration,
        age(obj),
        *containers(template),
        label_selector(spec.get("selector")),
    ]


def _between(start: str, end: str) -> int:
    return int((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _cron_job(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    suspended = {True: "True", False: "False", None: "<unset>"}[spec.get("suspend")]
    return [
        *(_name(obj), spec.get("schedule", ""), or_none(spec.get("timeZone")), suspended),
        *(len(status.get("active") or []), since(status.get("lastScheduleTime"), "<none>"), age(obj)),
        *(*containers(job.get("template") or {}), label_selector(job.get("selector"))),
    ]


def _balancers(status: Object) -> str:
    ingress = (status.get("loadBalancer") or {}).get("ingress") or []
    return ",".join(one.get("ip") or one.get("hostname") or "" for one in ingress)


def _service(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    kind = spec.get("type", "ClusterIP")
    external = list(spec.get("externalIPs") or [])
    if kind == "LoadBalancer":
        balancers = _balancers(status)
        outside = ",".join([*([balancers] if balancers else []), *external]) or "<pending>"
    elif kind == "ExternalName":
        outside = spec.get("externalName", "")
    else:
        outside = ",".join(external) or "<none>"
    ports = []
    for port in spec.get("ports") or []:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    addresses = spec.get("clusterIPs") or ["<none>"]
    return [
        *(_name(obj), kind, addresses[0], outside, ",".join(ports) or "<none>", age(obj)),
        labels_text(spec.get("selector")),
    ]


def _node(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    ready: Object = next((one for one in status.get("conditions") or [] if one.get("type") == "Ready"), {})
    state = "Unknown" if not ready else "Ready" if ready.get("status") == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    prefix, roles = "node-role.kubernetes.io/", set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith(prefix) and len(key) > len(prefix):
            roles.add(key.removeprefix(prefix))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    addresses = {one.get("type"): one.get("address") for one in reversed(status.get("addresses") or [])}
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        *(_name(obj), state, or_none(",".join(sorted(roles))), age(obj), info.get("kubeletVersion", "")),
        *(or_none(addresses.get("InternalIP")), or_none(addresses.get("ExternalIP"))),
        *(info.get("osImage") or "<unknown>", kernel, info.get("containerRuntimeVersion") or "<unknown>"),
    ]


def _event(obj: Object) -> list[Any]:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    series, event_time = obj.get("series"), since(obj.get("eventTime"))
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    first_text = since(first) if first else event_time
    last_text = since(last) if last else first_text
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if series:
        last_text, count = since(series.get("lastObservedTime")), series.get("count", 0)
    kind, name = about.get("kind", "").lower(), about.get("name")
    who = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    if instance := source.get("host") or obj.get("reportingInstance"):
        who += f", {instance}"
    message = (obj.get("message") or obj.get("note") or "").strip()
    return [
        *(last_text, obj.get("type", ""), obj.get("reason", ""), f"{kind}/{name}" if name else kind),
        *(about.get("fieldPath", ""), who, message, first_text, count, _name(obj)),
    ]


def _endpoints(obj: Object) -> list[Any]:
    found = []
    for subset in obj.get("subsets") or []:
        for port in subset.get("ports") or [None]:
            suffix = f":{port.get('port')}" if port else ""
            found += [f"{one.get('ip')}{suffix}" for one in subset.get("addresses") or []]
    shown = listed(found) if found else "" if obj.get("subsets") else "<none>"
    return [_name(obj), shown, age(obj)]


def _endpoint_slice(obj: Object) -> list[Any]:
    ports = [str(one.get("port", one.get("name", "*"))) for one in obj.get("ports") or []]
    addresses = [one for endpoint in obj.get("endpoints") or [] for one in endpoint.get("addresses") or []]
    return [_name(obj), obj.get("addressType", ""), listed(ports), listed(addresses), age(obj)]


def _phase(obj: Object) -> str:
    phase: str = (obj.get("status") or {}).get("phase", "")
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else phase


def _modes(modes: list[str] | None) -> str:
    return ",".join(_MODES[one] for one in _MODES if one in (modes or []))


def _volume_class(obj: Object, spec: Object) -> str:
    legacy = (obj["metadata"].get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    return str(legacy or spec.get("storageClassName", ""))


def _volume(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    claim = spec.get("claimRef")
    return [
        *(_name(obj), (spec.get("capacity") or {}).get("storage", "0"), _modes(spec.get("accessModes"))),
        *(spec.get("persistentVolumeReclaimPolicy", ""), _phase(obj)),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        *(_volume_class(obj, spec), spec.get("volumeAttributesClassName") or "<unset>"),
        *(status.get("reason", ""), age(obj), spec.get("volumeMode") or "<unset>"),
    ]


def _claim(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    bound = bool(spec.get("volumeName"))
    return [
        *(_name(obj), _phase(obj), spec.get("volumeName", "")),
        *((status.get("capacity") or {}).get("storage", "0") if bound else "",),
        *(_modes(status.get("accessModes")) if bound else "", _volume_class(obj, spec)),
        *(spec.get("volumeAttributesClassName") or "<unset>", age(obj), spec.get("volumeMode") or "<unset>"),
    ]


def _scaler(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    target = spec.get("scaleTargetRef") or {}
    least = spec.get("minReplicas")
    return [
        *(_name(obj), f"{target.get('kind')}/{target.get('name')}", _metrics(spec, status)),
        *("<unset>" if least is None else str(least), spec.get("maxReplicas", 0)),
        *(status.get("currentReplicas", 0), age(obj)),
    ]


def _metrics(spec: Object, status: Object) -> str:
    texts = []
    current = status.get("currentMetrics") or []
    percentage = spec.get("targetCPUUtilizationPercentage")  # autoscaling/v1
    if percentage is not None:
        now = status.get("currentCPUUtilizationPercentage")
        texts.append(f"cpu: {'<unknown>' if now is None else f'{now}%'}/{percentage}%")
    for index, metric in enumerate(spec.get("metrics") or []):
        kind = metric.get("type", "")
        key = kind[:1].lower() + kind[1:]
        source = metric.get(key) or {}
        now = ((current[index].get(key) or {}).get("current") or {}) if index < len(current) else {}
        target = source.get("target") or {}
        name = f"{source['name']}: " if kind in ("Resource", "ContainerResource") else ""
        if name and "averageValue" not in target:
            used, wanted = now.get("averageUtilization"), target.get("averageUtilization")
            message = f"{'<unknown>' if used is None else f'{used}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"
        elif "averageValue" in target:
            average = " (avg)" if kind in ("External", "Object") else ""
            message = f"{now.get('averageValue', '<unknown>')}/{target['averageValue']}{average}"
        else:
            message = f"{now.get('value', '<unknown>')}/{target.get('value', '')}"
        texts.append(name + message)
    return listed(texts, 2, separator=", ")


def _budget(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    limits = [str(spec.get(name, "N/A")) for name in ("minAvailable", "maxUnavailable")]
    return [_name(obj), *limits, status.get("disruptionsAllowed", 0), age(obj)]


def _ingress(obj: Object) -> list[Any]:
    spec, status = _parts(obj)
    hosts = [one["host"] for one in spec.get("rules") or [] if one.get("host")]
    shown = ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "") or "*"
    ports = "80, 443" if spec.get("tls") else "80"
    return [_name(obj), or_none(spec.get("ingressClassName")), shown, _balancers(status), ports, age(obj)]


def _ingress_class(obj: Object) -> list[Any]:
    spec, name = obj.get("spec") or {}, _name(obj)
    if (obj["metadata"].get("annotations") or {}).get("ingressclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    given = spec.get("parameters")
    kind = ""
    if given:
        kind = given.get("kind", "") + (f".{given['apiGroup']}" if given.get("apiGroup") else "") + "/" + given["name"]
    return [name, spec.get("controller", ""), kind or "<none>", age(obj)]


def _storage_class(obj: Object) -> list[Any]:
    name, annotations = _name(obj), obj["metadata"].get("annotations") or {}
    if "true" in (annotations.get(f"storageclass.{beta}kubernetes.io/is-default-class") for beta in ("", "beta.")):
        name += " (default)"
    binding = obj.get("volumeBindingMode", "Immediate")
    policy = obj.get("reclaimPolicy", "Delete")
    return [name, obj.get("provisioner", ""), policy, binding, obj.get("allowVolumeExpansion", False), age(obj)]


def _role_binding(obj: Object) -> list[Any]:
    role, subjects = obj.get("roleRef") or {}, obj.get("subjects") or []
    by_kind = {kind: [one.get("name", "") for one in subjects if one.get("kind") == kind] for kind in ("User", "Group")}
    accounts = [f"{one.get('namespace', '')}/{one['name']}" for one in subjects if one.get("kind") == "ServiceAccount"]
    users, groups = ", ".join(by_kind["User"]), ", ".join(by_kind["Group"])
    return [_name(obj), f"{role.get('kind')}/{role.get('name')}", age(obj), users, groups, ", ".join(accounts)]


def _quota(obj: Object) -> list[Any]:
    status = obj.get("status") or {}
    texts: dict[bool, list[str]] = {True: [], False: []}
    for name, hard in sorted((status.get("hard") or {}).items()):
        used = (status.get("used") or {}).get(name, "0")
        texts[name.startswith("limits.")].append(f"{name}: {used}/{hard}")
    return [_name(obj), ", ".join(texts[False]), ", ".join(texts[True]), age(obj)]


def _revision(obj: Object) -> list[Any]:
    owner = next((one for one in obj["metadata"].get("ownerReferences") or [] if one.get("controller")), None)
    message = "<none>"
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        message = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"
    return [_name(obj), message, obj.get("revision", 0), age(obj)]


def _pod_template(obj: Object) -> list[Any]:
    template = obj.get("template") or {}
    return [_name(obj), *containers(template), labels_text((template.get("metadata") or {}).get("labels"))]


def _plain_row(*names: str) -> Callable[[Object], list[Any]]:
    """Return a function that makes rows of the name, some unchanged fields, and the age."""
    return lambda obj: [_name(obj), *(obj.get(name, "") for name in names), age(obj)]


def _priority_class(obj: Object) -> list[Any]:
    policy = obj.get("preemptionPolicy", "")
    return [_name(obj), obj.get("value", 0), obj.get("globalDefault", False), age(obj), policy]


ROWS: Mapping[str, Callable[[Object], list[Any]]] = {
    "Pod": pod_row,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "ReplicationController": _replication_controller,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "CronJob": _cron_job,
    "Service": _service,
    "Node": _node,
    "Namespace": lambda obj: [_name(obj), (obj.get("status") or {}).get("phase", ""), age(obj)],
    "ConfigMap": lambda obj: [_name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj)],
    "Secret": lambda obj: [_name(obj), obj.get("type", ""), len(obj.get("data") or {}), age(obj)],
    "ServiceAccount": _plain_row(),
    "Event": _event,
    "Endpoints": _endpoints,
    "EndpointSlice": _endpoint_slice,
    "PersistentVolume": _volume,
    "PersistentVolumeClaim": _claim,
    "HorizontalPodAutoscaler": _scaler,
    "PodDisruptionBudget": _budget,
    "Ingress": _ingress,
    "IngressClass": _ingress_class,
    "NetworkPolicy": lambda obj: [_name(obj), label_selector((obj.get("spec") or {}).get("podSelector")), age(obj)],
    "StorageClass": _storage_class,
    "RoleBinding": _role_binding,
    "ClusterRoleBinding": _role_binding,
    "ResourceQuota": _quota,
    "ControllerRevision": _revision,
    "PodTemplate": _pod_template,
    "PriorityClass": _priority_class,
    "Lease": lambda obj: [_name(obj), (obj.get("spec") or {}).get("holderIdentity", ""), age(obj)],
    "RuntimeClass": _plain_row("handler"),
    "MutatingWebhookConfiguration": lambda obj: [_name(obj), len(obj.get("webhooks") or []), age(obj)],
    "ValidatingWebhookConfiguration": lambda obj: [_name(obj), len(obj.get("webhooks") or []), age(obj)],
}


def default_row(columns: list[Mapping[str, Any]]) -> Callable[[Object], list[Any]]:
    """Return the default row function: name, age and creation time, and `<unknown>` for the rest."""
    made: dict[str, Callable[[Object], Any]] = {
        "Name": _name,
        "Age": age,
        "Created At": lambda obj: obj["metadata"].get("creationTimestamp", ""),
    }
    return lambda obj: [made.get(one["name"], _unknown)(obj) for one in columns]


def _unknown(obj: Object) -> str:
    return "<unknown>"
