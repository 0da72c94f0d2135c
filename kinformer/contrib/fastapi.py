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

``docs/fastapi.md`` shows a whole application. Everything except `health_router` works with Starlette alone.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from kinformer import (
    Collection,
    GroupVersionResource,
    KubeObject,
    Lister,
    NotSyncedError,
    SelectorError,
    SharedInformer,
    SharedInformerFactory,
    __version__,
)
from kinformer._lazy import needs_extra
from kinformer.contrib.event_source import EventSourceResponse, sse_response
from kinformer.contrib.shutdown import close_event_streams, respond_live
from kinformer.manager import readiness, stale_reason, status_report
from kinformer.objects.types import ModelT

with needs_extra("fastapi", "starlette"):
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send

if TYPE_CHECKING:
    from fastapi import APIRouter

    from kinformer.watchcache import WatchCache

__all__ = [
    "EventSourceResponse",
    "cache_response",
    "close_event_streams",
    "collection_of",
    "error_handlers",
    "get_factory",
    "health_router",
    "health_routes",
    "informer_of",
    "kinformer_lifespan",
    "list_response",
    "lister_of",
    "object_response",
    "sse_response",
]

Setup = Callable[[], AbstractAsyncContextManager[SharedInformerFactory]]
FactoryOf = Callable[[HTTPConnection], SharedInformerFactory]

_STATE = "kinformer_factory"
_RETRY_AFTER = {"Retry-After": "1"}  # seconds, about the time for a first list
_CHUNK = 256 * 1024  # bytes of a list passed to the server at once
_PATIENCE = 60.0  # seconds that the reader of a watch may take for a chunk
_NOT_FROM_CACHE = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "only the API server can answer this request",
    "reason": "NotAcceptable",
    "code": 406,
}


def kinformer_lifespan(
    setup: Setup | Callable[[], AsyncIterator[SharedInformerFactory]],
) -> Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """Return a lifespan for FastAPI or Starlette that keeps the factory open as long as the application runs.

    Startup does not wait for the caches: the process responds immediately, and `/readyz` reports when it is ready. An
    application that must not start without them can wait in its `setup`.

    In your own lifespan: ``async with kinformer_lifespan(setup)(app) as state: yield {**state, ...}``.

    Args:
        setup: A function that returns an async context manager which yields an entered `SharedInformerFactory`, or an
            async generator function (without `asynccontextmanager`).

    Raises:
        TypeError: `setup` does not yield a factory.
    """
    make = cast("Setup", asynccontextmanager(setup) if inspect.isasyncgenfunction(setup) else setup)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Mapping[str, Any]]:
        async with make() as factory:
            if not isinstance(factory, SharedInformerFactory):
                raise TypeError(f"setup must yield a SharedInformerFactory, not {type(factory).__name__}")
            setattr(app.state, _STATE, factory)
            # Both, because mounted applications only see the lifespan's state, which not every test client passes on.
            yield {_STATE: factory}

    return lifespan


def get_factory(connection: HTTPConnection) -> SharedInformerFactory:
    """Return the factory of the running application.

    Use it as a FastAPI dependency, or call it with a request or websocket.

    Raises:
        RuntimeError: The application's lifespan is not `kinformer_lifespan`, or has not been entered.
    """
    state = connection.scope.get("state") or {}
    entered = state.get(_STATE) or getattr(connection.app.state, _STATE, None)
    if entered is None:
        raise RuntimeError("no factory: the application needs lifespan=kinformer_lifespan(setup), and must be started")
    factory: SharedInformerFactory = entered
    return factory


def informer_of(
    resource: str | GroupVersionResource,
    *,
    model: type[ModelT] | None = None,
    require_synced: bool = False,
    max_staleness: float | None = None,
    **options: Any,
) -> Callable[[HTTPConnection], Awaitable[SharedInformer[ModelT]]]:
    """Return a dependency on the factory's informer of a resource: ``Depends(informer_of("v1/pods"))``.

    The informer is created on first use. Also request it in `setup`, so that it has synced by then.

    Args:
        resource, model, options: As for `SharedInformerFactory.for_resource`.
        require_synced: Respond with 503 and a `Retry-After` until the first list is in the cache. False calls the
            endpoint with the current objects, at first none.
        max_staleness: Seconds, at least 4. Respond with 503 in the same way while the cache was last proved to be
            current longer ago. From the first request on, it is proved at half of that age (see `Controller`).
    """
    resource = GroupVersionResource.parse(resource)  # a bad one is an error now, not at the first request
    asked: WeakKeyDictionary[SharedInformerFactory, SharedInformer[ModelT]] = WeakKeyDictionary()

    async def informer(connection: HTTPConnection) -> SharedInformer[ModelT]:
        factory = get_factory(connection)
        shared = asked.get(factory)
        if shared is None:
            shared = asked[factory] = factory.for_resource(resource, **options, model=cast("Any", model))
        if require_synced and not shared.has_synced:
            raise HTTPException(503, f"{shared.name}: the cache has not synced yet", headers=_RETRY_AFTER)
        _refuse_stale(shared, max_staleness)
        return shared

    return informer


