"""Work queues: which keys wait, which are in progress, and how often each has failed.

May import: `_runtime` and the root modules.
Reading order: work_queue, delaying_queue, rate_limiters, rate_limiting_queue.
"""
