"""One cache for the processes of a machine, shared over a Unix socket.

The *holder* has the lock beside the socket. It follows the server, and answers the lists and watches of the others,
the *followers*, from its watch caches. A process that can do neither is *alone*, and follows the server by itself.

May import: the watch cache, `informer` and below.
Reading order: share, source, session, listener, kept, key, identity, lock, states, socket_path.
Tests: tests/watchcache/share.
"""
