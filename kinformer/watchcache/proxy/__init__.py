"""The proxy: serves the Kubernetes API to unchanged clients, some resources from caches and all else from the server.

Owns: the listener, and what is remembered about callers.
May import: the watch cache and what is below it.
Reading order: proxy, router, paths, headers, forwarding, tunnel. Then, for callers with credentials of their own:
callers, rights.
"""
