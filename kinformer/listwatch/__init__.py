"""Sources of objects: `ListWatch` over HTTP, and wrappers that decode, transform or compress a source's objects.

May import: `wire`, `client` and below.
Reading order: list_watch, pages, probes, part, wrapper, decoding, transform.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
