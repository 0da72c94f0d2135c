"""The setup of one test: a server, a client, a namespace and a factory, created in the test's event loop.

It is shared by the plugin and its fixtures for pytest-asyncio. Like the plugin, it imports nothing of kinformer
before a scene is set up.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from kinformer.blocking import Informers
    from kinformer.client.client import Client
    from kinformer.testing.cluster_server import ClusterServer
    from kinformer.testing.clusters.control_plane import ControlPlane
    from kinformer.testing.clusters.existing_cluster import ExistingCluster
    from kinformer.testing.factories import ObjectFactory
    from kinformer.testing.programs import Programs

__all__ = ["PROGRAMS", "USED", "Scene", "crds_of", "scene"]

_NAMESPACED = {"kube_namespace", "make_object", "make_pod", "make_deployment"}

USED = pytest.StashKey["ControlPlane"]()
"""The control plane that a test has used."""

PROGRAMS = pytest.StashKey["Programs"]()
"""The programs that run beside a test."""


def crds_of(config: pytest.Config) -> list[Path]:
    """Return the files and folders of CustomResourceDefinitions named in the settings."""
    return list(config.getini("kube_crds"))


class Scene(NamedTuple):
    """Server, client, namespace, factory and programs of one test."""

    server: ClusterServer
    client: Client | Informers
    namespace: str
    factory: ObjectFactory
    programs: Programs


@asynccontextmanager
async def scene(request: pytest.FixtureRequest, shared: ControlPlane | ExistingCluster | None) -> AsyncIterator[Scene]:
    """Set up and tear down the scene of one test, in its event loop."""
    from kinformer.testing.factories import ObjectFactory
    from kinformer.testing.programs import Programs

    async with AsyncExitStack() as stack:
        server = await _server(request, shared, stack)
        client = await stack.enter_async_context(server.client())
        namespace = ""
        if _NAMESPACED & set(request.fixturenames):
            namespace = _unique(request.node.name)
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await client.request("POST", "/api/v1/namespaces", body=body)
            stack.push_async_callback(_remove_namespace, server, namespace)
        factory = ObjectFactory(client, namespace)
        if shared is not None:
            stack.push_async_callback(factory.remove_outside)
        programs = request.node.stash[PROGRAMS] = Programs()
        stack.push_async_callback(programs.end)
        yield Scene(server, client, namespace, factory, programs)


async def _server(
    request: pytest.FixtureRequest, shared: ControlPlane | ExistingCluster | None, stack: AsyncExitStack
) -> ClusterServer:
    from kinformer.testing.clusters.control_plane import ControlPlane
    from kinformer.testing.server import APIServer

    if shared is None:
        embedded = await stack.enter_async_context(APIServer())
        if crds := crds_of(request.config):
            await embedded.install_crds(*crds)
        return embedded
    if isinstance(shared, ControlPlane):
        request.node.stash[USED] = shared
        await shared.ensure_running()  # an earlier test may have stopped it
    return shared


async def _remove_namespace(server: ClusterServer, name: str) -> None:
    """Remove a namespace on a control plane. A cluster does this by itself, and the embedded server ends as a whole."""
    from kinformer.testing.clusters.control_plane import ControlPlane
    from kinformer.testing.clusters.existing_cluster import ExistingCluster
    from kinformer.testing.clusters.sweep import remove_namespace

    if isinstance(server, ControlPlane):
        await server.ensure_running()
        async with server.client() as client:
            await remove_namespace(client, name)
    elif isinstance(server, ExistingCluster):
        async with server.client() as client:
            await client.request("DELETE", f"/api/v1/namespaces/{name}")


def _unique(test: str) -> str:
    """Return a namespace name that contains the test's name and is unique across all test runs on the cluster."""
    words = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[:40].strip("-")
    return f"{words}-{uuid.uuid4().hex[:10]}"
