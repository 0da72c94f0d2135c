"""HTTP to one server: sessions, TLS, credentials, and handling of network failures.

It uses its own sessions instead of `ApiClient.call_api` for three reasons. The ApiClient's pool has 100 slots for
everything, so 100 open watches block the next call forever. It builds its TLS context on the event loop (54 ms). It
looks for `~/.netrc` and the proxy variables in threads before every request (measured on loopback, including the
server: 2.1 ms per request, against 0.6 ms here).
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TypedDict, cast
from urllib.parse import quote, unquote

import aiohttp
import anyio.to_thread
import msgspec
from multidict import CIMultiDict
from yarl import URL

from kinformer._runtime.fence import unfenced
from kinformer.connection.aiohttp_internals import (
    Connecting,
    abort_on_cancel,
    keepalive_socket,
    on_a_current_connection,
    request_class,
)
from kinformer.connection.body import Body
from kinformer.connection.config import Compression, ConnectionSettings, accepted_encoding
from kinformer.connection.responses import reason_of
from kinformer.connection.showable import showable_url
from kinformer.connection.tls import TLSMaterials
from kinformer.exceptions import ConfigError, ConnectError, CredentialError
from kinformer.objects.object import KubeObject
from kinformer.objects.requests.encoding import encode_in_slices

__all__ = ["Body", "Transport", "encode_body", "request_url", "shown_path"]

_UNARY_CONNECTIONS = 100  # concurrent requests besides streams, the same limit as in kubernetes_asyncio
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # header fields that aiohttp adds
_READ_BUFFER = 256 * 1024  # bytes read ahead. Larger chunks mean fewer wake-ups. 256 KiB decode in a millisecond

Headers = Mapping[str, str] | Sequence[tuple[str, str]]


class _DisconnectedError(aiohttp.ClientError):
    """The connection was lost before a response. Not aiohttp's exception, for which it also retries PUT and DELETE."""


class _Arguments(TypedDict, total=False):
    """The arguments of aiohttp's `request` that only some connections need."""

    proxy: URL
    proxy_headers: Mapping[str, str]
    server_hostname: str
    auto_decompress: bool
    skip_auto_headers: Sequence[str]


