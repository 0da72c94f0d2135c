"""Ready-made conditions of objects, as in kubectl and kube-rs, for `wait_for`.

::

    from kinformer.conditions import has_condition, is_pod_ready

    pod = await client.wait_for("v1/pods", "default/web-1", is_pod_ready, timeout=60)
    cert = await client.wait_for("cert-manager.io/v1/certificates", "default/tls", has_condition("Ready"))

Each takes an object (a `KubeObject` or a dict), or None if there is none, and returns a bool. So they can also be used
as filters of handlers and in comprehensions, and combined with `and`, `or` and `not` in a lambda. Only `is_deleted` is
true for an object that does not exist. The cited sources are from kubernetes, kubectl and kube-rs.

They are defined in `kinds.conditions`.

Tests: tests/conditions.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
