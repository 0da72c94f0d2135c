"""The watch cache: answers the LIST, GET and WATCH requests of other readers from the cache of an informer.

Owns: the last changes of its informer.
May import: `informer` and below.
Reading order: informer_server, cached_resource, feed, rebuild, backend, asgi, requests, source, views.
Tests: tests/watchcache.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
