"""The manager: runs controllers, informers and a health server while the process lives, and ends them in order.

May import: `controller`, `leaderelection`, `informer` and below; not `sharding`.
Reading order: manager, health, http_server, signals.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
