"""Bridges to and from the `ApiClient` of kubernetes_asyncio."""

from __future__ import annotations

import inspect
import ssl
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import anyio.to_thread
from yarl import URL

from kinformer._runtime.logs import get_logger
from kinformer._runtime.request_context import is_logged, note_write
from kinformer.connection.addresses import environment_proxy
from kinformer.connection.aiohttp_internals import json_body, on_a_current_connection, request_class
from kinformer.connection.config import TLS, ConnectionSettings, Pem, check_server
from kinformer.connection.credentials.credential import CredentialKind
from kinformer.connection.responses import decode_answer
from kinformer.connection.retries import Exchange, Sender
from kinformer.connection.showable import showable_url
from kinformer.connection.transport import Transport, request_url
from kinformer.exceptions import ConfigError, CredentialError, DecodeError

__all__ = ["ApiClientBridge", "connection_of"]

log = get_logger("kinformer.client")


class ApiClientBridge:
    """An ApiClient that uses a transport's credentials and connections. `close` it before the transport.

    A controller treats its writes like writes of `client`.

    Importing kubernetes_asyncio costs 0.6-1.2 s and 38 MB, so this module imports it only when a bridge is created.
    """

    def __init__(self, transport: Transport, sender: Sender, *, client: object) -> None:
        from kubernetes_asyncio.client import ApiClient, Configuration

        connection = transport.connection
        repeated = [name for name, _ in connection.headers]
        if len(repeated) != len(set(repeated)):
            raise ConfigError(f"{connection.source}: kubernetes_asyncio cannot impersonate more than one group")
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        configuration = Configuration()
        configuration.host = connection.server
        configuration.proxy = connection.proxy
        self._set_tls(configuration, connection.tls)
        self._set_credential(configuration, transport)
        self.api_client: Any = ApiClient(configuration)
        self.api_client.user_agent = transport.user_agent
        for name, value in connection.headers:
            self.api_client.set_default_header(name, value)
        # The original session has a separate pool, no keep-alive, and reads netrc in a thread before each request.
        self._replaced = self.api_client.rest_client.pool_manager
        session = aiohttp.ClientSession(
            connector=transport.connector,
            connector_owner=False,
            read_bufsize=2**21,
            request_class=request_class(),
            middlewares=(
                _logged(connection.server, client),
                _in_turn(sender),
                _only_to(connection.server),
                on_a_current_connection,
                transport.connecting,
            ),
        )
        self.api_client.rest_client.pool_manager = _AsWritten(session, connection.server)

    async def close(self) -> None:
        """Close the ApiClient, and remove the files written for it."""
        try:
            await self.api_client.close()
            await self._replaced.close()
        finally:
            if self._folder is not None:
                self._folder.cleanup()

    def _set_tls(self, configuration: Any, tls: TLS) -> None:
        configuration.verify_ssl = tls.verify
        configuration.disable_strict_ssl_verification = True  # as in this client and in Go
        configuration.tls_server_name = tls.server_name
        configuration.ssl_ca_cert = self._path(tls.ca)
        configuration.cert_file = self._path(tls.cert)
        configuration.key_file = self._path(tls.key)

    def _path(self, pem: Pem | None) -> str | None:
        # This library only accepts files. Only the owner can read them, and they are removed with the client.
        if pem is None or pem.path is not None:
            return pem.path if pem else None
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kinformer-")
        folder = Path(self._folder.name)
        file = folder / f"{len(list(folder.iterdir()))}.pem"
        file.touch(mode=0o600)
        file.write_bytes(pem.read())
        return str(file)

    def _set_credential(self, configuration: Any, transport: Transport) -> None:
        if transport.authorization is None:
            return
        credential = transport.connection.credential

        # A closure, because configurations are copied deeply, and copying a method would also copy this bridge.
        async def refresh(target: Any) -> None:
            target.api_key["BearerToken"] = await credential.authorization()

        configuration.api_key["BearerToken"] = transport.authorization
        configuration.refresh_api_key_hook = refresh


