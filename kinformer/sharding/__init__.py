"""Sharding (experimental): replicas share the objects of a resource, and no key has two owners.

A *slot* is one of the 256 fixed parts of the resource. A *share* is the slots that one replica holds, and the objects
in them. The *ledger* of a replica has the uid of every key of the resource, including keys outside its share.

No other package imports this one. The manager runs its controller as a `ManagedController`.

May import: `controller`, `leaderelection`, `informer` and below.
Reading order: sharded_controller, options, slots, membership, gate, ledger.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
