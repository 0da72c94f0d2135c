"""The manager: runs controllers, informers and servers for as long as the process lives, and ends them in order.

May import: everything below it.
Reading order: manager, readiness, health, http_server, signals.
"""
