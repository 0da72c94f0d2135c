"""One worker of a service, in a process of its own: an informer, with a shared cache or without.

    python -m benchmarks.worker --kubeconfig FILE --share /run/app/kinformer.sock

It prints a line of JSON once it has synced, and one for each line that it reads: the CPU that it has used since the
line before, and the version of each event that its handler got meanwhile with the time of the call. After the line
`read` it prints how long reads take.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from typing import Any

from benchmarks.data import KINDS
from benchmarks.real_client import TIMEOUT, say
from kinformer import Client, Lister, SharedInformerFactory
from kinformer.watchcache import Share

__all__ = ["command"]

READS = 2_000  # of the specs of objects, one after the other


def command(kubeconfig: str, kind: str, share: str = "", *, compact: bool = False) -> list[str]:
    """Return the command line of a worker. `share` is the socket, or "" for a worker that does not share."""
    arguments = ["--kubeconfig", kubeconfig, "--kind", kind, *(("--share", share) if share else ())]
    return [sys.executable, "-m", "benchmarks.worker", *arguments, *(["--compact"] if compact else [])]


def slow_read(lister: Lister[Any]) -> float:
    """Return the 99th percentile of reads of an object's spec by its name, in milliseconds."""
    taken: list[float] = []
    for chosen in random.Random(1).choices(lister.list(), k=READS):
        began = time.perf_counter()
        obj = lister.get(chosen.name, namespace=chosen.namespace)
        assert obj is not None
        assert obj["spec"]
        taken.append(time.perf_counter() - began)
    return sorted(taken)[READS * 99 // 100] * 1e3


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
            informer = factory.for_resource(KINDS[options.kind].resource, compact=options.compact)
            informer.add_event_handler(on_update=on_update, queue_size=1 << 20)
            await factory.wait_for_cache_sync(timeout=TIMEOUT)
            say(seconds=time.perf_counter() - began, objects=len(informer.lister))
            spent = time.process_time()
            while line := await asked.readline():
                if line == b"read\n":
                    say(read=slow_read(informer.lister))
                    continue
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
    parser.add_argument("--compact", action="store_true", help="keep the objects compressed")
    asyncio.run(work(parser.parse_args()))
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
