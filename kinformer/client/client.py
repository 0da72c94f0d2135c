"""The client of one API server: five ways to configure it, requests and streams."""

from __future__ import annotations

import ssl as ssl_module
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast, overload

import anyio

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.fence import check_fences
from kinformer._runtime.request_context import note_write
from kinformer._runtime.tasks import Coro
from kinformer.client.aiohttp_internals import reads_gzip_members
from kinformer.client.config import (
    ClientKeywords,
    ClientOptions,
    Connection,
    ConnectionInfo,
    at_once,
    from_url,
    in_thread,
    installed_version,
    load_in_cluster,
)
from kinformer.client.kubeconfig import Kubeconfig, as_source, context_names, load_default, load_kubeconfig
from kinformer.client.responses import decode_answer
from kinformer.client.retries import RETRIES, ClientStatistics, Exchange, Sender
from kinformer.client.single_flight import SingleFlight
from kinformer.client.transport import Body, Transport, encode_body
from kinformer.client.upward import wait_for_object
from kinformer.exceptions import DecodeError
from kinformer.objects.conditions import Narrowing
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject

if TYPE_CHECKING:
    from kinformer.client.api_client_bridge import ApiClientBridge

__all__ = ["Client"]

T = TypeVar("T")

_REQUEST_TIMEOUT = 30.0  # seconds: an API server aborts a request after 60, and few take one
_HANDLER_THREADS = 40  # as anyio has it for the threads of a loop
_MOST_BYTES = 1024 * 1024 * 1024  # of a response that is held as a whole; a longer one has no end, or is for `stream`


