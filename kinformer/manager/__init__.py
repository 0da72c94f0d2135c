"""The manager: runs the controllers, informers and health server of a process, and stops them in order.

`Background` does it for programs that have no `async with` around their life.

May import: `controller`, `leaderelection`, `informer` and below, but not `sharding`.
Reading order: manager, health, http_server, signals, background.
Tests: tests/manager, tests/lifecycle.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
