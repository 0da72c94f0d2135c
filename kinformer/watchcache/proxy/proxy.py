"""The proxy: `kubectl proxy` with a cache. It answers reads of some resources itself, and passes on all other reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from aiohttp import web

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer.client.client import Client
from kinformer.connection.discovery import APIResource, discover
from kinformer.exceptions import ConfigError
from kinformer.informer.factory import SharedInformerFactory
from kinformer.informer.informer import SharedInformer
from kinformer.listening.address import bind_unix, inode_of, is_loopback, parse_address, remove_unix, url_of
from kinformer.listening.aiohttp_server import HTTPListener, server_options
from kinformer.listening.connections import Connections
from kinformer.listening.hosts import AllowedHosts
from kinformer.metrics import Metrics
from kinformer.watchcache.informer_server import WatchCache
from kinformer.watchcache.proxy.figures import ProxyFigures
from kinformer.watchcache.proxy.forwarding import Forwarder
from kinformer.watchcache.proxy.router import Router, Served

__all__ = ["Proxy"]

_MOST = 10_000  # connections, if the process has descriptors for them. A watch has one of its own
_GRACE = 5.0  # seconds for responses that are under way when the proxy stops


class Proxy:
    """Serves the Kubernetes API to programs of this user, with LIST, GET and WATCH of some resources from one cache.

    ::

        async with Client() as client, SharedInformerFactory(client) as factory:
            async with Proxy(client, factory, ["v1/pods"], listen="127.0.0.1:0") as proxy:
                print(proxy.url)
                await asyncio.Event().wait()

    Like `kubectl proxy`, it gives each program on this machine that reaches it the rights of `client`. It answers only
    GET and HEAD. Reads that the caches cannot answer are passed on to the server: other resources, subresources,
    protobuf, and reads that must be newer than what a cache is proved to have. Until the first lists are complete, all
    reads are passed on.

    Args:
        client: The entered client of the server.
        factory: The entered factory of the informers, on the same client.
        resources: The resources to answer from a cache, by names that kubectl accepts.
        listen: A loopback address, such as `"127.0.0.1:8001"`. Port 0 chooses a free one. None with a `socket`.
        socket: The path of a unix socket, which only this user can connect to.
        namespace: The namespace whose objects are kept. None keeps those of all namespaces.
        keep_managed_fields: True keeps and sends `managedFields`. Without them, an object takes about half of the
            memory, and server-side apply should read objects from the server.
        allowed_hosts: Further host names that are answered. See `AllowedHosts`.
        metrics: A sink for requests, open watches and the age of histories.

    Raises:
        ConfigError: An option is invalid, or other machines can reach the address.
    """

    def __init__(
        self,
        client: Client,
        factory: SharedInformerFactory,
        resources: Iterable[str],
        *,
        listen: str | None = None,
        socket: str | os.PathLike[str] | None = None,
        namespace: str | None = None,
        keep_managed_fields: bool = False,
        allowed_hosts: Iterable[str] = (),
        metrics: Metrics | None = None,
    ) -> None:
        if (listen is None) == (socket is None):
            raise ConfigError("Proxy: expected either listen= or socket=")
        self._client = client
        self._factory = factory
        self._names = tuple(resources)
        self._namespace = namespace
        self._keep_managed_fields = keep_managed_fields
        self._figures = ProxyFigures(metrics)
        self._path = None if socket is None else Path(socket)
        self._host, self._port = parse_address(":0" if listen is None else listen)
        if self._path is None and not is_loopback(self._host):
            raise ConfigError(
                f"listen={listen!r} can be reached from other machines, which would have this client's rights; "
                "use a loopback address or socket="
            )
        # No web page reaches a unix socket, whose clients send any name.
        self._hosts = AllowedHosts(allowed_hosts if self._path is None else ["*"], own=self._host)
        # Set on entering.
        self._listener: HTTPListener | None = None
        self._served: tuple[Served, ...] = ()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._served = tuple([await self._serve(stack, resource) for resource in await self._resources()])
            router = Router(self._served, Forwarder(self._client), hosts=self._hosts, figures=self._figures)
            self._figures.start({str(served.resource): served.cache for served in self._served})
            stack.callback(self._figures.stop)
            await self._listen(stack, router.application())
            stack.callback(router.end_streams)
            self._stack = stack.pop_all()
        return self

    @shielded_from_scopes
    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The URL for clients, or `unix:` with the path of the socket."""
        return url_of(self._host, self.port) if self._path is None else f"unix:{self._path}"

    @property
    def port(self) -> int:
        """The port, or 0 for a socket. Raises RuntimeError if it is not listening."""
        port = None if self._listener is None else self._listener.port
        if port is None:
            raise RuntimeError("the proxy is not listening")
        return port

    @property
    def informers(self) -> tuple[SharedInformer, ...]:
        """The informers of the resources that are answered from a cache."""
        return tuple(served.informer for served in self._served)

    async def _listen(self, stack: AsyncExitStack, application: web.Application) -> None:
        runner = web.AppRunner(application, handle_signals=False, handler_cancellation=True, **server_options())
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        assert runner.server is not None, "it is set up"
        listener = HTTPListener(runner.server, Connections(most=_MOST, share=0.5))
        if self._path is None:
            await listener.listen(self._host, self._port)
        else:
            bound = bind_unix(self._path)
            stack.callback(remove_unix, self._path, inode_of(self._path))
            await listener.listen_unix(bound)
        stack.push_async_callback(listener.close, _GRACE)
        self._listener = listener

    async def _resources(self) -> list[APIResource]:
        if not self._names:
            return []
        there = await discover(self._client)
        resources = {str(resource): resource for resource in map(there.find, self._names)}
        for name, resource in resources.items():
            if not {"list", "watch"} <= set(resource.verbs):
                verbs = ", ".join(resource.verbs) or "nothing"
                raise ConfigError(f"{name} cannot be cached: the server offers only {verbs}")
        return list(resources.values())

    async def _serve(self, stack: AsyncExitStack, resource: APIResource) -> Served:
        namespace = self._namespace if resource.namespaced else None
        informer = self._factory.for_resource(
            resource.gvr, namespace=namespace, keep_managed_fields=self._keep_managed_fields
        )
        cache = await stack.enter_async_context(WatchCache(informer, client=self._client))
        return Served(resource, informer, cache, namespace)