def lister_of(
    resource: str | GroupVersionResource,
    *,
    model: type[ModelT] | None = None,
    require_synced: bool = False,
    max_staleness: float | None = None,
    **options: Any,
) -> Callable[[HTTPConnection], Awaitable[Lister[KubeObject[ModelT]]]]:
    """Return a dependency on the lister of a resource. It works in `async def` and `def` endpoints, on any thread.

    ::

        Pods = Annotated[Lister, Depends(lister_of("v1/pods"))]  # or Lister[KubeObject[Pod]], with model=Pod

        @app.get("/pods")
        def pods(pods: Pods) -> list[str]:
            return [pod.key for pod in pods]

    (A `def` endpoint runs in a thread, where `factory.for_resource` cannot be called.)

    Args:
        resource, model, options: As for `SharedInformerFactory.for_resource`.
        require_synced: Respond with 503 and a `Retry-After` until the first list is in the cache. False calls the
            endpoint with the current objects, at first none.
        max_staleness: As for `informer_of`.
    """
    informer = informer_of(resource, model=model, require_synced=require_synced, max_staleness=max_staleness, **options)

    async def lister(connection: HTTPConnection) -> Lister[KubeObject[ModelT]]:
        return (await informer(connection)).lister

    return lister


def _refuse_stale(collection: Collection[Any], max_staleness: float | None) -> None:
    if reason := stale_reason(collection, max_staleness):
        raise HTTPException(503, reason, headers=_RETRY_AFTER)


def collection_of(
    name: str, *, require_synced: bool = False, max_staleness: float | None = None
) -> Callable[[HTTPConnection], Collection[Any]]:
    """Return a dependency on a derived collection of the factory, by its name: ``Depends(collection_of("load"))``.

    Add it to the factory in `setup`: ``factory.add(derive(nodes, load_of, name="load"))``.

    Args:
        name: The name of the collection.
        require_synced: Respond with 503 and a `Retry-After` until every value has been computed. False calls the
            endpoint with the current values, at first none.
        max_staleness: As for `informer_of`, for all informers that it reads.

    Raises:
        RuntimeError: (of the dependency) The factory has no such collection.
    """

    def collection(connection: HTTPConnection) -> Collection[Any]:
        derived = get_factory(connection).derived
        match = next((candidate for candidate in derived if candidate.name == name), None)
        if match is None:
            there = ", ".join(candidate.name for candidate in derived) or "none"
            raise RuntimeError(f"the factory has no derived collection {name!r}; known collections: {there}")
        if require_synced and not match.has_synced:
            raise HTTPException(503, f"{name}: its values have not been computed yet", headers=_RETRY_AFTER)
        return match

    async def fresh(connection: HTTPConnection) -> Collection[Any]:  # on the loop, where proofs are requested
        derived = collection(connection)
        _refuse_stale(derived, max_staleness)
        return derived

    return collection if max_staleness is None else cast("Callable[[HTTPConnection], Collection[Any]]", fresh)


# --- errors ---------------------------------------------------------------------------------------------------------


def error_handlers() -> dict[Any, Callable[[Request, Any], Coroutine[Any, Any, Response]]]:
    """Return handlers for invalid selectors and unsynced caches, which respond with JSON ``{"detail": text}``.

    Use them as ``app = FastAPI(lifespan=..., exception_handlers=error_handlers())``, or likewise with Starlette. A
    `SelectorError` becomes a 400 with its message, which includes the position. A `NotSyncedError` becomes a 503 with
    a `Retry-After`, and only names the resources. `/readyz` and the log have the reasons.
    """

    async def bad_selector(_: Request, error: SelectorError) -> Response:
        return JSONResponse({"detail": str(error)}, status_code=400)

    async def not_synced(_: Request, error: NotSyncedError) -> Response:
        detail = f"{', '.join(error.unsynced) or 'a cache'}: not synced yet"
        return JSONResponse({"detail": detail}, status_code=503, headers=_RETRY_AFTER)

    return {SelectorError: bad_selector, NotSyncedError: not_synced}


