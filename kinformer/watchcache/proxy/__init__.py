"""The proxy: serves the Kubernetes API to this user's programs, some resources from caches, the rest from the server.

May import: the watch cache and what is below it.
Reading order: proxy, router, requests, headers, forwarding, figures.
Tests: tests/watchcache/proxy, tests/cli/test_proxy.py.
"""
