"""The proxy: a server of the Kubernetes API that answers from caches, and asks the server for all else."""

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
from kinformer.listening.hosts import AllowedHosts
from kinformer.metrics import Metrics
from kinformer.watchcache.proxy.figures import Figures
from kinformer.watchcache.proxy.forwarding import Forwarder
from kinformer.watchcache.proxy.listener import Listener, ServerCertificate, is_loopback
from kinformer.watchcache.proxy.rights import Access
from kinformer.watchcache.proxy.router import Router, Served
from kinformer.watchcache.watch_cache import WatchCache

__all__ = ["Proxy"]

_LEAST_RECHECK = 1.0  # seconds


class Proxy:
    """Serves the Kubernetes API, with LIST, GET and WATCH of some resources from one cache for all clients.

    ::

        async with Client() as client, SharedInformerFactory(client) as factory:
            async with Proxy(client, factory, ["v1/pods"], listen="127.0.0.1:0") as proxy:
                print(proxy.url)
                await asyncio.Event().wait()

    Everything that the caches cannot answer is passed on to the server: other resources, subresources, Tables,
    protobuf, and reads that must be newer than what a cache is proved to have. It passes on only reads, unless
    `allow_writes`, and with this client's credentials. Until the first lists are complete, all requests are passed on.

    Args:
        client: The entered client of the server.
        factory: The entered factory of the informers, on the same client.
        resources: The resources to answer from a cache, by names that kubectl accepts.
        listen: The address, such as `"127.0.0.1:8001"`. It must be a loopback address, unless `authenticate`. Port 0
            chooses a free one. None with a `socket`.
        socket: The path of a unix socket, which only this user can connect to.
        namespace: The namespace whose objects are kept. None keeps those of all namespaces.
        allow_writes: True also passes on writes, and connections into programs, such as `exec`.
        keep_managed_fields: True keeps and sends `managedFields`. Without them, an object takes about half of the
            memory, and server-side apply should read objects from the server.
        allowed_hosts: Further host names that are answered. See `AllowedHosts`.
        tls_cert, tls_key: The files of the server's certificate and key. Replaced files are loaded again.
        client_ca: The file of the authorities that sign client certificates.
        authenticate: True answers each caller by its own rights. The server reviews its token (TokenReview), and each
            request that a cache would answer (SubjectAccessReview). What is passed on has the caller's own credentials
            instead of those of `client`. Needs TLS.
        recheck: Seconds between two reviews for an open watch, at least 1.
        metrics: A sink for requests, open watches and the age of histories.

    Raises:
        ConfigError: An option is invalid, or options contradict each other.
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
        allow_writes: bool = False,
        keep_managed_fields: bool = False,
        allowed_hosts: Iterable[str] = (),
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        client_ca: str | os.PathLike[str] | None = None,
        authenticate: bool = False,
        recheck: float = 30.0,
        metrics: Metrics | None = None,
    ) -> None:
        if (listen is None) == (socket is None):
            raise ConfigError("Proxy: expected either listen= or socket=")
        if not recheck >= _LEAST_RECHECK:
            raise ConfigError(f"Proxy: invalid recheck={recheck!r}: expected seconds, {_LEAST_RECHECK:g} or more")
        certificate = _certificate(tls_cert, tls_key, client_ca)
        if authenticate and certificate is None:
            raise ConfigError(
                "authenticating needs TLS, because tokens would be sent in the clear; pass tls_cert and tls_key"
            )
        if client_ca is not None and not authenticate:
            raise ConfigError("a client CA has no effect without authenticating; pass authenticate=True")
        self._client = client
        self._factory = factory
        self._names = tuple(resources)
        self._namespace = namespace
        self._keep_managed_fields = keep_managed_fields
        self._allow_writes = allow_writes
        self._access = Access(client, recheck=recheck) if authenticate else None
        self._figures = Figures(metrics)
        self._application = web.Application()
        self._listener = Listener(
            self._application, listen or "", None if socket is None else Path(socket), certificate
        )
        if not authenticate and socket is None and not is_loopback(self._listener.host):
            raise ConfigError(
                f"listen={listen!r} can be reached from other machines, which would have this client's rights; "
                "use a loopback address, or authenticate"
            )
        # No web page reaches a unix socket, whose clients send any name.
        self._hosts = AllowedHosts(allowed_hosts if socket is None else ["*"], own=self._listener.host)
        self._served: tuple[Served, ...] = ()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            forwarder = Forwarder(self._client)
            if self._access is not None:
                bare = await stack.enter_async_context(self._client.without_credentials())
                forwarder = Forwarder(bare, credentials=True)
            self._served = tuple([await self._serve(stack, one) for one in await self._resources()])
            router = Router(
                self._served,
                forwarder,
                hosts=self._hosts,
                allow_writes=self._allow_writes,
                access=self._access,
                figures=self._figures,
            )
            self._application.router.add_route("*", "/{path:[^?]*}", router.handle, expect_handler=_leave_to_handler)
            self._application.middlewares.append(router.handle_any)
            self._application.on_response_prepare.append(router.on_prepare)
            self._figures.start({str(one.resource): one.cache for one in self._served})
            stack.callback(self._figures.stop)
            await self._listener.start()
            stack.push_async_callback(self._listener.stop)
            stack.callback(router.end_streams)
            self._stack = stack.pop_all()
        return self

    @shielded_from_scopes
    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The URL for clients, or `unix:` with the path of the socket."""
        return self._listener.url

    @property
    def port(self) -> int:
        """The port, or 0 for a socket."""
        return self._listener.port

    @property
    def informers(self) -> tuple[SharedInformer, ...]:
        """The informers of the resources that are answered from a cache."""
        return tuple(one.informer for one in self._served)

    async def _resources(self) -> list[APIResource]:
        if not self._names:
            return []
        there = await discover(self._client)
        found = [there.find(name) for name in dict.fromkeys(self._names)]
        for one in found:
            if not {"list", "watch"} <= set(one.verbs):
                raise ConfigError(f"{one} cannot be cached: the server offers only {', '.join(one.verbs) or 'nothing'}")
        return list({str(one): one for one in found}.values())

    async def _serve(self, stack: AsyncExitStack, resource: APIResource) -> Served:
        namespace = self._namespace if resource.namespaced else None
        informer = self._factory.for_resource(
            resource.gvr, namespace=namespace, keep_managed_fields=self._keep_managed_fields
        )
        cache = await stack.enter_async_context(WatchCache(informer, client=self._client))
        return Served(resource, informer, cache, namespace)


async def _leave_to_handler(_: web.Request) -> None:
    """Do not answer `Expect: 100-continue` before it is known whether the request is passed on."""


def _certificate(
    cert: str | os.PathLike[str] | None, key: str | os.PathLike[str] | None, client_ca: str | os.PathLike[str] | None
) -> ServerCertificate | None:
    if (cert is None) != (key is None):
        raise ConfigError("TLS needs a certificate and its key; pass tls_cert and tls_key")
    if cert is None or key is None:
        if client_ca is not None:
            raise ConfigError("client certificates need TLS; pass tls_cert and tls_key")
        return None
    return ServerCertificate(Path(cert), Path(key), None if client_ca is None else Path(client_ca))
