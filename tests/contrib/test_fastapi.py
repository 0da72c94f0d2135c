"""Informers in a web service: their life, how an endpoint gets at them, and what the probes are told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import msgspec
import pytest
from fastapi import Depends, FastAPI, Response, WebSocket
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from kinformer import Backoff, KubeObject, Lister, SharedInformer, SharedInformerFactory
from kinformer.contrib.fastapi import (
    error_handlers,
    get_factory,
    health_router,
    health_routes,
    informer_of,
    kinformer_lifespan,
    list_response,
    lister_of,
    object_response,
    sse_response,
)
from kinformer.manager import readiness
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.waiting import until
from tests.support.web_server import reading, serving

Factory = Annotated[SharedInformerFactory, Depends(get_factory)]
Maps = Annotated[Lister, Depends(lister_of("v1/configmaps"))]
Informer = Annotated[SharedInformer, Depends(informer_of("v1/configmaps"))]
Setup = Callable[[], AbstractAsyncContextManager[SharedInformerFactory]]


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map(f"map-{number}") for number in range(3)]


def setup_for(server: APIServer, *resources: str, **options: Any) -> Setup:
    @asynccontextmanager
    async def setup() -> AsyncIterator[SharedInformerFactory]:
        options.setdefault("backoff", Backoff(initial=0.01, maximum=0.05))
        async with server.client() as client, SharedInformerFactory(client, **options) as factory:
            for resource in resources or ("v1/configmaps",):
                factory.for_resource(resource)
            yield factory

    return setup


def service(setup: Setup) -> FastAPI:
    app = FastAPI(lifespan=kinformer_lifespan(setup))
    app.include_router(health_router())

    @app.get("/maps")
    def maps(maps: Maps) -> list[str]:
        return sorted(obj.name for obj in maps)

    @app.get("/maps/{name}")
    async def one(maps: Maps, name: str) -> Response:
        found = maps.get(name, namespace="default")
        return object_response(found) if found else Response(status_code=404)

    @app.get("/all")
    async def everything(maps: Maps) -> Response:
        return list_response(maps.list())

    @app.get("/events")
    async def events(informer: Informer, selector: str = "") -> Response:
        return sse_response(informer, label_selector=selector or None)

    return app


@asynccontextmanager
async def asking(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        yield client


async def until_ready(client: httpx.AsyncClient, status: int = 200, path: str = "/readyz") -> Any:
    answer = await until(lambda: client.get(path), 15, holds=lambda answer: answer.status_code == status)
    return answer.json()


async def test_endpoints_of_both_kinds_get_the_factory(server: APIServer) -> None:
    async with asking(service(setup_for(server))) as client:
        await until_ready(client)
        assert (await client.get("/maps")).json() == ["map-0", "map-1", "map-2"]
        answer = await client.get("/maps/map-1")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["metadata"]["name"] == "map-1"
        assert answer.json()["kind"] == "ConfigMap"
        assert answer.headers["etag"]
        assert (await client.get("/maps/none")).status_code == 404
        everything = (await client.get("/all")).json()
        assert everything["kind"] == "List"
        assert len(everything["items"]) == 3


async def test_an_event_stream_of_an_endpoint_shows_changes(server: APIServer) -> None:
    async with serving(service(setup_for(server))) as url, reading(f"{url}/events") as stream:
        assert {event.type for event in await stream.take(3)} == {"ADDED"}
        server.create(config_map("late"))
        event = await stream.next()
        assert (event.type, event.data["metadata"]["name"]) == ("ADDED", "late")


async def test_startup_does_not_wait_and_readiness_names_resource_and_reason(server: APIServer) -> None:
    fault = server.faults.add(faults.status(403), resource="v1/configmaps")
    app = service(setup_for(server, "v1/configmaps", "v1/pods"))
    async with asking(app) as client:
        assert (await client.get("/livez")).json() == {"alive": True}
        await until(lambda: app.state.kinformer_factory.health()["v1/configmaps"].last_error)
        body = await until_ready(client, 503)
        assert body["ready"] is False
        maps = body["resources"]["v1/configmaps"]
        assert maps["synced"] is False
        assert maps["live"] is False
        assert "403" in maps["reason"]
        fault.remove()
        body = await until_ready(client)
        assert body["ready"] is True
        assert body["resources"]["v1/configmaps"] == {"ready": True, "state": "watching", "synced": True, "live": True}


async def test_a_selector_of_a_request_that_does_not_parse_is_its_fault(server: APIServer) -> None:
    app = FastAPI(lifespan=kinformer_lifespan(setup_for(server)), exception_handlers=error_handlers())

    @app.get("/maps")
    def maps(maps: Maps, selector: str) -> list[str]:
        return [obj.name for obj in maps.list(selector)]

    @app.get("/events")
    async def events(informer: Informer, selector: str) -> Response:
        return sse_response(informer, label_selector=selector)

    expected = "label selector 'app in (': found the end, expected a value, ',' or ')' at position 8: app in (>>>"
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        for path in ("/maps", "/events"):
            answer = await client.get(path, params={"selector": "app in ("})
            assert answer.status_code == 400
            assert answer.json() == {"detail": expected}


async def test_starlette_takes_the_handlers_too(server: APIServer) -> None:
    async def maps(request: Request) -> Response:
        informer = await informer_of("v1/configmaps")(request)
        return JSONResponse([obj.name for obj in informer.lister.list(request.query_params["selector"])])

    app = Starlette(
        routes=[Route("/maps", maps)],
        lifespan=kinformer_lifespan(setup_for(server)),
        exception_handlers=error_handlers(),
    )
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        assert (await client.get("/maps", params={"selector": "!"})).status_code == 400


async def test_a_request_that_comes_before_the_first_list_is_told_to_come_again(server: APIServer) -> None:
    app = FastAPI(lifespan=kinformer_lifespan(setup_for(server)), exception_handlers=error_handlers())

    @app.get("/maps")
    def maps(maps: Annotated[Lister, Depends(lister_of("v1/configmaps", require_synced=True))]) -> list[str]:
        return sorted(obj.name for obj in maps)

    @app.get("/informer")
    async def informer(
        informer: Annotated[SharedInformer, Depends(informer_of("v1/configmaps", require_synced=True))],
    ) -> str:
        return informer.name

    @app.get("/waiting")
    async def waiting(factory: Factory) -> str:
        await factory.wait_for_cache_sync(timeout=0.01)
        return "synced"

    server.faults.add(faults.status(403), resource="v1/configmaps")
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        for path in ("/maps", "/informer", "/waiting"):
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert "v1/configmaps: " in answer.json()["detail"]
            assert "synced yet" in answer.json()["detail"]
            assert "403" not in answer.text, "the words of the API server are not for the users of the service"
        server.faults.clear()
        await until(lambda: _status(client, "/maps"), 10, holds=lambda status: status == 200)
        assert (await client.get("/maps")).json() == ["map-0", "map-1", "map-2"]
        assert (await client.get("/waiting")).json() == "synced"


@pytest.mark.slow
async def test_a_request_to_a_cache_that_is_not_proved_current_is_told_to_come_again(server: APIServer) -> None:
    app = FastAPI(lifespan=kinformer_lifespan(setup_for(server)))
    app.include_router(health_router(max_staleness=4))

    @app.get("/maps")
    def maps(
        maps: Annotated[Lister, Depends(lister_of("v1/configmaps", require_synced=True, max_staleness=4))],
    ) -> list[str]:
        return sorted(obj.name for obj in maps)

    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        await until(lambda: _status(client, "/maps"), 20, holds=lambda status: status == 200)
        assert await _status(client, "/readyz") == 200
        server.pause()
        await until(lambda: _status(client, "/maps"), 20, holds=lambda status: status == 503)
        assert "may be stale" in (await client.get("/maps")).json()["detail"]
        assert await _status(client, "/readyz") == 503
        server.resume()
        await until(lambda: _status(client, "/maps"), 60, holds=lambda status: status == 200)


async def _status(client: httpx.AsyncClient, path: str) -> int:
    return (await client.get(path)).status_code


async def test_a_permission_that_is_revoked_makes_it_unready_while_it_still_answers(server: APIServer) -> None:
    async with asking(service(setup_for(server))) as client:
        await until_ready(client)
        server.faults.add(faults.status(403))
        await server.restart()
        body = await until_ready(client, 503)
        assert body["resources"]["v1/configmaps"]["reason"]
        assert (await client.get("/maps")).json() == ["map-0", "map-1", "map-2"]
        assert (await client.get("/livez")).status_code == 200


async def test_a_silent_server_makes_it_unready_until_it_speaks_again(server: APIServer) -> None:
    async with asking(service(setup_for(server, idle_timeout=0.3))) as client:
        await until_ready(client)
        server.pause()
        body = await until_ready(client, 503)
        assert body["resources"]["v1/configmaps"]["synced"] is True
        assert body["resources"]["v1/configmaps"]["reason"]
        server.resume()
        await until_ready(client)


async def test_a_crash_of_an_informer_makes_it_unready_although_the_server_goes_on(server: APIServer) -> None:
    def burst(informer: SharedInformer, error: BaseException) -> None:
        raise RuntimeError("the hook broke")

    app = service(setup_for(server, on_error=burst))
    lifespan = app.router.lifespan_context(app)
    await lifespan.__aenter__()
    factory: SharedInformerFactory = app.state.kinformer_factory
    await factory.wait_for_cache_sync(timeout=10)
    await server.restart()
    await until(lambda: factory.health()["v1/configmaps"].state == "stopped")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        shown = answer.json()["resources"]["v1/configmaps"]
        assert shown["state"] == "stopped"
        assert shown["reason"] == "RuntimeError"
    with pytest.raises(RuntimeError, match="the hook broke"):
        await lifespan.__aexit__(None, None, None)


async def test_an_optional_resource_that_is_absent_is_ready(server: APIServer) -> None:
    async with server.client() as client, SharedInformerFactory(client) as factory:
        factory.for_resource("example.com/v1/widgets", optional=True)
        factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(timeout=10)
        await until(lambda: readiness(factory)[0])
        ready, resources = readiness(factory)
        assert ready
        assert resources["example.com/v1/widgets"]["state"] == "absent"


async def test_the_status_page_has_health_and_figures_as_json(server: APIServer) -> None:
    async with asking(service(setup_for(server))) as client:
        await until_ready(client)
        body = (await client.get("/statusz")).json()
        assert body["ready"] is True
        maps = body["resources"]["v1/configmaps"]
        assert maps["health"]["state"] == "watching"
        assert maps["health"]["last_error"] is None
        assert maps["statistics"]["objects"] == 3
        assert maps["statistics"]["events"] == {"ADDED": 3}
        json.dumps(body)


async def test_the_pages_of_health_quote_the_server_only_if_the_program_asks(server: APIServer) -> None:
    refusal = {"kind": "Status", "status": "Failure", "code": 403, "message": "not for hunter2"}
    server.faults.add(faults.status(403, refusal))
    shown = {}
    for details in (False, True):
        app = FastAPI(lifespan=kinformer_lifespan(setup_for(server)))
        app.include_router(health_router(details=details))
        async with asking(app) as client:
            ready = await until(lambda: client.get("/readyz"), 15, holds=lambda answer: "Forbidden" in answer.text)
            assert "hunter2" not in ready.text
            shown[details] = (await client.get("/statusz")).json()["resources"]["v1/configmaps"]["health"]
    assert shown[False]["last_error"] == "403 ForbiddenError"
    assert "not for hunter2" in shown[True]["last_error"]


async def test_starlette_alone_will_do_mounted_in_another_application_too(server: APIServer) -> None:
    async def names(request: Request) -> JSONResponse:
        informer = get_factory(request).for_resource("v1/configmaps")
        return JSONResponse(sorted(obj.name for obj in informer.lister))

    inner = Starlette(routes=[Route("/names", names)])
    app = Starlette(routes=[*health_routes(), Mount("/inner", inner)], lifespan=kinformer_lifespan(setup_for(server)))
    async with asking(app) as client:
        await until_ready(client)
        assert (await client.get("/inner/names")).json() == ["map-0", "map-1", "map-2"]


async def test_a_lifespan_of_ones_own_can_hold_it(server: APIServer) -> None:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with kinformer_lifespan(setup_for(server))(app) as state:
            yield {**state, "mine": 1}

    app = FastAPI(lifespan=lifespan)
    app.include_router(health_router())

    @app.get("/mine")
    async def mine(request: Request, factory: Factory) -> list[Any]:
        return [request.state.mine, len(factory.informers)]

    async with asking(app) as client:
        await until_ready(client)
        assert (await client.get("/mine")).json() == [1, 1]


async def test_an_application_with_our_routers_is_mounted_in_one_with_a_lifespan_and_tasks_of_its_own(
    server: APIServer,
) -> None:
    beats: list[int] = []

    async def beat() -> None:
        while True:
            beats.append(len(beats))
            await asyncio.sleep(0.01)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        async with kinformer_lifespan(setup_for(server))(app) as state, asyncio.TaskGroup() as group:
            task = group.create_task(beat())
            yield {**state, "outer": "mine"}
            task.cancel()

    async def outer(request: Request) -> JSONResponse:
        return JSONResponse([request.state.outer, len(get_factory(request).informers)])

    inner = FastAPI()
    inner.include_router(health_router())

    @inner.get("/count")
    async def count(factory: Factory) -> int:
        return len(factory.for_resource("v1/configmaps").lister)

    app = Starlette(routes=[Route("/outer", outer), Mount("/cluster", inner)], lifespan=lifespan)
    async with asking(app) as client:
        await until_ready(client, path="/cluster/readyz")
        assert (await client.get("/cluster/livez")).status_code == 200
        assert (await client.get("/cluster/count")).json() == 3
        assert (await client.get("/outer")).json() == ["mine", 1]
        assert (await client.get("/cluster/statusz")).json()["resources"]["v1/configmaps"]["health"]["live"]
    assert beats


class DataOf(msgspec.Struct):
    metadata: dict[str, Any]


Maps = Annotated[Lister[KubeObject[DataOf]], Depends(lister_of("v1/configmaps", model=DataOf))]


async def test_an_endpoint_gets_a_lister_whose_objects_have_a_model(server: APIServer) -> None:
    app = FastAPI(lifespan=kinformer_lifespan(setup_for(server)))
    app.include_router(health_router())

    @app.get("/names")
    def names(maps: Maps) -> list[str]:
        return sorted(obj.model.metadata["name"] for obj in maps)

    async with asking(app) as client:
        await until_ready(client)
        assert (await client.get("/names")).json() == ["map-0", "map-1", "map-2"]


async def test_the_factory_is_left_with_the_application(server: APIServer) -> None:
    app = service(setup_for(server))
    async with app.router.lifespan_context(app):
        factory: SharedInformerFactory = app.state.kinformer_factory
        await factory.wait_for_cache_sync(timeout=10)
    assert all(health.state == "stopped" for health in factory.health().values())


async def test_a_plain_generator_will_do_for_a_setup(server: APIServer) -> None:
    async def setup() -> AsyncIterator[SharedInformerFactory]:
        async with server.client() as client, SharedInformerFactory(client) as factory:
            yield factory

    app = FastAPI(lifespan=kinformer_lifespan(setup))
    async with app.router.lifespan_context(app):
        assert app.state.kinformer_factory.informers == ()


async def test_what_yields_no_factory_is_told() -> None:
    @asynccontextmanager
    async def setup() -> AsyncIterator[Any]:
        yield None

    app = FastAPI(lifespan=kinformer_lifespan(setup))
    with pytest.raises(TypeError, match="SharedInformerFactory"):
        async with app.router.lifespan_context(app):
            pass


async def test_without_the_lifespan_the_dependency_says_what_is_missing() -> None:
    app = FastAPI()

    @app.get("/")
    async def root(factory: Factory) -> None: ...

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        with pytest.raises(RuntimeError, match="kinformer_lifespan"):
            await client.get("/")


async def test_a_websocket_endpoint_gets_the_factory_too(server: APIServer) -> None:
    app = service(setup_for(server))

    @app.websocket("/ws")
    async def ws(socket: WebSocket, factory: Factory) -> None:
        await socket.accept()
        await socket.send_text(str(len(factory.informers)))
        await socket.close()

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async with app.router.lifespan_context(app):
        scope = {"type": "websocket", "path": "/ws", "headers": [], "query_string": b"", "root_path": ""}
        await app(scope, receive, send)
    assert {"type": "websocket.send", "text": "1"} in sent


def test_a_large_list_is_sent_in_pieces() -> None:
    objects = [
        KubeObject.from_dict({"metadata": {"name": f"map-{number}"}, "data": {"fill": "x" * 10_000}})
        for number in range(100)
    ]
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> Any:
        await asyncio.Event().wait()

    asyncio.run(list_response(objects)({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send))
    assert max(map(len, sent)) < 600_000
    items = json.loads(b"".join(sent))["items"]
    assert [item["metadata"]["name"] for item in items] == [f"map-{number}" for number in range(100)]
    assert b'"items":[]' in b"".join(_body(list_response([])))


def _body(response: Any) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [piece async for piece in response.body_iterator]

    return asyncio.run(collect())


def test_the_documentations_programs_run() -> None:
    text = (Path(__file__).parents[2] / "docs" / "fastapi.md").read_text()
    names: dict[str, Any] = {"__name__": "docs"}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "docs/fastapi.md", "exec"), names)
    paths = set(names["app"].openapi()["paths"])
    assert {"/livez", "/readyz", "/nodes/{node}/pods", "/pods/events"} <= paths
