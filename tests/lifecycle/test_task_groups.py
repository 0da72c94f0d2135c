"""Task groups of asyncio and of anyio around informers, and informers in them: ends, errors and cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import anyio
import pytest

from kinformer import (
    Controller,
    KubeObject,
    LeaderElector,
    NotSyncedError,
    Request,
    SharedInformer,
    SharedInformerFactory,
)
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.waiting import until


class Group(Protocol):
    """What the two kinds have in common."""

    def start(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None: ...
    def cancel(self) -> None: ...


class OfAsyncio:
    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        self._tasks.append(self._group.create_task(function(*args)))

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()


class OfAnyio:
    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group

    def start(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        self._group.start_soon(function, *args)

    def cancel(self) -> None:
        self._group.cancel_scope.cancel()


@asynccontextmanager
async def of_asyncio() -> AsyncIterator[Group]:
    async with asyncio.TaskGroup() as group:
        yield OfAsyncio(group)


@asynccontextmanager
async def of_anyio() -> AsyncIterator[Group]:
    async with anyio.create_task_group() as group:
        yield OfAnyio(group)


Groups = Callable[[], AbstractAsyncContextManager[Group]]

both = pytest.mark.parametrize("groups", [of_asyncio, of_anyio], ids=["asyncio", "anyio"])


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map(f"c{number}") for number in range(3)]


class Slow:
    """A handler with a `finally` that awaits, as a handler that gives something back has."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.seconds = seconds
        self.seen: list[str] = []
        self.finished: list[str] = []

    async def on_add(self, obj: KubeObject) -> None:
        self.seen.append(obj.name)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            await asyncio.sleep(0)
            self.finished.append(obj.name)


# --- a group inside a factory, a factory inside a group -------------------------------------------------


@both
async def test_work_in_a_group_inside_a_factory_reads_its_caches(server: APIServer, groups: Groups) -> None:
    found: dict[str, int] = {}

    async def work(factory: SharedInformerFactory, resource: str) -> None:
        informer = factory.for_resource(resource)
        await informer.wait_synced(10)
        found[resource] = len(informer.lister)

    async with server.client() as client, SharedInformerFactory(client) as factory, groups() as group:
        for resource in ("v1/configmaps", "v1/secrets"):
            group.start(work, factory, resource)
    assert found == {"v1/configmaps": 3, "v1/secrets": 0}


@both
async def test_a_factory_in_a_task_of_a_group_is_left_in_order_when_the_group_is_cancelled(
    server: APIServer, groups: Groups
) -> None:
    handler = Slow()
    synced = asyncio.Event()

    async def follow() -> None:
        async with server.client() as client, SharedInformerFactory(client, shutdown_timeout=5) as factory:
            informer = factory.for_resource("v1/configmaps")
            informer.add_event_handler(handler)
            await factory.wait_for_cache_sync(10)
            synced.set()
            await asyncio.Event().wait()

    async with groups() as group:
        group.start(follow)
        await synced.wait()
        group.cancel()
    # However the group cancels, once or again and again: handlers run in tasks of the informer's own.
    assert handler.finished == handler.seen
    assert handler.seen


@both
async def test_an_error_in_a_group_inside_a_factory_comes_out_and_the_factory_is_left(
    server: APIServer, groups: Groups
) -> None:
    handler = Slow()

    async def fail(factory: SharedInformerFactory) -> None:
        await factory.wait_for_cache_sync(10)
        raise ZeroDivisionError("mine")

    left: list[SharedInformer] = []

    async def main() -> None:
        async with server.client() as client, SharedInformerFactory(client) as factory, groups() as group:
            left.append(factory.for_resource("v1/configmaps"))
            left[0].add_event_handler(handler)
            group.start(fail, factory)
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await main()
    assert [str(error) for error in caught.value.exceptions] == ["mine"]
    assert left[0].health().state == "stopped"
    assert sorted(handler.finished) == ["c0", "c1", "c2"]  # what was received has been delivered


# --- informers as tasks of a group ----------------------------------------------------------------------


@both
async def test_informers_run_in_a_group_until_it_is_cancelled(groups: Groups) -> None:
    sources = [MemorySource() for _ in range(3)]
    for source in sources:
        source.set("a")
    informers = [SharedInformer(source) for source in sources]
    async with groups() as group:
        for informer in informers:
            group.start(informer.run)
        await until(lambda: all(informer.has_synced for informer in informers))
        assert [len(informer.lister) for informer in informers] == [1, 1, 1]
        group.cancel()
    assert {informer.health().state for informer in informers} == {"stopped"}


