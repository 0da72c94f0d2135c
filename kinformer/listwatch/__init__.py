"""Sources of objects: `ListWatch` over HTTP, and wrappers that decode, transform or compress a source's objects.

May import: `wire`, `connection` and below.
Reading order: http_source, pages, events, probes, part, wrapper, decoding, transform.
Tests: tests/listwatch, tests/faults/test_lists.py.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
