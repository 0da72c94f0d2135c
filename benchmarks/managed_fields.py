"""The savings if a server leaves managedFields out: bytes, and CPU of the client, over the same with them.

An informer drops managedFields, and asks the server to leave them out, which servers from v1.38 on can. Here one server
sends them and another does not, in turns: a first list, an initial stream, and events of a watch, up to a handler.
"""

from __future__ import annotations

import gzip
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from benchmarks.data import KINDS
from benchmarks.harness import Figure, median, run, serving
from benchmarks.watch import Counter, Followed
from kinformer import Client, SharedInformerFactory

OBJECTS = {"pods": 5_000, "configmaps": 15_000}
EVENTS = {"pods": 1_000, "configmaps": 4_000}  # of a round
ROUNDS = 7
SAMPLE = 1_000
GZIP_LEVEL = 1  # of a kube-apiserver

Round = Callable[[], Coroutine[Any, Any, None]]


async def _on_add(obj: Any) -> None:
    return None


def first_list(url: str, kind: str, *, watch_list: bool) -> Round:
    """A list, or an initial stream, until a handler has it."""

    async def sync() -> None:
        async with Client.from_url(url) as client, SharedInformerFactory(client, watch_list=watch_list) as factory:
            factory.for_resource(KINDS[kind].resource).add_event_handler(on_add=_on_add)
            await factory.wait_for_cache_sync(timeout=120, handlers=True)

    return sync


@asynccontextmanager
async def followed(url: str, kind: str) -> AsyncIterator[Round]:
    """Events of a watch, until a handler has had them."""
    async with Client.from_url(url) as client, SharedInformerFactory(client, watch_list=False) as factory:
        informer, counter = factory.for_resource(KINDS[kind].resource), Counter()
        informer.add_event_handler(counter, queue_size=None)
        await factory.wait_for_cache_sync(timeout=120, handlers=True)
        events = Followed(client, counter)
        yield lambda: events.events(EVENTS[kind])


async def in_turns(name: str, count: int, whole: Round, dropped: Round) -> Figure:
    """CPU without managedFields over CPU with them; the first round does not count."""
    costs: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS + 1):
        for rounds, work in zip(costs, (whole, dropped), strict=True):
            began = time.process_time()
            await work()
            if number:
                rounds.append((time.process_time() - began) / count * 1e6)
    before, after = map(statistics.median, costs)
    text = f"an object {after:.1f} us of CPU, with managedFields {before:.1f}"
    ratios = [one / other for one, other in zip(costs[1], costs[0], strict=True)]
    return median(name, ratios, "x with them", reference=text, details={"whole_us": costs[0], "dropped_us": costs[1]})


def sizes(kind: str) -> list[Figure]:
    """Bytes of a list, as it is and compressed."""
    figures = []
    whole, dropped = (
        b",".join(one.item(index) for index in range(SAMPLE)) for one in (KINDS[kind], KINDS[kind].dropped())
    )
    for how, pack in (("", len), (" gzipped", lambda body: len(gzip.compress(body, GZIP_LEVEL)))):
        before, after = pack(whole) / SAMPLE, pack(dropped) / SAMPLE
        text = f"an object {after:,.0f} bytes, with managedFields {before:,.0f}"
        figures.append(median(f"{kind}, bytes of a list{how}", [after / before], "x with them", reference=text))
    return figures


async def measure() -> list[Figure]:
    figures: list[Figure] = []
    for kind, objects in OBJECTS.items():
        figures += sizes(kind)
        async with AsyncExitStack() as stack:
            urls = [
                await stack.enter_async_context(serving(kind, objects, EVENTS[kind] * (ROUNDS + 1), *options))
                for options in ((), ("--dropped",))
            ]
            for name, watch_list in (("LIST", False), ("WatchList", True)):
                whole, dropped = (first_list(url, kind, watch_list=watch_list) for url in urls)
                figures.append(await in_turns(f"{kind}, CPU of {name}", objects, whole, dropped))
            events = [await stack.enter_async_context(followed(url, kind)) for url in urls]
            figures.append(await in_turns(f"{kind}, CPU of watch events", EVENTS[kind], *events))
    return figures


if __name__ == "__main__":
    sys.exit(run("managed_fields", measure))