class Transport:
    """The sessions to one server.

    Requests and streams have separate pools. The pool of streams is unlimited. Sockets have TCP keep-alive. The
    transport must be opened and closed on the same event loop.

    Args:
        connection: The server and the credentials.
        user_agent: The `User-Agent` to send.
        compression: The compression of responses. See `Client`. The headers of a request may override it.
    """

    def __init__(self, connection: ConnectionSettings, *, user_agent: str, compression: Compression = "auto") -> None:
        self.connection = connection
        self.user_agent = user_agent
        self.authorization: str | None = None  # the first one. None: no such header is sent
        self.encoding = accepted_encoding(compression, connection)
        self._headers = [("User-Agent", user_agent), ("Accept-Encoding", self.encoding), *connection.headers]
        self._tls = TLSMaterials(connection) if connection.server.startswith("https:") else None
        self._sessions: _Sessions | None = None  # from `open` to `close`

    def __repr__(self) -> str:
        return f"<Transport {self.connection.server}>"

    async def open(self) -> None:
        """Get the first credential, and build the TLS context, in a thread because it takes up to 60 ms.

        Raises:
            ConfigError: A credential, certificate or key cannot be loaded. The message names file and field.
        """
        try:
            self.authorization = await self.connection.credential.authorization()
            context: ssl.SSLContext | bool = True
            if self._tls is not None:
                context = await anyio.to_thread.run_sync(self._tls.build)
        except BaseException:
            await self.connection.credential.close()
            raise
        self._sessions = _Sessions.open(context, self.connection.socket)

    async def close(self) -> None:
        """Close all connections, which ends open streams, and stop a renewal that no task waits for."""
        sessions, self._sessions = self._sessions, None
        try:
            if sessions is not None:
                await sessions.close()
        finally:
            await self.connection.credential.close()

    def url(self, path: str) -> str:
        """Return the URL of a path without its query, for errors."""
        return f"{self.connection.server}{shown_path(path)}"

    @property
    def host(self) -> str:
        """Host and port of the server."""
        url = URL(self.connection.server)
        return f"{url.host}:{url.port}"

    @property
    def connector(self) -> aiohttp.TCPConnector:
        """The pool of requests with its TLS context, for other sessions that share it (`connector_owner=False`)."""
        return cast("aiohttp.TCPConnector", self._opened().unary.connector)

    @property
    def connecting(self) -> Connecting:
        """The middleware needed by sessions that share the pool."""
        return self._opened().connecting

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Headers = (),
        data: bytes | None = None,
        stream: bool = False,
        cut_is_end: bool = False,
    ) -> Body:
        """Send one request.

        Returns its body once the head of the response has arrived, whatever the status. Close the body.

        A 401 renews the credential, and the request is sent once more if the new credential differs from the one sent.
        A connection with an older client certificate is not used again. A GET on a pooled connection that turns out to
        be dead is retried once, on a new connection. Nothing else is retried. Redirects are not followed. There is no
        time limit. Cancelling closes the connection.

        Raises:
            ConnectError: There was no response.
            CredentialError: The credential is due for renewal, and the new one cannot be loaded.
            Exception: The exception of a lapsed fence. Nothing was sent. A stream only reads, and needs no fence.
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
        headers: Headers,
        data: bytes | None,
        session: aiohttp.ClientSession,
        cut_is_end: bool,
    ) -> Body:
        url = request_url(self.connection.server, path, params, method=method)
        request = _Request(method, url, CIMultiDict(), data, self._arguments())
        response = await self._authorized(request, session, lambda sent: self._with(headers, sent))
        reason = self.connection.credential.failure if response.status == 401 else ""
        return Body(response, f"{method} {self._place(url.path)}", cut_is_end=cut_is_end, reason=reason)

    async def forward(self, method: str, target: str, headers: CIMultiDict[str]) -> aiohttp.ClientResponse:
        """Send a read of another client, and return its response, whose body is not read or decompressed.

        Args:
            method: GET or HEAD.
            target: The path and the query, exactly as they are sent.
            headers: The only header fields, besides the credentials that are added.

        Raises:
            CredentialError: The server responded with 401, and the last renewal of the credential failed.
        """

        def authorized(sent: str | None) -> CIMultiDict[str]:
            merged = CIMultiDict(headers)
            merged.extend(self.connection.headers)
            if sent:
                merged["Authorization"] = sent
            return merged

        url = URL(self.connection.server + target, encoded=True)
        arguments: _Arguments = {**self._arguments(), "auto_decompress": False, "skip_auto_headers": _AUTOMATIC}
        request = _Request(method, url, CIMultiDict(), None, arguments)
        response = await self._authorized(request, self._opened().streams, authorized)
        if response.status == 401 and (reason := self.connection.credential.failure):
            response.close()
            raise CredentialError(reason)
        return response

    async def _authorized(
        self,
        request: _Request,
        session: aiohttp.ClientSession,
        headers: Callable[[str | None], CIMultiDict[str]],
    ) -> aiohttp.ClientResponse:
        """Send a request with the headers for the current credential, and again if a 401 brings a newer one."""
        credential = self.connection.credential
        generation = self._generation()  # of the certificates. A connection opened later may have a newer one
        sent = await credential.authorization()
        request.headers = headers(sent)
        response = await self._attempt(request, session)
        if response.status == 401:
            try:
                await credential.renew()
                renewed = await credential.authorization()
                is_newer = await self._reloaded_since(generation) or renewed != sent
            except BaseException:
                response.close()
                raise
            if is_newer:
                response.close()
                request.headers = headers(renewed)
                response = await self._attempt(request, session)
        return response

    async def _attempt(self, request: _Request, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        generation = self._generation()
        try:
            try:
                return await request.send(session)
            except _DisconnectedError:
                if request.method != "GET":
                    raise
                return await request.send(self._opened().fresh)
            except aiohttp.ClientConnectorCertificateError:
                # The authorities may have been replaced, as the kubelet does with ca.crt.
                if not await self._reloaded_since(generation):
                    raise
                return await request.send(self._opened().fresh)
        except aiohttp.ClientResponseError as error:
            # Without the cause, because its repr contains the request's headers, and so the token.
            message = f"{request.method} {self._place(request.url.path)}: {error.message or type(error).__name__}"
            raise ConnectError(message) from None
        except (aiohttp.ClientError, OSError) as error:
            message = f"{request.method} {self._place(request.url.path)}: {reason_of(error)}"
            is_lost = isinstance(error, _DisconnectedError)
            raise (ConnectError.of_lost_connection(message) if is_lost else ConnectError(message)) from None

    def _generation(self) -> int:
        return self._tls.generation if self._tls is not None else 0

    async def _reloaded_since(self, generation: int) -> bool:
        # If many requests are rejected at once, the first one reloads the files, and all see the new generation.
        if self._tls is not None:
            await anyio.to_thread.run_sync(self._tls.reload)
        return self._generation() != generation

    def _opened(self) -> _Sessions:
        if self._sessions is None:
            raise RuntimeError("the client is not open; use it inside `async with`")
        return self._sessions

    def _place(self, path: str) -> str:
        url = URL(self.connection.server)
        prefix = url.path.rstrip("/")
        return f"{url.host}:{url.port}{path if prefix and path.startswith(prefix) else prefix + path}"

    def _with(self, headers: Headers, authorization: str | None) -> CIMultiDict[str]:
        merged: CIMultiDict[str] = CIMultiDict(self._headers)
        if authorization:
            merged["Authorization"] = authorization
        merged.update(headers)
        return merged

    def _arguments(self) -> _Arguments:
        arguments: _Arguments = {}
        if self.connection.proxy:
            proxy = URL(self.connection.proxy)
            arguments["proxy"] = proxy.with_user(None)
            if proxy.user is not None:  # aiohttp would encode it as Latin-1, and renames this to Proxy-Authorization
                pair = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
                arguments["proxy_headers"] = {"Authorization": f"Basic {pair}"}
        if self.connection.tls.server_name and self._tls is not None:
            arguments["server_hostname"] = self.connection.tls.server_name
        return arguments


@dataclass(slots=True)
class _Request:
    method: str
    url: URL
    headers: CIMultiDict[str] = field(repr=False)
    data: bytes | None = field(repr=False)
    arguments: _Arguments = field(repr=False)

    async def send(self, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        with abort_on_cancel():
            return await session.request(
                self.method, self.url, headers=self.headers, data=self.data, allow_redirects=False, **self.arguments
            )


class _Sessions(msgspec.Struct):
    unary: aiohttp.ClientSession
    streams: aiohttp.ClientSession
    fresh: aiohttp.ClientSession  # never reuses a connection
    connecting: Connecting

    @classmethod
    def open(cls, context: ssl.SSLContext | bool, socket: str | None = None) -> _Sessions:
        connecting = Connecting()

        def session(limit: int, *, force_close: bool = False) -> aiohttp.ClientSession:
            if socket is not None:
                connector: aiohttp.BaseConnector = aiohttp.UnixConnector(socket, limit=limit, force_close=force_close)
            else:
                connector = aiohttp.TCPConnector(
                    ssl=context, socket_factory=keepalive_socket, limit=limit, force_close=force_close
                )
            return aiohttp.ClientSession(
                connector=connector,
                # Only the caller knows a suitable timeout. The default would cut each watch after five minutes.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=(_no_silent_repeat, on_a_current_connection, connecting),
                request_class=request_class(),
                read_bufsize=_READ_BUFFER,
            )

        return cls(session(_UNARY_CONNECTIONS), session(0), session(0, force_close=True), connecting)

    async def close(self) -> None:
        async with AsyncExitStack() as stack:  # if closing one is cancelled, the others are still closed
            for session in (self.unary, self.streams, self.fresh):
                stack.push_async_callback(session.close)
        await self.connecting.settle()  # lets the loop close aborted connections


async def _no_silent_repeat(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _DisconnectedError(_ended(error)) from error


def _ended(error: Exception) -> str:
    # aiohttp's message for a connection that was closed cleanly before a response is not helpful.
    return reason_of(error) if isinstance(error, aiohttp.ClientOSError) else "the server closed the connection"


async def encode_body(method: str, body: object) -> tuple[bytes | None, str]:
    """Return the bytes to send and their Content-Type.

    Raises:
        TypeError: The body cannot be sent as JSON. The message names the path.
    """
    if body is None:
        return None, ""
    if isinstance(body, KubeObject):
        data = body.raw
    elif isinstance(body, bytes | bytearray | memoryview):
        data = bytes(body)
    elif isinstance(body, str):
        raise TypeError("the body must be a dict, a KubeObject or bytes, got a str")
    else:
        try:
            data = await encode_in_slices(body)
        except TypeError as error:
            raise TypeError(f"a body of type {type(body).__name__} cannot be sent as JSON: {error}") from error
    if method != "PATCH":
        return data, "application/json"
    is_list = data.lstrip()[:1] == b"["
    return data, f"application/{'json-patch' if is_list else 'merge-patch'}+json"


# --- URLs -----------------------------------------------------------------------------------------------------------
#
# A path is sent as it is written, or refused. URL libraries remove `.` and `..`, and servers treat an empty name as the
# collection. So a name from an object's spec could make a request for one object a request for all of them.

# Everything that a path or a query may contain unquoted (RFC 3986), and `%`, since the path may be quoted already.
_AS_WRITTEN = "/:@!$&'()*+,;=~%?"


def request_url(server: str, path: str, params: Mapping[str, str] | None = None, *, method: str = "GET") -> URL:
    """Return the URL of a path below the URL of a server.

    Args:
        server: The server's URL, which may have a path of its own.
        path: The path, and perhaps a query. Segments are expected in quoted form. Characters that no URL may contain
            are quoted.
        params: Query parameters, in addition to those in `path`.
        method: Writes are also refused with a trailing slash, which means the collection to a server.

    Raises:
        ConfigError: The path does not begin with a slash, or a segment is empty, `.` or `..`, in quoted form too.
    """
    wrong = _fault(path, method)
    if wrong:
        raise ConfigError(f"invalid path {shown_path(path)!r}: {wrong}")
    try:
        written = quote(path, safe=_AS_WRITTEN)
    except UnicodeEncodeError as error:
        raise ConfigError(f"invalid path {shown_path(path)!r}: {error.reason}") from None
    url = URL(str(URL(server)).rstrip("/") + written, encoded=True)
    return url.update_query(params) if params else url


def shown_path(path: str) -> str:
    """Return a path as messages show it: without its query, which may contain a token."""
    return showable_url(path) if "://" in path else path.partition("?")[0]


def _fault(path: str, method: str) -> str:
    if not path.startswith("/"):
        return "must begin with a slash"
    segments = [unquote(segment) for segment in path.partition("?")[0].split("/")[1:]]
    if any(segment in (".", "..") for segment in segments):
        return "a segment '.' or '..' would make it another path"
    if "" in segments[:-1] or (segments[-1] == "" and method not in ("GET", "HEAD")):
        return "a segment is empty, as if a name were missing"
    return ""
