"""The rules by which an API server answers LIST and WATCH, for the test server and the watch cache.

Owns: the stored objects of a server, and their history.
May import: `kinds`, `objects` and below.
Reading order: status, options, storage, selecting, pages, line_queue, accept, views, response, stream, reads.
Tests: tests/apiserver, tests/watchcache, tests/conformance.
"""
