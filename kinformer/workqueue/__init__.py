"""Work queues: distribute keys to workers, one worker per key, with delays, priorities and backoff.

May import: `_runtime` and the root modules.
Reading order: work_queue, delaying_queue, rate_limiters.
Tests: tests/workqueue.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
