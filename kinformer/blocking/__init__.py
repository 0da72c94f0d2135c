"""Informers for programs with threads and without an event loop.

::

    from kinformer import blocking

    def main() -> None:
        with blocking.Informers() as informers:
            pods = informers.for_resource("v1/pods")
            pods.wait_synced(timeout=30)
            for event in pods.events():
                print(event.type, event.object.key)

`Informers` runs a client and a factory on an event loop in a thread of its own, and everything here may be called from
any thread. The listers are the informers' own: they read memory, without a call into that thread.

May import: `informer` and below.
Reading order: informers, informer, event_stream, verbs, loop_thread.
Tests: tests/blocking.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
