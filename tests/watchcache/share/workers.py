"""Processes that share one cache, each of which is here a factory of its own in one event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from kinformer import Client, KubeObject, SharedInformer, SharedInformerFactory
from kinformer.testing import APIServer, faults
from kinformer.watchcache import Share
from tests.support.mirror import Mirror

MAPS = "v1/configmaps"
FOLLOWING = ("idle_timeout", "backoff", "watch_timeout", "watch_list")  # options of the factory


class History(Mirror):
    """A mirror that counts the calls of the first list."""

    def __init__(self) -> None:
        super().__init__()
        self.initial = 0

    def on_add(self, obj: KubeObject, *, is_in_initial_list: bool) -> None:
        super().on_add(obj, is_in_initial_list=is_in_initial_list)
        self.initial += is_in_initial_list

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """The calls after the first list. A delete has no version."""
        later = self.calls[self.initial :]
        return [(what, name, "" if what == "delete" else version) for what, name, version in later]


class Worker:
    """One process: a client and a factory that shares its cache."""

    def __init__(
        self, server: APIServer, path: Path, *, user: str | None = None, client: Client | None = None, **options: Any
    ) -> None:
        self._stack = AsyncExitStack()
        self._client = client or server.client(user)
        self.share = Share(path)
        self.mirror = History()
        self._defaults = {name: options.pop(name) for name in FOLLOWING if name in options}
        self._options = options
        self.factory: SharedInformerFactory
        self.maps: SharedInformer

    async def start(self) -> None:
        client = await self._stack.enter_async_context(self._client)
        self.factory = SharedInformerFactory(client, share=self.share, **self._defaults)
        self.maps = self.factory.for_resource(MAPS, **self._options)
        self.maps.add_event_handler(self.mirror)
        await self._stack.enter_async_context(self.factory)
        await self.factory.wait_for_cache_sync(10)

    async def stop(self) -> None:
        """End in order: informers first, and then the share."""
        await self._stack.aclose()

    async def kill(self) -> None:
        """Cut what the socket serves in the middle, as the death of a process does."""
        await self.share.end()
        await self._stack.aclose()

    @property
    def versions(self) -> dict[str, str]:
        return {obj.key: obj.resource_version for obj in self.maps.lister.list()}


@asynccontextmanager
async def started(*chosen: Worker) -> AsyncIterator[None]:
    """Start workers one after the other, and stop them in the same order, so that the first holder ends first."""
    try:
        for worker in chosen:
            await worker.start()
        yield
    finally:
        for worker in chosen:
            await worker.stop()


@asynccontextmanager
async def workers(server: APIServer, path: Path, count: int, **options: Any) -> AsyncIterator[list[Worker]]:
    chosen = [Worker(server, path, **options) for _ in range(count)]
    async with started(*chosen):
        yield chosen


def lists_and_watches(server: APIServer) -> tuple[int, int]:
    """Return how many full lists and watches of ConfigMaps the server was asked for."""
    asked = [request for request in server.requests if request.path.endswith("/configmaps")]
    return (
        sum(
            ("watch" not in one.params and one.params.get("limit") != "1") or "sendInitialEvents" in one.params
            for one in asked
        ),
        sum("watch" in one.params for one in asked),
    )


async def go_back(server: APIServer, revisions: int) -> None:
    """Restore a backup that is so many revisions old."""
    server.faults.add(faults.rewind(revisions), verb="get", resource="v1/namespaces")
    async with server.client() as client:
        await client.request("GET", "/api/v1/namespaces/default")
