"""Kubernetes objects: keys, metadata, selectors, JSON paths and typed models. Holds no state.

May import: `_runtime` and the root modules.
Reading order: types, meta, object, accessors, then any other.
Tests: tests/objects, tests/kinds/test_spellings.py.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
