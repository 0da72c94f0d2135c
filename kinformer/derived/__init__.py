"""Derived collections: live views over informers, kept up to date while the informers change.

::

    from kinformer import derive

    def with_pods(node, fetch):
        return node.name, fetch(pods, index=("spec.nodeName", node.name))

    async with derive(nodes, with_pods, name="pods by node") as by_node:
        await by_node.wait_synced()

Owns the values that a program's functions return, and the record of the objects that each was computed from.
Controllers and the manager access collections through the Protocol `Collection` and through their core.

May import: `informer` and below.
Reading order: short_forms, collection, metrics, then propagation, engine, tap, mirror, then function_engine, fetch,
reads, many, then values, entries, then group_engine, union_engine.
Tests: tests/derived.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
