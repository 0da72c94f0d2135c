"""Integrations with other libraries, each installed by an extra. The core does not import them.

Tests: tests/contrib.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
