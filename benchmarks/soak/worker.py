"""A worker that shares its caches with others, as a process that tells what they hold.

    python -m benchmarks.soak.worker /run/app/kinformer.sock '{"url": "http://127.0.0.1:8001"}'

It answers each line of stdin by one line of JSON with the same number: `tell 7` and `role 8`. `forget 9` discards what
its handlers were told so far.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import random
import signal
import sys
from typing import Any

from benchmarks.soak.followers import QUICK, SHAPES, Replica, Shape
from benchmarks.soak.writers import NAMESPACES
from kinformer import Client, SharedInformer, SharedInformerFactory
from kinformer.watchcache import Share

__all__ = ["SHARED", "digest"]

SHARED = tuple(shape for shape in SHAPES if shape.name in ("automatic", "selector", "custom"))


def digest(document: Any) -> str:
    """Return a text that is equal for equal documents."""
    return hashlib.sha1(json.dumps(document, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


class _Cache:
    """An informer of a shape, with a handler."""

    def __init__(self, factory: SharedInformerFactory, shape: Shape) -> None:
        self.shape = shape
        self.replica = Replica(shape.shows, 0.0, random.Random())
        self._informer: SharedInformer = factory.for_resource(shape.kind.resource, **shape.options)
        self._informer.add_event_handler(self.replica, filter=lambda obj: obj.namespace in NAMESPACES)

    def tell(self) -> dict[str, Any]:
        objects = {
            obj.key: (obj.uid, obj.resource_version, digest(obj.to_dict()))
            for obj in self._informer.lister
            if obj.namespace in NAMESPACES
        }
        statistics, replica = self._informer.statistics(), self.replica
        return {
            "synced": self._informer.has_synced,
            "objects": objects,
            "told": replica.objects,
            "seen": replica.seen,
            "wrong": replica.wrong,
            "pending": sum(statistics.pending.values()),
            "relists": sum(statistics.relists.values()),
        }


async def main(path: str, connection: str) -> None:
    """Follow until stdin ends, or SIGTERM."""
    asked = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
    loop.add_signal_handler(signal.SIGTERM, asked.feed_eof)
    given = json.loads(connection)
    client = Client.from_url(given["url"]) if "url" in given else Client.from_kubeconfig(given["kubeconfig"])
    share = Share(path)
    async with client, SharedInformerFactory(client, share=share, **QUICK) as factory:
        caches = [_Cache(factory, shape) for shape in SHARED]
        while line := await asked.readline():
            word, number = line.decode().split()
            answer: dict[str, Any] = {"number": int(number), "role": share.role, "holder": share.holder}
            if word == "tell":
                answer["caches"] = {cache.shape.name: cache.tell() for cache in caches}
            elif word == "forget":
                for cache in caches:
                    cache.replica.forget()
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    form = "%(asctime)s %(process)d %(name)s %(message)s"
    logging.basicConfig(level=os.environ.get("SOAK_LOG_LEVEL", "CRITICAL"), format=form)
    asyncio.run(main(*sys.argv[1:]))
