"""One client of a real kube-apiserver, in a process of its own: the cost of a first list, or of an event of a watch.

    python -m benchmarks.real_client sync --how list --kubeconfig FILE --kind pods --lines FILE
    python -m benchmarks.real_client follow --how informer --kubeconfig FILE --kind pods --lines FILE --events 500

Prints one line of JSON: CPU microseconds of an object, those of `orjson.loads` of one in the same process, and, of a
sync, memory. `follow` prints `ready` first, and then waits for its events. Costs that a process pays once
(imports, the TLS context, the first handshake) are over before anything is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.data import KINDS
from benchmarks.harness import forget_peak, loads_us, loop_factory, peak, resident
from benchmarks.least import follow_least
from kinformer import Client, SharedInformerFactory
from kinformer.connection.config import Compression, ConnectionSettings
from kinformer.connection.kubeconfig import load_kubeconfig

WARM = 20  # events that do not count
TIMEOUT = 300.0  # seconds
SYNCS = (
    "list",
    "list, gzip",
    "list, decoded",
    "list, indexed by node",
    "list, three fields",
    "list, compact",
    "official",
    "watch_list",
    "watch_list, decoded",
    "list drained",
    "watch_list drained",
)
FOLLOWS = ("informer", "informer, decoded", "informer, indexed by node", "least", "drain")


OPTIONS: dict[str, dict[str, Any]] = {
    "indexed by node": {"indexers": {"node": "spec.nodeName"}},
    "three fields": {"fields": ["spec.nodeName", "status.phase", "status.podIP"]},
    "compact": {"compact": True},
}


def options_of(how: str) -> dict[str, Any]:
    """The options of the informer that is measured."""
    return next((options for end, options in OPTIONS.items() if how.endswith(end)), {})


def say(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


@asynccontextmanager
async def session(kubeconfig: str) -> AsyncIterator[aiohttp.ClientSession]:
    """aiohttp alone, as an informer's stream has it: the same TLS, the same buffer, no compression."""
    connection: ConnectionSettings = load_kubeconfig(kubeconfig)
    assert connection.tls.ca is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=connection.tls.ca.read().decode())
    headers = {"Accept-Encoding": "identity", "Authorization": await connection.credential.authorization() or ""}
    async with aiohttp.ClientSession(
        connection.server,
        connector=aiohttp.TCPConnector(ssl=context),
        headers=headers,
        read_bufsize=256 * 1024,
        timeout=aiohttp.ClientTimeout(),
    ) as one:
        async with one.get("/version") as answer:
            await answer.read()
        yield one


class Counter:
    """A handler that counts, and looks at the CPU's clock at the first event that counts and at the last.

    Args:
        wanted: Events, the `WARM` ones not among them.
        decode: True if the whole object is read.
    """

    def __init__(self, wanted: int, *, decode: bool = False) -> None:
        self.seen = 0
        self.us = 0.0
        self.done = asyncio.Event()
        self._wanted = wanted
        self._decode = decode
        self._began = 0.0

    async def on_add(self, obj: Any) -> None:
        if self._decode:
            obj.to_dict()

    async def on_update(self, old: Any, new: Any) -> None:
        if self._decode:
            new.to_dict()
        self.count(1)

    def count(self, events: int) -> None:
        before, self.seen = self.seen, self.seen + events
        if before < WARM <= self.seen:
            self._began, self._wanted = time.process_time(), self._wanted - (self.seen - WARM)
        elif self._began and self.seen >= WARM + self._wanted and not self.done.is_set():
            self.us = (time.process_time() - self._began) / self._wanted * 1e6
            self.done.set()


async def sync_official(kubeconfig: str, objects: int) -> None:
    """The informer of the official client, in a thread of its own, until it has so many pods."""
    kubernetes: Any = importlib.import_module("kubernetes")
    informers: Any = importlib.import_module("kubernetes.informer")
    kubernetes.config.load_kube_config(kubeconfig)
    base, began = resident(), time.process_time()
    forget_peak()
    informer = informers.SharedInformer(kubernetes.client.CoreV1Api().list_pod_for_all_namespaces)
    informer.start()
    try:
        while len(informer.cache.list()) < objects:  # noqa: ASYNC110 - nothing says that it has synced
            await asyncio.sleep(0.25)
        say(us=(time.process_time() - began) / objects * 1e6, objects=objects, process=peak() / objects, base=base)
    finally:
        informer.stop()


