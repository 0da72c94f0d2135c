"""Leader election on Leases.

May import: `client` and below.
Reading order: leader_election, lease, lease_client.
"""
