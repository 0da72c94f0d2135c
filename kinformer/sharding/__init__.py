"""Sharding: replicas that share the objects of a resource, no key with two owners.

May import: `controller`, `leaderelection`, `informer` and below.
Reading order: sharded_controller, slots, membership, gate, ledger.
"""
