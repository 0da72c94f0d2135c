"""The three words about a pod that need more than a look at one field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.cli.output.ages import age
from kinformer.objects.pod_status import PodState

__all__ = ["pod_ready", "pod_restarts", "pod_status"]

Object = Mapping[str, Any]


def pod_status(pod: Object) -> str:
    """`Running`, `CrashLoopBackOff`, `Init:1/2`, `Completed`, `Terminating`: the first thing to know."""
    return str(PodState(pod).reason or "Unknown")


def pod_ready(pod: Object) -> str:
    """Ready containers of all: `1/2`."""
    found = PodState(pod)
    return f"{found.ready}/{found.total}"


def pod_restarts(pod: Object) -> str:
    """How often its containers were started again, and when that was last: `3 (5m ago)`."""
    found = PodState(pod)
    if found.restarts and found.restarted:
        return f"{found.restarts} ({age(found.restarted)} ago)"
    return str(found.restarts)