class Client:
    """A connection to one Kubernetes API server, as an async context manager.

    ::

        async with Client() as client:          # KUBECONFIG, ~/.kube/config, else the pod's service account
            pod = await client.request("GET", "/api/v1/namespaces/default/pods/web-1")

    The other ways are `from_kubeconfig`, `in_cluster`, `from_url` and `from_api_client`. A constructor returns at once;
    entering reads files, runs plugins and sets up TLS, and raises ConfigError (with file and field in its text) if that
    fails. A client is entered once, belongs to that event loop, and closes everything on leaving. Credentials that
    expire are renewed automatically. They are in no repr, error or log line.

    Args:
        compression: Requests that the server compresses lists and other responses with gzip, which it does with those
            above 128 KB (apiserver, endpoints/handlers/responsewriters/writers.go); all constructors have it. "auto",
            the default, requests it, as client-go does, unless the server is on this machine (a loopback address) or
            the kubeconfig has `disable-compression`; "gzip" always does, "none" never. A watch is not compressed,
            because each event would be a gzip member of its own, except for the initial stream of a server that can
            (1.37). docs/cost.md says what compression brings.
        rate: Requests a second that this client sends at most; None, the default, sets no limit, because servers
            protect themselves (API Priority and Fairness). It holds for `request`, `text`, the lists of informers and
            `api_client`; not for watches, nor for the Leases of elections and shards, which have deadlines.
        burst: Requests that may be sent at once after a pause; None: twice the rate, 1 at least.
        metrics: A sink for the requests that are sent again, and for the waits that `rate` causes.
        user_agent: The `User-Agent` of all requests, `api_client` included, by which a server's audit log and metrics
            tell programs apart; default: `kinformer/` and its version.

    Raises:
        ConfigError: An option that cannot work; the text names it.
    """

    def __init__(self, **options: Unpack[ClientKeywords]) -> None:
        self._options = ClientOptions(**options)
        self._load: Callable[[], Awaitable[Connection]] = in_thread(load_default)
        self._connection: Connection | None = None
        self._transport: Transport | None = None
        self._sender = Sender("", None, None)
        self._given: object = None  # the ApiClient of `from_api_client`
        self._bridge: ApiClientBridge | None = None
        self._flights: dict[Hashable, SingleFlight[Any]] = {}
        self.handler_limiter = anyio.CapacityLimiter(_HANDLER_THREADS)
        """Limits the worker threads of handlers with `thread=True`, of all informers of this client together; 40."""

    @classmethod
    def from_kubeconfig(
        cls, path: Kubeconfig | None = None, *, context: str | None = None, **options: Unpack[ClientKeywords]
    ) -> Self:
        """Make a client of a kubeconfig.

        Args:
            path: The file, or its content as a mapping, which is copied; None uses the files of KUBECONFIG, merged,
                else `~/.kube/config`.
            context: The context; None uses the current one of the file.
            **options: See `Client`.

        Raises:
            ConfigError: The path is none, such as the text of a kubeconfig (at once, not on entering).
        """
        source = as_source(path)
        return cls._loading(in_thread(lambda: load_kubeconfig(source, context=context)), options)

    @classmethod
    def in_cluster(cls, **options: Unpack[ClientKeywords]) -> Self:
        """Make a client of the service account of this pod; its token is read again when the kubelet renews it."""
        return cls._loading(in_thread(load_in_cluster), options)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        token: str | None = None,
        ssl: ssl_module.SSLContext | bool | None = None,
        **options: Unpack[ClientKeywords],
    ) -> Self:
        """Make a client of a URL: `kubectl proxy`, a test server.

        Args:
            url: The URL, such as `http://127.0.0.1:8001`; a path is kept as a prefix.
            token: A bearer token.
            ssl: A context with the authorities and certificates to use; False verifies nothing; None (the default)
                trusts the authorities of the system.
            **options: See `Client`.

        Raises:
            ConfigError: The URL cannot be that of a server (at once, not on entering).
        """
        connection = from_url(url, token=token, ssl_=ssl)
        return cls._loading(at_once(lambda: connection), options)

    @classmethod
    def from_api_client(cls, api_client: Any, **options: Unpack[ClientKeywords]) -> Self:
        """Make a client of the configuration and credentials of an `ApiClient` that the program has.

        It is one of kubernetes_asyncio, of `kubernetes.aio`, or of the blocking `kubernetes`. It still belongs to the
        program: it is not closed on leaving, and none of its connections is used. Its token is read before each
        request, so a new one is used at once; a hook that renews it runs in a worker thread if it may block.
        """
        from kinformer.client.api_client_bridge import connection_of

        client = cls._loading(at_once(lambda: connection_of(api_client)), options)
        client._given = api_client
        return client

    @staticmethod
    def contexts(path: Kubeconfig | None = None) -> list[str]:
        """Return the names of a kubeconfig's contexts, in its order. Reads files, so it belongs in a thread.

        Args:
            path: As of `from_kubeconfig`.

        Raises:
            ConfigError: There is no such file, or it cannot be read as a kubeconfig.
        """
        return context_names(as_source(path))

    @classmethod
    def _loading(cls, load: Callable[[], Awaitable[Connection]], options: ClientKeywords) -> Self:
        client = cls(**options)
        client._load = load
        return client

    def __repr__(self) -> str:
        return f"<Client {self._connection.server if self._connection else 'not entered'}>"

    async def __aenter__(self) -> Self:
        if self._connection is not None:
            raise RuntimeError("a client can be entered once; make another one")
        self._connection = await self._load()
        options = self._options
        user_agent = options.user_agent or f"kinformer/{installed_version()}"
        transport = Transport(self._connection, user_agent=user_agent, compression=options.compression)
        await transport.open()
        self._sender = Sender(transport.host, options.limit(), options.metrics)
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
        """The namespace of the context or of the service account; "default" if neither names one."""
        return self._known().namespace

    async def connection_info(self) -> ConnectionInfo:
        """Describe where this client connects to and with which credentials, before or after entering it.

        Before entering the configuration is read for it, but no credential plugin runs and nothing is connected.

        Raises:
            ConfigError: The configuration cannot be read; the text names file and field.
        """
        return (self._connection or await self._load()).info()

    @property
    def api_client(self) -> Any:
        """An `ApiClient` of kubernetes_asyncio for the same server and credentials: `CoreV1Api(client.api_client)`.

        It is made at the first access, which imports kubernetes_asyncio (about 0.6 s and 40 MB, on the event loop), and
        closed with this client. It shares the pool of this client's requests; streams have a pool of their own, so no
        number of open watches makes it wait. For a client made by `from_api_client` it is the one that was passed.
        """
        if self._given is not None:
            return self._given
        if self._bridge is None:
            from kinformer.client.api_client_bridge import ApiClientBridge

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

        It is sent again, as client-go does it, if the server answers with 429 or 5xx and a `Retry-After`: whatever the
        method, after the server's delay (a minute at most), and only if that ends within `timeout`. A GET is sent again
        also if its connection was lost, after a second.

        Args:
            method: `"GET"`, `"POST"`, `"PUT"`, `"PATCH"` or `"DELETE"`.
            path: The path from `/api` or `/apis` on; see `GroupVersionResource.path`.
            body: A KubeObject, a value that msgspec encodes (dict, list, Struct, dataclass), or bytes as they are.
            params: Query parameters.
            headers: Headers, which replace kinformer's own. A PATCH without a Content-Type is a merge patch, or a JSON
                patch if the body is a list; for server-side apply send `application/apply-patch+yaml`.
            timeout: Seconds for everything, repetitions included; 30, because an API server's own limit is 60.
            retries: The number of retries; 10, as in client-go. 0 is for code with retries of its own.

        Returns:
            A KubeObject if the response is one, else (lists, a Status, /version, nothing) a dict.

        Raises:
            APIError: The server refused; the subclass is that of the status and reason.
            ConnectError: There was no response in time, or not all of it.
            DecodeError: The response is not a JSON object (use `text` for those), or longer than 1 GiB.
            LeadershipLostError: The caller runs within `LeaderElector.leading()` and leads no longer, which is checked
                before each attempt.
            ValueError: `retries` is not a whole number, or below 0.
        """
        answer = decode_answer(await self._fetch(method, path, body, params, headers or {}, timeout, retries))
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
        """GET a text: `/readyz`, `/metrics`, a pod's log. Errors, timeout and retries as of `request`."""
        body = await self._fetch("GET", path, None, params, {"Accept": "*/*"}, timeout, retries)
        return body.decode(errors="replace")

    def statistics(self) -> ClientStatistics:
        """Return the numbers of retried requests, and of those that waited, since the client was entered."""
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
        """GET a response as it arrives: `async with client.stream(path) as body: async for chunk in body:`.

        Streams have a pool without a limit. Leaving early, also by an error or by cancellation, closes the connection.

        Args:
            path: As in `request`.
            params: Query parameters.
            accept: The `Accept` header.
            watch: A cut connection is the end of a watch; for any other stream it is a ConnectError.
            timeout: Seconds until the head of the response; the body has no limit of its own.

        Raises:
            APIError, ConnectError: As in `request`, on entering.
        """
        headers = {"Accept": accept}
        # A server that compresses events ends a gzip member with each: that pays in an initial stream alone.
        if watch and ((params or {}).get("sendInitialEvents") != "true" or not reads_gzip_members()):
            headers["Accept-Encoding"] = "identity"
        transport = self._opened()
        exchange = Exchange("GET", transport.url(path), 0)
        await transport.connection.credential.authorization()  # a plugin may take longer than an answer
        if not watch:
            await self._sender.wait_for_turn(exchange)
        async with exchange.within(timeout):
            body = await transport.send("GET", path, params=params, headers=headers, stream=True, cut_is_end=watch)
            await body.check()
        try:
            yield body
        finally:
            body.close()

    @overload
    async def wait_for(
        self,
        resource: str | GroupVersionResource,
        key: str,
        condition: Narrowing,
        timeout: float | None = None,
        *,
        allow_recreate: bool = False,
    ) -> KubeObject: ...
    @overload
    async def wait_for(
        self,
        resource: str | GroupVersionResource,
        key: str,
        condition: Callable[[KubeObject | None], object],
        timeout: float | None = None,
        *,
        allow_recreate: bool = False,
    ) -> KubeObject | None: ...
    async def wait_for(
        self,
        resource: str | GroupVersionResource,
        key: str,
        condition: Callable[[KubeObject | None], object],
        timeout: float | None = None,
        *,
        allow_recreate: bool = False,
    ) -> KubeObject | None:
        """Wait until a condition holds for one object, by a list and a watch of that object alone.

        ::

            pod = await client.wait_for("v1/pods", "default/web-1", is_pod_ready, timeout=60)

        The condition is called with the newest state of the object on the server, and with each later state, in order;
        with None while there is no object. List and watch survive the same faults as those of an informer.

        Args:
            resource: Such as `"v1/pods"`.
            key: `"namespace/name"`, or `"name"` if the resource has no namespaces.
            condition: A plain function of the object or None, such as those of `kinformer.conditions`. What it raises
                is raised here.
            timeout: Seconds; None waits for ever.
            allow_recreate: Wait on if the object is deleted, because another one may get its name.

        Returns:
            The object for which the condition held; None if it held for its absence. Type checkers know that it is an
            object if the condition is one of `kinformer.conditions`, or returns `TypeGuard[KubeObject]`.

        Raises:
            TimeoutError: The time has passed; the text says how the object is, and which error is the last.
            DeletedError: The object was there, and was deleted; the text says how it was.
            APIError: The server refused twice in a row (a 4xx such as 403); the text says how the object was.
            ValueError: The key cannot be one of the resource.
            ConfigError: The resource does not parse.
        """
        waiting = wait_for_object(self, resource, key, condition, timeout, allow_recreate=allow_recreate)
        return cast("KubeObject | None", await waiting)

    async def _shared(self, key: Hashable, call: Callable[[], Coro[T]], *, ttl: float) -> T:
        """Return the result of `call`, shared by all callers for `key` while it runs and `ttl` seconds after.

        For requests that many tasks would send at once, such as one for the server's latest resourceVersion. The `call`
        and `ttl` of the first caller are kept for the key.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = SingleFlight(call, ttl=ttl)
        return cast("T", await flight.get())

    async def _fetch(
        self,
        method: str,
        path: str,
        body: object,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: float,
        retries: int,
    ) -> bytes:
        method = method.upper()
        data, content_type = encode_body(method, body)
        merged = {"Accept": "application/json", **({"Content-Type": content_type} if content_type else {})}
        lower = {name.lower() for name in headers}
        merged = {name: value for name, value in merged.items() if name.lower() not in lower} | dict(headers)
        transport = self._opened()
        exchange = Exchange(method, transport.url(path), retries)
        check_fences()  # before a credential is fetched, too
        await transport.connection.credential.authorization()

        async def attempt() -> bytes:
            answer = await transport.send(method, path, params=params, headers=merged, data=data)
            try:
                await answer.check()
                whole = await answer.read_all(_MOST_BYTES + 1)
                if len(whole) > _MOST_BYTES:
                    raise DecodeError(f"{method} {path}: the response is longer than {_MOST_BYTES} bytes; use `stream`")
                return whole
            finally:
                answer.close()

        async with exchange.within(timeout) as limit:
            return await self._sender.send(exchange, attempt, limit.when())

    def _opened(self) -> Transport:
        if self._transport is None:
            raise RuntimeError("the client is not open; use it inside `async with`")
        return self._transport

    def _known(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("the client has not been entered, so its configuration is unknown; use `async with`")
        return self._connection
