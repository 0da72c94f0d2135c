"""The connection to one API server: configuration, requests and streams."""

from __future__ import annotations

import ssl as ssl_module
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

import anyio

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.fence import check_fences
from kinformer._runtime.logs import cluster_of
from kinformer._runtime.request_context import note_write
from kinformer._runtime.signatures import shows_options
from kinformer._runtime.tasks import Coro
from kinformer.connection.aiohttp_internals import reads_gzip_members
from kinformer.connection.config import (
    VERSION,
    ClientKeywords,
    ClientOptions,
    ConnectionInfo,
    ConnectionSettings,
    at_once,
    from_url,
    in_thread,
    load_in_cluster,
)
from kinformer.connection.kubeconfig import Kubeconfig, as_source, context_names, load_default, load_kubeconfig
from kinformer.connection.responses import decode_answer, most_bytes
from kinformer.connection.retries import RETRIES, ClientStatistics, Exchange, Sender
from kinformer.connection.single_flight import SingleFlight
from kinformer.connection.transport import Body, Transport, encode_body, shown_path
from kinformer.objects.object import KubeObject

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from multidict import CIMultiDict

    from kinformer.connection.api_client_bridge import ApiClientBridge

__all__ = ["Connection"]

T = TypeVar("T")

_LONG = 65.0  # seconds, more than an API server's own limit of 60
_FLOW_SCHEMA = "X-Kubernetes-PF-FlowSchema-UID"
_REQUEST_TIMEOUT = 30.0  # seconds. An API server aborts a request after 60, and few requests take a second
_HANDLER_THREADS = 40  # the number of threads that anyio allows a loop by default


_UNTRACED: AbstractContextManager[Callable[[int], object]] = nullcontext(lambda status: None)


