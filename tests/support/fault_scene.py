"""An informer under a fault, with its server, its client and a handler that mirrors it, and checks that they agree.

Two kinds of server: `scene` has the embedded API server, whose state is the truth; `wire` says what each request is
answered, byte by byte, for faults that no true server has on request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kinformer import Backoff, Client, ListWatch, SharedInformer
from kinformer.testing import APIServer
from tests.support.http_server import HttpServer, json_answer, line, status_answer
from tests.support.kube import config_map
from tests.support.mirror import Mirror
from tests.support.waiting import until

RESOURCE = "v1/configmaps"
EVEN = Backoff(jitter=0)


@dataclass
class Watched:
    """An informer, its client, and the handler that mirrors it."""

    client: Client
    informer: SharedInformer
    mirror: Mirror
    errors: list[BaseException]

    @property
    def health(self) -> Any:
        return self.informer.health()

    @property
    def relists(self) -> dict[str, int]:
        return dict(self.informer.statistics().relists)

    @property
    def cached(self) -> dict[str, tuple[str, str]]:
        return {obj.key: (obj.uid, obj.resource_version) for obj in self.informer.lister}

    @property
    def kinds(self) -> list[str]:
        """The types of the errors that `on_error` was told of, each once."""
        return list(dict.fromkeys(type(error).__name__ for error in self.errors))

    async def until(self, condition: Callable[[], Any], seconds: float = 30.0, *, what: str = "") -> None:
        def told() -> str:
            return f"{what or 'it'}: {self.health}, {self.relists}, {self.errors}, {self.mirror.calls}"

        await until(condition, seconds, what=told)

    async def check_mirror(self) -> None:
        """Check that the handler was told of what the cache holds, by calls that do not contradict one another.

        The cache is first, so this waits until the handler has nothing left to be told.
        """
        await self.until(lambda: not self.informer.statistics().pending["mirror"], what="the handler")
        await asyncio.sleep(0)
        assert self.mirror.known == self.cached
        assert self.mirror.wrong == []
        assert self.informer.statistics().handler_errors == 0


@asynccontextmanager
async def _watched(client: Client, source: Any, **options: Any) -> AsyncIterator[Watched]:
    errors: list[BaseException] = []
    options = {"backoff": EVEN, "on_error": lambda _, error: errors.append(error)} | options
    mirror = Mirror()
    async with SharedInformer(source, **options) as informer:
        informer.add_event_handler(mirror, name="mirror")
        yield Watched(client, informer, mirror, errors)


# --- on the embedded server ------------------------------------------------------------------------------------------


@dataclass
class Scene(Watched):
    server: APIServer = field(kw_only=True)
    resource: str = field(kw_only=True)

    def put(self, name: str, value: str = "1", **more: Any) -> str:
        """Create or change a config map; return its new resourceVersion."""
        document = config_map(name, data={"v": value}, **more)
        known = self.server.get(RESOURCE, "default", name) is not None
        written = self.server.update(document) if known else self.server.create(document)
        version: str = written["metadata"]["resourceVersion"]
        return version

    def drop(self, name: str) -> None:
        self.server.delete(RESOURCE, "default", name)

    @property
    def truth(self) -> dict[str, tuple[str, str]]:
        objects = self.server.list(self.resource, "default")
        metadata = [obj["metadata"] for obj in objects]
        return {f"{m['namespace']}/{m['name']}": (m["uid"], m["resourceVersion"]) for m in metadata}

    async def in_step(self, seconds: float = 30.0) -> None:
        """Wait until the cache is live and equals the server, and the handler the cache."""
        await self.until(
            lambda: self.health.live and self.cached == self.truth,
            seconds,
            what=f"the truth {self.truth}, beside {self.cached},",
        )
        await self.check_mirror()

    def asked(self, verb: str) -> list[dict[str, str]]:
        """Return the parameters of the requests so far, `"list"` or `"watch"`; a question for the tip is neither."""
        plural = self.resource.rpartition("/")[2]
        found = [dict(request.params) for request in self.server.requests if request.path.endswith(f"/{plural}")]
        if verb == "watch":
            return [params for params in found if "watch" in params]
        return [params for params in found if "watch" not in params and params.get("limit") != "1"]


@asynccontextmanager
async def scene(
    *names: str,
    server: APIServer | None = None,
    user: str | None = None,
    source: dict[str, Any] | None = None,
    resource: str = RESOURCE,
    synced: bool = True,
    **options: Any,
) -> AsyncIterator[Scene]:
    """An informer of the config maps in the namespace default, of which `names` are there to begin with.

    A `server` that is given has been entered, and is not left here.
    """
    async with APIServer() if server is None else nullcontext(server) as running:
        for name in names:
            running.create(config_map(name, data={"v": "0"}))
        async with running.client(user) as client:
            lister_watcher = ListWatch(client, resource, namespace="default", **(source or {}))
            async with _watched(client, lister_watcher, **options) as watched:
                parts = (watched.client, watched.informer, watched.mirror, watched.errors)
                entered = Scene(*parts, server=running, resource=resource)
                if synced:
                    await watched.informer.wait_synced(timeout=300)
                    await entered.until(lambda: entered.health.live)
                yield entered


# --- on a server that says what it is told to ------------------------------------------------------------------------

HANG = "hang"  # nothing more is sent, and the connection stays
CUT = "cut"  # the connection is closed where the body would go on
Piece = bytes | float | str


@dataclass
class Reply:
    """An answer: pieces of its body, seconds between them, `HANG` or `CUT`; it ends in order after the last."""

    pieces: Sequence[Piece] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    async def give(self, request: web.Request) -> web.StreamResponse:
        headers = {"Content-Type": "application/json"} | self.headers
        response = web.StreamResponse(status=self.status, headers=headers)
        await response.prepare(request)
        for piece in self.pieces:
            if isinstance(piece, bytes):
                await response.write(piece)
                await asyncio.sleep(0)
            elif piece == HANG:
                await asyncio.Event().wait()
            elif piece == CUT:
                assert request.transport is not None
                request.transport.close()
                return response
            else:
                assert isinstance(piece, float)
                await asyncio.sleep(piece)
        await response.write_eof()
        return response


def listed(*objects: dict[str, Any], rv: int | str, **metadata: str) -> Reply:
    """A LIST of config maps."""
    document = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": str(rv), **metadata}}
    return Reply([json.dumps({**document, "items": list(objects)}).encode()])


def event(kind: str, name: str, rv: int, **fields: Any) -> bytes:
    """A line about a config map."""
    return line(kind, config_map(name, rv=rv, **fields))


def mark(rv: int, *, end: bool = False) -> bytes:
    """A BOOKMARK; `end`: the one behind the initial events."""
    metadata: dict[str, Any] = {"resourceVersion": str(rv)}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return line("BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})


@dataclass
class Wire(Watched):
    server: HttpServer = field(kw_only=True)

    def asked(self, verb: str) -> list[dict[str, str]]:
        """As `Scene.asked`."""
        queries = [dict(request.query) for request in self.server.requests if request.path.endswith("/configmaps")]
        if verb == "watch":
            return [query for query in queries if "watch" in query]
        return [query for query in queries if "watch" not in query and query.get("limit") != "1"]


@asynccontextmanager
async def wire(
    lists: Sequence[Reply],
    watches: Sequence[Reply] = (),
    *,
    tip: str | None = None,
    source: dict[str, Any] | None = None,
    synced: bool = True,
    **options: Any,
) -> AsyncIterator[Wire]:
    """An informer of config maps whose requests get these answers; lists repeat their last, watches then stay silent.

    `tip` is the resourceVersion of a LIST of one item; None: such a request is a 403.
    """
    lists, watches = list(lists), list(watches)

    async def answer(request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/configmaps"):
            return status_answer(404, "NotFound")
        if "watch" in request.query:
            return await (watches.pop(0) if watches else Reply([HANG])).give(request)
        if request.query.get("limit") == "1":
            return status_answer(403, "Forbidden") if tip is None else json_answer(_empty(tip))
        return await (lists.pop(0) if len(lists) > 1 else lists[0]).give(request)

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        lister_watcher = ListWatch(client, RESOURCE, namespace="default", **(source or {}))
        async with _watched(client, lister_watcher, **{"watch_list": False} | options) as watched:
            entered = Wire(watched.client, watched.informer, watched.mirror, watched.errors, server=server)
            if synced:
                await watched.informer.wait_synced(timeout=300)
            yield entered


def _empty(version: str) -> dict[str, Any]:
    return {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": []}
