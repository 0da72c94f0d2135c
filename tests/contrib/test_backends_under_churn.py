"""Backends under churn and faults: what a snapshot may hold, compared at every moment with the cache itself."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from kinformer import Backoff, Client, SharedInformer, SharedInformerFactory
from kinformer.contrib.backends import Backends
from kinformer.testing import APIServer
from kinformer.testing.faults import close_mid_line, expired, garble, reset, silent_close, stall, status
from tests.contrib.backend_documents import backend_pod, endpoint, endpoint_slice
from tests.support.waiting import until

pytestmark = pytest.mark.slow

LATE = 0.1  # seconds
PAUSE = 0.005  # seconds between two looks
SEEDS = int(os.environ.get("KINFORMER_SEEDS", "1"))


def ready_in_slices(cache: SharedInformer[Any]) -> set[str]:
    """The addresses that are ready in each slice of the cache that has them, read the plain way."""
    ready: dict[str, bool] = {}
    for obj in cache.lister.list():
        for one in obj.to_dict().get("endpoints") or ():
            conditions = one.get("conditions") or {}
            is_ready = conditions.get("ready") is not False and not conditions.get("terminating")
            ready[one["addresses"][0]] = is_ready and ready.get(one["addresses"][0], True)
    return {host for host, is_ready in ready.items() if is_ready}


def ready_pods(cache: SharedInformer[Any]) -> set[str]:
    found = set()
    for obj in cache.lister.list():
        document = obj.to_dict()
        status = document.get("status", {})
        is_ready = ("Ready", "True") in {(one["type"], one["status"]) for one in status.get("conditions", ())}
        if is_ready and "podIP" in status and "deletionTimestamp" not in document["metadata"]:
            found.add(status["podIP"])
    return found


class Watcher:
    """Looks at a pool and at its cache every few milliseconds.

    Its clock counts no more than twice that between two looks, so that a machine that runs something else meanwhile
    makes nothing late.

    Attributes:
        looks, not_live: How often it looked, and found that the cache is not live.
        wrong: What it found that must not be.
    """

    def __init__(self, pool: Backends, cache: SharedInformer[Any], ready: Callable[[Any], set[str]]) -> None:
        self.looks = self.not_live = 0
        self.wrong: list[str] = []
        self._pool = pool
        self._cache = cache
        self._ready = ready
        self._now = self._looked = 0.0
        self._since: dict[str, float] = {}  # when a host was first seen to be in the snapshot and not ready

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(PAUSE)

    def look(self) -> None:
        before, self._looked = self._looked, asyncio.get_running_loop().time()
        self._now += min(self._looked - before, 2 * PAUSE)
        now = self._now
        wrong = {backend.host for backend in self._pool.snapshot()} - self._ready(self._cache)
        self._since = {host: self._since.get(host, now) for host in wrong}
        for host, since in self._since.items():
            if now - since > LATE:
                self.wrong.append(f"{host} is in the snapshot {now - since:.3f} s after it was not ready")
        health = self._pool.health()
        if not self._cache.health().live:
            self.not_live += 1
            if health.live or not health.reason:
                self.wrong.append(f"the cache is not live, and health says {health}")
        self.looks += 1


async def hinder(server: APIServer, chance: random.Random, resource: str, end: float) -> None:
    """Cut, expire and refuse what the informer asks for, until the end."""
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(chance.uniform(0.05, 0.4))
        which = chance.randrange(8)
        if which == 0:
            await server.compact()
            await server.restart(chance.uniform(0, 0.2))
        elif which == 1:
            server.faults.add(status(503), resource=resource, times=chance.randint(1, 2))
        else:
            fault = chance.choice([close_mid_line, expired, garble, reset, silent_close, stall])()
            server.faults.add(fault, verb="watch", resource=resource, after_events=chance.randint(0, 20), times=1)


async def outage(server: APIServer, resource: str, watcher: Watcher) -> None:
    """Cut all connections and refuse new ones until the watcher has seen that the cache is not live."""
    server.faults.clear()
    server.faults.add(status(503), resource=resource)
    await server.restart()
    before = watcher.not_live
    await until(lambda: watcher.not_live > before, 10)
    server.faults.clear()


class Slices:
    """A Service whose endpoints come, go, change their state and move between slices."""

    resource = "discovery.k8s.io/v1/endpointslices"
    options = {"service": "default/web", "port": "http"}  # noqa: RUF012 - read only
    ready = staticmethod(ready_in_slices)

    def __init__(self, server: APIServer, chance: random.Random) -> None:
        self._server = server
        self._chance = chance
        self._content: list[dict[str, dict[str, Any]]] = [{} for _ in range(6)]
        for number in range(300):
            host = f"10.0.{number // 250}.{number % 250}"
            self._content[number % 6][host] = self._endpoint(host)
        for place in range(6):
            server.create(self._document(place))

    def _endpoint(self, host: str) -> dict[str, Any]:
        kind = self._chance.randrange(4)
        if kind == 0:
            return endpoint(host, ready=False)
        if kind == 1:
            return endpoint(host, ready=False, serving=True, terminating=True)
        return endpoint(host, ready=True) if kind == 2 else endpoint(host)

    def _document(self, place: int) -> dict[str, Any]:
        return endpoint_slice(f"web-{place}", *self._content[place].values())

    def change(self) -> None:
        chance = self._chance
        places = {chance.randrange(6)}
        for _ in range(chance.randint(1, 10)):
            host = f"10.0.{chance.randrange(2)}.{chance.randrange(250)}"
            place = chance.choice(list(places))
            if chance.random() < 0.3:
                self._content[place].pop(host, None)
            else:
                self._content[place][host] = self._endpoint(host)
        for place in places:
            self._server.update(self._document(place))

    def truth(self) -> set[str]:
        hosts: dict[str, bool] = {}
        for content in self._content:
            for host, one in content.items():
                hosts[host] = hosts.get(host, True) and one.get("conditions", {}).get("ready") is not False
        return {host for host, is_ready in hosts.items() if is_ready}


class Pods:
    """Pods that become ready, stop to be, are deleted and made again."""

    resource = "v1/pods"
    options = {"selector": "app=web", "namespace": "default"}  # noqa: RUF012 - read only
    ready = staticmethod(ready_pods)

    def __init__(self, server: APIServer, chance: random.Random) -> None:
        self._server = server
        self._chance = chance
        self._ready: dict[int, bool] = {}
        for number in range(400):
            self._set(number)

    def _set(self, number: int) -> None:
        write = self._server.update if number in self._ready else self._server.create
        self._ready[number] = self._chance.random() < 0.7
        write(backend_pod(f"web-{number}", self._host(number), ready=self._ready[number]))

    def _host(self, number: int) -> str:
        return f"10.0.{number // 250}.{number % 250}"

    def change(self) -> None:
        for _ in range(self._chance.randint(1, 20)):
            number = self._chance.randrange(400)
            if number in self._ready and self._chance.random() < 0.3:
                self._server.delete("v1/pods", "default", f"web-{number}")
                del self._ready[number]
            else:
                self._set(number)

    def truth(self) -> set[str]:
        return {self._host(number) for number, is_ready in self._ready.items() if is_ready}


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine that never ends, within a block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", [Slices, Pods])
async def test_no_snapshot_holds_a_backend_that_the_cache_has_long_had_as_not_ready(
    server: APIServer, client: Client, kind: Any, seed: int
) -> None:
    chance = random.Random(seed)
    service = kind(server, chance)
    async with (
        SharedInformerFactory(client, idle_timeout=1, backoff=Backoff(initial=0.05, maximum=0.5)) as factory,
        Backends(factory, **kind.options) as pool,
    ):
        await pool.wait_synced(10)
        cache = factory.informers[0]
        watcher = Watcher(pool, cache, kind.ready)
        async with in_background(watcher.run()):
            end = asyncio.get_running_loop().time() + 3
            hindering = asyncio.create_task(hinder(server, chance, kind.resource, end))
            while not hindering.done():
                service.change()
                await asyncio.sleep(chance.choice([0, 0.001, 0.01, 0.05]))
            await hindering
            await outage(server, kind.resource, watcher)

            def differs() -> object:
                return not pool.health().live or kind.ready(cache) ^ service.truth()

            await until(differs, 30, holds=lambda answer: not answer)
            await until(lambda: {backend.host for backend in pool.snapshot()} == service.truth(), 10)
    assert watcher.wrong == []
    assert watcher.looks > 50
