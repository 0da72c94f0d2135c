"""Controllers: from changes of informers to reconciles of keys, with the helpers that operators need for writing.

May import: `informer`, `workqueue` and below.
Reading order: controller, sources, run, own_writes.
"""
