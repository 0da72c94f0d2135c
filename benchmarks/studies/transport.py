"""aiohttp's transport beside one on httptools, on asyncio's loop and on uvloop, plain and over TLS.

    python -m benchmarks.studies.transport                      # by hand: 3 to 6 minutes

Two measures: a stream that is drained and dropped, which is the transport alone; and the whole way from the socket to
the awaited handler (G1 and G2 of `benchmarks.watch`). The httptools transport is in this file only: an asyncio
protocol, a C parser for the chunks, and what a `Client` needs of a stream. It has no pool, no proxy, no renewal of
credentials. It would be worth having as an option if an event on the whole way cost 1.3 times less with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from itertools import product
from typing import Any
from urllib.parse import urlencode, urlsplit

from benchmarks.data import KINDS
from benchmarks.harness import RESULTS, Figure, loads_us, loop_factory, median, run, serving
from benchmarks.watch import Counter, lines_of
from kinformer import Client, SharedInformerFactory

ROUNDS = 5
OBJECTS = 2_000
EVENTS = {"pods": 4_000, "configmaps": 16_000}
WARM = 4  # a part of the events, once, that do not count: one in so many
WORTH = 1.3
_BUFFER = 256 * 1024


class Stream:
    """The answer to one GET, parsed by httptools; what `client.stream` is on aiohttp."""

    def __init__(self) -> None:
        import httptools

        self.head: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.headers: dict[str, str] = {}
        self.status = 0
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._size = 0
        self._ended = False
        self._waiting: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._paused = False

    # The parser's calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().title()] = value.decode()

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if not self.head.done():
            self.head.set_result(None)

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        self._ended = True

    # The protocol's.

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def fed(self, data: bytes | memoryview) -> None:
        self._parser.feed_data(data)
        if self._size > 2 * _BUFFER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self) -> None:
        self._ended = True
        if not self.head.done():
            self.head.set_exception(ConnectionError("no answer"))
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done() and (self._parts or self._ended):
            self._waiting.set_result(None)

    # The reader's.

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "")

    async def read(self) -> bytes:
        if not self._parts and not self._ended:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        parts, self._parts, self._size = self._parts, [], 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Plain(asyncio.BufferedProtocol):
    """Reads into one buffer, which the parser reads from."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._buffer = memoryview(bytearray(_BUFFER))

    def connection_made(self, transport: Any) -> None:
        self._stream.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._stream.fed(self._buffer[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        self._stream.connection_lost()


class OverTls(asyncio.Protocol):
    """Takes what asyncio has decrypted, as bytes."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def connection_made(self, transport: Any) -> None:
        self._stream.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._stream.fed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stream.connection_lost()


@asynccontextmanager
async def httptools_stream(url: str, path: str, params: Mapping[str, str]) -> AsyncIterator[Stream]:
    """A GET on a connection of its own."""
    parts = urlsplit(url)
    stream = Stream()
    is_tls = parts.scheme == "https"
    protocol = OverTls(stream) if is_tls else Plain(stream)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(
        lambda: protocol, parts.hostname or "", parts.port or 0, ssl=_trusting() if is_tls else None
    )
    try:
        target = f"{path}?{urlencode(params)}" if params else path
        transport.write(f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n\r\n".encode())
        await stream.head
        yield stream
    finally:
        transport.abort()


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class OnHttptools(Client):
    """A client whose streams are read by httptools; its requests are aiohttp's."""

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str] | None = None, **_: Any) -> AsyncIterator[Any]:
        async with httptools_stream(self.server, path, params or {}) as stream:
            yield stream


CLIENTS: dict[str, type[Client]] = {"aiohttp": Client, "httptools": OnHttptools}


# --- one of them, in a process of its own -------------------------------------------------------------------------


