"""The processor: applies queued changes to the cache, then delivers them to each handler through its mailbox.

May import: `queue`, `cache` and below.
Reading order: processor, mailbox, handler, thread_runner, event_stream.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
