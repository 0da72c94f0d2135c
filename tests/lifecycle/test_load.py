"""Too much of everything: a handler slower than the changes by thousands, and hundreds of informers in one process.

That a handler which swallows its cancellation does not hold up leaving is in test_informer and test_leaving; a slow
handler over real HTTP is fault 42 in test_faults_connections.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import (
    KubeObject,
    ListOptions,
    ListPage,
    SharedInformer,
    SharedInformerFactory,
    WatchEvent,
)
from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.sockets import connections_to
from tests.support.waiting import until

pytestmark = pytest.mark.slow

Events = list[WatchEvent]

# --- a slow handler -------------------------------------------------------------------------------------------------

RATE, SECONDS, TICK = 5000, 60, 0.125  # events a second, for so long, in batches of so many seconds
BATCH = int(RATE * TICK)
NAMES, QUEUE = 400, 256


class Flood:
    """Changes config maps `RATE` times a second for `SECONDS`; every seventh is a delete or, after one, a create."""

    name = "v1/configmaps"

    def __init__(self) -> None:
        self.begin = asyncio.Event()
        self.alive: dict[str, tuple[str, str]] = {}  # name -> uid, resourceVersion: the truth
        self.sent = 0
        self.began = 0.0
        self.watches = 0
        self.late = 0.0  # seconds that the informer let the longest of batches wait

    async def list(self, options: ListOptions) -> ListPage:
        return ListPage([], "1")

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[Events]]:
        self.watches += 1
        yield self._events()

    async def _events(self) -> AsyncIterator[Events]:
        await self.begin.wait()
        loop = asyncio.get_running_loop()
        self.began = due = loop.time()
        while self.sent < RATE * SECONDS:
            due += TICK
            await asyncio.sleep(due - loop.time())
            yield [self._event() for _ in range(BATCH)]
            self.late = max(self.late, loop.time() - due)
        await asyncio.Event().wait()

    def due(self, obj: KubeObject) -> float:
        """The loop time at which an object of this version was sent."""
        return self.began + TICK * (1 + (int(obj.resource_version) - 2) // BATCH)

    def _event(self) -> WatchEvent:
        self.sent += 1
        version, name = str(self.sent + 1), f"m{self.sent * 7919 % NAMES}"
        known = self.alive.pop(name, None)
        uid = known[0] if known else f"uid-{version}"
        obj = KubeObject.from_dict(config_map(name, rv=version, uid=uid))
        if known and self.sent % 7 == 0:
            return WatchEvent("DELETED", obj)
        self.alive[name] = uid, version
        return WatchEvent("MODIFIED" if known else "ADDED", obj)


class Follower:
    """Keeps what it is told of, and finds it wrong where it makes no true history; `seconds` a call."""

    def __init__(self, flood: Flood, seconds: float = 0.0) -> None:
        self._flood = flood
        self.seconds = seconds
        self.known: dict[str, tuple[str, str]] = {}
        self.calls = 0
        self.running = 0
        self.late = 0.0

    async def _take_time(self, obj: KubeObject) -> None:
        assert self.running == 0, "two calls at once"
        self.calls += 1
        self.late = max(self.late, asyncio.get_running_loop().time() - self._flood.due(obj))
        if self.seconds:
            self.running += 1
            await asyncio.sleep(self.seconds)
            self.running -= 1

    async def on_add(self, obj: KubeObject) -> None:
        assert obj.name not in self.known
        self.known[obj.name] = obj.uid, obj.resource_version
        await self._take_time(obj)

    async def on_update(self, old: KubeObject, new: KubeObject) -> None:
        assert self.known[old.name] == (old.uid, old.resource_version)
        assert old.uid == new.uid
        self.known[new.name] = new.uid, new.resource_version
        await self._take_time(new)

    async def on_delete(self, obj: KubeObject) -> None:
        assert self.known.pop(obj.name)[0] == obj.uid
        await self._take_time(obj)


@pytest.mark.virtual_time
async def test_a_handler_of_a_second_a_call_under_5000_events_a_second_costs_nobody_else_anything() -> None:
    """What waits for it never exceeds two calls an object; the watch is read, and the other handler called, at once."""
    flood = Flood()
    slow, fast = Follower(flood, seconds=1), Follower(flood)
    async with SharedInformer(flood, watch_list=False, shutdown_timeout=2 * NAMES + 10) as informer:
        informer.add_event_handler(slow, queue_size=QUEUE, name="slow")
        informer.add_event_handler(fast, queue_size=QUEUE, name="fast")
        await informer.wait_synced(timeout=10)
        flood.begin.set()
        waiting = []
        for _ in range(SECONDS):
            await asyncio.sleep(1)
            pending = informer.statistics().pending
            waiting.append(pending["slow"])
            assert pending["fast"] == 0
        await asyncio.sleep(1)
        assert flood.sent == RATE * SECONDS
        assert {obj.name: (obj.uid, obj.resource_version) for obj in informer.lister} == flood.alive
        assert fast.known == flood.alive
        statistics = informer.statistics()
        assert QUEUE < max(waiting) <= 2 * NAMES  # folded only above its size, and then two a key at the most
        assert slow.calls <= SECONDS + 2
        assert statistics.coalesced > RATE * SECONDS * 0.8  # how many depends on where turns end
        assert max(flood.late, fast.late) < 1e-6  # of virtual time: nobody waited for the slow one
        assert (flood.watches, statistics.relists) == (1, {})
    assert slow.known == flood.alive  # leaving has delivered what waited: nothing is lost but what was folded
    assert informer.statistics().handler_errors == 0


# --- many informers -------------------------------------------------------------------------------------------------

INFORMERS = 500
CALLS = 2  # connections of the pool for calls: one for the asker, one for the question which resources there are


class Asker:
    """Asks a question with kubernetes_asyncio again and again; every answer has to come within ten seconds."""

    def __init__(self, api_client: Any) -> None:
        from kubernetes_asyncio.client import CoreV1Api

        self._api = CoreV1Api(api_client)
        self.answers = 0

    async def run(self) -> None:
        while True:
            async with asyncio.timeout(10):
                found = await self._api.read_namespaced_config_map("m0", "default")
            assert found.data == {"v": "0"}
            self.answers += 1

    async def answers_again(self) -> None:
        before = self.answers
        await until(lambda: self.answers > before)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the sockets as Linux shows them")
async def test_500_informers_start_sync_and_stop_beside_a_core_v1_api_that_answers_all_the_time(
    server: APIServer,
) -> None:
    """A connection for each watch, and those of the calls; none is left."""
    for number in range(50):
        server.create(config_map(f"m{number}", data={"v": str(number)}))
    port = int(server.url.rpartition(":")[2])
    async with server.client() as client:
        asker = Asker(client.api_client)
        asking = asyncio.create_task(asker.run())
        await asker.answers_again()
        async with SharedInformerFactory(client) as factory:
            for number in range(INFORMERS):
                factory.for_resource("v1/configmaps", label_selector=f"shard!={number}")
            await asker.answers_again()  # while they start
            await factory.wait_for_cache_sync(timeout=60)
            await until(lambda: all(informer.health().live for informer in factory.informers))
            server.create(config_map("news"))
            await until(lambda: all(len(informer.lister) == 51 for informer in factory.informers))
            assert INFORMERS < connections_to(port) <= INFORMERS + CALLS
            await asker.answers_again()  # while all watches are open
        await until(lambda: connections_to(port) <= CALLS)
        await asker.answers_again()  # when they are gone
        assert not asking.done()
        asking.cancel()
        await asyncio.wait([asking])
    await until(lambda: connections_to(port) == 0)
