"""A seeded history of changes, and the comparison of a cache and of what handlers heard with the server."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from kinformer import SharedInformer
from tests.conformance.api import COLLECTIONS, Api, collection, manifest
from tests.support.mirror import Mirror, identity

WORKERS = 4  # writers at once for each resource; each has its own names, so that no write depends on another's


class History:
    """Creates, changes, deletes and recreates objects of one resource in a namespace."""

    def __init__(self, api: Api, resource: str, seed: int = 0, *, namespace: str = "default") -> None:
        self._api = api
        self._collection = collection(resource, namespace)
        self._resource = resource
        self._random = random.Random(f"{resource} {seed}")
        self._present: set[str] = set()
        self._changes = 0

    async def go_on(self, changes: int) -> None:
        """So many changes more."""
        each = [changes // WORKERS + (number < changes % WORKERS) for number in range(WORKERS)]
        async with asyncio.TaskGroup() as group:
            for number, share in enumerate(each):
                group.create_task(self._work(number, share))

    async def _work(self, worker: int, changes: int) -> None:
        for _ in range(changes):
            self._changes += 1
            await self._change(f"{worker}-{self._random.randrange(40)}", str(self._changes))

    async def _change(self, name: str, value: str) -> None:
        path = f"{self._collection}/{name}"
        body = manifest(self._resource, name, value)
        if name not in self._present:
            await self._api.create(self._collection, body)
            self._present.add(name)
        elif self._random.random() < 0.75:
            await self._api.merge(path, {"metadata": {"labels": {"value": value}}})
        else:
            await self._api.remove(path)
            if self._random.random() < 0.5:
                self._present.discard(name)
            else:
                await self._api.create(self._collection, body)


async def on_server(
    api: Api, resource: str, *, namespace: str = "default", managed_fields: bool = False
) -> dict[str, dict[str, Any]]:
    """Every object by key, as LIST gives it, with the apiVersion and kind that built-in lists leave out.

    The namespace "" is all of them.
    """
    everywhere = COLLECTIONS[resource].replace("/namespaces/default", "")
    answer = await api.list(collection(resource, namespace) if namespace else everywhere)
    found = {}
    for item in answer["items"]:
        if not managed_fields:
            item["metadata"].pop("managedFields", None)
        item = {"apiVersion": answer["apiVersion"], "kind": answer["kind"].removesuffix("List"), **item}
        found[f"{item['metadata']['namespace']}/{item['metadata']['name']}"] = item
    return found


def in_cache(informer: SharedInformer) -> dict[str, dict[str, Any]]:
    """Every object by key, decoded by the standard library from the bytes that the cache keeps."""
    return {obj.key: json.loads(obj.raw) for obj in informer.lister}


async def assert_equal(
    api: Api, resource: str, informer: SharedInformer, mirror: Mirror, *, namespace: str = ""
) -> None:
    """The cache, its metadata and the mirror equal the server, object by object, as soon as the last event is in."""
    server = await on_server(api, resource, namespace=namespace)
    identities = {key: (item["metadata"]["uid"], item["metadata"]["resourceVersion"]) for key, item in server.items()}
    for _ in range(1500):  # 30 s; the comparison itself is made below, where pytest shows the difference
        if in_cache(informer) == server and mirror.known == identities:
            break
        await asyncio.sleep(0.02)
    assert in_cache(informer) == server, informer.health()
    assert {obj.key: identity(obj) for obj in informer.lister} == identities
    assert mirror.known == identities
    assert mirror.wrong == []
    statistics = informer.statistics()
    assert (statistics.objects, statistics.decode_errors, statistics.handler_errors) == (len(server), 0, 0)
