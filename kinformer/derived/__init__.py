"""Derived collections: live views over informers, kept right while these change.

::

    from kinformer import derive

    def with_pods(node, fetch):
        return node.name, fetch(pods, index=("spec.nodeName", node.name))

    async with derive(nodes, with_pods, name="pods by node") as by_node:
        await by_node.wait_synced()

Owns the values that a program's functions return, and which objects each of them was computed from. Controllers and
the manager know collections by the Protocol `Collection`, and by what their core says of itself.

May import: `informer` and below.
Reading order: short_forms, collection, metrics; propagation, engine, tap, mirror; function_engine, fetch, reads, many;
values, entries; group_engine, union_engine.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
