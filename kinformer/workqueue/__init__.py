"""Work queues: hold keys for workers, one worker a key, with delays, priorities and backoff.

May import: `_runtime` and the root modules.
Reading order: work_queue, delaying_queue, rate_limiters.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
