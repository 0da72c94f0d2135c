"""Reads of one cache from several threads at once: what a program gains on a Python without the GIL.

    python -m benchmarks.studies.parallel_reads             # by hand, on each Python that is compared

It takes the time of the wall, since CPU time does not show what runs at once, so nothing else may run meanwhile. Each
thread reads a cache of 20,000 pods over and over for half a second; a figure is the median of five rounds, which take
turns with those of the other numbers of threads. "Beside a writer": one more thread changes 2,000 objects a second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from itertools import cycle, product
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kinformer import Indexer, KubeObject, Lister, SharedInformerFactory
from kinformer.testing import APIServer

if TYPE_CHECKING:
    from collections.abc import Iterator

OBJECTS = 20_000
NAMESPACES = 100
SECONDS = 0.5
ROUNDS = 5
CHANGED = OBJECTS // 10  # each tenth object, to and fro between two states
CHANGES_AT_ONCE = 20  # in a hundredth of a second
LOOK = 50  # reads by key between two looks at the clock

Read = Callable[[], int]
"""Reads for a moment, and returns the number of reads."""


def pod(number: int, image: str = "1") -> dict[str, Any]:
    """Make a Pod of 3 KB."""
    container = {
        "name": "main",
        "image": f"registry.example/app:{image}",
        "env": [{"name": f"VARIABLE_{n}", "value": "x" * 20} for n in range(40)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    metadata = {
        "name": f"pod-{number}",
        "namespace": f"ns-{number % NAMESPACES}",
        "labels": {"app": f"app-{number % 50}"},
    }
    spec = {"nodeName": f"node-{number % 200}", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def states() -> tuple[list[KubeObject], list[KubeObject]]:
    """Return the objects of a cache, and the next states of some of them, as an informer keeps them."""
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        for number in range(OBJECTS):
            server.create(pod(number))
        informer = factory.for_resource("v1/pods")
        await factory.wait_for_cache_sync(120)
        before = informer.lister.list()
        async with informer.events() as events:
            for number in range(0, OBJECTS, OBJECTS // CHANGED):
                server.update(pod(number, "2"))
            after = []
            async for event in events:
                if event.type == "UPDATED":
                    after.append(event.object)
                if len(after) == CHANGED:
                    break
        return before, [informer.by_key[obj.key] for obj in after]


def reads_of(indexer: Indexer[KubeObject]) -> dict[str, Callable[[int], Read]]:
    """Return the kinds of reads, each as a function that makes the reads of one thread."""
    lister = Lister(indexer)
    numbers = range(0, OBJECTS, 7)

    def by_name(thread: int) -> Read:
        names = cycle([(f"pod-{number}", f"ns-{number % NAMESPACES}") for number in numbers[thread:]])

        def read() -> int:
            for _, (name, namespace) in zip(range(LOOK), names, strict=False):
                lister.get(name, namespace=namespace)
            return LOOK

        return read

    def decoded(thread: int) -> Read:
        keys = cycle([f"ns-{number % NAMESPACES}/pod-{number}" for number in numbers[thread:]])

        def read() -> int:
            obj = indexer.get_by_key(next(keys))
            assert obj is not None
            assert obj["spec"]["containers"]
            return 1

        return read

    def namespace(thread: int) -> Read:
        names = cycle(f"ns-{number}" for number in range(thread, NAMESPACES))
        return lambda: len(lister.list(namespace=next(names))) and 1

    def selected(thread: int) -> Read:
        labels = cycle(f"app=app-{number}" for number in range(thread, 50))
        return lambda: len(lister.list(next(labels))) and 1

    def everything(_: int) -> Read:
        return lambda: len(lister.list()) and 1

    return {
        "get(name, namespace=...)": by_name,
        'get_by_key(key)["spec"], decoded': decoded,
        "list(namespace=...), 200 of 20,000": namespace,
        'list("app=..."), 400 of 20,000': selected,
        "list(), 20,000": everything,
    }


def reads_per_second(make: Callable[[int], Read], threads: int) -> float:
    """Read in some threads at once, and return the reads of all of them in a second."""
    counts = [0] * threads
    ready = threading.Barrier(threads + 1)
    end = 0.0

    def run(number: int) -> None:
        read, count = make(number), 0
        ready.wait()
        while time.perf_counter() < end:
            count += read()
        counts[number] = count

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    began = time.perf_counter()
    end = began + SECONDS
    ready.wait()
    for thread in running:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


@contextmanager
def writing(indexer: Indexer[KubeObject], after: Sequence[KubeObject], wanted: bool) -> Iterator[None]:
    """Change objects in a thread of their own meanwhile, if that is wanted."""
    done = threading.Event()
    before = [obj for key in after if (obj := indexer.get_by_key(key.key)) is not None]
    changes = cycle([*after, *before])

    def run() -> None:
        while not done.wait(0.01):
            for _, obj in zip(range(CHANGES_AT_ONCE), changes, strict=False):
                indexer.put(obj.key, obj)

    writer = threading.Thread(target=run)
    if wanted:
        writer.start()
    try:
        yield
    finally:
        done.set()
        if wanted:
            writer.join()


def measure(
    before: Sequence[KubeObject], after: Sequence[KubeObject], threads: Sequence[int], *, beside_writer: bool
) -> None:
    """Print a table: a line for each kind of read."""
    indexer: Indexer[KubeObject] = Indexer(attrgetter("key"))
    for obj in before:
        indexer.put(obj.key, obj)
    kinds = reads_of(indexer)
    rates: dict[tuple[str, int], list[float]] = {one: [] for one in product(kinds, threads)}
    with writing(indexer, after, beside_writer):
        for _ in range(ROUNDS):
            for kind, count in rates:
                rates[kind, count].append(reads_per_second(kinds[kind], count))
    print("beside a writer" if beside_writer else "nothing is written")
    for kind in kinds:
        medians = {count: statistics.median(rates[kind, count]) for count in threads}
        first = medians[threads[0]]
        texts = [f"{count}: {rate:>11,.0f} ({rate / first:.2f})" for count, rate in medians.items()]
        print(f"  {kind:36} {'   '.join(texts)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Reads a second from several threads, and over those of the first.")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}{'' if has_gil else ' without the GIL'}, {os.cpu_count()} cores")
    before, after = asyncio.run(states())
    for beside_writer in (False, True):
        measure(before, after, options.threads, beside_writer=beside_writer)


if __name__ == "__main__":
    main()
