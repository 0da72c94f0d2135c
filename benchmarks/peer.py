"""One client of Kubernetes, in a process of its own: the cost of an event of a watch.

    python -m benchmarks.peer --peer kubernetes_asyncio --url http://127.0.0.1:41000 --kind pods --events 1000

Prints CPU microseconds of an event, from the socket to the program's own code.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from benchmarks.harness import stay_on_one_core

WARM = 100  # events that do not count


class Meter:
    """Counts events; the time starts with the first that counts."""

    def __init__(self, url: str, events: int) -> None:
        self._url = url
        self._events = events
        self._seen = 0
        self._began = 0.0
        self.us = 0.0

    def order(self) -> None:
        """Have the server send, once it has the watch."""
        count = WARM + self._events
        request = urllib.request.Request(f"{self._url}/control/events?count={count}", method="POST")
        with urllib.request.urlopen(request) as answer:
            answer.read()

    def event(self) -> bool:
        """Count an event; True if it was the last."""
        self._seen += 1
        if self._seen == WARM:
            gc.collect()  # a full collection of all modules takes 25 ms: as much as thousands of events
            self._began = time.process_time()
        if self._seen < WARM + self._events:
            return False
        self.us = (time.process_time() - self._began) / self._events * 1e6
        return True


async def kinformer(
    url: str, kind: str, meter: Meter, *, decode: Callable[[Any], Any] | None = None, **options: Any
) -> None:
    from benchmarks.data import KINDS
    from kinformer import Client, SharedInformerFactory

    last: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def on_update(old: Any, new: Any) -> None:
        if decode is not None:
            decode(new)
        if meter.event():
            last.set_result(None)

    async with Client.from_url(url) as client, SharedInformerFactory(client, watch_list=False) as factory:
        informer = factory.for_resource(KINDS[kind].resource, **options)
        informer.add_event_handler(on_update=on_update, queue_size=1 << 30)
        await factory.wait_for_cache_sync(timeout=60, handlers=True)
        await asyncio.to_thread(meter.order)
        await last


async def kinformer_dict(url: str, kind: str, meter: Meter) -> None:
    await kinformer(url, kind, meter, decode=lambda obj: obj.to_dict())


async def kinformer_by_node(url: str, kind: str, meter: Meter) -> None:
    await kinformer(url, kind, meter, indexers={"node": "spec.nodeName"})


async def kubernetes_asyncio(url: str, kind: str, meter: Meter, *, typed: bool = True) -> None:
    from kubernetes_asyncio import client, watch

    configuration = client.Configuration(host=url)
    async with client.ApiClient(configuration) as api:
        core = client.CoreV1Api(api)
        call = core.list_pod_for_all_namespaces if kind == "pods" else core.list_config_map_for_all_namespaces
        await asyncio.to_thread(meter.order)
        stream = watch.Watch() if typed else watch.Watch(return_type="object")
        async with stream.stream(call) as events:
            async for _ in events:
                if meter.event():
                    return


async def kubernetes_asyncio_dict(url: str, kind: str, meter: Meter) -> None:
    await kubernetes_asyncio(url, kind, meter, typed=False)


async def kubernetes(url: str, kind: str, meter: Meter, *, typed: bool = True) -> None:
    from kubernetes import client, watch

    core = client.CoreV1Api(client.ApiClient(client.Configuration(host=url)))
    call = core.list_pod_for_all_namespaces if kind == "pods" else core.list_config_map_for_all_namespaces
    meter.order()
    stream = watch.Watch() if typed else watch.Watch(return_type="object")
    for _ in stream.stream(call):  # it is not asynchronous: it holds the loop, which here has nothing else to do
        if meter.event():
            return


async def kubernetes_aio(url: str, kind: str, meter: Meter) -> None:
    from kubernetes.aio import client, watch

    async with client.ApiClient(client.Configuration(host=url)) as api:
        core = client.CoreV1Api(api)
        call = core.list_pod_for_all_namespaces if kind == "pods" else core.list_config_map_for_all_namespaces
        await asyncio.to_thread(meter.order)
        async with watch.Watch().stream(call) as events:
            async for _ in events:
                if meter.event():
                    return


async def kubernetes_informer(url: str, kind: str, meter: Meter) -> None:
    """It lives in a thread of its own, and so do its handlers."""
    from kubernetes import client
    from kubernetes.informer import MODIFIED, SharedInformer

    core = client.CoreV1Api(client.ApiClient(client.Configuration(host=url)))
    call = core.list_pod_for_all_namespaces if kind == "pods" else core.list_config_map_for_all_namespaces
    loop = asyncio.get_running_loop()
    last = asyncio.Event()
    informer = SharedInformer(call)

    def on_update(obj: Any) -> None:
        if meter.event():
            loop.call_soon_threadsafe(last.set)

    informer.add_event_handler(MODIFIED, on_update)
    await asyncio.to_thread(meter.order)
    informer.start()
    await last.wait()


async def kopf(url: str, kind: str, meter: Meter) -> None:
    """Only its watch, which is not public; the further work of an operator is not included."""
    import kopf
    from kopf._cogs.clients import auth, watching
    from kopf._cogs.structs import credentials, references

    vault = credentials.Vault({"bench": kopf.ConnectionInfo(server=url)})
    auth.vault_var.set(vault)
    resource = references.Resource(group="", version="v1", plural=kind, namespaced=True)
    await asyncio.to_thread(meter.order)
    events: Any = watching.infinite_watch(settings=kopf.OperatorSettings(), resource=resource, namespace=None)
    async with aclosing(events):
        async for event in events:
            # The objects of its first list have no type.
            if not isinstance(event, watching.Bookmark) and event["type"] and meter.event():
                break
    await vault.close()


async def kr8s(url: str, kind: str, meter: Meter) -> None:
    import kr8s.asyncio as client
    from kr8s import ALL
    from kr8s.asyncio.objects import ConfigMap, Pod

    api = await client.api(url=url)
    await asyncio.to_thread(meter.order)
    async with aclosing(api.watch(Pod if kind == "pods" else ConfigMap, namespace=ALL)) as events:
        async for _ in events:
            if meter.event():
                return


async def lightkube(url: str, kind: str, meter: Meter) -> None:
    from lightkube import AsyncClient, KubeConfig
    from lightkube.config.models import Cluster, User
    from lightkube.resources.core_v1 import ConfigMap, Pod

    client = AsyncClient(config=KubeConfig.from_one(cluster=Cluster(server=url), user=User(token="none")))
    meter.order()
    async for _ in client.watch(Pod if kind == "pods" else ConfigMap, namespace="*"):
        if meter.event():
            return


async def aiohttp(url: str, kind: str, meter: Meter) -> None:
    """No client of Kubernetes, but the floor: the stream is read line by line, each line decoded by the json module."""
    import json

    import aiohttp as http

    from benchmarks.data import KINDS

    meter.order()
    async with (
        http.ClientSession(url) as session,
        session.get(KINDS[kind].path, params={"watch": "1"}, timeout=http.ClientTimeout()) as answer,
    ):
        async for line in answer.content:
            json.loads(line)
            if meter.event():
                return


async def least(url: str, kind: str, meter: Meter) -> None:
    """No client either, but the other floor: see `benchmarks.least`."""
    import aiohttp as http

    from benchmarks.data import KINDS
    from benchmarks.least import follow_least

    async def on_update(old: Any, new: Any) -> bool:
        return meter.event()

    async with (
        http.ClientSession(url, read_bufsize=256 * 1024) as session,
        session.get(KINDS[kind].path, params={"watch": "1"}, timeout=http.ClientTimeout()) as answer,
    ):
        await asyncio.to_thread(meter.order)
        await follow_least(answer.content, on_update)


PEERS: dict[str, Callable[[str, str, Meter], Awaitable[None]]] = {
    "kinformer": kinformer,
    "kinformer, handler decodes to a dict": kinformer_dict,
    "kinformer, indexed by node": kinformer_by_node,
    "aiohttp and json.loads": aiohttp,
    "aiohttp, kinformer's decoder and a dict": least,
    "kopf, dict": kopf,
    "lightkube, typed": lightkube,
    "kubernetes_asyncio, dict": kubernetes_asyncio_dict,
    "kubernetes_asyncio, typed": kubernetes_asyncio,
    "kubernetes, typed": kubernetes,
    "kubernetes.aio, typed": kubernetes_aio,
    "kubernetes, its informer": kubernetes_informer,
    "kr8s, wrapped": kr8s,
}
PODS_ONLY = {"kinformer, indexed by node"}


def main() -> int:
    parser = argparse.ArgumentParser(description=Path(__file__).stem)
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--kind", default="pods")
    parser.add_argument("--events", type=int, default=1000)
    options = parser.parse_args()
    stay_on_one_core()
    meter = Meter(options.url, options.events)
    asyncio.run(asyncio.wait_for(PEERS[options.peer](options.url, options.kind, meter), 60))
    print(meter.us)
    return 0


if __name__ == "__main__":
    sys.exit(main())
