"""Event streams of workers that share a cache: a browser resumes at any of them."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kinformer import Client, SharedInformerFactory
from kinformer.contrib.fastapi import get_factory, kinformer_lifespan, sse_response
from kinformer.testing import APIServer, faults
from kinformer.watchcache import Share
from tests.support.forwarder import Forwarder
from tests.support.kube import config_map
from tests.support.waiting import until
from tests.support.web_server import Event, reading, serving

MAPS = "v1/configmaps"


class Workers:
    """Worker processes, each of which is here an application of its own in one event loop."""

    def __init__(self, server: APIServer, stack: AsyncExitStack, path: Path) -> None:
        self._server = server
        self._stack = stack
        self._path = path
        self.factories: list[SharedInformerFactory] = []

    async def start(self, *, shares: bool = True, url: str = "", **options: Any) -> str:
        """Start one, with the shared cache or a watch of its own, and return the URL of its event stream.

        `url` is another way to the server.
        """

        @asynccontextmanager
        async def setup() -> AsyncIterator[SharedInformerFactory]:
            async with (
                Client.from_url(url) if url else self._server.client() as client,
                SharedInformerFactory(client, share=Share(self._path) if shares else None) as factory,
            ):
                factory.for_resource(MAPS, **options)
                await factory.wait_for_cache_sync(10)
                self.factories.append(factory)
                yield factory

        async def events(request: Request) -> Response:
            maps = get_factory(request).for_resource(MAPS, **options)
            return sse_response(maps, request.query_params.get("selector"))

        app = Starlette(routes=[Route("/events", events)], lifespan=kinformer_lifespan(setup))
        return f"{await self._stack.enter_async_context(serving(app))}/events"

    async def have(self, *names: str) -> None:
        """Wait until all caches have exactly these objects."""
        await until(
            lambda: all(
                sorted(one.name for one in factory.for_resource(MAPS).lister.list()) == sorted(names)
                for factory in self.factories
            )
        )


@pytest.fixture
async def workers(server: APIServer) -> AsyncIterator[Workers]:
    with tempfile.TemporaryDirectory(prefix="kf") as folder:
        async with AsyncExitStack() as stack:
            yield Workers(server, stack, Path(folder) / "cache.sock")


def told(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.type, event.data["metadata"]["name"]) for event in events]


async def begin(url: str, count: int) -> None:
    """Let a worker's log begin, with the first reader of its stream."""
    async with reading(url) as stream:
        await stream.take(count)


@pytest.mark.parametrize("shares", [True, False])
async def test_a_browser_gets_what_it_missed_from_any_worker_whose_log_reaches_back(
    server: APIServer, workers: Workers, shares: bool
) -> None:
    for name in "abc":
        server.create(config_map(name))
    first, second = await workers.start(shares=shares), await workers.start(shares=shares)
    await begin(second, 3)
    async with reading(first) as stream:
        await stream.take(3)
        seen = stream.last_id
    server.update(config_map("a", data={"n": "1"}))
    server.delete(MAPS, "default", "b")
    server.create(config_map("d"))
    await workers.have("a", "c", "d")
    async with reading(second, last_id=seen) as stream:
        assert told(await stream.take(3)) == [("UPDATED", "a"), ("DELETED", "b"), ("ADDED", "d")]
        server.create(config_map("e"))
        assert told([await stream.next()]) == [("ADDED", "e")]
        seen = stream.last_id
    server.create(config_map("f"))
    await workers.have(*"acdef")
    async with reading(first, last_id=seen) as stream:
        assert told([await stream.next()]) == [("ADDED", "f")]


async def test_a_browser_that_missed_nothing_gets_only_what_follows(server: APIServer, workers: Workers) -> None:
    server.create(config_map("a"))
    first, second = await workers.start(), await workers.start()
    async with reading(first) as stream:
        await stream.take(1)
        seen = stream.last_id
    async with reading(second, last_id=seen) as stream:
        server.create(config_map("b"))
        assert told([await stream.next()]) == [("ADDED", "b")]


