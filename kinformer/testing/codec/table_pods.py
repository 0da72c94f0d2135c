"""The row of a pod (printers.go, printPod)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.objects.pod_status import PodState
from kinformer.testing.codec.table_text import age, or_none, since

__all__ = ["pod_row"]

Object = Mapping[str, Any]


def pod_row(pod: Object) -> list[Any]:
    """Return the cells of a pod."""
    found = PodState.of(pod)
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    restarts = str(found.restarts)
    if found.restarts and found.last_restart:
        restarts = f"{found.restarts} ({since(found.last_restart.isoformat())} ago)"
    addresses = status.get("podIPs") or [{}]
    return [
        pod["metadata"]["name"],
        f"{found.ready}/{found.total}",
        found.reason,
        restarts,
        age(pod),
        or_none(addresses[0].get("ip")),
        or_none(spec.get("nodeName")),
        or_none(status.get("nominatedNodeName")),
        f"{found.open_gates}/{found.gates}" if found.gates else "<none>",
    ]
