"""The faults of a soak: faults of every kind, restarts, compactions, and servers that come back from a backup."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.soak.writers import CONFIG_MAPS, WIDGETS, Writers
from kinformer import APIError, Client
from kinformer.testing import APIServer, ControlPlane, faults

__all__ = ["EmbeddedChaos", "RealChaos", "whole"]

# Of a stream or a list, at once or after some events. `drop_event` is not among them: a server that leaves out an event
# and goes on is found out by no client, before its next list.
_WIRE: tuple[Callable[[random.Random], faults.Fault], ...] = (
    lambda choice: faults.status(choice.choice((500, 502, 503, 504)), retry_after=choice.choice((None, 1))),
    lambda choice: faults.status(429, retry_after=choice.choice((None, 1))),
    lambda choice: faults.status(choice.choice((401, 403))),
    lambda choice: faults.status(404),
    lambda choice: faults.expired(),
    lambda choice: faults.silent_close(),
    lambda choice: faults.close_mid_line(),
    lambda choice: faults.reset(),
    lambda choice: faults.stall(),
    lambda choice: faults.garble(),
    lambda choice: faults.html_502(),
    lambda choice: faults.duplicate_event(),
    lambda choice: faults.delay(choice.uniform(0.1, 3)),
    lambda choice: faults.no_initial_events_end(),
)
# Of a write, or of the read that asks what came of one: refused with a delay that the client keeps, or cut.
_REQUEST: tuple[Callable[[random.Random], faults.Fault], ...] = (
    lambda choice: faults.status(choice.choice((429, 503, 504)), retry_after=choice.choice((0, 1))),
    lambda choice: faults.status(choice.choice((429, 500, 503))),
    lambda choice: faults.reset(),
    lambda choice: faults.delay(choice.uniform(0.1, 1)),
)
_AWAY = 2.5  # seconds: a server is not restored from a backup in less
_NOTICED = 6.0  # seconds until all have asked it again: a delay of the backoff, and up to 2 s after the first answer


async def whole(act: Awaitable[Any]) -> None:
    """Do it to its end, even if the caller is cancelled: half a restart leaves no server."""
    doing = asyncio.ensure_future(act)
    try:
        await asyncio.shield(doing)
    finally:
        await asyncio.wait({doing})


class EmbeddedChaos:
    """Faults of an embedded server, some a second.

    Attributes:
        counts: What was done, by name; a fault counts when it has struck.
        rewinds: How often the server went back in time, from the moment on in which it begins to.
        may_rewind: True if it may go back in time.
    """

    def __init__(self, server: APIServer, client: Client, writers: Writers, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.rewinds = 0
        self.may_rewind = True
        self._server = server
        self._client = client
        self._writers = writers
        self._choice = random.Random(seed)
        self._handles: list[tuple[str, faults.FaultHandle]] = []
        self._rewindable = 0

    async def run(self) -> None:
        """Until cancelled, which leaves a healthy server."""
        choice = self._choice
        big: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("restart", self._restart),
            ("compaction", self._compact),
            ("half open", self._half_open),
            ("rewind", self._rewind),
        ]
        try:
            while True:
                await asyncio.sleep(choice.expovariate(5))
                if choice.random() < 0.03:
                    name, act = choice.choice(big)
                    await whole(act())
                    self.counts[name] += 1
                else:
                    self._wire_fault()
        finally:
            self._server.resume()
            self.heal()

    def heal(self) -> None:
        """End every fault, and count those that struck."""
        for name, handle in self._handles:
            self.counts[name] += handle.hits
        self._handles.clear()
        self._server.faults.clear()

    async def tidy(self) -> None:
        """All followers are at the present: forget the server's past, which would look like the growth in question."""
        self._rewindable = await self._server.compact()

    def _wire_fault(self) -> None:
        choice = self._choice
        resource, times = choice.choice((CONFIG_MAPS.resource, WIDGETS.resource)), choice.choice((1, 1, 2, 4))
        if choice.random() < 0.2:
            fault, verb = choice.choice(_REQUEST)(choice), choice.choice(("create", "update", "delete", "get"))
            handle = self._server.faults.add(fault, verb=verb, resource=resource, times=times)
            self._handles.append((f"{fault.kind} of a request", handle))
        else:
            fault, verb = choice.choice(_WIRE)(choice), choice.choice(("watch", "watch", "list"))
            after = choice.choice((None, 0, 1, 5, 50))
            handle = self._server.faults.add(fault, verb=verb, resource=resource, after_events=after, times=times)
            self._handles.append((fault.kind, handle))
        if len(self._handles) > 20:
            name, old = self._handles.pop(0)
            self.counts[name] += old.hits
            old.remove()

    async def _restart(self) -> None:
        await self._server.restart(self._choice.choice((0.0, 0.3, _AWAY)))

    async def _compact(self) -> None:
        self._rewindable = await self._server.compact()

    async def _half_open(self) -> None:
        async with self._writers.held():
            self._server.pause()
            await asyncio.sleep(self._choice.uniform(0.5, 4))
            self._server.resume()

    async def _rewind(self) -> None:
        """Restored from a backup: away for a while, and back with what was some writes ago."""
        revisions = self._choice.randrange(1, 40)
        if not self.may_rewind or int(self._server.resource_version) - revisions <= self._rewindable:
            return
        async with self._writers.held():
            self.heal()
            self.rewinds += 1
            handle = self._server.faults.add(faults.rewind(revisions), verb="get", resource="v1/namespaces")
            await self._client.request("GET", "/api/v1/namespaces/default")
            handle.remove()
            await self._server.restart(_AWAY)
            self._rewindable = int(self._server.resource_version)
            for kind in self._writers.truths:
                await self._writers.contents(kind)
            # A server that grows past the last known version before it is asked looks as if it was never restored.
            await asyncio.sleep(_NOTICED)


class RealChaos:
    """Faults of a real control plane: killed and stopped servers, an etcd that is away, compaction."""

    def __init__(self, plane: ControlPlane, client: Client, writers: Writers, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.rewinds = 0
        self._plane = plane
        self._choice = random.Random(seed)

    async def run(self) -> None:
        """Until cancelled, between two of them."""
        acts: dict[str, Callable[[], Awaitable[Any]]] = {
            "killed": self._killed,
            "stopped": self._plane.restart,
            "away": lambda: self._plane.restart(3.0),
            "compaction": self._compacted,
            "etcd killed": self._without_etcd,
        }
        while True:
            await asyncio.sleep(self._choice.uniform(1, 5))
            name = self._choice.choice(list(acts))
            await whole(acts[name]())
            self.counts[name] += 1

    def heal(self) -> None:
        """Each act has ended with a healthy server."""

    async def tidy(self) -> None:
        """etcd keeps the past on its disk."""

    async def _killed(self) -> None:
        await self._plane.stop_api_server(kill=True)
        await self._plane.start_api_server()

    async def _compacted(self) -> None:
        try:
            await self._plane.compact()
        except APIError:
            return  # another compaction, of the API server itself, was quicker
        await self._plane.restart()

    async def _without_etcd(self) -> None:
        await self._plane.stop_etcd(kill=True)
        await asyncio.sleep(self._choice.uniform(0, 3))
        await self._plane.start_etcd()