async def whole_way(kind: str, transport: str, tls: list[str]) -> float:
    """CPU microseconds of an event from the socket to the handler."""
    count = EVENTS[kind]
    async with (
        serving(kind, OBJECTS, count + count // WARM, *tls) as url,
        CLIENTS[transport].from_url(url, ssl=_trusting() if tls else None) as client,
        SharedInformerFactory(client, watch_list=False) as factory,
    ):
        informer = factory.for_resource(KINDS[kind].resource)
        counter = Counter()
        informer.add_event_handler(counter, queue_size=1 << 30)
        await factory.wait_for_cache_sync(timeout=120, handlers=True)
        for events in (count // WARM, count):
            done = asyncio.ensure_future(counter.reach(events))
            began = time.process_time()
            await client.request("POST", "/control/events", params={"count": str(events)})
            await asyncio.wait_for(done, 120)
        return (time.process_time() - began) / count * 1e6


async def drained(kind: str, transport: str, tls: list[str], *, listed: bool) -> float:
    """CPU microseconds of an event, or of an object of a list, that is read and dropped."""
    count = EVENTS[kind]
    async with (
        serving(kind, count if listed else 1, 1 if listed else count, *tls) as url,
        CLIENTS[transport].from_url(url, ssl=_trusting() if tls else None) as client,
    ):
        await client.request("POST", "/control/events", params={"count": "0"})  # imports, and the first connection
        params = {} if listed else {"watch": "true"}
        async with client.stream(KINDS[kind].path, params, watch=not listed) as body:
            began, lines = time.process_time(), 0
            if not listed:
                await client.request("POST", "/control/events", params={"count": str(count)})
            while lines < (1 if listed else count) and (chunk := await body.read()):
                lines += chunk.count(b"\n")
            return (time.process_time() - began) / count * 1e6


async def one(options: argparse.Namespace) -> None:
    tls = ["--tls"] if options.tls else []
    lines = lines_of(options.kind, OBJECTS, 500)
    before = loads_us(lines)
    if options.what == "whole":
        us = await whole_way(options.kind, options.transport, tls)
    else:
        us = await drained(options.kind, options.transport, tls, listed=options.what == "list")
    print(json.dumps({"us": us, "orjson_us": (before + loads_us(lines)) / 2}))


# --- all of them --------------------------------------------------------------------------------------------------

MEASURES = (("watch", "pods"), ("list", "pods"), ("whole", "pods"), ("whole", "configmaps"))
NAMES = {"watch": "drained watch event", "list": "drained object of a list", "whole": "event to the handler"}


def _measured(what: str, kind: str, transport: str, loop: str, tls: bool) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.studies.transport", "--what", what, "--kind", kind]
    command += ["--transport", transport, "--loop", loop, *(["--tls"] if tls else [])]
    done = subprocess.run(command, cwd=RESULTS.parent.parent, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def figures(rounds: int) -> list[Figure]:
    """For each measure, loop and scheme: aiohttp's CPU over httptools', and both over `orjson.loads`."""
    loops = ["asyncio", *(["uvloop"] if find_spec("uvloop") else [])]
    results = []
    for (what, kind), tls in product(MEASURES, (False, True)):
        title = f"{NAMES[what]}, {kind}, {'TLS' if tls else 'plain'}"
        print(f"  {title}", file=sys.stderr, flush=True)
        taken: dict[tuple[str, str], list[dict[str, float]]] = {}
        for _ in range(rounds):
            for loop, transport in product(loops, CLIENTS):
                taken.setdefault((loop, transport), []).append(_measured(what, kind, transport, loop, tls))
        for (loop, transport), ones in taken.items():
            ratios = [found["us"] / found["orjson_us"] for found in ones]
            us = [found["us"] for found in ones]
            text = f"{statistics.median(us):.1f} us of CPU (at best {min(us):.1f})"
            name = f"{title}: {transport} on {loop}"
            results.append(median(name, ratios, "x orjson.loads", reference=text, details={"us": us}))
        for loop in loops:
            pairs = zip(taken[loop, "aiohttp"], taken[loop, "httptools"], strict=True)
            gains = [ours["us"] / theirs["us"] for ours, theirs in pairs]
            text = f"worth an option from {WORTH} on" if what == "whole" else ""
            results.append(median(f"{title}: aiohttp over httptools, {loop}", gains, "times", reference=text))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description="aiohttp's transport beside one on httptools")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--what", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--transport", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio", help=argparse.SUPPRESS)
    parser.add_argument("--tls", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what:
        with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
            runner.run(one(options))
        return 0
    if find_spec("httptools") is None:
        print("transport: not measured, for httptools is not installed")
        return 0

    async def measure() -> list[Figure]:
        return figures(options.rounds)

    return run("transport", measure)


if __name__ == "__main__":
    sys.exit(main())
