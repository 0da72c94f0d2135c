"""HTTP to one server: sessions, TLS, credentials, and the first line of defence against a bad network.

Sessions of kinformer's own, and not `ApiClient.call_api`: the pool there has 100 slots for everything, so that
100 open watches hang the next call for ever; it builds its TLS context on the loop (54 ms); and it looks for
`~/.netrc` and the proxy variables in threads before every request (measured on loopback, with the server's part:
2.1 ms a request, 0.6 ms here).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
import anyio.to_thread
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from kinformer._runtime.fence import check_fences, unfenced
from kinformer.client.aiohttp_internals import Connecting, keepalive_socket, without_farewell
from kinformer.client.body import Body
from kinformer.client.config import Compression, Connection, accepted_encoding
from kinformer.client.responses import reason_of
from kinformer.client.tls import TLSMaterials, is_outdated
from kinformer.exceptions import ConnectError, KinformerError

__all__ = ["Body", "FencedRequest", "Transport", "on_a_current_connection"]

_UNARY_CONNECTIONS = 100  # what one process may ask at a time beside its streams; kubernetes_asyncio's number
_READ_BUFFER = 256 * 1024  # bytes read ahead: larger chunks are fewer wake-ups, and 256 KiB decode in a millisecond


class _Disconnected(aiohttp.ClientError):
    """The connection died before an answer. Not the exception of aiohttp, which repeats PUT and DELETE too."""


class _Outdated(Exception):
    """The connection was made before the certificates were replaced. Nothing was sent."""


class Transport:
    """The sessions to one server.

    Requests and streams have pools of their own; that of the streams has no limit. Sockets have TCP keep-alive.
    Must be opened and closed on one loop.

    Args:
        connection: Where to, and as whom.
        user_agent: The `User-Agent` to send.
        compression: Whether answers may come compressed; see `Client`. Headers of a request may ask otherwise.
    """

    def __init__(self, connection: Connection, *, user_agent: str, compression: Compression = "auto") -> None:
        self.connection = connection
        self.user_agent = user_agent
        self.authorization: str | None = None  # the first one; None: this server gets no such header
        self.encoding = accepted_encoding(compression, connection)
        self._headers = [("User-Agent", user_agent), ("Accept-Encoding", self.encoding), *connection.headers]
        self._tls = TLSMaterials(connection) if connection.server.startswith("https:") else None
        self._sessions: _Sessions | None = None

    def __repr__(self) -> str:
        return f"<Transport {self.connection.server}>"

    async def open(self) -> None:
        """Gets the first credential and builds the TLS context, in a thread, for it takes up to 60 ms.

        Raises:
            ConfigError: A credential, certificate or key that cannot be had; the text names file and field.
        """
        try:
            self.authorization = await self.connection.credential.authorization()
            context: ssl.SSLContext | bool = True
            if self._tls is not None:
                context = await anyio.to_thread.run_sync(self._tls.build)
        except BaseException:
            await self.connection.credential.close()
            raise
        self._sessions = _Sessions.open(context)

    async def close(self) -> None:
        """Closes all connections, and ends a renewal that nobody waits for; streams that are still open end."""
        sessions, self._sessions = self._sessions, None
        try:
            if sessions is not None:
                await sessions.close()
        finally:
            await self.connection.credential.close()

    @property
    def connector(self) -> aiohttp.TCPConnector:
        """The pool of the requests, with TLS set up, to be shared with another session (`connector_owner=False`)."""
        return cast("aiohttp.TCPConnector", self._opened().unary.connector)

    @property
    def connecting(self) -> Connecting:
        """What a session that shares the pool needs among its middlewares."""
        return self._opened().connecting

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        data: bytes | None = None,
        stream: bool = False,
        cut_is_end: bool = False,
    ) -> Body:
        """One request; returns once the head of the answer is there, whatever its status. Close what is returned.

        A 401 renews the credential and, if there is another one than was sent, is repeated once; a connection that
        shows the server an older client certificate is not used again. A GET on a pooled connection that turns out to
        be dead is repeated once, on a fresh one; nothing else is repeated. Redirects are not followed. No time limit;
        cancelling closes the connection.

        Raises:
            ConnectError: No answer.
            ConfigError: The credential that is due cannot be had.
            Exception: What a lapsed fence raises; then nothing was sent. A stream, which only reads, needs no right.
        """
        if stream:
            with unfenced():
                return await self._send(method, path, params, headers, data, self._opened().streams, cut_is_end)
        return await self._send(method, path, params, headers, data, self._opened().unary, cut_is_end)

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]],
        data: bytes | None,
        session: aiohttp.ClientSession,
        cut_is_end: bool,
    ) -> Body:
        if not path.startswith("/"):
            raise ValueError(f"a path begins with a slash: {path!r}")
        credential = self.connection.credential
        generation = self._generation()  # of the certificates, at least: a connection may be made after this
        sent = await credential.authorization()
        request = _Request(method, self._url(path, params), self._with(headers, sent), data, self._arguments())
        response = await self._attempt(request, session)
        if response.status == 401:
            await credential.renew()
            renewed = await credential.authorization()
            if await self._reloaded_since(generation) or renewed != sent:
                response.close()
                request.headers = self._with(headers, renewed)
                response = await self._attempt(request, session)
        return Body(response, f"{method} {self._place(request.url.path)}", cut_is_end=cut_is_end)

    async def _attempt(self, request: _Request, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        generation = self._generation()
        try:
            try:
                return await request.send(session)
            except _Disconnected:
                if request.method != "GET":
                    raise
                return await request.send(self._opened().fresh)
            except aiohttp.ClientConnectorCertificateError:
                # The authorities may have been replaced, as the kubelet does with ca.crt.
                if not await self._reloaded_since(generation):
                    raise
                return await request.send(self._opened().fresh)
        except aiohttp.ClientResponseError as error:
            # Without its cause, whose repr holds the request's headers: the token.
            text = f"{request.method} {self._place(request.url.path)}: {error.message or type(error).__name__}"
            raise ConnectError(text) from None
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectError(f"{request.method} {self._place(request.url.path)}: {reason_of(error)}") from error

    def _generation(self) -> int:
        return self._tls.generation if self._tls is not None else 0

    async def _reloaded_since(self, generation: int) -> bool:
        # Of many that are refused at once, one finds the files replaced; it is news for all of them.
        if self._tls is not None:
            await anyio.to_thread.run_sync(self._tls.reload)
        return self._generation() != generation

    def _opened(self) -> _Sessions:
        if self._sessions is None:
            raise RuntimeError("the client is not open; use it within `async with`")
        return self._sessions

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        url = URL(self.connection.server + path)
        return url.update_query(params) if params else url

    def _place(self, path: str) -> str:
        url = URL(self.connection.server)
        prefix = url.path.rstrip("/")
        return f"{url.host}:{url.port}{path if prefix and path.startswith(prefix) else prefix + path}"

    def _with(
        self, headers: Mapping[str, str] | Sequence[tuple[str, str]], authorization: str | None
    ) -> CIMultiDict[str]:
        merged: CIMultiDict[str] = CIMultiDict(self._headers)
        if authorization:
            merged["Authorization"] = authorization
        merged.update(headers)
        return merged

    def _arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self.connection.proxy:
            arguments["proxy"] = self.connection.proxy
        if self.connection.tls.server_name and self._tls is not None:
            arguments["server_hostname"] = self.connection.tls.server_name
        return arguments


@dataclass(slots=True)
class _Request:
    method: str
    url: URL
    headers: CIMultiDict[str]
    data: bytes | None
    arguments: dict[str, Any]

    async def send(self, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        used: list[asyncio.Transport | None] = []
        token = _used.set(used)
        try:
            return await session.request(
                self.method, self.url, headers=self.headers, data=self.data, allow_redirects=False, **self.arguments
            )
        except asyncio.CancelledError:
            for transport in used:
                without_farewell(transport)
            raise
        finally:
            _used.reset(token)


@dataclass(slots=True)
class _Sessions:
    unary: aiohttp.ClientSession
    streams: aiohttp.ClientSession
    fresh: aiohttp.ClientSession  # never reuses a connection
    connecting: Connecting

    @classmethod
    def open(cls, context: ssl.SSLContext | bool) -> _Sessions:
        connecting = Connecting()
        return cls(
            _session(context, connecting, limit=_UNARY_CONNECTIONS),
            _session(context, connecting, limit=0),
            _session(context, connecting, limit=0, force_close=True),
            connecting,
        )

    async def close(self) -> None:
        async with AsyncExitStack() as stack:  # cancelled at one, it still closes the others
            for session in (self.unary, self.streams, self.fresh):
                stack.push_async_callback(session.close)
        await self.connecting.settle()  # and those that have been aborted, in the loop's next turn


# Where the connections of the request under way are noted, for when it is cancelled.
_used: ContextVar[list[asyncio.Transport | None] | None] = ContextVar("_used", default=None)


class FencedRequest(aiohttp.ClientRequest):
    """Asks for the right at the last moment: waiting for a connection may have taken longer than the right lasted.

    Of its connection too; `on_a_current_connection` belongs to it.
    """

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        check_fences()
        if is_outdated(conn.transport):
            without_farewell(conn.transport)
            raise _Outdated
        used = _used.get()
        if used is not None:
            used.append(conn.transport)
        return await super().send(conn)

    async def write_bytes(
        self,
        writer: AbstractStreamWriter,
        conn: aiohttp.connector.Connection,
        content_length: int | None = None,
    ) -> None:
        try:
            check_fences()  # up to Python 3.11 a body is written in a later turn of the loop, and its head with it
        except KinformerError as lapsed:
            if conn.protocol is not None:
                conn.protocol.set_exception(lapsed)
            conn.close()
            return
        await super().write_bytes(writer, conn, content_length)


def _session(context: ssl.SSLContext | bool, connecting: Connecting, **options: Any) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, socket_factory=keepalive_socket, **options),
        # Only the caller knows what is too long; the default would cut each watch after five minutes.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_no_silent_repeat, on_a_current_connection, connecting),
        request_class=FencedRequest,
        read_bufsize=_READ_BUFFER,
    )


async def _no_silent_repeat(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Disconnected(_ended(error)) from error


async def on_a_current_connection(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Middleware: takes the next connection of the pool while those it is given show the server an old certificate."""
    while True:
        try:
            return await handler(request)
        except _Outdated:
            continue


def _ended(error: Exception) -> str:
    # aiohttp's word for a connection that was closed in order, before an answer, names neither.
    return reason_of(error) if isinstance(error, aiohttp.ClientOSError) else "the server closed the connection"
