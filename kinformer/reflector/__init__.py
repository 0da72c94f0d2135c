"""The reflector: lists a source, watches it from there, and recovers from every failure.

Owns the resourceVersion up to which the source was followed.

May import: `listwatch`, `cache` and below.
Reading order: reflector, recovery, watch, relist, watch_list, continuity.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