class _AsWritten:
    """A session whose requests have the path that the ApiClient has written: see `request_url`."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def request(self, method: str, url: str, **arguments: Any) -> Any:
        """Send a request, like the session. Raises ConfigError if the path would become another one."""
        path = url.removeprefix(self._server.rstrip("/"))
        written = request_url(self._server, path, method=method.upper()) if path != url else URL(url)
        return self._session.request(method, written, **arguments)


def _logged(server: str, client: object) -> aiohttp.ClientMiddlewareType:
    """Return a middleware that records writes, so that a controller knows them like writes by `Client.request`."""
    prefix = URL(server).path.rstrip("/")

    async def logged(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        response = await handler(request)
        if 200 <= response.status < 300 and is_logged(request.method):
            body = await response.read()  # the response caches it for its reader
            try:
                answer: object = decode_answer(body)
            except DecodeError as error:
                log.debug("%s %s: %s", request.method, request.url.path, error, reason=error)
                answer = {}  # for example, of a proxied service
            path = request.url.path.removeprefix(prefix)
            sent = json_body(request)
            note_write(request.method, path, answer, params=request.url.query, body=sent, client=client)
        return response

    return logged


def _in_turn(sender: Sender) -> aiohttp.ClientMiddlewareType:
    """Return a middleware that waits for the client's own rate limit."""

    async def in_turn(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        await sender.wait_for_turn(Exchange(request.method, str(request.url.with_query(None)), 0))
        return await handler(request)

    return in_turn


def _only_to(server: str) -> aiohttp.ClientMiddlewareType:
    """Return a middleware that refuses requests to other servers, because a redirect would leak the credentials."""
    origin = URL(server).origin()

    async def only_to(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if request.url.origin() != origin:
            place = showable_url(str(request.url))
            raise aiohttp.InvalidUrlRedirectClientError(place, f"{origin} redirects to another server")
        return await handler(request)

    return only_to


class _Lent:
    """The credential of an ApiClient owned by the program, read from its configuration each time."""

    identity = None
    kind: CredentialKind = "api-client"
    failure = ""

    def __init__(self, configuration: Any) -> None:
        self._configuration = configuration

    def __repr__(self) -> str:
        return "<credential of an ApiClient>"

    async def authorization(self) -> str | None:
        # A coroutine function in kubernetes_asyncio and kubernetes.aio. A plain function in kubernetes, whose hook may
        # block.
        ask = self._configuration.auth_settings
        try:
            if getattr(self._configuration, "refresh_api_key_hook", None) and not inspect.iscoroutinefunction(ask):
                settings = await anyio.to_thread.run_sync(ask)
            else:
                settings = ask()
            if inspect.isawaitable(settings):
                settings = await settings
        except Exception as error:  # noqa: BLE001 - of the program's hook, whose message may quote a token
            reason = type(error).__name__
            raise CredentialError(f"ApiClient.configuration: no credential: {reason}") from None
        for setting in settings.values():
            if setting["in"] == "header" and setting["key"].lower() == "authorization" and setting["value"]:
                return str(setting["value"])
        return None

    async def renew(self) -> None:
        """Do nothing. The program renews its ApiClient itself, and the configuration is read again."""

    async def close(self) -> None:
        """Do nothing. The ApiClient belongs to the program."""


def connection_of(api_client: Any) -> ConnectionSettings:
    """Return the connection settings of an ApiClient of kubernetes, kubernetes.aio or kubernetes_asyncio.

    Raises:
        ConfigError: It is not an ApiClient, or its host is not a URL.
    """
    configuration = getattr(api_client, "configuration", None)
    if configuration is None or not hasattr(configuration, "auth_settings"):
        raise ConfigError(
            "from_api_client: expected an ApiClient of kubernetes, kubernetes.aio or kubernetes_asyncio, "
            f"got a {type(api_client).__name__}"
        )
    where = "ApiClient.configuration"
    server = check_server(configuration.host, where=f"{where}.host")

    def pem(name: str) -> Pem | None:
        path = getattr(configuration, name, None)
        return Pem(f"{where}.{name}", path=str(path)) if path else None

    own = {"user-agent", "accept", "accept-encoding", "content-type", "host"}
    headers = [(name, str(value)) for name, value in api_client.default_headers.items() if name.lower() not in own]
    if getattr(api_client, "cookie", None):
        headers.append(("Cookie", str(api_client.cookie)))
    return ConnectionSettings(
        server=server,
        source="ApiClient",
        credential=_Lent(configuration),
        tls=TLS(
            verify=bool(configuration.verify_ssl),
            server_name=getattr(configuration, "tls_server_name", None),
            ca=_authorities(configuration) or pem("ssl_ca_cert"),
            cert=pem("cert_file"),
            key=pem("key_file"),
        ),
        proxy=_proxy(configuration, server),
        headers=headers,
    )


def _authorities(configuration: Any) -> Pem | None:
    """Return the trusted authorities that a configuration has in memory, as PEM or DER."""
    data = getattr(configuration, "ca_cert_data", None)
    if not data:
        return None
    if isinstance(data, bytes) and not data.lstrip().startswith(b"-----"):
        data = ssl.DER_cert_to_PEM_cert(data)
    return Pem("ApiClient.configuration.ca_cert_data", data=data.encode() if isinstance(data, str) else data)


def _proxy(configuration: Any, server: str) -> str | None:
    """Return a configuration's proxy, unless its `no_proxy` exempts the server, or else the environment's proxy."""
    proxy: str | None = configuration.proxy
    if not proxy:
        return environment_proxy(server)
    exempt = getattr(configuration, "no_proxy", None)
    if not exempt:
        return proxy
    return environment_proxy(server, {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "NO_PROXY": exempt})
