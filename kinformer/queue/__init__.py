"""Queues between a reflector and the processor, which hold changes that have not been applied yet.

May import: `cache` and below.
Reading order: delta, atomic_delta_fifo, delta_fifo.
Tests: tests/queue, tests/informer.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
