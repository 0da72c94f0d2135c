"""Controllers: turn the changes of informers into reconciles of keys. Includes helpers for the writes of operators.

May import: `informer`, `workqueue` and below.
Reading order: controller, options, sources, run, own_writes, then the helpers applier, finalizers, status and
event_recorder.
Tests: tests/controller, tests/explore.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
