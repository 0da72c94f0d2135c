"""Rows of nodes, Services, endpoints, Ingresses and Events."""

from __future__ import annotations

from kinformer.kinds.rows.cells import (
    NONE,
    UNSET,
    Object,
    age_of,
    comma_separated,
    first_of,
    labels_of,
    name_of,
    or_none,
    scalar_at,
    shortened,
)
from kinformer.kinds.state import node_state
from kinformer.objects.accessors import string_at, strings_at, table_at, tables_at, value_at
from kinformer.objects.units import age

__all__ = ["endpoint_slice", "endpoints", "event", "ingress", "ingress_class", "node", "service"]

_NODE_ROLE = "node-role.kubernetes.io/"
_UNKNOWN = "<unknown>"


def node(obj: Object) -> list[object]:
    addresses = {string_at(address, "type"): string_at(address, "address") for address in reversed(_addresses(obj))}
    info = table_at(obj, "status", "nodeInfo")
    kernel = string_at(info, "kernelVersion") or _UNKNOWN
    if architecture := string_at(info, "architecture"):
        kernel += f" ({architecture})"
    return [
        *(name_of(obj), node_state(obj), comma_separated(_roles(obj)), age_of(obj), string_at(info, "kubeletVersion")),
        *(addresses.get("InternalIP") or NONE, addresses.get("ExternalIP") or NONE),
        *(string_at(info, "osImage") or _UNKNOWN, kernel, string_at(info, "containerRuntimeVersion") or _UNKNOWN),
    ]


def _addresses(obj: Object) -> list[Object]:
    return list(tables_at(obj, "status", "addresses"))


def _roles(obj: Object) -> list[str]:
    labels = table_at(obj, "metadata", "labels")
    roles = {key.removeprefix(_NODE_ROLE) for key in labels if key.startswith(_NODE_ROLE)}
    return sorted({*roles, string_at(labels, "kubernetes.io/role")} - {""})


def service(obj: Object) -> list[object]:
    kind = string_at(obj, "spec", "type") or "ClusterIP"
    ports = []
    for port in tables_at(obj, "spec", "ports"):
        node_port = f":{port['nodePort']}" if scalar_at(port, "nodePort") else ""
        ports.append(f"{scalar_at(port, 'port')}{node_port}/{string_at(port, 'protocol') or 'TCP'}")
    addresses = strings_at(obj, "spec", "clusterIPs") or [or_none(string_at(obj, "spec", "clusterIP"))]
    return [
        *(name_of(obj), kind, addresses[0], _external_address(obj, kind), comma_separated(ports), age_of(obj)),
        labels_of(value_at(obj, "spec", "selector")),
    ]


def _external_address(obj: Object, kind: str) -> str:
    if kind == "ExternalName":
        return string_at(obj, "spec", "externalName")
    addresses = strings_at(obj, "spec", "externalIPs")
    if kind != "LoadBalancer":
        return comma_separated(addresses)
    return ",".join(filter(None, [_balancers(obj), *addresses])) or "<pending>"


def _balancers(obj: Object) -> str:
    return ",".join(first_of(entry, "ip", "hostname") for entry in tables_at(obj, "status", "loadBalancer", "ingress"))


def endpoints(obj: Object) -> list[object]:
    shown = []
    for subset in tables_at(obj, "subsets"):
        for port in tables_at(subset, "ports") or [{}]:
            suffix = f":{scalar_at(port, 'port')}" if port else ""
            shown += [f"{string_at(address, 'ip')}{suffix}" for address in tables_at(subset, "addresses")]
    return [name_of(obj), shortened(shown, empty="" if value_at(obj, "subsets") else NONE), age_of(obj)]


def endpoint_slice(obj: Object) -> list[object]:
    ports = [
        str(scalar_at(port, "port", default=scalar_at(port, "name", default="*"))) for port in tables_at(obj, "ports")
    ]
    addresses = [address for endpoint in tables_at(obj, "endpoints") for address in strings_at(endpoint, "addresses")]
    shown = [shortened(values, empty=UNSET) for values in (ports, addresses)]
    return [name_of(obj), string_at(obj, "addressType"), *shown, age_of(obj)]


def ingress(obj: Object) -> list[object]:
    hosts = [host for rule in tables_at(obj, "spec", "rules") if (host := string_at(rule, "host"))]
    ports = "80, 443" if value_at(obj, "spec", "tls") else "80"
    name = or_none(string_at(obj, "spec", "ingressClassName"))
    return [name_of(obj), name, shortened(hosts, empty="*"), _balancers(obj), ports, age_of(obj)]


def ingress_class(obj: Object) -> list[object]:
    name, given = name_of(obj), table_at(obj, "spec", "parameters")
    if string_at(obj, "metadata", "annotations", "ingressclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    group = string_at(given, "apiGroup")
    kind = f"{string_at(given, 'kind')}{'.' + group if group else ''}/{string_at(given, 'name')}" if given else NONE
    return [name, string_at(obj, "spec", "controller"), kind, age_of(obj)]


def event(obj: Object) -> list[object]:
    about = table_at(obj, "involvedObject") or table_at(obj, "regarding")
    source = table_at(obj, "source") or table_at(obj, "deprecatedSource")
    series = table_at(obj, "series")
    first = first_of(obj, "firstTimestamp", "deprecatedFirstTimestamp") or value_at(obj, "eventTime")
    last = first_of(obj, "lastTimestamp", "deprecatedLastTimestamp") or first
    count = scalar_at(obj, "count") or scalar_at(obj, "deprecatedCount") or 1
    if series:
        last, count = value_at(series, "lastObservedTime"), scalar_at(series, "count")
    kind, name = string_at(about, "kind").lower(), string_at(about, "name")
    who = string_at(source, "component") or first_of(obj, "reportingComponent", "reportingController")
    if instance := string_at(source, "host") or string_at(obj, "reportingInstance"):
        who += f", {instance}"
    return [
        *(age(last), string_at(obj, "type"), string_at(obj, "reason"), f"{kind}/{name}" if name else kind),
        *(string_at(about, "fieldPath"), who),
        *(first_of(obj, "message", "note").strip(), age(first), count, name_of(obj)),
    ]
