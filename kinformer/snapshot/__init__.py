"""The cache in a file, from which a restart resumes without a list.

Pass a path or a `Snapshot` as `snapshot=` to a factory or an informer.

May import: `reflector`, `listwatch`, `cache` and below.
Reading order: option, keeper, loader, check, contents, file, format.
Tests: tests/snapshot, tests/conformance/test_snapshots.py.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
