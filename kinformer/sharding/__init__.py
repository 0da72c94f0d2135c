"""Replicas of a program each follow a part of a resource, and no object is in two parts. Experimental.

No other package imports this one. The filter is `kinformer.listwatch.part`, the lead of a part
`kinformer.leaderelection`.

May import: `leaderelection`, `listwatch` and below.
Reading order: shard, candidacy.
Tests: tests/sharding.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
