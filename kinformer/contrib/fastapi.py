"""Informers in a web service: ``pip install 'kinformer[fastapi]'``.

::

    @asynccontextmanager
    async def setup():
        async with Client() as client, SharedInformerFactory(client) as factory:
            factory.for_resource("v1/pods", indexers={"node": "spec.nodeName"})
            yield factory

    app = FastAPI(lifespan=kinformer_lifespan(setup))
    app.include_router(health_router())
    Factory = Annotated[SharedInformerFactory, Depends(get_factory)]

``docs/fastapi.md`` says how this goes together. All but `health_router` works with Starlette alone.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast, overload
from weakref import WeakKeyDictionary

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kinformer import __version__
from kinformer.cache.lister import Lister
from kinformer.contrib.event_source import EventSourceResponse, sse_response
from kinformer.contrib.shutdown import close_event_streams
from kinformer.informer.factory import SharedInformerFactory
from kinformer.informer.informer import SharedInformer
from kinformer.manager.readiness import readiness, status_report
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject
from kinformer.objects.types import M

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = [
    "EventSourceResponse",
    "close_event_streams",
    "get_factory",
    "health_router",
    "health_routes",
    "informer_of",
    "kinformer_lifespan",
    "list_response",
    "lister_of",
    "object_response",
    "readiness",
    "sse_response",
]

Setup = Callable[[], AbstractAsyncContextManager[SharedInformerFactory]]
FactoryOf = Callable[[HTTPConnection], SharedInformerFactory]

_STATE = "kinformer_factory"
_CHUNK = 256 * 1024  # bytes of a list that are handed to the server at once


def kinformer_lifespan(
    setup: Setup | Callable[[], AsyncIterator[SharedInformerFactory]],
) -> Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """A lifespan for FastAPI or Starlette: the factory lives as long as the application.

    Startup does not wait for the caches: the process answers at once, and `/readyz` says when it is ready. An
    application that must not start without them waits in its `setup`.

    In a lifespan of your own: ``async with kinformer_lifespan(setup)(app) as state: yield {**state, ...}``.

    Args:
        setup: A function that gives an async context manager which yields a `SharedInformerFactory` that was entered;
            or the async generator function that `asynccontextmanager` would make one of.

    Raises:
        TypeError: What `setup` yields is no factory.
    """
    make = cast("Setup", asynccontextmanager(setup) if inspect.isasyncgenfunction(setup) else setup)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Mapping[str, Any]]:
        async with make() as factory:
            if not isinstance(factory, SharedInformerFactory):
                raise TypeError(f"setup has to yield a SharedInformerFactory, not {type(factory).__name__}")
            setattr(app.state, _STATE, factory)
            # Both: mounted applications see the lifespan's state alone, and not every test client passes that on.
            yield {_STATE: factory}

    return lifespan


def get_factory(connection: HTTPConnection) -> SharedInformerFactory:
    """The factory of the running application, as a FastAPI dependency or called with a request or websocket.

    Raises:
        RuntimeError: The application's lifespan is not `kinformer_lifespan`, or has not been entered.
    """
    state = connection.scope.get("state") or {}
    found = state.get(_STATE) or getattr(connection.app.state, _STATE, None)
    if found is None:
        raise RuntimeError("no factory: the application needs lifespan=kinformer_lifespan(setup), and to be started")
    factory: SharedInformerFactory = found
    return factory


@overload
def informer_of(
    resource: str | GroupVersionResource, *, model: type[M], **options: Any
) -> Callable[[HTTPConnection], Awaitable[SharedInformer[M]]]: ...
@overload
def informer_of(
    resource: str | GroupVersionResource, *, model: None = None, **options: Any
) -> Callable[[HTTPConnection], Awaitable[SharedInformer[None]]]: ...
def informer_of(
    resource: str | GroupVersionResource, **options: Any
) -> Callable[[HTTPConnection], Awaitable[SharedInformer]]:
    """A dependency that gives the factory's informer of a resource: ``Depends(informer_of("v1/pods"))``.

    It is asked for once, when it is first needed; ask for it in `setup` too, so that it is warm by then.

    Args:
        resource, model, options: As for `SharedInformerFactory.for_resource`.
    """
    return _informer_of(resource, options)


def _informer_of(
    resource: str | GroupVersionResource, options: dict[str, Any]
) -> Callable[[HTTPConnection], Awaitable[SharedInformer]]:
    asked: WeakKeyDictionary[SharedInformerFactory, SharedInformer] = WeakKeyDictionary()

    async def informer(connection: HTTPConnection) -> SharedInformer:
        factory = get_factory(connection)
        found = asked.get(factory)
        if found is None:
            found = asked[factory] = factory.for_resource(resource, **options)
        return found

    return informer


@overload
def lister_of(
    resource: str | GroupVersionResource, *, model: type[M], **options: Any
) -> Callable[[HTTPConnection], Awaitable[Lister[KubeObject[M]]]]: ...
@overload
def lister_of(
    resource: str | GroupVersionResource, *, model: None = None, **options: Any
) -> Callable[[HTTPConnection], Awaitable[Lister[KubeObject[None]]]]: ...
def lister_of(resource: str | GroupVersionResource, **options: Any) -> Callable[[HTTPConnection], Awaitable[Lister]]:
    """A dependency that gives the lister of a resource, for `async def` and `def` endpoints: it reads from any thread.

    ::

        Pods = Annotated[Lister, Depends(lister_of("v1/pods"))]  # or Lister[KubeObject[Pod]], with model=Pod

        @app.get("/pods")
        def pods(pods: Pods) -> list[str]:
            return [pod.key for pod in pods]

    (A `def` endpoint runs in a thread, where `factory.for_resource` is refused.)

    Args:
        resource, model, options: As for `SharedInformerFactory.for_resource`.
    """
    informer = _informer_of(resource, options)

    async def lister(connection: HTTPConnection) -> Lister:
        return (await informer(connection)).lister

    return lister


# --- health -------------------------------------------------------------------------------------------------------


def health_routes(factory: FactoryOf = get_factory) -> list[Route]:
    """The routes of `health_router`, for Starlette."""

    async def livez(_: Request) -> Response:
        return JSONResponse({"alive": True})

    async def readyz(request: Request) -> Response:
        ready, resources = readiness(factory(request))
        return JSONResponse({"ready": ready, "resources": resources}, status_code=200 if ready else 503)

    async def statusz(request: Request) -> Response:
        return JSONResponse({"kinformer": __version__, **status_report(factory(request))})

    return [
        Route("/livez", livez, name="livez"),
        Route("/readyz", readyz, name="readyz"),
        Route("/statusz", statusz, name="statusz"),
    ]


def health_router(factory: FactoryOf = get_factory) -> APIRouter:
    """`/livez`, `/readyz` and `/statusz`, all JSON, for probes and people.

    `/livez` is 200 while the event loop runs: restarting the process helps against nothing that `/readyz` tells of.
    `/readyz` is 200 when every informer has synced and follows its server, else 503, also long after the start; it
    names each resource, its state and the reason. `/statusz` has the health and statistics of each informer.

    Args:
        factory: From a request to its factory.
    """
    from fastapi import APIRouter

    router = APIRouter()
    for route in health_routes(factory):
        router.add_api_route(route.path, route.endpoint, name=route.name, tags=["health"], response_class=JSONResponse)
    return router


# --- objects ------------------------------------------------------------------------------------------------------


def object_response(obj: KubeObject) -> Response:
    """An object as JSON: the bytes as they are kept, decoded by nobody."""
    return Response(obj.raw, media_type="application/json", headers={"ETag": _etag(obj)} if obj.uid else None)


def list_response(objects: Iterable[KubeObject]) -> Response:
    """Objects as one JSON list, in the form of `kubectl get -o json`; their bytes are passed on as they are kept.

    It is sent in pieces, so that a list of 100,000 objects is never whole in memory.
    """

    async def body() -> AsyncIterator[bytes]:
        chunk, size = [b'{"apiVersion":"v1","kind":"List","items":['], 0
        for number, obj in enumerate(objects):
            raw = obj.raw
            chunk += (b",", raw) if number else (raw,)
            size += len(raw)
            if size > _CHUNK:
                yield b"".join(chunk)
                chunk, size = [], 0
        yield b"".join((*chunk, b"]}"))

    return StreamingResponse(body(), media_type="application/json")


def _etag(obj: KubeObject) -> str:
    return f'"{obj.uid}-{obj.resource_version}"'
