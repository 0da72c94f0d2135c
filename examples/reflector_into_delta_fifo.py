"""The parts of an informer, put together by hand: reflector, queue, a loop that pops, a store.

The reflector lists and watches, and puts what happened into the queue. The loop takes one key at a time, with
all that has happened to it since the last time, oldest first, and applies it to the store. Because the queue
knows the store (`known_objects`), it can tell which objects of the store a new list lacks: these come as
Deleted, with a `DeletedFinalStateUnknown` in place of the object, since its last state was not seen.
"""

from __future__ import annotations

import asyncio

from playground import pod, run, until_followed

from kinformer import (
    Client,
    DeletedFinalStateUnknown,
    Delta,
    DeltaFIFO,
    DeltaType,
    ListWatch,
    Reflector,
    StoppedError,
    Store,
    meta_namespace_key,
)
from kinformer.testing import APIServer


async def main(client: Client) -> None:
    store = Store(meta_namespace_key)
    queue = DeltaFIFO(meta_namespace_key, known_objects=store, emit_replaced=True)
    reflector = Reflector(ListWatch(client, "v1/pods"), queue)

    def process(deltas: list[Delta], is_in_initial_list: bool) -> None:
        for kind, obj in deltas:
            if kind is DeltaType.DELETED:
                store.delete(obj)
                unseen = " (nobody saw it go)" if isinstance(obj, DeletedFinalStateUnknown) else ""
                print(f"{kind:<9}{meta_namespace_key(obj)}{unseen}")
            else:  # Sync, Replaced, Added, Updated: the object as it is now
                store.update(obj)
                first = " (there from the start)" if is_in_initial_list else ""
                print(f"{kind:<9}{obj.key} {obj.path('status.phase')}{first}")

    async def pop_for_ever() -> None:
        try:
            while True:
                await queue.pop(process)
        except StoppedError:
            print(f"the queue is closed; the store holds {', '.join(sorted(store.list_keys()))}")

    reflecting = asyncio.create_task(reflector.run())
    popping = asyncio.create_task(pop_for_ever())
    try:
        await reflecting
    finally:
        reflecting.cancel()
        queue.close()  # waiting deltas are popped, then pop raises StoppedError
        await popping


# --- what happens on the embedded server ------------------------------------------------------------------


async def fill(server: APIServer) -> None:
    for number in range(1, 4):
        server.create(pod(f"web-{number}", phase="Running"))


async def happens(server: APIServer) -> None:
    await asyncio.sleep(0.5)
    server.create(pod("web-4"))
    server.update(pod("web-4", phase="Running"))
    await asyncio.sleep(0.2)
    server.delete("v1/pods", "default", "web-1")
    await asyncio.sleep(0.2)
    print("-- the connection is cut; meanwhile web-2 goes, and the server forgets that it did")
    before = len(server.requests)
    restarting = asyncio.create_task(server.restart(downtime=0.3))
    await asyncio.sleep(0.1)
    server.delete("v1/pods", "default", "web-2")
    await server.compact()
    await restarting
    await until_followed(server, before, anew=True)
    await asyncio.sleep(0.3)


if __name__ == "__main__":
    run(main, fill=fill, happens=happens)
