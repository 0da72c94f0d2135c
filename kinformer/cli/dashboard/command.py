"""`kinformer dashboard`: runs the informers and the web server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import uvicorn

from kinformer import Client, ConfigError, SharedInformerFactory
from kinformer.cli.coverage import Scope
from kinformer.cli.dashboard.app import cluster_app
from kinformer.cli.dashboard.board import board_of
from kinformer.cli.dashboard.catalogue import Catalogue
from kinformer.cli.dashboard.guard import LOOPBACK_NAMES, Guard
from kinformer.cli.living.ailing import AilingWorkloads
from kinformer.cli.living.cluster import LivingCluster
from kinformer.cli.target import Server
from kinformer.client import APIResource, discover
from kinformer.contrib.fastapi import kinformer_lifespan
from kinformer.contrib.problems import Problems
from kinformer.listening import Connections, Listener
from kinformer.testing import APIServer

__all__ = ["RESOURCES", "dashboard"]

RESOURCES = (
    "pods",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "services",
    "configmaps",
    "secrets",
    "nodes",
    "namespaces",
)
"""The resources shown by default, if the server has them."""

# The resources of the demo cluster. Its Events are followed once a page requests the Events of an object.
_IN_THE_DEMO = ("pods", "deployments.apps", "replicasets.apps", "jobs.batch", "nodes", "namespaces")

_CONNECTIONS = 512  # a page has up to six
_IDLE = 90  # seconds between two requests of a connection
_GRACE = 2  # seconds for responses to finish when the server ends. Event streams end by themselves well before


async def dashboard(
    target: Server,
    resources: Sequence[str],
    *,
    demo: bool = False,
    namespace: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    names: Sequence[str] = (),
    duration: float | None = None,
) -> int:
    """Serve the page until Ctrl-C or SIGTERM. uvicorn shuts down gracefully and then raises the signal again.

    Args:
        target: The server to watch.
        resources: The resources to show, by names that kubectl accepts. If empty, `RESOURCES`.
        demo: Watch a small cluster in this process instead of `target`.
        namespace: The namespace to show. By default, all namespaces.
        host, port: The address to listen on. Port 0 selects a free port.
        names: Accepted host names, in addition to `host`, IP addresses and `localhost`.
        duration: Seconds after which to end, or None to run forever.

    Raises:
        ConfigError: The server has no such resource.
        OSError: The port is in use.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await _demo(stack) if demo else target.client())
        shown = await _resources_to_show(client, resources or (_IN_THE_DEMO if demo else ()))

        @asynccontextmanager
        async def setup() -> AsyncIterator[SharedInformerFactory]:
            async with SharedInformerFactory(client, keep_managed_fields=demo) as factory:  # for who has changed what
                catalogue = Catalogue(client, factory, namespace)
                for resource in shown:
                    catalogue.inform(resource)
                board = await board_of(factory, catalogue)  # record changes from now on, not from the first page on
                scope = Scope(client, factory, namespace)
                await scope.update()
                async with Problems(factory, namespace=namespace) as problems, scope.kept():
                    board.show(problems, scope)
                    yield factory

        app = cluster_app(names={*LOOPBACK_NAMES, host, *names}, lifespan=kinformer_lifespan(setup))
        server = _Server(app, host, port)
        timer = None if duration is None else asyncio.get_running_loop().call_later(duration, _stop, server)
        try:
            await server.serve()
        finally:
            if timer is not None:
                timer.cancel()
    return 0


class _Server(uvicorn.Server):
    """uvicorn's server behind a listener with limits. It has none of its own for the time of a head."""

    def __init__(self, app: Guard, host: str, port: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                ws="none",
                timeout_keep_alive=_IDLE,
                timeout_graceful_shutdown=_GRACE,
                lifespan="on",
            )
        )
        self._host, self._port = host, port
        self._listener = Listener(self._protocol, Connections(most=_CONNECTIONS, share=0.5))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, listen, and print the URL. A reader may then send a signal, which is handled."""
        await super().startup([])
        try:
            await self._listener.listen(self._host, self._port)
        except OSError:
            await self.lifespan.shutdown()
            raise
        shown = f"[{self._host}]" if ":" in self._host else self._host
        print(f"http://{shown}:{self._listener.port}/  (Ctrl-C ends)", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen, and end the application."""
        await self._listener.stop()
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        create = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
        return create(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True


async def _demo(stack: AsyncExitStack) -> Client:
    server = await stack.enter_async_context(APIServer())
    cluster = LivingCluster(server)
    await cluster.start()
    living = [
        asyncio.create_task(cluster.run(), name="kinformer dashboard: cluster"),
        asyncio.create_task(AilingWorkloads(server).run(), name="kinformer dashboard: troubles"),
    ]

    async def end() -> None:
        for task in living:
            task.cancel()
        await asyncio.gather(*living, return_exceptions=True)

    stack.push_async_callback(end)
    return server.client()


async def _resources_to_show(client: Client, names: Sequence[str]) -> list[APIResource]:
    there = await discover(client)
    if names:
        return [there.find(name) for name in names]
    shown = []
    for name in RESOURCES:
        try:
            shown.append(there.find(name))
        except ConfigError:  # a server may lack a group. Only explicitly requested resources must exist
            continue
    return shown