async def sync(kubeconfig: str, kind: str, how: str, lines: list[bytes], snapshot: str | None) -> None:
    """An informer from nothing to its synced cache, with a handler that has had every object."""
    way, _, extra = how.partition(", ")
    counter = Counter(0, decode=extra == "decoded")
    compression: Compression = "gzip" if extra == "gzip" else "none"
    async with Client.from_kubeconfig(kubeconfig, compression=compression) as client:
        await client.request("GET", "/version")
        before = loads_us(lines) if lines else 0.0
        base = resident()
        forget_peak()
        began = time.process_time()
        async with SharedInformerFactory(client, watch_list=way == "watch_list") as factory:
            informer = factory.for_resource(KINDS[kind].resource, snapshot=snapshot, **options_of(how))
            informer.add_event_handler(counter, queue_size=1 << 30)
            await factory.wait_for_cache_sync(timeout=TIMEOUT, handlers=True)
            cost = time.process_time() - began
            most, objects = peak() - base, len(informer.lister)
            kept = resident() - base
    say(
        us=cost / objects * 1e6,
        orjson_us=(before + loads_us(lines)) / 2 if lines else 0.0,
        objects=objects,
        peak=most / objects,
        kept=kept / objects,
        process=(most + base) / objects,
    )


async def sync_drained(kubeconfig: str, kind: str, how: str, lines: list[bytes], objects: int) -> None:
    """The same bytes, read and dropped."""
    params = {"resourceVersion": "0"}
    if how.startswith("watch_list"):
        params = {"watch": "true", "sendInitialEvents": "true", "allowWatchBookmarks": "true"}
        params["resourceVersionMatch"] = "NotOlderThan"
    async with session(kubeconfig) as http:
        before = loads_us(lines)
        began, size, last = time.process_time(), 0, b""
        async with http.get(KINDS[kind].path, params=params) as answer:
            while chunk := await answer.content.readany():
                size += len(chunk)
                if how.startswith("watch_list") and b"initial-events-end" in last + chunk:
                    break
                last = chunk[-100:]
            cost = time.process_time() - began
            answer.close()
    say(us=cost / objects * 1e6, orjson_us=(before + loads_us(lines)) / 2, objects=objects, bytes=size)


async def follow(kubeconfig: str, kind: str, how: str, lines: list[bytes], events: int) -> None:
    """An informer that has synced, and has been told of so many events."""
    counter = Counter(events, decode=how == "informer, decoded")
    before = loads_us(lines)
    async with Client.from_kubeconfig(kubeconfig) as client, SharedInformerFactory(client) as factory:
        informer = factory.for_resource(KINDS[kind].resource, **options_of(how))
        informer.add_event_handler(counter, queue_size=1 << 30)
        await factory.wait_for_cache_sync(timeout=TIMEOUT, handlers=True)
        print("ready", flush=True)
        await asyncio.wait_for(counter.done.wait(), TIMEOUT)
        statistics = informer.statistics()
        assert statistics.coalesced == 0
    say(us=counter.us, orjson_us=(before + loads_us(lines)) / 2, relists=sum(statistics.relists.values()))


