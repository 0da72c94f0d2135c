"""Ready-made conditions of objects, as in kubectl and kube-rs, for `wait_for`.

::

    from kinformer.conditions import has_condition, is_pod_ready

    pod = await client.wait_for("v1/pods", "default/web-1", is_pod_ready, timeout=60)
    cert = await client.wait_for("cert-manager.io/v1/certificates", "default/tls", has_condition("Ready"))

Each takes an object, a `KubeObject` or a dict, or None if there is none, and returns a bool. So they serve as filters
of handlers and in comprehensions too, and are combined with `and`, `or` and `not` in a lambda. Only `is_deleted` is
true of an object that does not exist. The sources that are cited are those of kubernetes, kubectl and kube-rs.

May import: `objects` and below.
Reading order: anything, kinds.
"""

from kinformer.conditions.anything import Check, has_condition, is_deleted, matches
from kinformer.conditions.kinds import (
    is_crd_established,
    is_deployment_rolled_out,
    is_job_complete,
    is_job_failed,
    is_loadbalancer_ready,
    is_pod_ready,
    is_pod_running,
    is_pod_serving,
)

__all__ = [
    "Check",
    "has_condition",
    "is_crd_established",
    "is_deleted",
    "is_deployment_rolled_out",
    "is_job_complete",
    "is_job_failed",
    "is_loadbalancer_ready",
    "is_pod_ready",
    "is_pod_running",
    "is_pod_serving",
    "matches",
]
