"""Informers, and the factory that creates, shares and stops them.

This is the only package that combines reflectors, a queue, a processor, a cache and handlers.

May import: `processor`, `snapshot`, `reflector` and below.
Reading order: informer, informer_core, wiring, core, collection, following, freshness, factory, options, informer_key,
namespaces, metrics, memory, typed, object_wait, written.
Tests: tests/informer, tests/faults, tests/lifecycle.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
