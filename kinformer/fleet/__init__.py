"""Many clusters that join and leave: their clients and factories, and unions of their objects.

The clusters come from the program, from a kubeconfig, or from Secrets in a hub cluster. A `Fleet` connects each of
them, and disconnects it when it is removed.

May import: `derived`, `informer` and below.
Reading order: fleet, unions, roster, keeper, sources, kubeconfig, secrets, metrics.
Tests: tests/fleet.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
