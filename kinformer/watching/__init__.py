"""Follows a resource without a cache: waits for one object, and streams all changes.

Owns the state of a stream: the uid and resourceVersion of each reported object, but no objects.

May import: `reflector`, `verbs` and below.
Reading order: stream, stream_store, version_index, differences, object_wait.
Tests: tests/watching.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
