"""The client: a connection to an API server, with verbs and waits.

May import: `connection`, `verbs`, `watching` and below.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