class Connection:
    """The requests and streams of one API server. See `kinformer.client.Client`, which adds the verbs."""

    def __init__(self, **options: Unpack[ClientKeywords]) -> None:
        self._options = ClientOptions(**options)
        self._load: Callable[[], Awaitable[ConnectionSettings]] = in_thread(load_default)
        # Set on entering. Leaving closes the transport, and forgets the bridge, which is made on first use.
        self._connection: ConnectionSettings | None = None
        self._transport: Transport | None = None
        self._sender = Sender("", None, None)
        self._given: object = None  # the ApiClient of `from_api_client`
        self._bridge: ApiClientBridge | None = None
        self._flights: dict[Hashable, SingleFlight[Any]] = {}
        self._recognized: tuple[str, str | None] = ("", None)  # a FlowSchema, and its cluster: see `KubeSystemProbe`
        self.handler_limiter = anyio.CapacityLimiter(_HANDLER_THREADS)
        """Limits the worker threads of handlers with `thread=True`, for all informers of this client together."""

    @classmethod
    @shows_options(ClientOptions)
    def from_kubeconfig(
        cls, path: Kubeconfig | None = None, *, context: str | None = None, **options: Unpack[ClientKeywords]
    ) -> Self:
        """Create a client from a kubeconfig.

        Args:
            path: The file, or its content as a mapping, which is copied. None uses the merged files of KUBECONFIG, or
                else `~/.kube/config`.
            context: The context, or None for the file's current context.
            **options: See `Client`.

        Raises:
            ConfigError: The path is something else, such as the content of a kubeconfig (raised here, not on entering).
        """
        source = as_source(path)
        return cls._loading(in_thread(lambda: load_kubeconfig(source, context=context)), options)

    @classmethod
    @shows_options(ClientOptions)
    def in_cluster(cls, **options: Unpack[ClientKeywords]) -> Self:
        """Create a client from the service account of this pod. Its token is read again when the kubelet renews it."""
        return cls._loading(in_thread(load_in_cluster), options)

    @classmethod
    @shows_options(ClientOptions)
    def from_url(
        cls,
        url: str,
        *,
        token: str | None = None,
        ssl: ssl_module.SSLContext | bool | None = None,
        **options: Unpack[ClientKeywords],
    ) -> Self:
        """Create a client for a URL, such as `kubectl proxy` or a test server.

        Args:
            url: The URL, such as `http://127.0.0.1:8001`. A path is kept as a prefix.
            token: A bearer token.
            ssl: A context with the authorities and certificates to use. False verifies nothing. None (the default)
                trusts the system's authorities.
            **options: See `Client`.

        Raises:
            ConfigError: The URL is not a valid server URL (raised here, not on entering).
        """
        connection = from_url(url, token=token, ssl_=ssl)
        return cls._loading(at_once(lambda: connection), options)

    @classmethod
    @shows_options(ClientOptions)
    def from_api_client(cls, api_client: Any, **options: Unpack[ClientKeywords]) -> Self:
        """Create a client from the configuration and credentials of an existing `ApiClient`.

        The ApiClient is from kubernetes_asyncio, `kubernetes.aio`, or the blocking `kubernetes`. It still belongs to
        the program: it is not closed on exit, and its connections are not used. Its token is read before each request.
        A hook that renews it runs in a worker thread if it may block.
        """
        from kinformer.connection.api_client_bridge import connection_of

        client = cls._loading(at_once(lambda: connection_of(api_client)), options)
        client._given = api_client
        return client

    @staticmethod
    def contexts(path: Kubeconfig | None = None) -> list[str]:
        """Return the names of a kubeconfig's contexts, in order. It reads files, so call it in a thread.

        Args:
            path: As for `from_kubeconfig`.

        Raises:
            ConfigError: The file does not exist, or is not a valid kubeconfig.
        """
        return context_names(as_source(path))

    @classmethod
    def _loading(cls, load: Callable[[], Awaitable[ConnectionSettings]], options: ClientKeywords) -> Self:
        client = cls(**options)
        client._load = load
        return client

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._connection.server if self._connection else 'not entered'}>"

    async def __aenter__(self) -> Self:
        if self._connection is not None:
            raise RuntimeError("a client can be entered only once; create a new one")
        self._connection = self._options.apply_to(await self._load())
        user_agent = self._options.user_agent or f"kinformer/{VERSION}"
        transport = Transport(self._connection, user_agent=user_agent, compression=self._options.compression)
        await transport.open()
        self._sender = Sender(transport.host, self._options.limit(), self._options.metrics, cluster_of(self))
        self._transport = transport
        return self

    @shielded_from_scopes
    async def __aexit__(self, *_: object) -> None:
        bridge, self._bridge = self._bridge, None
        transport, self._transport = self._transport, None
        try:
            if bridge is not None:
                await bridge.close()
        finally:
            if transport is not None:
                await transport.close()

    @property
    def server(self) -> str:
        """The URL of the server. Raises RuntimeError before entering."""
        return self._known().server

    @property
    def namespace(self) -> str:
        """The namespace of the context or the service account, or "default" if neither sets one."""
        return self._known().namespace

    async def connection_info(self) -> ConnectionInfo:
        """Return the server and the kind of credentials of this client, before or after entering it.

        Before entering, this reads the configuration, but runs no credential plugin and does not connect.

        Raises:
            ConfigError: The configuration cannot be read. The message names file and field.
        """
        return (self._connection or await self._load()).info()

    @property
    def api_client(self) -> Any:
        """An `ApiClient` of kubernetes_asyncio for the same server and credentials: `CoreV1Api(client.api_client)`.

        It is created on first access, which imports kubernetes_asyncio (about 0.6 s and 40 MB, on the event loop), and
        closed with this client. It shares the pool of this client's requests. Streams have a separate pool, so open
        watches never make it wait. For a client created by `from_api_client`, it is the ApiClient that was passed.
        """
        if self._given is not None:
            return self._given
        if self._bridge is None:
            from kinformer.connection.api_client_bridge import ApiClientBridge

            self._bridge = ApiClientBridge(self._opened(), self._sender, client=self)
        return self._bridge.api_client

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = _REQUEST_TIMEOUT,
        retries: int = RETRIES,
    ) -> KubeObject | dict[str, Any]:
        """Send a request, and return the decoded response.

        Like client-go, it retries a request of any method if the server responds with 429 or 5xx and a `Retry-After`,
        after the server's delay (at most a minute), and only if the delay ends within `timeout`. A GET is also
        retried, after a second, if its connection was lost.

        Args:
            method: `"GET"`, `"POST"`, `"PUT"`, `"PATCH"` or `"DELETE"`.
            path: The path, beginning with `/api` or `/apis`. See `GroupVersionResource.path`. `get`, `create` and the
                other verbs make it themselves.
            body: A KubeObject, a value that has JSON (dict, list, Struct, dataclass), or raw bytes. In it, bytes are
                sent as base64, aware datetimes as in RFC 3339, and Decimals as strings, like quantities.
            params: Query parameters.
            headers: Headers, which replace kinformer's own. A PATCH without a Content-Type is a merge patch, or a JSON
                patch if the body is a list. For server-side apply, set `application/apply-patch+yaml`.
            timeout: Seconds for everything, including retries. The default is 30, because an API server's own limit is
                60.
            retries: The number of retries, by default 10, as in client-go. Pass 0 in code that retries by itself.

        Returns:
            A KubeObject if the response is one, and otherwise a dict (lists, a Status, /version, an empty body).

        Raises:
            APIError: The server refused the request. The subclass depends on the status and reason.
            ConnectError: There was no complete response in time.
            DecodeError: The response is not a JSON object (use `text` for such responses), or too long: 16 MiB for an
                object or a document of discovery, 1 GiB for everything else.
            LeadershipLostError: The caller runs within `LeaderElector.leading()` and has lost the lease. This is
                checked before each attempt.
            TypeError: The body has a value without JSON, such as nan. The message names its path.
            ValueError: `retries` is not a whole number, or below 0.
        """
        answer = decode_answer((await self._fetch(method, path, body, params, headers or {}, timeout, retries))[0])
        note_write(method.upper(), path, answer, params=params, body=body, client=self)
        return answer

    async def text(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout: float = _REQUEST_TIMEOUT,
        retries: int = RETRIES,
    ) -> str:
        """GET a response as a string: `/readyz`, `/metrics`. For a container's log, see `logs`.

        Errors, timeout and retries are as for `request`.
        """
        body, _ = await self._fetch("GET", path, None, params, {"Accept": "*/*"}, timeout, retries)
        return body.decode(errors="replace")

    def statistics(self) -> ClientStatistics:
        """Return the numbers of requests, retries and throttled requests since the client was entered."""
        return self._sender.statistics()

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        accept: str = "application/json",
        watch: bool = False,
        timeout: float = _REQUEST_TIMEOUT,
    ) -> AsyncIterator[Body]:
        """GET a response as a stream: `async with client.stream(path) as body: async for chunk in body:`.

        Streams have an unlimited pool. Exiting early, even through an error or cancellation, closes the connection.

        Args:
            path: As in `request`.
            params: Query parameters.
            accept: The `Accept` header.
            watch: True to treat a cut connection as the end of the watch. For any other stream it raises ConnectError.
            timeout: Seconds until the head of the response. The body has no time limit.

        Raises:
            APIError, ConnectError: As in `request`, on entering.
        """
        headers = {"Accept": accept}
        # A server that compresses events ends a gzip member with each one, which only pays off in an initial stream. A
        # proxy might hold back the lines of a log (which is no JSON) to compress them.
        is_initial = (params or {}).get("sendInitialEvents") == "true" and reads_gzip_members()
        if (watch and not is_initial) or not accept.startswith("application/"):
            headers["Accept-Encoding"] = "identity"
        transport = self._opened()
        exchange = Exchange("GET", transport.url(path), 0)
        await transport.connection.credential.authorization()  # a plugin may take longer than a response
        if not watch:
            await self._sender.wait_for_turn(exchange)
        with self._traced("GET", path, params) as traced:
            async with exchange.within(timeout):
                with self._sender.counted("GET", traced) as answered:
                    body = await transport.send(
                        "GET", path, params=params, headers=headers, stream=True, cut_is_end=watch
                    )
                    answered(body.status)
                    await body.check()
            try:
                yield body
            finally:
                body.close()

    async def forward(self, method: str, target: str, headers: CIMultiDict[str]) -> ClientResponse:
        """Send a read of another program with this client's credentials. See `Transport.forward`.

        :meta private:
        """
        transport = self._opened()
        with self._traced(method, target) as traced, self._sender.counted(method, traced) as answered:
            response = await transport.forward(method, target, headers)
            answered(response.status)
            return response

    async def _probe(
        self, path: str, params: Mapping[str, str] | None = None, body: object = None, **headers: str
    ) -> tuple[Any, str]:
        """GET once, or POST, from the pool of streams: a watch that follows takes the connection and its session.

        Returns the answer, and the uid of the FlowSchema that the server applied, or "". It is in one cluster only.
        """
        method, retries = ("GET", 0) if body is None else ("POST", RETRIES)
        data, schema = await self._fetch(method, path, body, params, headers, _LONG, retries, stream=True)
        return decode_answer(data), schema

    async def _shared(
        self, key: Hashable, call: Callable[[], Coro[T]], *, ttl: float = 0.0, joins_running: bool = True
    ) -> T:
        """Return the result of `call`, which all callers with this `key` share. See `SingleFlight`.

        For requests that many tasks would send at once, such as reading the server's latest resourceVersion. The first
        caller's arguments are kept for the key.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = SingleFlight(call, ttl=ttl, joins_running=joins_running)
        return cast("T", await flight.get())

    def _forget(self, key: Hashable) -> None:
        """Drop the result of a shared call, so that the next caller makes it."""
        if (flight := self._flights.get(key)) is not None:
            flight.forget()

    async def _fetch(
        self,
        method: str,
        path: str,
        body: object,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: float,
        retries: int,
        *,
        stream: bool = False,
    ) -> tuple[bytes, str]:
        method = method.upper()
        data, content_type = await encode_body(method, body)
        merged = {"Accept": "application/json", **({"Content-Type": content_type} if content_type else {})}
        lower = {name.lower() for name in headers}
        merged = {name: value for name, value in merged.items() if name.lower() not in lower} | dict(headers)
        transport = self._opened()
        exchange, name = Exchange(method, transport.url(path), retries), f"{method} {shown_path(path)}"
        check_fences()  # also before a credential is fetched
        await transport.connection.credential.authorization()

        async def attempt() -> tuple[bytes, str]:
            with self._traced(method, path, params) as traced, self._sender.counted(method, traced) as answered:
                response = await transport.send(method, path, params=params, headers=merged, data=data, stream=stream)
                answered(response.status)
                try:
                    await response.check()
                    whole = await response.read_whole(most_bytes(method, path, params or {}), name)
                    return whole, response.headers.get(_FLOW_SCHEMA, "")
                finally:
                    response.close()

        async with exchange.within(timeout) as limit:
            return await self._sender.send(exchange, attempt, limit.when())

    def _traced(
        self, method: str, path: str, params: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Callable[[int], object]]:
        trace = self._options.trace
        return _UNTRACED if trace is None else trace(method, self.server, shown_path(path), params or {})

    def _opened(self) -> Transport:
        if self._transport is None:
            raise RuntimeError("the client is not open; use it inside `async with`")
        return self._transport

    def _known(self) -> ConnectionSettings:
        if self._connection is None:
            raise RuntimeError("the client has not been entered, so its configuration is unknown; use `async with`")
        return self._connection
