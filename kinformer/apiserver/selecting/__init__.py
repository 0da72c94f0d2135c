"""Which objects a request selects: by namespace, labels, fields and shards, as an API server parses and applies them.

Reading order: names, selection, fields, filters, shards.
Tests: tests/apiserver/test_query_parameters.py, tests/watchcache/test_requests.py.
"""
