"""Every coroutine and context manager of the public interface may be cancelled at every point.

No task and no connection is left, nothing is lost from a container, and CancelledError is what comes out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kinformer import (
    Client,
    DeltaFIFO,
    Indexer,
    ListOptions,
    ListWatch,
    Reflector,
    SharedInformer,
    SharedInformerFactory,
    meta_namespace_key,
)
from kinformer.testing import APIServer
from kinformer.workqueue import DelayingQueue, WorkQueue
from tests.lifecycle.cancellation import AS_IT_COMES, WHILE_WAITING, cancel_everywhere
from tests.support.fault_scene import RESOURCE
from tests.support.kube import config_map, entry
from tests.support.memory_source import MemorySource
from tests.support.scripted_source import RecordingStore, pod

Call = Callable[[], Any]
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("how", [WHILE_WAITING, AS_IT_COMES])]


def no_check(cancelled: bool) -> None: ...


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map(name, data={"v": name}) for name in "abc"]


# --- the client ------------------------------------------------------------------------------------------------------


async def test_entering_and_leaving_a_client(server: APIServer, how: str, tmp_path: Path) -> None:
    config = server.kubeconfig(tmp_path / "config")

    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        async def use() -> None:
            async with Client.from_kubeconfig(config) as client:
                await client.request("GET", "/version")

        yield use, no_check

    await cancel_everywhere(setting, how)


@pytest.mark.parametrize(
    "what", ["request", "write", "text", "stream", "list", "list half", "watch", "tip", "presence"]
)
async def test_what_a_client_asks(server: APIServer, how: str, what: str) -> None:
    path = "/api/v1/namespaces/default/configmaps"

    async def stream(client: Client) -> None:
        async with client.stream(path) as body:
            async for _ in body:
                pass

    async def read_list(client: Client, most: int = 100) -> None:
        page = await ListWatch(client, RESOURCE, namespace="default").list(ListOptions(limit=2))
        try:
            async for _ in page.items:  # type: ignore[union-attr]
                most -= 1
                if not most:
                    break
        finally:
            await page.items.aclose()  # type: ignore[union-attr]

    async def watch(client: Client) -> None:
        async with ListWatch(client, RESOURCE).watch(ListOptions(timeout_seconds=1)) as events:
            await anext(events)

    calls: dict[str, Callable[[Client], Any]] = {
        "request": lambda client: client.request("GET", f"{path}/a"),
        "write": lambda client: client.request("PATCH", f"{path}/a", body={"data": {"v": "new"}}),
        "text": lambda client: client.text("/readyz"),
        "stream": stream,
        "list": read_list,
        "list half": lambda client: read_list(client, 1),
        "watch": watch,
        "tip": lambda client: ListWatch(client, RESOURCE).tip(),
        "presence": lambda client: ListWatch(client, "example.com/v1/widgets").presence(),
    }

    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        async def still_works(cancelled: bool) -> None:
            answer = await client.request("GET", "/version")
            assert isinstance(answer, dict)
            assert answer["major"]

        async with server.client() as client:
            await _warm(client)
            yield lambda: calls[what](client), still_works

    await cancel_everywhere(setting, how)


# --- informers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("watch_list", [None, False])
async def test_entering_using_and_leaving_an_informer(server: APIServer, how: str, watch_list: bool | None) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        seen: list[str] = []
        entered: list[object] = []
        async with server.client() as client:
            await _warm(client)
            source = ListWatch(client, RESOURCE, namespace="default")
            informer = SharedInformer(source, watch_list=watch_list, shutdown_timeout=1)

            async def on_add(obj: Any) -> None:
                await asyncio.sleep(0)
                seen.append(obj.name)

            async def use() -> None:
                registration = informer.add_event_handler(on_add=on_add)
                entered.append(informer)
                async with informer:
                    await informer.wait_synced(timeout=30)
                    await registration.wait_synced(timeout=30)

            def check(cancelled: bool) -> None:
                assert informer.health().state == "stopped" or not entered
                assert len(seen) == len(set(seen))
                assert cancelled or sorted(seen) == ["a", "b", "c"]

            yield use, check

    await cancel_everywhere(setting, how, at_least=2)


async def _warm(client: Client) -> None:
    """Pools keep connections, which is no leak: so they have theirs from the start."""

    async def read() -> None:
        async with client.stream("/version") as body:
            await body.read_all()

    await asyncio.gather(*(client.request("GET", "/version") for _ in range(2)))
    await asyncio.gather(*(read() for _ in range(3)))  # two watches, and a probe beside them


async def test_running_an_informer_in_a_task_of_ones_own(how: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        source = MemorySource()
        source.set("a")
        informer = SharedInformer(source, on_error=_give_up)

        def end() -> None:
            source.fail_with = ConnectionError("enough")
            source.cut()

        asyncio.get_running_loop().call_later(0.02, end)

        async def use() -> None:
            with pytest.raises(_EnoughError):
                await informer.run()

        yield use, no_check

    await cancel_everywhere(setting, how)


class _EnoughError(Exception):
    pass


def _give_up(informer: Any, error: Exception) -> None:
    raise _EnoughError


async def test_entering_using_and_leaving_a_factory(server: APIServer, how: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        async with server.client() as client:
            await _warm(client)

            async def use() -> None:
                async with SharedInformerFactory(client, shutdown_timeout=1) as factory:
                    maps = factory.for_resource(RESOURCE, namespace="default")
                    maps.add_event_handler(on_add=lambda obj: None)
                    spaces = factory.for_resource("v1/namespaces")
                    await factory.wait_for_cache_sync(timeout=30, handlers=True, fail_fast=True)
                    await factory.release(spaces)

            yield use, no_check

    await cancel_everywhere(setting, how, at_least=2)


@pytest.mark.parametrize(
    "what", ["version", "late version", "remove", "index", "synced", "fail fast", "registration", "events", "leave"]
)
async def test_what_is_awaited_of_an_informer(how: str, what: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        source = MemorySource()
        for name in "abc":
            source.set(name)
        read: list[str] = []

        async def slow(obj: Any) -> None:
            await asyncio.sleep(0.001)

        async with SharedInformer(source, shutdown_timeout=1) as informer:
            registration = informer.add_event_handler(on_add=slow)
            if what not in ("synced", "fail fast", "registration"):
                await informer.wait_synced(timeout=10)
                await registration.wait_synced(timeout=10)

            async def late_version() -> None:
                asyncio.get_running_loop().call_later(0.01, source.set, "d")
                await informer.wait_for_resource_version(str(source.version + 1), timeout=10)

            async def version() -> None:
                source.set("d")
                await informer.wait_for_resource_version(str(source.version), timeout=10)

            async def remove() -> None:
                source.set("d")
                await asyncio.sleep(0)
                await informer.remove_event_handler(registration, drain=True)

            async def read_events() -> None:
                async with informer.events() as stream:
                    asyncio.get_running_loop().call_later(0.01, source.set, "d")
                    while len(read) < 4:
                        read.append((await anext(stream)).object.name)

            calls: dict[str, Call] = {
                "version": version,
                "late version": late_version,
                "remove": remove,
                "index": lambda: informer.build_indexers({"v": lambda obj: [obj["data"]["v"]]}),
                "synced": lambda: informer.wait_synced(timeout=10),
                "fail fast": lambda: informer.wait_synced(timeout=10, fail_fast=True),
                "registration": lambda: registration.wait_synced(timeout=10),
                "events": read_events,
                "leave": lambda: informer.__aexit__(None, None, None),
            }

            async def still_works(cancelled: bool) -> None:
                if what == "leave":
                    assert informer.health().state == "stopped"
                    return
                if what == "index":
                    await informer.build_indexers({"v2": lambda obj: [obj["data"]["v"]]})
                await informer.wait_synced(timeout=10)
                source.set("last")
                await informer.wait_for_resource_version(str(source.version), timeout=10)
                assert informer.lister.get("last", namespace="default") is not None
                assert informer.statistics().handler_errors == 0

            yield calls[what], still_works

    await cancel_everywhere(setting, how, at_least=0 if what in ("index", "leave") else 1)


async def test_an_event_is_never_lost_by_a_reader_that_is_cancelled(how: str) -> None:
    """Each `anext` of five, cancelled once at each of its suspensions: the events come in order, each once."""

    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        source = MemorySource()
        async with SharedInformer(source) as informer, informer.events() as stream:
            await informer.wait_synced(timeout=10)
            read: list[str] = []

            async def read_all() -> None:
                for name in "abcde":
                    asyncio.get_running_loop().call_soon(source.set, name)
                    read.append((await anext(stream)).object.name)

            async def the_rest(cancelled: bool) -> None:
                source.set("end")
                while "end" not in read:
                    read.append((await asyncio.wait_for(anext(stream), 10)).object.name)
                assert read == [*"abcde"[: len(read) - 1], "end"]

            yield read_all, the_rest

    await cancel_everywhere(setting, how, at_least=4)


async def test_running_a_reflector(how: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        source = MemorySource(watch_list=False)
        source.set("a")
        store = RecordingStore()
        reflector = Reflector(source, store, on_error=_give_up_late)

        def end() -> None:
            source.set("b")
            source.fail_with = ConnectionError("enough")
            source.cut()

        asyncio.get_running_loop().call_later(0.02, end)

        async def use() -> None:
            with pytest.raises(_EnoughError):
                await reflector.run()

        def check(cancelled: bool) -> None:
            assert [call[0] for call in store.calls] == ["replace", "add"][: len(store.calls)]
            assert reflector.health().state == "stopped" or not store.calls

        yield use, check

    await cancel_everywhere(setting, how)


def _give_up_late(reflector: Any, error: Exception) -> None:
    if isinstance(error, ConnectionError):
        raise _EnoughError


# --- containers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pop", "pop_batch"])
async def test_a_queue_loses_nothing_but_what_was_being_processed(how: str, method: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        fifo: DeltaFIFO = DeltaFIFO(meta_namespace_key)
        begun: list[str] = []

        async def process(deltas: Any, is_in_initial_list: bool) -> None:
            begun.append(deltas[0].object.name)
            await asyncio.sleep(0)

        async def process_batch(batch: Any) -> None:
            for _, deltas, initial in batch:
                await process(deltas, initial)

        async def take() -> None:
            for name in "abc":
                asyncio.get_running_loop().call_soon(fifo.add, pod(name, 1))
                await (fifo.pop(process) if method == "pop" else fifo.pop_batch(process_batch))

        async def the_rest(cancelled: bool) -> None:
            fifo.add(pod("end", 1))
            while len(fifo):
                await fifo.pop(process)
            assert begun == [*"abc"[: len(begun) - 1], "end"]

        yield take, the_rest

    await cancel_everywhere(setting, how, at_least=3)


async def test_a_key_of_a_work_queue_is_never_lost(how: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        queue: WorkQueue[str] = WorkQueue()
        taken: list[str] = []

        async def work() -> None:
            for name in "abc":
                asyncio.get_running_loop().call_soon(queue.add, name)
                taken.append(await queue.get())
                queue.done(taken[-1])

        async def the_rest(cancelled: bool) -> None:
            queue.add("end")
            while "end" not in taken:
                taken.append(await asyncio.wait_for(queue.get(), 10))
                queue.done(taken[-1])
            assert taken == [*"abc"[: len(taken) - 1], "end"]

        yield work, the_rest

    await cancel_everywhere(setting, how, at_least=3)


@pytest.mark.parametrize("kind", [WorkQueue, DelayingQueue])
async def test_draining_a_work_queue(how: str, kind: Any) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        queue: Any = kind()
        for name in "abc":
            queue.add(name)
        taken: list[str] = []

        def take_one() -> None:
            if len(queue):
                task = asyncio.ensure_future(queue.get())
                task.add_done_callback(lambda task: (taken.append(task.result()), queue.done(task.result())))
                asyncio.get_running_loop().call_later(0.001, take_one)

        asyncio.get_running_loop().call_later(0.001, take_one)

        async def all_are_done(cancelled: bool) -> None:
            assert queue.shutting_down
            await queue.shut_down_with_drain(timeout=10)
            assert taken == ["a", "b", "c"]

        yield lambda: queue.shut_down_with_drain(timeout=10), all_are_done

    await cancel_everywhere(setting, how)


async def test_building_an_index_is_all_or_nothing(how: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        indexer = Indexer(meta_namespace_key)
        for number in range(3000):
            indexer.add(entry(f"m{number}", data={"v": str(number % 7)}))

        def by_value(obj: Any) -> list[str]:
            return [obj["data"]["v"]]

        async def check(cancelled: bool) -> None:
            assert len(indexer) == 3000
            indexer.add(entry("m0", rv=2, data={"v": "new"}))
            await indexer.build_indexers({"v": by_value})
            assert indexer.index_keys("v", "new") == ["default/m0"]
            assert sum(len(indexer.index_keys("v", str(value))) for value in range(7)) == 2999

        yield lambda: indexer.build_indexers({"v": by_value}), check

    await cancel_everywhere(setting, how)


# --- the embedded server ---------------------------------------------------------------------------------------------


async def test_entering_and_leaving_the_embedded_server(how: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        async def use() -> None:
            async with APIServer() as server:
                await server.install_crds()
                await server.compact()
                await server.restart()
                async with server.client() as client:
                    await client.request("GET", "/version")

        yield use, no_check

    await cancel_everywhere(setting, how)
