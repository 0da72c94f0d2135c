"""The reflector: lists a source, watches it from that version, and recovers from every failure.

Owns the resourceVersion that the store has reached.

May import: `listwatch`, `cache` and below.
Reading order: reflector, recovery, watch, relist, watch_list, continuity.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
