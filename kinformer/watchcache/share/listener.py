"""The listener of a holder: answers the handshakes, lists and watches of the followers on the socket.

A follower reads by the rights of the holder's client. So each request must come from a process of the same uid, and a
session begins only if the server sees both processes as the same user of the same cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from aiohttp import ClientConnectionError, web

from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import wait_for_end
from kinformer.client.client import Client
from kinformer.connection.config import VERSION
from kinformer.exceptions import (
    APIError,
    ConfigError,
    ConnectError,
    ForbiddenError,
    KinformerError,
    NotWatchableError,
    ScopeError,
    UnauthorizedError,
    describe,
)
from kinformer.listening.aiohttp_server import HTTPListener, server_options
from kinformer.listening.connections import Connections
from kinformer.watchcache.share.identity import Account
from kinformer.watchcache.share.kept import LOST, KeptCaches
from kinformer.watchcache.share.key import SourceKey
from kinformer.watchcache.share.lock import closed_in_children
from kinformer.watchcache.share.socket_path import SocketPath, peer_uid

__all__ = ["HEARTBEAT", "PROTOCOL", "SESSION", "YIELD", "HolderSocket"]

log = get_logger("kinformer.share")

PROTOCOL = "2"
"""The version of what a follower and its holder say to each other, besides the Kubernetes API."""

SESSION = "/kinformer/session"
YIELD = "/kinformer/yield"
"""Asks the holder with the given `pid` to let another process hold the cache."""
HEARTBEAT = 1.0
"""Seconds between two signs of life of a holder."""

_CONNECTIONS = 10_000  # one for each watch of each follower
_UNAVAILABLE = 503
_LAST = 0.5  # seconds for requests that came last and are refused. aiohttp would wait without an end for 0


class HolderSocket:
    """The socket of a holder, from `start` to `close`.

    Args:
        path: The path. The caller holds the lock beside it.
        client: The client for the server.
        identity: The identity of the holder.
        caches: The caches that answer.
        on_refused: Called when the server has refused a request that was passed on with 401 or 403.

    Attributes:
        is_asked_to_yield: True once a follower has asked for another holder, because it reaches the server.
    """

    is_asked_to_yield = False

    def __init__(
        self,
        path: SocketPath,
        client: Client,
        identity: Account,
        caches: KeptCaches,
        on_refused: Callable[[], None],
    ) -> None:
        self._path = path
        self._client = client
        self._identity = identity
        self._caches = caches
        self._on_refused = on_refused
        self._inode: tuple[int, int] | None = None  # of the socket, from `start` on
        self._handling: set[asyncio.Task[object]] = set()  # of the requests that are being answered
        self._is_closing = False
        connections = Connections(most=_CONNECTIONS, share=0.5, unread=None)
        self._listener = HTTPListener(web.Server(self._handle, **server_options()), connections)
        self._forget: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError, UnreachableError: The path cannot be bound.
        """
        made = self._path.bind()
        self._inode = self._path.inode()
        descriptor = made.fileno()
        await self._listener.listen_unix(made)
        self._forget()
        self._forget = closed_in_children(descriptor)

    async def listen_again(self) -> None:
        """Listen on a new socket if this one was removed or replaced at its path. The connections stay.

        Raises:
            OSError, UnreachableError: The path cannot be bound.
        """
        if self._path.inode() != self._inode:
            await self.start()

    def leave(self) -> None:
        """Accept no further connection. Another process may then take the lock and listen."""
        self._forget()
        self._listener.leave()
        if self._inode is not None:
            self._path.remove(self._inode)

    async def close(self) -> None:
        """End all requests and connections."""
        self.leave()
        self._is_closing = True
        for task in self._handling:
            task.cancel()
        await wait_for_end(tuple(self._handling))
        await self._listener.close(_LAST)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        if self._is_closing:  # its connection was accepted before the end
            return _refused(_UNAVAILABLE, "ServiceUnavailable", "this holder of the cache is ending")
        self._handling.add(task)
        try:
            with Connections.request():
                return await self._answer(request)
        except APIError as error:
            return _refused(error.status, error.reason, error.message)
        except NotWatchableError as error:
            return _refused(405, "MethodNotAllowed", str(error))
        except ScopeError as error:
            return _refused(404, "NotFound", str(error))
        except ConfigError as error:
            return _refused(400, "BadRequest", str(error))
        except ClientConnectionError:
            return web.Response()  # nobody reads it: the follower has ended
        except (KinformerError, TimeoutError) as error:
            return _refused(_UNAVAILABLE, "ServiceUnavailable", describe(error))
        finally:
            self._handling.discard(task)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        peer = request.transport.get_extra_info("socket") if request.transport is not None else None
        uid = None if peer is None else peer_uid(peer)
        if uid is not None and uid != os.geteuid():
            return _refused(403, "Forbidden", f"the cache belongs to uid {os.geteuid()}, and this is uid {uid}")
        if request.path == SESSION:
            return await self._keep_session(request)
        if request.path == YIELD:
            # Of several followers, the last ones may ask the next holder.
            self.is_asked_to_yield |= request.query.get("pid") == str(os.getpid()) and LOST in self._caches.down()
            return web.Response()
        if request.method != "GET":
            return _refused(405, "MethodNotAllowed", "a shared cache is only read")
        key = SourceKey.of_request(request.path, request.query, request.headers.get("Accept", ""))
        async with self._caches.using(key) as kept:
            if "watch" in request.query:
                await kept.catch_up(request.query.get("resourceVersion", ""))
            query = SourceKey.without_selection(request.query)
            # A BaseRequest has all that is read of a Request.
            asked = cast("web.Request", request.clone(rel_url=request.rel_url.with_query(query)))
            response = await kept.cache.respond(asked, namespace=key.namespace or "")
            return await self._pass_on(request) if response is None else response

    async def _keep_session(self, request: web.BaseRequest) -> web.StreamResponse:
        if (asked := request.query.get("protocol", "")) != PROTOCOL:
            theirs, ours = request.query.get("version", "?"), VERSION
            return _refused(
                409,
                "Conflict",
                f"the holder is kinformer {ours} with protocol {PROTOCOL}, and this is kinformer {theirs} with "
                f"protocol {asked or '?'}; restart the older one",
            )
        refusal = self._identity.refusal(Account.from_params(request.query))
        if refusal:
            return _refused(409, "Conflict", refusal)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        hello = {"pid": os.getpid(), "version": VERSION, "cluster": self._identity.cluster}
        with suppress(ConnectionError):  # the follower has ended
            await response.write(json.dumps(hello).encode() + b"\n")
            while True:
                await asyncio.sleep(HEARTBEAT)
                await response.write(json.dumps(self._caches.down()).encode() + b"\n")
        return response

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        """Have the server answer a request that the cache cannot answer now."""
        query = SourceKey.for_server(request.query)
        accept = request.headers.get("Accept", "application/json")
        is_watch = query.get("watch") in ("1", "true")
        try:
            async with self._client.stream(request.path, query, accept=accept, watch=is_watch) as body:
                response = web.StreamResponse(headers={"Content-Type": body.headers.get("Content-Type", "")})
                await response.prepare(request)
                async for chunk in body:
                    await response.write(chunk)
                return response
        except (ForbiddenError, UnauthorizedError):
            self._on_refused()
            raise
        except ConnectError as error:
            return _refused(_UNAVAILABLE, "ServiceUnavailable", str(error))


def _refused(status: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    return web.json_response({**body, "code": status}, status=status)
