"""The client: a connection to an API server, with verbs and waits.

May import: `connection`, `verbs`, `watching` and below.
Tests: tests/client/test_client.py, tests/verbs, tests/watching.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
