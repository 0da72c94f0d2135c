"""A factory inside a web service: `def` endpoints read in threads while the cache changes; a factory as a fixture."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI, Request

from kinformer import SharedInformer, SharedInformerFactory
from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource

OBJECTS = 300
CHANGES_A_SECOND = 5000
SECONDS = 1.5


def application(informer: SharedInformer) -> FastAPI:
    """Endpoints of both kinds; the threads of the `def` ones are noted, to see that there were some."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with informer:
            await informer.wait_synced(10)
            app.state.threads = set()
            yield

    app = FastAPI(lifespan=lifespan)
    lister, indexer = informer.lister, informer.indexer

    @app.get("/list")
    def listed(request: Request) -> dict[str, Any]:
        request.app.state.threads.add(threading.get_ident())
        objects = lister.list()
        assert len({obj.key for obj in objects}) == len(objects), "an object is twice in a snapshot"
        return {"objects": len(objects), "namespaces": sorted(lister.index_values("namespace"))}

    @app.get("/selected")
    def selected(request: Request) -> dict[str, Any]:
        request.app.state.threads.add(threading.get_ident())
        objects = lister.list("color in (red, green)")
        assert all(obj.labels["color"] in ("red", "green") for obj in objects)
        return {"objects": len(objects)}

    @app.get("/namespaces/{namespace}")
    def in_namespace(request: Request, namespace: str) -> dict[str, Any]:
        request.app.state.threads.add(threading.get_ident())
        objects = lister.by_namespace(namespace).list()
        assert all(obj.namespace == namespace for obj in objects)
        keys = indexer.index_keys("namespace", namespace)
        return {"objects": len(objects), "keys": len(keys)}

    @app.get("/objects/{namespace}/{name}")
    def one(request: Request, namespace: str, name: str) -> dict[str, Any]:
        request.app.state.threads.add(threading.get_ident())
        found = lister.get(name, namespace=namespace)
        assert found is not None
        return {"version": int(found["data"]["v"]), "key": found.to_dict()["metadata"]["name"]}

    @app.get("/iterate")
    async def iterate() -> dict[str, Any]:
        seen = 0
        for obj in lister:  # a snapshot: it may be kept across an await
            seen += bool(obj.key)
            if seen % 100 == 0:
                await asyncio.sleep(0)
        return {"objects": seen}

    return app


async def change(source: MemorySource, stop: asyncio.Event) -> int:
    """CHANGES_A_SECOND: updates mostly; the last objects come and go, and move between label sets."""
    loop = asyncio.get_running_loop()
    began, made = loop.time(), 0
    while not stop.is_set():
        while made < (loop.time() - began) * CHANGES_A_SECOND:
            made += 1
            number = made % OBJECTS
            name, namespace = f"map-{number}", f"team-{number % 7}"
            if number >= OBJECTS - 20 and f"{namespace}/{name}" in source.objects and made % 2:
                source.delete(name, namespace=namespace)
                continue
            labels = {"color": ("red", "green", "blue")[made % 3]}
            source.set(name, namespace=namespace, labels=labels, data={"v": str(made)})
        del source.history[:-5000]
        await asyncio.sleep(0.005)
    return made


async def test_def_endpoints_read_in_threads_while_thousands_of_changes_come_in() -> None:
    source = MemorySource()
    for number in range(OBJECTS):
        source.set(f"map-{number}", namespace=f"team-{number % 7}", labels={"color": "red"}, data={"v": "0"})
    app = application(SharedInformer(source))
    enough, stop = asyncio.Event(), asyncio.Event()

    async def ask(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        while not enough.is_set() or len(answers) <= 5:  # a busy machine takes longer
            answer = await client.get(path)
            assert answer.status_code == 200, answer.text
            answers.append(answer.json())
        return answers

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client,
    ):
        changing = asyncio.create_task(change(source, stop))
        paths = ("/list", "/selected", "/namespaces/team-3", "/objects/team-1/map-1", "/iterate")
        asking = [asyncio.create_task(ask(client, path)) for path in paths]
        await asyncio.wait(asking, timeout=SECONDS, return_when=asyncio.FIRST_EXCEPTION)
        enough.set()
        answers = dict(zip(paths, await asyncio.gather(*asking), strict=True))
        stop.set()
        made = await changing
        threads = app.state.threads

    assert made > SECONDS * 1000, "there was no load to speak of"
    assert threads, "no endpoint ran"
    assert threading.get_ident() not in threads, "the endpoints were to run in threads"
    for answer in (*answers["/list"], *answers["/iterate"]):
        assert OBJECTS - 20 <= answer["objects"] <= OBJECTS
    versions = [answer["version"] for answer in answers["/objects/team-1/map-1"]]
    assert versions == sorted(versions), "a later read saw an earlier state"
    assert versions[-1] > 0


def test_what_is_no_read_belongs_to_the_loop() -> None:
    async def scenario() -> None:
        source = MemorySource()
        async with SharedInformer(source) as informer:
            await informer.wait_synced(5)
            assert await asyncio.to_thread(lambda: len(informer.lister.list())) == 0
            with pytest.raises(RuntimeError):
                await asyncio.to_thread(informer.add_event_handler, on_add=print)
            with pytest.raises(RuntimeError):
                await asyncio.to_thread(informer.add_indexers, {"none": lambda obj: []})

    asyncio.run(scenario())


# --- the factory as a fixture: entered and left by different tasks ---------------------------------------------


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map(f"map-{number}") for number in range(3)]


@pytest_asyncio.fixture
async def factory(server: APIServer) -> AsyncIterator[SharedInformerFactory]:
    async with server.client() as client, SharedInformerFactory(client) as factory:
        factory.for_resource("v1/configmaps", namespace="default")
        await factory.wait_for_cache_sync(timeout=10)
        yield factory


@pytest.mark.parametrize("again", [1, 2])
async def test_a_factory_that_a_fixture_entered_follows_the_server(
    again: int, server: APIServer, factory: SharedInformerFactory
) -> None:
    informer = factory.for_resource("v1/configmaps", namespace="default")
    assert {obj.name for obj in informer.lister.list()} == {"map-0", "map-1", "map-2"}
    made = server.create(config_map("late"))
    await informer.wait_for_resource_version(made["metadata"]["resourceVersion"], timeout=5)
    assert informer.lister.get("late") is not None


async def test_a_factory_may_be_left_by_another_task_than_entered_it(server: APIServer) -> None:
    async with server.client() as client:
        factory = SharedInformerFactory(client)
        informer = factory.for_resource("v1/configmaps")
        await asyncio.create_task(factory.__aenter__())
        await asyncio.create_task(factory.wait_for_cache_sync(timeout=10))
        before = asyncio.all_tasks()
        await asyncio.create_task(factory.__aexit__(None, None, None))
        assert informer.health().state == "stopped"
        assert not informer.health().live
        assert [task for task in before if "kinformer" in task.get_name()] != []
        assert [task for task in asyncio.all_tasks() if "kinformer" in task.get_name()] == []