async def arrivals(kubeconfig: str, events: int, beside: str) -> None:
    """The times at which so many events of configmaps were written and had by the handler, in seconds since 1970.

    With `beside`, objects of that kind are listed meanwhile, into a cache of their own.
    """
    pairs: list[tuple[float, float]] = []
    begun, done = asyncio.Event(), asyncio.Event()

    async def on_update(old: Any, new: Any) -> None:
        arrived = time.time()
        written = new.annotations.get("bench.example.com/at")
        if written is not None and not done.is_set():
            pairs.append((float(written), arrived))
            if len(pairs) >= WARM:
                begun.set()
            if len(pairs) >= events:
                done.set()

    async def listing(client: Client) -> list[float]:
        await begun.wait()
        began = time.time()
        async with SharedInformerFactory(client) as factory:
            factory.for_resource(KINDS[beside].resource)
            await factory.wait_for_cache_sync(timeout=TIMEOUT)
            return [began, time.time()]

    async with Client.from_kubeconfig(kubeconfig) as client, SharedInformerFactory(client) as factory:
        factory.for_resource(KINDS["configmaps"].resource).add_event_handler(on_update=on_update, queue_size=1 << 30)
        await factory.wait_for_cache_sync(timeout=TIMEOUT, handlers=True)
        print("ready", flush=True)
        async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as group:
            listed = group.create_task(listing(client)) if beside else None
            await done.wait()
    say(arrivals=pairs, listing=[] if listed is None else listed.result())


@asynccontextmanager
async def watched(kubeconfig: str, kind: str) -> AsyncIterator[aiohttp.StreamReader]:
    """The same stream, as bytes."""
    async with session(kubeconfig) as http:
        async with http.get(KINDS[kind].path, params={"limit": "1"}) as answer:
            version = json.loads(await answer.read())["metadata"]["resourceVersion"]
        params = {"watch": "true", "resourceVersion": version}
        async with http.get(KINDS[kind].path, params=params) as answer:
            print("ready", flush=True)
            yield answer.content
            answer.close()


async def follow_drained(kubeconfig: str, kind: str, lines: list[bytes], events: int) -> None:
    """Read and dropped; only its lines are counted."""
    counter = Counter(events)
    before = loads_us(lines)
    async with watched(kubeconfig, kind) as content, asyncio.timeout(TIMEOUT):
        while not counter.done.is_set():
            chunk = await content.readany()
            if not chunk:
                raise RuntimeError("the server ended the watch")
            counter.count(chunk.count(b"\n"))
    say(us=counter.us, orjson_us=(before + loads_us(lines)) / 2)


async def follow_without_informer(kubeconfig: str, kind: str, lines: list[bytes], events: int) -> None:
    """Decoded and kept in a dict; see `benchmarks.least`."""
    counter = Counter(events)
    before = loads_us(lines)

    async def on_update(old: Any, new: Any) -> bool:
        counter.count(1)
        return counter.done.is_set()

    async with watched(kubeconfig, kind) as content, asyncio.timeout(TIMEOUT):
        await follow_least(content, on_update)
        if not counter.done.is_set():
            raise RuntimeError("the server ended the watch")
    say(us=counter.us, orjson_us=(before + loads_us(lines)) / 2)


async def client(options: argparse.Namespace, lines: list[bytes]) -> None:
    if options.what == "arrivals":
        await arrivals(options.kubeconfig, options.events, options.beside)
    elif options.what == "sync":
        if options.how.endswith("drained"):
            await sync_drained(options.kubeconfig, options.kind, options.how, lines, options.objects)
        elif options.how == "official":
            await sync_official(options.kubeconfig, options.objects)
        else:
            await sync(options.kubeconfig, options.kind, options.how, lines, options.snapshot)
    elif options.how == "drain":
        await follow_drained(options.kubeconfig, options.kind, lines, options.events)
    elif options.how == "least":
        await follow_without_informer(options.kubeconfig, options.kind, lines, options.events)
    else:
        await follow(options.kubeconfig, options.kind, options.how, lines, options.events)


def main() -> int:
    parser = argparse.ArgumentParser(description="One client of a real kube-apiserver")
    parser.add_argument("what", choices=("sync", "follow", "arrivals"))
    parser.add_argument("--how", choices=(*SYNCS, *FOLLOWS), default="informer")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kind", choices=KINDS, default="configmaps")
    parser.add_argument("--lines", help="what orjson.loads is measured with")
    parser.add_argument("--snapshot", help="the file of the cache")
    parser.add_argument("--beside", choices=KINDS, help="list them while events arrive")
    parser.add_argument("--objects", type=int, default=0)
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        lines = Path(options.lines).read_bytes().splitlines() if options.lines else []
        runner.run(client(options, lines))
    sys.stdout.flush()
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
