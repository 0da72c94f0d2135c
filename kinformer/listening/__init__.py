"""The protection of servers: which host names they answer, and how long and how many connections may wait.

It is shared by the health server of a `Manager`, the dashboard and the embedded API server. Only `aiohttp_server` knows
a library for HTTP.

May import: `_runtime` and below.
Reading order: hosts, connections, aiohttp_server.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
