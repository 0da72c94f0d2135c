"""CPU of a lone event over TLS, in a process that has slept since the last one, beside the least that asyncio can do.

    python -m benchmarks.lone_tls                    # three minutes on a quiet machine
    python -m benchmarks.lone_tls --only configmaps  # the microseconds of each receiver, block by block, as JSON

Senders in other processes write one event at a time, so many a second. One process has the receivers, which get blocks
of events in turns: a protocol that counts lines and knows no HTTP, aiohttp's parser alone (the reader that it feeds
counts, and no task wakes up), aiohttp whose body is read by a task that counts, and kinformer, from the socket to an
awaited handler. Between two events the process sleeps, so code and data are cold, which is what a lone event costs at
live rates.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from urllib.parse import urlsplit

import aiohttp

from benchmarks.data import KINDS
from benchmarks.harness import CORES, RESULTS, Figure, loop_factory, median, run, serving, stay_on_one_core, until
from benchmarks.watch import Counter
from kinformer import Client, SharedInformerFactory

ROUNDS = 20
RATES = {"configmaps": 600, "pods": 200}  # events a second
BLOCK = 120  # events
OBJECTS = 1_000
WORDS = {"protocol": "a protocol that counts", "parser": "aiohttp's parser alone", "aiohttp": "aiohttp drained"}
FIGURES: dict[tuple[str, str, str], tuple[str, dict[str, float]]] = {
    ("asyncio", "configmaps", "protocol"): ("G25", {"limit": 2.2, "aim": 2.0}),
    ("asyncio", "configmaps", "aiohttp"): ("G26", {"limit": 1.5, "aim": 1.4}),
    ("asyncio", "pods", "aiohttp"): ("G27", {"limit": 1.45, "aim": 1.3}),
}
Reach = Callable[[int], Awaitable[object]]


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class _Lines:
    """Counts the lines that arrive."""

    def __init__(self) -> None:
        self._seen = 0
        self._target = 0
        self._ends_open = False  # the end of a line may arrive later than the rest
        self._reached: asyncio.Future[None] | None = None

    def count(self, data: bytes) -> None:
        self._seen += data.count(b"}\n") + (self._ends_open and data.startswith(b"\n"))
        self._ends_open = data.endswith(b"}")
        if self._seen >= self._target and self._reached is not None and not self._reached.done():
            self._reached.set_result(None)

    async def reach(self, count: int) -> None:
        """Wait for so many more than at the end of the last call."""
        self._target += count
        if self._seen < self._target:
            self._reached = asyncio.get_running_loop().create_future()
            await self._reached


class _CountingProtocol(asyncio.Protocol):
    def __init__(self, lines: _Lines) -> None:
        self._count = lines.count
        self.head: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._count(data)
        if not self.head.done():
            self.head.set_result(None)


@asynccontextmanager
async def by_protocol(kind: str, url: str, client: Client) -> AsyncIterator[Reach]:
    """The least: TLS, and a protocol that counts."""
    del client
    lines, host = _Lines(), urlsplit(url)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(
        lambda: _CountingProtocol(lines), host.hostname or "", host.port or 0, ssl=_trusting()
    )
    transport.write(f"GET {KINDS[kind].path}?watch=true HTTP/1.1\r\nHost: {host.netloc}\r\n\r\n".encode())
    try:
        await asyncio.wait_for(protocol.head, 10)
        yield lines.reach
    finally:
        transport.abort()


class _Draining(aiohttp.StreamReader):
    """A reader that counts what its parser feeds, and keeps nothing."""

    __slots__ = ()
    lines = _Lines()

    def begin_http_chunk_receiving(self) -> None:
        pass

    def end_http_chunk_receiving(self) -> None:
        pass

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        self.lines.count(data)
        return False


@asynccontextmanager
async def by_parser(kind: str, url: str, client: Client) -> AsyncIterator[Reach]:
    """aiohttp, without a task that wakes up."""
    del client
    async with _watching(kind, url) as response:
        response.content.__class__ = _Draining
        yield _Draining.lines.reach


@asynccontextmanager
async def by_aiohttp(kind: str, url: str, client: Client) -> AsyncIterator[Reach]:
    """aiohttp as its users read a body."""
    del client
    lines = _Lines()

    async def drain(content: aiohttp.StreamReader) -> None:
        while data := await content.readany():
            lines.count(data)

    async with _watching(kind, url) as response:
        drained = asyncio.ensure_future(drain(response.content))
        yield lines.reach
        drained.cancel()
        await asyncio.wait([drained])


@asynccontextmanager
async def _watching(kind: str, url: str) -> AsyncIterator[aiohttp.ClientResponse]:
    watch = f"{url}{KINDS[kind].path}?watch=true"
    async with aiohttp.ClientSession() as session, session.get(watch, ssl=_trusting()) as response:
        yield response
        response.close()


@asynccontextmanager
async def by_kinformer(kind: str, url: str, client: Client) -> AsyncIterator[Reach]:
    """An informer, from the socket to the awaited handler."""
    del url
    async with SharedInformerFactory(client, watch_list=False) as factory:
        counter = Counter()
        informer = factory.for_resource(KINDS[kind].resource)
        informer.add_event_handler(counter)
        await factory.wait_for_cache_sync(timeout=60, handlers=True)
        await until(lambda: informer.health().live)
        yield counter.reach


RECEIVERS = {"protocol": by_protocol, "parser": by_parser, "aiohttp": by_aiohttp, "kinformer": by_kinformer}


async def in_turns(kind: str, rounds: int) -> dict[str, list[float]]:
    """CPU microseconds of an event in each receiver, by blocks. A first block of each does not count."""
    costs: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        lanes: list[tuple[list[float], Client, Reach]] = []
        for name, receiver in RECEIVERS.items():
            events = BLOCK * (rounds + 1)
            url = await stack.enter_async_context(serving(kind, OBJECTS, events, "--tls"))
            client = await stack.enter_async_context(Client.from_url(url, ssl=_trusting()))
            reach = await stack.enter_async_context(receiver(kind, url, client))
            lanes.append((costs.setdefault(name, []), client, reach))
        for number in range(rounds + 1):
            for cost, client, reach in lanes:
                us = await _block(client, reach, RATES[kind])
                if number:
                    cost.append(us)
    return costs


async def _block(client: Client, reach: Reach, rate: int) -> float:
    async with asyncio.timeout(60):
        done = asyncio.ensure_future(reach(BLOCK))
        began = time.process_time()
        await client.request("POST", "/control/events", params={"count": str(BLOCK), "rate": str(rate)})
        await done
        return (time.process_time() - began) / BLOCK * 1e6


def measured(kind: str, loop: str, rounds: int) -> dict[str, list[float]]:
    """The same, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.lone_tls", "--only", kind, "--loop", loop, "--rounds", str(rounds)]
    if CORES:
        os.sched_setaffinity(0, CORES)  # the process measured and its senders need one each
    done = subprocess.run(command, cwd=RESULTS.parent.parent, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def over(us: Mapping[str, list[float]], receiver: str, name: str, **limits: float) -> Figure:
    """CPU of an event in kinformer over that in another receiver, block by block."""
    ours, theirs, what = us["kinformer"], us[receiver], WORDS[receiver]
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    text = f"an event {statistics.median(ours):.0f} us of CPU, {what} {statistics.median(theirs):.0f}"
    return median(name, ratios, f"x {what}", reference=text, **limits)


async def measure() -> list[Figure]:
    figures = []
    for loop in ["asyncio", *(["uvloop"] if find_spec("uvloop") else [])]:
        for kind in RATES:
            print(f"  {kind}, {loop}", file=sys.stderr, flush=True)
            us = await asyncio.to_thread(measured, kind, loop, ROUNDS)
            for receiver, words in WORDS.items():
                number, limits = FIGURES.get((loop, kind, receiver), ("", {}))
                name = f"{number} lone event of {kind} over {words}, {loop}".strip()
                figures.append(over(us, receiver, name, **limits))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(RATES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    options = parser.parse_args()
    if options.only is None:
        return run("lone_tls", measure)
    stay_on_one_core()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        print(json.dumps(runner.run(in_turns(options.only, options.rounds))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
