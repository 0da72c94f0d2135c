"""The manager: runs controllers, informers and a health server while the process lives, and ends them in order.

May import: `controller`, `leaderelection`, `informer` and below; not `sharding`.
Reading order: manager, health, http_server, signals.
"""
