"""The reflector, which lists a source, watches it from the version of the list, and recovers from every failure.

It owns the resourceVersion that the store has reached.

May import: `listwatch`, `cache` and below.
Reading order: reflector, recovery, follower, relist, initial_stream, continuity, then any other.
Tests: tests/reflector, tests/faults, tests/snapshot.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
