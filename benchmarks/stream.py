"""Memory of a stream of changes (`watch`) for each object of the resource: while the list comes, and at rest.

A server in another process sends pods of 8 KB; the stream keeps their keys, uids and resourceVersions. The peak has the
buffers of the transport and the events that wait for the reader in it. A relist of objects that have not changed, after
a 410, is measured too.
"""

from __future__ import annotations

import asyncio
import sys

from benchmarks.data import KINDS
from benchmarks.harness import Figure, forget_peak, peak, resident, run, serving, until
from kinformer import Client, ListWatch, watch

OBJECTS = 200_000
LIMIT = 150.0  # bytes an object


async def measure(objects: int = OBJECTS) -> list[Figure]:
    figures: list[Figure] = []
    async with serving("pods", objects) as url, Client.from_url(url) as client:
        source = ListWatch(client, KINDS["pods"].resource)
        # Caches and pools of the transport are not part of the figure: fill them first.
        async with watch(source) as events:
            for _ in range(1000):
                await anext(events)
        before = resident()
        forget_peak()
        async with watch(source) as events:
            for _ in range(objects):
                await anext(events)
            first = peak() - before
            held = resident() - before
            assert events.objects == objects
            forget_peak()
            reading = asyncio.ensure_future(anext(events))  # there is nothing new to read
            await client.request("POST", "/control/expire")
            await until(lambda: events.health().relists and events.health().live)
            reading.cancel()
            await asyncio.wait([reading])
            again = peak() - before
        text = f"{objects:,} pods: {held / 1e6:.1f} MB at rest, {first / 1e6:.1f} MB at the peak of the list"
        figures.append(Figure("stream", held / objects, "bytes an object", [], limit=LIMIT, reference=text))
        figures.append(Figure("stream, list", first / objects, "bytes an object", [], limit=LIMIT))
        figures.append(Figure("stream, relist", again / objects, "bytes an object", [], limit=LIMIT))
    return figures


if __name__ == "__main__":
    sys.exit(run("stream", measure))
