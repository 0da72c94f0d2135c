"""CPU of a lone event over TLS, in a process that has slept since the last one, beside the least that asyncio can do.

    python -m benchmarks.lone_tls                     # five minutes on a quiet machine
    python -m benchmarks.lone_tls --only kinformer    # the microseconds of one of them, as JSON

A sender in another process writes one event at a time, so many a second. The receivers are processes of their own,
one after the other: a protocol that counts lines and knows no HTTP, aiohttp whose body is drained by the reader that
its parser feeds (no task wakes up), and kinformer, from the socket to an awaited handler. Between two events a process
sleeps, so code and data are cold, which is what a lone event costs at live rates.
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
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from benchmarks.data import KINDS
from benchmarks.harness import CORES, RESULTS, Figure, median, run, serving, stay_on_one_core, until
from benchmarks.watch import Counter
from kinformer import Client, SharedInformerFactory

ROUNDS = 5
RATES = {"configmaps": 600, "pods": 200}  # events a second
SECONDS = 2.0
OBJECTS = 1_000
WORDS = {"protocol": "a protocol that counts", "aiohttp": "aiohttp drained"}
FIGURES: dict[tuple[str, str, str], tuple[str, dict[str, float]]] = {
    ("asyncio", "configmaps", "protocol"): ("G25", {"limit": 2.2, "aim": 2.0}),
    ("asyncio", "configmaps", "aiohttp"): ("G26", {"limit": 1.5, "aim": 1.4}),
    ("asyncio", "pods", "aiohttp"): ("G27", {"limit": 1.45, "aim": 1.3}),
}
Send = Callable[[int], Awaitable[None]]


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _cpu_us(kind: str, send: Send, reached: Callable[[int], Awaitable[Any]]) -> float:
    """CPU microseconds of an event, without those of a first tenth."""
    count = int(RATES[kind] * SECONDS)
    first = count // 10
    async with asyncio.timeout(10 * SECONDS):
        done = asyncio.ensure_future(reached(first))
        await send(first)
        await done
        done = asyncio.ensure_future(reached(count))
        began = time.process_time()
        await send(count)
        await done
        return (time.process_time() - began) / count * 1e6


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


async def by_protocol(kind: str, url: str, client: Client, send: Send) -> float:
    """The least: TLS, and a protocol that counts."""
    lines, host = _Lines(), urlsplit(url)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(
        lambda: _CountingProtocol(lines), host.hostname or "", host.port or 0, ssl=_trusting()
    )
    transport.write(f"GET {KINDS[kind].path}?watch=true HTTP/1.1\r\nHost: {host.netloc}\r\n\r\n".encode())
    try:
        await asyncio.wait_for(protocol.head, 10)
        return await _cpu_us(kind, send, lines.reach)
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


async def by_aiohttp(kind: str, url: str, client: Client, send: Send) -> float:
    """aiohttp, without a task that wakes up."""
    watch = f"{url}{KINDS[kind].path}?watch=true"
    async with aiohttp.ClientSession() as session, session.get(watch, ssl=_trusting()) as response:
        response.content.__class__ = _Draining
        return await _cpu_us(kind, send, _Draining.lines.reach)


async def by_kinformer(kind: str, url: str, client: Client, send: Send) -> float:
    """An informer, from the socket to the awaited handler."""
    async with SharedInformerFactory(client, watch_list=False) as factory:
        counter = Counter()
        informer = factory.for_resource(KINDS[kind].resource)
        informer.add_event_handler(counter)
        await factory.wait_for_cache_sync(timeout=60, handlers=True)
        await until(lambda: informer.health().live)
        return await _cpu_us(kind, send, counter.reach)


RECEIVERS = {"protocol": by_protocol, "aiohttp": by_aiohttp, "kinformer": by_kinformer}


async def one(receiver: str, kind: str) -> float:
    """CPU microseconds of an event in this process."""
    events = int(RATES[kind] * SECONDS * 1.2)
    async with serving(kind, OBJECTS, events, "--tls") as url, Client.from_url(url, ssl=_trusting()) as client:

        async def send(count: int) -> None:
            params = {"count": str(count), "rate": str(RATES[kind])}
            await client.request("POST", "/control/events", params=params)

        return await RECEIVERS[receiver](kind, url, client, send)


def measured(receiver: str, kind: str, loop: str) -> float:
    """CPU microseconds of an event, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.lone_tls", "--only", receiver, "--kind", kind, "--loop", loop]
    if CORES:
        os.sched_setaffinity(0, CORES)  # the process measured and its sender need one each
    done = subprocess.run(command, cwd=RESULTS.parent.parent, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout))


def ratio(name: str, kind: str, receiver: str, *, rounds: int) -> Figure:
    """CPU of an event in kinformer over that in another receiver, in turns."""
    costs = [(measured("kinformer", kind, "asyncio"), measured(receiver, kind, "asyncio")) for _ in range(rounds)]
    return _figure(name, [ours for ours, _ in costs], [theirs for _, theirs in costs], receiver)


def _figure(name: str, kinformer: list[float], reference: list[float], receiver: str, **limits: float) -> Figure:
    ratios = [ours / theirs for ours, theirs in zip(kinformer, reference, strict=True)]
    what = WORDS[receiver]
    text = f"an event {statistics.median(kinformer):.0f} us of CPU, {what} {statistics.median(reference):.0f}"
    return median(name, ratios, f"x {what}", reference=text, **limits)


async def measure(rounds: int = ROUNDS) -> list[Figure]:
    figures = []
    for loop in ["asyncio", *(["uvloop"] if find_spec("uvloop") else [])]:
        us: dict[tuple[str, str], list[float]] = {}
        for number in range(rounds):
            print(f"  {loop}, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for kind in RATES:
                for receiver in RECEIVERS:
                    us.setdefault((kind, receiver), []).append(measured(receiver, kind, loop))
        for (kind, receiver), reference in us.items():
            if receiver != "kinformer":
                name, limits = FIGURES.get((loop, kind, receiver), ("", {}))
                name = f"{name} lone event of {kind} over {WORDS[receiver]}, {loop}".strip()
                figures.append(_figure(name, us[kind, "kinformer"], reference, receiver, **limits))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(RECEIVERS))
    parser.add_argument("--kind", choices=sorted(RATES), default="configmaps")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    options = parser.parse_args()
    if options.only is None:
        return run("lone_tls", measure)
    stay_on_one_core()
    factory = None
    if options.loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(one(options.only, options.kind))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
