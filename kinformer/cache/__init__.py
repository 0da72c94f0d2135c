"""Caches of objects by key and by index, and read-only views of them.

`Store` and `Indexer` can be used on their own. `Lister` reads an informer's cache. Nothing here starts a task.
docs/internals/cache.md has the invariants: which writes are allowed, and which reads are safe on which thread.

May import: `objects` and below.
Reading order: store, indexer, index, label_groups, namespace_index, rebuild, exclusion, lister, page, key_view.
Tests: tests/cache, tests/informer/test_page.py.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
