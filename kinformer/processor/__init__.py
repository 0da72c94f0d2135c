"""The processor: applies queued changes to the cache, then delivers them to each handler through its mailbox.

May import: `queue`, `cache` and below.
Reading order: processor, publisher, mailbox, folded_calls, handler, thread_runner, event_stream, then any other.
Tests: tests/processor, tests/informer, tests/faults.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
