"""One worker of a service, in a process of its own: an informer, with a shared cache or without.

    python -m benchmarks.worker --kubeconfig FILE --share /run/app/kinformer.sock

It prints a line of JSON once it has synced, and one for each line that it reads: the CPU that it has used since the
line before, and the version of each event that its handler got meanwhile with the time of the call.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from typing import Any

from benchmarks.data import KINDS
from benchmarks.real_client import TIMEOUT, say
from kinformer import Client, SharedInformerFactory
from kinformer.watchcache import Share

__all__ = ["command"]


def command(kubeconfig: str, kind: str, share: str = "") -> list[str]:
    """Return the command line of a worker. `share` is the socket, or "" for a worker that does not share."""
    arguments = ["--kubeconfig", kubeconfig, "--kind", kind, *(("--share", share) if share else ())]
    return [sys.executable, "-m", "benchmarks.worker", *arguments]


async def _asked() -> asyncio.StreamReader:
    """Return a reader of stdin."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def work(options: argparse.Namespace) -> None:
    """Follow until stdin ends."""
    events: list[tuple[int, float]] = []

    async def on_update(old: Any, new: Any) -> None:
        events.append((int(new.resource_version), time.time()))

    asked = await _asked()
    share = Share(options.share) if options.share else None
    async with Client.from_kubeconfig(options.kubeconfig) as client:
        began = time.perf_counter()
        async with SharedInformerFactory(client, share=share) as factory:
            informer = factory.for_resource(KINDS[options.kind].resource)
            informer.add_event_handler(on_update=on_update, queue_size=1 << 20)
            await factory.wait_for_cache_sync(timeout=TIMEOUT)
            say(seconds=time.perf_counter() - began, objects=len(informer.lister))
            spent = time.process_time()
            while await asked.readline():
                cpu = time.process_time() - spent
                role = "alone" if share is None else share.role
                say(cpu=cpu, events=events, role=role, relists=sum(informer.statistics().relists.values()))
                events.clear()
                spent = time.process_time()


def main() -> int:
    parser = argparse.ArgumentParser(description="One worker of a service")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kind", choices=KINDS, default="pods")
    parser.add_argument("--share", default="", help="the socket of the shared cache")
    asyncio.run(work(parser.parse_args()))
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
