"""Leader election on Leases.

May import: `client` and below.
Reading order: leader_election, claim, lease, lease_client, listed_elector.
Tests: tests/leaderelection.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
