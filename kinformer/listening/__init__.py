"""The listening end of servers: the address, who may connect, and how many connections may wait for how long.

The health server of a `Manager`, the dashboard, the proxy, the holder of a shared cache and the embedded API server use
it. Only `aiohttp_server` knows a library for HTTP.

May import: `_runtime` and below.
Reading order: address, hosts, connections, listener, aiohttp_server.
Tests: tests/listening.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
