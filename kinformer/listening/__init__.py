"""The protection of servers: which host names they answer, and how long and how many connections may wait.

It is shared by the health server of a `Manager`, the dashboard and the embedded API server, and knows no HTTP library.

May import: `_runtime` and below.
Reading order: hosts, connections.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
