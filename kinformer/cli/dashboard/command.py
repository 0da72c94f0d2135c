"""`kinformer dashboard`: a web page on a living cluster, and what it is read from."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import uvicorn

from kinformer.cli.dashboard.app import cluster_app
from kinformer.cli.dashboard.board import board_of
from kinformer.cli.dashboard.guard import LOOPBACK_NAMES
from kinformer.cli.dashboard.secrets import hide
from kinformer.cli.demo.living_cluster import LivingCluster
from kinformer.cli.target import Server
from kinformer.client.client import Client
from kinformer.client.discovery import APIResource, discover, find
from kinformer.contrib.fastapi import kinformer_lifespan
from kinformer.exceptions import ConfigError
from kinformer.informer.factory import SharedInformerFactory
from kinformer.testing import APIServer

__all__ = ["RESOURCES", "dashboard"]

RESOURCES = (
    "pods",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "services",
    "configmaps",
    "secrets",
    "nodes",
    "namespaces",
)
"""What is shown where nothing else is asked for, as far as the server has it."""

_IN_THE_DEMO = ("pods", "deployments.apps", "nodes", "namespaces")  # what lives there

_GRACE = 2  # seconds that answers have when the server ends; event streams end by themselves well before


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
    """Serve the page until Ctrl-C or SIGTERM, at which uvicorn ends in order and then passes it on.

    Args:
        target: The server to watch.
        resources: What to show, as kubectl names it; empty is `RESOURCES`.
        demo: Watch a small cluster that lives in this process, instead of `target`.
        namespace: Only this one; all by default.
        host, port: Where to listen; port 0 takes one that is free.
        names: Host names, beside those of loopback, under which it answers.
        duration: Seconds after which to end; None is never.

    Raises:
        ConfigError: The server has no such resource.
        OSError: The port is taken.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await _demo(stack) if demo else target.client())
        wanted = await _wanted(client, resources or (_IN_THE_DEMO if demo else ()))
        listener = stack.enter_context(_listen(host, port))
        shown = f"[{host}]" if ":" in host else host

        @asynccontextmanager
        async def setup() -> AsyncIterator[SharedInformerFactory]:
            # Not before: whoever reads this may send a signal, and from here on uvicorn ends in order at one.
            print(f"http://{shown}:{listener.getsockname()[1]}/  (Ctrl-C ends)", flush=True)
            async with SharedInformerFactory(client) as factory:
                for resource in wanted:
                    factory.for_resource(
                        resource.gvr,
                        namespace=namespace if resource.namespaced else None,
                        transform=hide if str(resource) == "v1/secrets" else None,
                    )
                await board_of(factory)  # so that what changes is kept from now on, not from the first page
                yield factory

        app = cluster_app(names={*LOOPBACK_NAMES, host, *names}, lifespan=kinformer_lifespan(setup))
        config = uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=_GRACE, lifespan="on")
        server = uvicorn.Server(config)
        timer = None if duration is None else asyncio.get_running_loop().call_later(duration, _stop, server)
        try:
            await server.serve(sockets=[listener])
        finally:
            if timer is not None:
                timer.cancel()
    return 0


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True


async def _demo(stack: AsyncExitStack) -> Client:
    server = await stack.enter_async_context(APIServer())
    cluster = LivingCluster(server)
    cluster.populate()
    living = asyncio.create_task(cluster.run(), name="kinformer dashboard: cluster")

    async def end() -> None:
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)

    stack.push_async_callback(end)
    return server.client()


async def _wanted(client: Client, names: Sequence[str]) -> list[APIResource]:
    there = await discover(client)
    if names:
        return [find(there, name) for name in names]
    found = []
    for name in RESOURCES:
        try:
            found.append(find(there, name))
        except ConfigError:  # a server may lack a group; what is asked for by name has to be there
            continue
    return found


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror}") from None
    return listener
