"""The embedded API server as a load generator: the speed of filling, writing and watching it, and its memory.

All figures are of CPU time, so that a busy machine does not change them much; those of writes are held against
`json.loads` and `json.dumps` of the same object in the same process too. The HTTP figures are of a server process
of its own, as `kinformer serve` starts it, by the CPU time that this process has used.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import psutil

from benchmarks.harness import RESULTS, Figure, median, resident, run
from kinformer.testing import APIServer

PODS = 100_000
LOAD_LIMIT = 10.0  # seconds for 100,000 pods of 8 KB
WRITES = 20_000
# Over json's loads and dumps of the object, which take 10 us on an idle core of 2025: 20,000 creates a second.
WRITE_LIMITS = {"create": 5.0, "update": 8.0, "delete": 4.0}
HTTP_WRITES = 3_000
HTTP_LIMIT = 1e6 / 1_500  # microseconds: 1,500 writes a second
CONNECTIONS = 8
WATCHERS = 100
EVENTS = 300
MEMORY_LIMIT = 1.25  # bytes per byte of JSON
ROUNDS = 3
MAPS = "/api/v1/namespaces/default/configmaps"


def configmap(index: int, *, value: str = "x" * 60) -> dict[str, Any]:
    """A ConfigMap that is 1 KB when it is stored."""
    metadata = {"name": f"map-{index:06}", "namespace": "default", "labels": {"app": "bench"}}
    data = {f"setting-{number}": value for number in range(8)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def cpu_us(work: Callable[[], None], count: int) -> float:
    """CPU microseconds of one of `count` steps."""
    began = time.process_time()
    work()
    return (time.process_time() - began) / count * 1e6


def each(call: Callable[[Any], object], arguments: Sequence[Any]) -> Callable[[], None]:
    """A function that calls another with one argument after the other, and keeps nothing."""

    def work() -> None:
        for one in arguments:
            call(one)

    return work


def codec_us(obj: dict[str, Any]) -> float:
    """The reference: CPU microseconds that the standard library takes to write an object as JSON and read it again."""

    def work() -> None:
        for _ in range(2000):
            json.loads(json.dumps(obj))

    return cpu_us(work, 2000)


def load() -> list[Figure]:
    """100,000 generated pods: seconds, and memory over their JSON."""
    before = resident()
    server = APIServer()
    began = time.process_time()
    for _ in server.generate("v1/pods", PODS):
        pass
    seconds = time.process_time() - began
    kept = resident() - before
    sizes = sum(len(msgspec.json.encode(one)) for one in server.list("v1/pods", "team-00"))
    count = len(server.list("v1/pods", "team-00"))
    written = sizes / count * PODS
    reference = f"{PODS} pods of {sizes / count:.0f} bytes; {kept / PODS:.0f} bytes of memory each"
    return [
        Figure("load", seconds, "s", [], limit=LOAD_LIMIT, below=True, reference=reference),
        Figure("memory", kept / written, "bytes per byte of JSON", [], limit=MEMORY_LIMIT),
    ]


def writes() -> list[Figure]:
    """Direct calls without watchers: creates, updates, deletes."""
    rounds: dict[str, list[float]] = {"create": [], "update": [], "delete": []}
    size = 0
    for _ in range(ROUNDS):
        server = APIServer()
        fresh = [configmap(index) for index in range(WRITES)]
        changed = [configmap(index, value="y" * 60) for index in range(WRITES)]
        gc.collect()
        gc.freeze()  # keeps the collections from the benchmark's own objects
        rounds["create"].append(cpu_us(each(server.create, fresh), WRITES))
        stored = server.get("v1/configmaps", "default", "map-000000")
        size = len(msgspec.json.encode(stored))
        rounds["update"].append(cpu_us(each(server.update, changed), WRITES))
        names = [one["metadata"]["name"] for one in fresh]
        rounds["delete"].append(cpu_us(each(partial(server.delete, "v1/configmaps", "default"), names), WRITES))
        gc.unfreeze()
    codec = codec_us(stored or {})
    figures = []
    for name, times in rounds.items():
        best = f"{min(times):.0f} us, {1e6 / min(times):.0f} a second at best"
        text = f"{best}; json takes {codec:.0f} us for {size} bytes"
        ratios = [one / codec for one in times]
        figures.append(median(name, ratios, "times json", limit=WRITE_LIMITS[name], reference=text))
    return figures


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[str, int, psutil.Process]]:
    """A server process: host, port, and what it costs."""
    command = [sys.executable, "-m", "kinformer.cli", "serve", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=RESULTS.parent.parent)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode().strip()
        host, _, port = line.removeprefix("Serving http://").partition(":")
        yield host, int(port), psutil.Process(process.pid)
    finally:
        process.kill()
        await process.wait()


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def _answer(reader: asyncio.StreamReader) -> int:
    """Reads one answer; its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    if b"content-length:" in lower:
        length = int(lower.partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
    else:
        while (size := int(await reader.readuntil(b"\r\n"), 16)) >= 0:
            await reader.readexactly(size + 2)
            if size == 0:
                break
    return int(head.split(b" ", 2)[1])


async def _write(host: str, port: int, indices: range) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        for index in indices:
            body = msgspec.json.encode(configmap(index))
            head = f"POST {MAPS} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench/1\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            status = await _answer(reader)
            if status != 201:
                raise RuntimeError(f"the server answered {status}")
    finally:
        writer.close()


async def http_writes() -> Figure:
    """POSTs over kept connections: CPU time of the server's process for each."""
    rounds = []
    async with serving() as (host, port, process):
        for number in range(ROUNDS):
            first = number * HTTP_WRITES
            share = HTTP_WRITES // CONNECTIONS
            before = _used(process)
            parts = [range(first + one * share, first + (one + 1) * share) for one in range(CONNECTIONS)]
            await asyncio.gather(*(_write(host, port, part) for part in parts))
            rounds.append((_used(process) - before) / (share * CONNECTIONS) * 1e6)
    reference = f"{1e6 / min(rounds):.0f} writes a second on one core at best, over {CONNECTIONS} connections"
    return median("http write", rounds, "us", limit=HTTP_LIMIT, reference=reference)


async def _watch(host: str, port: int, events: int, ready: asyncio.Event) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench/1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        ready.set()
        seen = 0
        while seen < events:
            seen += (await reader.read(1 << 20)).count(b'"type":"')
    finally:
        writer.close()


async def fan_out() -> Figure:
    """Events to 100 watchers: the cost of each for one of them."""
    async with APIServer() as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        ready = [asyncio.Event() for _ in range(WATCHERS)]
        watchers = [asyncio.create_task(_watch(host, int(port), EVENTS, one)) for one in ready]
        for one in ready:
            await one.wait()
        began = time.process_time()
        for index in range(EVENTS):
            server.create(configmap(index))
            if index % 50 == 49:
                await asyncio.sleep(0)
        await asyncio.gather(*watchers)
        spent = time.process_time() - began
    each = spent / (EVENTS * WATCHERS) * 1e6
    return Figure(
        "event to one of 100 watchers", each, "us", [], reference="both ends of the connection in one process"
    )


async def measure() -> list[Figure]:
    """All figures."""
    return [*load(), *writes(), await http_writes(), await fan_out()]


if __name__ == "__main__":
    sys.exit(run("apiserver", measure))
