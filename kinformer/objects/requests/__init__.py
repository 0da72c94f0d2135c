"""Requests to an API server: the meaning of their paths, and the JSON of their bodies. Holds no state.

May import: `_runtime` and the root modules.
Reading order: path, encoding.
Tests: tests/objects/test_encoding.py, tests/watchcache/proxy.
"""
