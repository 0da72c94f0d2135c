"""The web application: one page, its event stream, and a read-only API over the caches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import yaml
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from kinformer import ConfigError, KinformerError, KubeObject, SelectorError, SharedInformer
from kinformer.cli.dashboard.board import EVENTS, ClusterBoard, board_of, present_board
from kinformer.cli.dashboard.guard import LOOPBACK_NAMES, Guard
from kinformer.cli.dashboard.relations import NODE_INDEX, OWNER_INDEX, occurrences_of
from kinformer.cli.dashboard.timeline import change_of, changes_of, timeline_of
from kinformer.cli.dashboard.view.order import PageFilter
from kinformer.cli.dashboard.view.order import Query as TableQuery
from kinformer.cli.dashboard.view.stream import PageView
from kinformer.cli.output.errors import error_text
from kinformer.contrib.fastapi import get_factory, health_router, list_response, object_response
from kinformer.exceptions import DecodeError
from kinformer.manager import readiness
from kinformer.objects import showable

__all__ = ["cluster_app", "cluster_router"]

_LONGEST_YAML = 64 * 1024  # bytes of JSON to convert to YAML, which is a hundred times slower than JSON
_PAGE = 200  # rows that a page of a table has by default
_LONGEST_PAGE = 500
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def cluster_app(*, names: Iterable[str] = LOOPBACK_NAMES, **options: Any) -> Guard:
    """Return the application, to serve it or to mount it in one whose lifespan is a `kinformer_lifespan`.

    ::

        app.mount("/cluster", cluster_app(names=["ops.example.com"]))

    It shows every informer that the factory has at the first request.

    Args:
        names: The host names under which users reach the application. Requests with another one are refused, unless
            it is an IP address or `localhost`.
        options: Options of `FastAPI`, such as `lifespan`.
    """
    app = FastAPI(title="kinformer dashboard", docs_url=None, redoc_url=None, **options)
    app.add_api_route("/readyz", _readyz, tags=["health"], response_class=JSONResponse)
    app.include_router(health_router())
    app.include_router(cluster_router)
    for name, (content, kind, tag) in _page().items():
        app.add_route(f"/{name}", _static(content, kind, tag), include_in_schema=False)
    return Guard(app, names)


async def _readyz(request: Request) -> JSONResponse:
    factory = get_factory(request)
    ready, resources = readiness(factory)
    board = present_board(factory)
    if board is not None and board.problems is not None:
        # Problems follow resources that no page shows, some of which the user may have no right to read.
        resources = {name: state for name, state in resources.items() if name in board.informers}
        ready = all(state["ready"] for state in resources.values())
    return JSONResponse({"ready": ready, "resources": resources}, status_code=200 if ready else 503)


# --- the API over the caches --------------------------------------------------------------------------------------

cluster_router = APIRouter(prefix="/api", tags=["cluster"])
"""Only the API, for an application whose lifespan is a `kinformer_lifespan`."""


async def _board(connection: HTTPConnection) -> ClusterBoard:
    return await board_of(get_factory(connection))


TheBoard = Annotated[ClusterBoard, Depends(_board)]


async def _informer(board: TheBoard, resource: str) -> SharedInformer:
    informer = board.informers.get(resource)
    if informer is None:
        raise HTTPException(404, f"{resource} is not watched; expected one of {', '.join(board.informers)}")
    return informer


Informer = Annotated[SharedInformer, Depends(_informer)]


async def _opened(board: TheBoard, informer: Informer, resource: str, key: str, last: bool = False) -> KubeObject:
    return informer.indexer.get_by_key(key) or (last and board.last_state(resource, key)) or _object(informer, key)


Opened = Annotated[KubeObject, Depends(_opened)]


@cluster_router.get("/events", response_class=Response)
async def events(
    board: TheBoard,
    selected: Annotated[PageFilter, Depends(PageFilter)],
    view: Literal["", "table", "nodes"] = "",
    resource: str = "",
    sort: str = "NAME",
    first: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=_LONGEST_PAGE)] = _PAGE,
    opened: Annotated[str, Query(alias="open")] = "",
) -> Response:
    """Stream a view to the page: rows of a table or the pods by node, their changes, and reports on the informers.

    `sort` is a column, with a minus sign in front for the opposite order. `open` is resource and key of an object.
    """
    name, _, key = opened.partition(" ")
    query = TableQuery(resource, sort, selected)
    return board.stream(PageView(view, query, first, limit, (name, key) if key else None))


@cluster_router.get("/row", response_class=Response)
async def row(board: TheBoard, informer: Informer, resource: str, key: str) -> Response:
    """Return the row of an object."""
    table_row = board.row(resource, _object(informer, key).key)
    return Response(table_row.shown() if table_row is not None else b"null", media_type="application/json")


@cluster_router.get("/report")
async def report(board: TheBoard) -> dict[str, Any]:
    """Report on the informers."""
    return board.report()


@cluster_router.get("/resources")
async def resources(board: TheBoard) -> list[dict[str, Any]]:
    """List the resources that a page can open: the followed ones, and others that can be followed."""
    if board.catalogue is None:
        return []
    with _told():
        offered = await board.catalogue.resources()
    return [
        {
            "name": str(resource),
            "kind": resource.kind,
            "group": resource.group,
            "short_names": resource.short_names,
            "followed": str(resource) in board.informers,
        }
        for resource in offered
    ]


def _own_page(request: Request) -> None:
    # Links on other sites may lead to the page, but must not make this server follow a resource.
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise HTTPException(403, "only this server's own page may request this")


@cluster_router.get("/follow", dependencies=[Depends(_own_page)])
async def follow(board: TheBoard, resource: str) -> dict[str, str]:
    """Follow a resource, if it is not followed yet. Its rows are sent in the event stream."""
    with _told():
        return {"resource": await board.follow(resource)}


@cluster_router.get("/relations")
async def relations(board: TheBoard, informer: Informer, resource: str, key: str) -> list[dict[str, Any]]:
    """Return the owners of an object, the objects that it owns, and its node, or the pods of a node.

    An object that was deleted has relations as long as its changes are kept.
    """
    return await board.relations(resource, await _opened(board, informer, resource, key, last=True))


@cluster_router.get("/problems")
async def problems(board: TheBoard) -> dict[str, Any]:
    """List the problems of the cluster, the worst first, if the dashboard was started for one."""
    if board.problems is None:
        raise HTTPException(404, "problems are not shown by this service")
    with _told():
        return await board.problems.list()


@cluster_router.get("/occurrences", dependencies=[Depends(_own_page)])
async def occurrences(board: TheBoard, informer: Informer, key: str) -> dict[str, Any]:
    """Return the Events of an object. Events are followed from the first request on."""
    with _told():
        name = await board.follow(EVENTS)
    events = board.informers[name]
    obj = informer.indexer.get_by_key(key)
    kind = obj.kind if obj is not None else next((first.kind for first in informer.indexer.sample(1)), "")
    health = events.health()
    return {
        "resource": name,
        "synced": health.synced,
        "error": error_text(health.last_error),
        "items": occurrences_of(events, kind, key, obj.uid if obj is not None else ""),
    }


@cluster_router.get("/logs", dependencies=[Depends(_own_page)], response_class=Response)
async def logs(
    board: TheBoard,
    key: str,
    container: str | None = None,
    previous: bool = False,
    tail: Annotated[int, Query(ge=0, le=10_000)] = 1000,
) -> Response:
    """Stream the log of a container, if the dashboard was started for a cluster. A service shows no logs.

    Each line of the response is a JSON document.
    """
    if board.logs is None:
        raise HTTPException(404, "logs are not shown by this service")
    if board.logs.is_full:
        raise HTTPException(503, "too many logs are open: close one, and open this one again")
    with _told():
        return board.logs.read(key, container=container, previous=previous, tail=tail)


@contextmanager
def _told() -> Iterator[None]:
    """Respond with 404 if the server has no such resource, and with 502 for its other failures."""
    try:
        yield
    except ConfigError as error:
        raise HTTPException(404, str(error)) from error
    except KinformerError as error:
        raise HTTPException(502, str(error)) from error


# FastAPI runs plain functions in a worker thread. The endpoints below read every key of a cache, or decode objects: a
# megabyte of YAML takes seconds. Caches are safe to read from any thread.


@cluster_router.get("/counts")
def counts(board: TheBoard) -> dict[str, dict[str, Any]]:
    """Count the objects of each resource, in total and by namespace."""
    return {name: _counts(informer) for name, informer in board.informers.items()}


@cluster_router.get("/objects", response_class=Response)
def objects(informer: Informer, namespace: str = "", selector: str = "", node: str = "", owner: str = "") -> Response:
    """List objects of a resource by namespace, labels, node (pods) and owner (`uid`, or `namespace/Kind/name`)."""
    try:
        selected = _select(informer, namespace=namespace, selector=selector, node=node, owner=owner)
    except SelectorError as error:
        raise HTTPException(400, str(error)) from error
    return list_response([showable(obj) for obj in selected])


@cluster_router.get("/object", response_class=Response)
def object_(obj: Opened, format: Literal["json", "yaml"] = "json") -> Response:  # noqa: A002
    """Return one object by its key. In YAML form, objects over 64 KB are sent as indented JSON, which is valid YAML.

    With `last`, an object that was deleted is returned in its last state, as long as its changes are kept.
    """
    shown = showable(obj)
    if format == "json":
        return object_response(shown)
    return Response(_as_yaml(shown), media_type="text/plain; charset=utf-8")


@cluster_router.get("/changes", response_class=Response)
def changes(board: TheBoard, resource: str, key: str) -> Response:
    """List the latest changes of one object, newest first, even if it has been deleted."""
    return Response(msgspec.json.encode(changes_of(board.changes, resource, key)), media_type="application/json")


@cluster_router.get("/timeline")
def timeline(board: TheBoard, after: int = 0, noise: bool = False) -> dict[str, Any]:
    """List the changes of all resources after a number, oldest first, without their differences."""
    return timeline_of(board.changes, after=after, noise=noise)


@cluster_router.get("/change")
def change(board: TheBoard, number: int) -> dict[str, Any]:
    """Return one change of the timeline, with its differences."""
    kept = change_of(board.changes, number)
    if kept is None:
        raise HTTPException(404, "this change is no longer kept")
    return kept


def _object(informer: SharedInformer, key: str) -> KubeObject:
    obj: KubeObject | None = informer.indexer.get_by_key(key)
    if obj is None:
        raise HTTPException(404, f"{informer.name} has no object {key}")
    return obj


def _select(informer: SharedInformer, *, namespace: str, selector: str, node: str, owner: str) -> list[KubeObject]:
    selected: list[KubeObject] = informer.lister.list(selector or None, namespace=namespace or None)
    for index, value in ((NODE_INDEX, node), (OWNER_INDEX, owner)):
        if value:
            if index == NODE_INDEX and not informer.name.startswith("v1/pods"):
                raise HTTPException(400, "only pods can be selected by node")
            keys = {obj.key for obj in informer.indexer.by_index(index, value)}
            selected = [obj for obj in selected if obj.key in keys]
    return selected


def _counts(informer: SharedInformer) -> dict[str, Any]:
    indexer = informer.indexer
    by_namespace = {name: len(indexer.index_keys("namespace", name)) for name in indexer.index_values("namespace")}
    by_namespace.pop("", None)
    return {"objects": len(informer.lister), "namespaces": dict(sorted(by_namespace.items()))}


if TYPE_CHECKING:
    _SafeDumper = yaml.SafeDumper
else:
    _SafeDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):
    """Writes multi-line strings as blocks."""

    def represent_text(self, text: str) -> yaml.Node:
        """Represent a string. PyYAML falls back to quotes if a block cannot represent it."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def _as_yaml(obj: KubeObject) -> bytes | str:
    raw = obj.raw
    try:
        if len(raw) > _LONGEST_YAML:
            return msgspec.json.format(raw, indent=2)
        return str(yaml.dump(obj.to_dict(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))
    except (DecodeError, RecursionError):  # nested too deeply to convert
        return raw


# --- the page -----------------------------------------------------------------------------------------------------


def _page() -> dict[str, tuple[bytes, str, str]]:
    """Return the content, type and ETag of each file of the page, by path."""
    assets = {}
    for file in (files("kinformer.cli.dashboard") / "page").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            assets["" if file.name == "index.html" else f"page/{file.name}"] = (content, kind, tag)
    return assets


def _static(content: bytes, kind: str, tag: str) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=f"{kind}; charset=utf-8", headers=headers)

    return answer
