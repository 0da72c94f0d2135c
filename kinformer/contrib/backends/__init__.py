"""Backends of a Service or of a label selector, for routers and gateways.

::

    async with Backends(factory, service="default/web", port="http") as pool:
        await pool.wait_synced()
        for backend in pool.snapshot():
            print(backend.key)  # "10.0.0.7:8080"

Owns the snapshot. The endpoints come from a derived collection over EndpointSlices or Pods.

Reading order: backend, endpoints, source, pool.
Tests: tests/contrib/test_backends.py, tests/contrib/test_backends_under_churn.py, tests/conformance/test_backends.py.
"""

from kinformer.contrib.backends.backend import Backend
from kinformer.contrib.backends.pool import Backends, BackendsHealth

__all__ = ["Backend", "Backends", "BackendsHealth"]
