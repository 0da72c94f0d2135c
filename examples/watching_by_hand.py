"""List, remember the resourceVersion, watch from there, print: the ten lines under every informer.

It works until something goes wrong. Nothing here survives the end of the stream (every few minutes), a 410 when
the history is gone, or a connection that died without a word; nothing remembers what there was, so a program
that starts again has missed what happened meanwhile. Look at the end of the output: the demo cuts the
connection, and that is the end of it. The other examples show what to use instead.
"""

from __future__ import annotations

import asyncio

from playground import pod, run

from kinformer import Client, ListOptions, ListWatch
from kinformer.testing import APIServer


async def main(client: Client) -> None:
    pods = ListWatch(client, "v1/pods")

    page = await pods.list(ListOptions())
    async for items in page.items:
        for item in items:
            print("LISTED", item.key)

    print("watching from", page.resource_version)
    async with pods.watch(ListOptions(resource_version=page.resource_version)) as stream:
        async for events in stream:
            for event in events:
                print(event.type, event.object.key, event.object.path("status.phase"))
    print("the stream has ended; continuing from here would need a reflector")


# --- what happens on the embedded server ------------------------------------------------------------------


async def fill(server: APIServer) -> None:
    server.create(pod("web-1", phase="Running"))
    server.create(pod("web-2"))


async def happens(server: APIServer) -> None:
    await asyncio.sleep(0.5)
    server.create(pod("web-3"))
    server.update(pod("web-2", phase="Running"))
    server.delete("v1/pods", "default", "web-1")
    await asyncio.sleep(0.2)
    await server.restart()
    await asyncio.sleep(0.2)


if __name__ == "__main__":
    run(main, fill=fill, happens=happens)
