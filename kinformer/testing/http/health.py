"""The server's probes `/healthz`, `/livez` and `/readyz`, as a whole or for each check."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["checks_of", "report"]

# The names of the checks in v1.36. No part of an embedded server fails on its own, so each check is ok.
_HOOKS = tuple(
    f"poststarthook/{name}"
    for name in (
        "start-apiserver-admission-initializer",
        "generic-apiserver-start-informers",
        "priority-and-fairness-config-consumer",
        "priority-and-fairness-filter",
        "storage-object-count-tracker-hook",
        "start-apiextensions-informers",
        "start-apiextensions-controllers",
        "crd-informer-synced",
        "start-system-namespaces-controller",
        "peer-endpoint-reconciler-controller",
        "start-cluster-authentication-info-controller",
        "start-kube-apiserver-identity-lease-controller",
        "start-kube-apiserver-identity-lease-garbage-collector",
        "storage-readiness",
        "start-legacy-token-tracking-controller",
        "start-service-ip-repair-controllers",
        "rbac/bootstrap-roles",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
        "bootstrap-controller",
        "start-kubernetes-service-cidr-controller",
        "start-kube-aggregator-informers",
        "apiservice-status-local-available-controller",
        "apiservice-status-remote-available-controller",
        "apiservice-registration-controller",
        "apiservice-discovery-controller",
        "kube-apiserver-autoregistration",
    )
)
_OPENAPI = ("poststarthook/apiservice-openapi-controller", "poststarthook/apiservice-openapiv3-controller")
_ALIVE = ("ping", "log", "loopback-serving-certificate", "etcd", *_HOOKS, "autoregister-completion", *_OPENAPI)
_READY = ("ping", "log", "etcd", "etcd-readiness", "informer-sync", *_ALIVE[4:], "shutdown")


def checks_of(probe: str) -> Sequence[str]:
    """Return the names of a probe's checks, in the order in which it reports them."""
    return _READY if probe == "readyz" else _ALIVE


def report(probe: str, excluded: Sequence[str]) -> str:
    """Return a probe's response to `?verbose` (server/healthz/healthz.go)."""
    checks = checks_of(probe)
    lines = [f"[+]{name} excluded: ok" if name in excluded else f"[+]{name} ok" for name in checks]
    unknown = ",".join(f'"{name}"' for name in excluded if name not in checks)
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    return "\n".join([*lines, f"{probe} check passed\n"])