# --- health -------------------------------------------------------------------------------------------------------


def health_routes(
    factory: FactoryOf = get_factory, *, details: bool = False, max_staleness: float | None = None
) -> list[Route]:
    """Return the routes of `health_router`, for Starlette."""

    async def livez(_: Request) -> Response:
        return JSONResponse({"alive": True})

    async def readyz(request: Request) -> Response:
        ready, resources = readiness(factory(request), max_staleness=max_staleness)
        return JSONResponse({"ready": ready, "resources": resources}, status_code=200 if ready else 503)

    async def statusz(request: Request) -> Response:
        return JSONResponse({"kinformer": __version__, **status_report(factory(request), details=details)})

    return [
        Route("/livez", livez, name="livez"),
        Route("/readyz", readyz, name="readyz"),
        Route("/statusz", statusz, name="statusz"),
    ]


def health_router(
    factory: FactoryOf = get_factory, *, details: bool = False, max_staleness: float | None = None
) -> APIRouter:
    """Return a router with `/livez`, `/readyz` and `/statusz`, all JSON, for probes and people.

    `/livez` is 200 while the event loop runs, because a restart would fix nothing that `/readyz` reports. `/readyz` is
    200 while every informer has synced and follows its server, and otherwise 503, even long after the start. It lists
    each resource, its state and the reason. `/statusz` has the health and statistics of each informer. Errors are
    shown by their class, because every visitor of the application may read these pages. The log has their messages.

    Args:
        factory: Returns the factory for a request.
        details: Show the messages of errors on `/statusz`. They may quote a server's response, a credential plugin or
            a file.
        max_staleness: See `kinformer.manager.readiness`. None requests nothing.
    """
    with needs_extra("fastapi", "fastapi"):
        from fastapi import APIRouter

    router = APIRouter()
    for route in health_routes(factory, details=details, max_staleness=max_staleness):
        router.add_api_route(route.path, route.endpoint, name=route.name, tags=["health"], response_class=JSONResponse)
    return router


# --- objects ------------------------------------------------------------------------------------------------------


def object_response(obj: KubeObject) -> Response:
    """Return an object as JSON: its stored bytes, without decoding them."""
    return Response(obj.raw, media_type="application/json", headers={"ETag": _etag(obj)} if obj.uid else None)


def list_response(objects: Iterable[KubeObject]) -> Response:
    """Return objects as one JSON list, in the form of `kubectl get -o json`, with their stored bytes.

    It is sent in pieces, so that a list of 100,000 objects is never in memory as a whole.
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


def cache_response(
    cache: WatchCache, *, namespace: str = "", name: str = "", otherwise: ASGIApp | None = None
) -> Response:
    """Return a response that answers its request as the Kubernetes API does: a LIST, GET or WATCH from a cache.

    It does not ask who the caller is: that is for the endpoint, or for its dependencies. A watch ends when its reader
    disconnects or takes more than 60 s for a chunk, and when the server is about to end.

    Args:
        cache: The entered cache.
        namespace: The namespace in the path, or "" for all.
        name: The name of the object in the path, or "" for a list or watch.
        otherwise: Answers what only an API server can (see `WatchCache.respond`). By default, it is a 406.
    """
    return _CacheResponse(cache, namespace, name, otherwise or JSONResponse(_NOT_FROM_CACHE, status_code=406))


class _CacheResponse(Response):
    def __init__(self, cache: WatchCache, namespace: str, name: str, otherwise: ASGIApp) -> None:
        super().__init__()
        self._cache, self._namespace, self._name, self._otherwise = cache, namespace, name, otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(send: Send) -> None:
            if not await self._cache.respond_asgi(scope, send, namespace=self._namespace, name=self._name):
                await self._otherwise(scope, receive, send)

        if "watch" in Request(scope).query_params:
            await respond_live(answer, scope, receive, send, name="watch", patience=_PATIENCE)
        else:
            await answer(send)


def _etag(obj: KubeObject) -> str:
    return f'"{obj.uid}-{obj.resource_version}"'
