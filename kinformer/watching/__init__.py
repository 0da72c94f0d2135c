"""Following a resource without a cache: a wait for one object, and the stream of all changes.

Owns what a stream has told so far: the uid and resourceVersion of each object, and no object.

May import: `reflector`, `listwatch` and below.
Reading order: stream, stream_store, version_index, differences; object_wait.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
