"""The watch cache: answers the LIST, GET and WATCH requests of other readers from the cache of an informer.

Owns: the last changes of its informer.
May import: `informer`, `serving` and below.
Reading order: watch_cache, cached_resource, feed, rebuild, http, requests, source, views.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
