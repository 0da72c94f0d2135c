"""A replica of a sharded controller in a process of its own; says on stdout what it does.

    python -m tests.support.replica_process URL-OR-KUBECONFIG IDENTITY

It shares the config maps with the label app=sharded. A line is `act RUN KEY TIME` (on CLOCK_BOOTTIME) for each thing
that a reconcile did while its slot was ours, `done KEY VERSION` for a reconcile that ended, and
`share OBJECTS DROPPED BALANCED` now and then. SIGTERM leaves in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import sys

from kinformer import Client, Request, ShardedController
from kinformer._runtime.clock import SYSTEM
from kinformer._runtime.fence import check_fences
from tests.support.line_process import say

LEASE = {"lease_duration": 1.5, "renew_deadline": 1.0, "retry_period": 0.2}


class Replica:
    def __init__(self, client: Client, identity: str) -> None:
        self.runs = itertools.count()
        self.controller = ShardedController(
            self.reconcile,
            client,
            "v1/configmaps",
            namespace="default",
            label_selector="app=sharded",
            identity=identity,
            workers=20,
            shutdown_timeout=0.5,
            **LEASE,
        )

    async def reconcile(self, request: Request) -> None:
        run, obj = next(self.runs), self.controller.informer.lister.get(request.name, namespace=request.namespace)
        for _ in range(4):
            now = SYSTEM.boot()  # before the question: who is stopped in between has not acted
            check_fences()
            say("act", run, request.key, now)
            await asyncio.sleep(0.02)
        say("done", request.key, obj.resource_version if obj is not None else "gone")

    async def tell(self) -> None:
        while True:
            informer, health = self.controller.informer, self.controller.health()
            balanced = health.balanced and informer.has_synced
            say("share", len(informer.lister), self.controller.dropped, "yes" if balanced else "no")
            await asyncio.sleep(0.05)


async def main(server: str, identity: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Client.from_url(server) if "://" in server else Client.from_kubeconfig(server) as client:
        replica = Replica(client, identity)
        telling = asyncio.create_task(replica.tell())
        try:
            await replica.controller.run()
        finally:
            telling.cancel()
            say("left")


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main(*sys.argv[1:]))
