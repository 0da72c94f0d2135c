"""Kubernetes informers for asyncio.

An informer lists a resource once, watches it from there, keeps an indexed copy in memory, and tells
handlers what changed. Start with `Client` and `SharedInformerFactory`; ``docs/architecture.md`` shows how
a line of a watch becomes a call of a handler.

Names are imported when they are first used, so that ``import kinformer`` costs a program only what it uses.
Each is written once, with its module, in ``__init__.pyi``: type checkers and editors read that file, and so does
this module.

Tests: tests/lifecycle, tests/faults, tests/runtime.
"""

from kinformer._lazy import attach_stub

__version__ = "0.2.0"

__getattr__, __dir__ = attach_stub(__spec__)
