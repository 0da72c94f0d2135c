"""The rules by which an API server answers LIST and WATCH, for the test server and the watch cache.

Owns: the stored objects of a server, and their history.
May import: `exceptions`.
Reading order: status, options, storage, selecting, pages, watcher, accept, views, response, stream, reads.
"""