@both
async def test_an_informer_that_crashes_ends_its_group_and_the_other_informers_with_it(groups: Groups) -> None:
    def refuse(informer: Any, error: BaseException) -> None:
        raise PermissionError("not like this") from error

    well, ill = MemorySource(), MemorySource()
    following = SharedInformer(well)
    crashing = SharedInformer(ill, on_error=refuse)
    handler = Slow()
    following.add_event_handler(handler)
    well.set("a")

    async def main() -> None:
        async with groups() as group:
            group.start(following.run)
            group.start(crashing.run)
            await until(lambda: following.has_synced and crashing.has_synced)
            ill.fail_with = ConnectionError("away")
            ill.cut()
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await main()
    [error] = caught.value.exceptions
    assert isinstance(error, PermissionError)
    assert following.health().state == "stopped"
    assert handler.finished == ["a"]


@both
async def test_a_stream_of_events_is_read_in_a_group_and_ends_with_its_informer(groups: Groups) -> None:
    source = MemorySource()
    source.set("a")
    seen: list[tuple[str, str]] = []

    async def read(informer: SharedInformer) -> None:
        async with informer.events() as stream:
            async for event in stream:
                seen.append((event.type, event.object.name))

    async with groups() as group, SharedInformer(source) as informer:
        group.start(read, informer)
        await until(lambda: seen)
        source.set("b")
        await until(lambda: len(seen) == 2)
    assert seen == [("ADDED", "a"), ("ADDED", "b")]  # the group ended by itself


# --- anyio's scopes -------------------------------------------------------------------------------------


async def test_a_deadline_of_anyio_ends_a_wait_for_a_sync_and_nothing_else(server: APIServer) -> None:
    server.faults.add(faults.stall(), verb="list", resource="v1/secrets")
    async with server.client() as client, SharedInformerFactory(client, watch_list=False) as factory:
        maps, secrets = factory.for_resource("v1/configmaps"), factory.for_resource("v1/secrets")
        with pytest.raises(TimeoutError):
            with anyio.fail_after(0.3):
                await factory.wait_for_cache_sync()
        with anyio.move_on_after(0.05) as scope:
            await secrets.wait_synced()
        assert scope.cancelled_caught
        assert maps.has_synced
        assert maps.health().live
        with pytest.raises(NotSyncedError):
            await secrets.wait_synced(0.01)


async def test_a_scope_of_anyio_that_is_cancelled_around_a_factory_leaves_nothing_running(server: APIServer) -> None:
    handler = Slow(seconds=30)
    with anyio.CancelScope() as scope:
        async with server.client() as client, SharedInformerFactory(client, shutdown_timeout=0.05) as factory:
            informer = factory.for_resource("v1/configmaps")
            informer.add_event_handler(handler)
            await factory.wait_for_cache_sync(10)
            await until(lambda: handler.seen)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert len(handler.seen) == len(handler.finished) == 1  # it was cancelled once, and its `finally` has run
    assert informer.health().state == "stopped"


async def test_what_waits_is_delivered_although_the_scope_around_the_factory_was_cancelled(server: APIServer) -> None:
    handler = Slow()
    with anyio.CancelScope() as scope:
        async with server.client() as client, SharedInformerFactory(client) as factory:
            factory.for_resource("v1/configmaps").add_event_handler(handler)
            await factory.wait_for_cache_sync(10)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert sorted(handler.finished) == ["c0", "c1", "c2"]


@both
async def test_a_controller_and_a_leader_in_a_cancelled_group_end_their_work_and_give_the_lease_back(
    server: APIServer, groups: Groups
) -> None:
    begun, ended = asyncio.Event(), []

    async def reconcile(request: Request) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        ended.append(request.name)

    async def lead() -> None:
        async with (
            server.client() as client,
            SharedInformerFactory(client) as factory,
            LeaderElector(client, namespace="default", name="lock", identity="me").leading(),
        ):
            await Controller(reconcile, name="c").for_(factory.for_resource("v1/configmaps")).run()

    async with groups() as group:
        group.start(lead)
        await begun.wait()
        group.cancel()
    assert len(ended) == 1
    async with server.client() as client:
        lease = await client.request("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/lock")
    assert not lease["spec"].get("holderIdentity")


def test_a_loop_that_is_run_by_anyio_is_an_asyncio_loop_like_any_other() -> None:
    async def main() -> int:
        async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
            server.create(config_map("a"))
            maps = factory.for_resource("v1/configmaps")
            await factory.wait_for_cache_sync(10)
            return len(maps.lister)

    assert anyio.run(main, backend="asyncio") == 1