async def test_a_browser_begins_anew_at_a_worker_whose_log_began_after_what_it_missed(
    server: APIServer, workers: Workers
) -> None:
    server.create(config_map("a"))
    first, second = await workers.start(), await workers.start()
    async with reading(first) as stream:
        await stream.take(1)
        seen = stream.last_id
    server.create(config_map("b"))
    await workers.have("a", "b")
    for last_id in (seen, f"0-0-{'9' * 21}", "0-0-x"):
        async with reading(second, last_id=last_id) as stream:
            assert (await stream.next()).type == "RESET"
            assert sorted(told(await stream.take(2))) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_browser_begins_anew_at_a_worker_that_has_listed_again_meanwhile(
    server: APIServer, workers: Workers
) -> None:
    """An object may have come and gone in what the list hides, and the browser has seen it at another worker."""
    server.create(config_map("a"))
    first, second = await workers.start(shares=False), await workers.start(shares=False)
    await begin(second, 1)
    async with reading(first) as stream:
        await stream.take(1)
        seen = stream.last_id
    expired = server.faults.add(faults.expired(), verb="watch", resource=MAPS, after_events=0, times=2)
    await until(lambda: expired.hits == 2)
    server.create(config_map("b"))
    await workers.have("a", "b")
    async with reading(second, last_id=seen) as stream:
        assert (await stream.next()).type == "RESET"
        assert sorted(told(await stream.take(2))) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_browser_with_a_selector_gets_what_began_and_ceased_to_match(
    server: APIServer, workers: Workers
) -> None:
    for name, app in ("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"):
        server.create(config_map(name, labels={"app": app}))
    first, second = await workers.start(), await workers.start()
    await begin(second, 4)
    async with reading(first, selector="app=x") as stream:
        await stream.take(2)
        seen = stream.last_id
    server.update(config_map("a", labels={"app": "y"}))
    server.update(config_map("c", labels={"app": "x"}))
    server.update(config_map("d", labels={"app": "y"}, data={"n": "1"}))
    server.delete(MAPS, "default", "d")
    await workers.have("a", "b", "c")
    async with reading(second, selector="app=x", last_id=seen) as stream:
        missed = await stream.take(2)
        assert told(missed) == [("DELETED", "a"), ("ADDED", "c")]
        assert missed[0].data["metadata"]["labels"] == {"app": "x"}


async def test_a_browser_resumes_after_the_worker_that_served_it_has_ended(server: APIServer, workers: Workers) -> None:
    server.create(config_map("a"))
    async with AsyncExitStack() as ending:
        gone = Workers(server, ending, workers._path)
        holder = await gone.start()
        second = await workers.start()
        await begin(second, 1)
        async with reading(holder) as stream:
            await stream.take(1)
            seen = stream.last_id
    server.create(config_map("b"))
    await workers.have("a", "b")
    async with reading(second, last_id=seen) as stream:
        assert told([await stream.next()]) == [("ADDED", "b")]


EVENTS = ("created", "deleted", "behind", "listed", "killed")
ORDERS = [
    order
    for order in permutations(EVENTS)
    if order.index("created") < min(order.index("deleted"), order.index("killed"))  # or it has nothing to keep
]


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
async def test_a_browser_ends_equal_to_the_server_in_whatever_order_things_happen(
    server: APIServer, workers: Workers, order: tuple[str, ...]
) -> None:
    """It reads at one worker until that one is killed, and resumes at another one, which was behind or has listed."""
    server.create(config_map("a"))
    shown = {"a"}
    async with Forwarder(server.url) as way, AsyncExitStack() as ending:
        first = await Workers(server, ending, workers._path).start(shares=False)
        second = await workers.start(shares=False, url=way.url)
        await begin(second, 1)
        seen = ""
        reader = await ending.enter_async_context(reading(first))
        await reader.take(1)
        for event in order:
            if event == "created":
                server.create(config_map("b"))
            elif event == "deleted":
                server.delete(MAPS, "default", "b")
            elif event == "behind":
                way.pause()
            elif event == "listed":
                server.faults.add(faults.expired(), verb="watch", resource=MAPS, times=1)
                await way.cut()
                await way.restore()
            else:
                seen = reader.last_id
                await ending.aclose()
            if event in ("created", "deleted") and seen == "":
                shown = folded(shown, [await reader.next()])
        way.resume()
        server.create(config_map("c"))
        await workers.have("a", "c")
    async with reading(second, last_id=seen) as stream:
        while shown != {"a", "c"}:
            shown = folded(shown, [await stream.next()])


def folded(shown: set[str], events: list[Event]) -> set[str]:
    """Return what a browser shows after some events."""
    shown = set(shown)
    for event in events:
        if event.type == "RESET":
            shown = set()
        elif event.type == "DELETED":
            shown.discard(event.data["metadata"]["name"])
        else:
            shown.add(event.data["metadata"]["name"])
    return shown
