"""The tests of lists and watches, asked through a proxy: it answers as the server whose objects it caches."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
import pytest_asyncio

from kinformer.testing import ClusterServer
from tests.conformance import test_lists, test_watches
from tests.conformance.conftest import new_namespace
from tests.conformance.site import Site
from tests.conformance.test_custom import definition
from tests.conformance.test_lists import METADATA
from tests.conformance.test_objects import configmap
from tests.conformance.test_watches import INITIAL
from tests.support.apiserver_http import Exchange, watch
from tests.support.metrics_sink import MemoryMetrics
from tests.watchcache.proxy.conftest import proxying

pytestmark = pytest.mark.virtual_time

JSON = "application/json"
CACHED = ("v1/configmaps", "v1/pods", "v1/secrets", "v1/events")
OTHERWISE = (
    # Its watch lasts for a second, in which the cache of a quiet resource may not be proved to be current.
    "test_a_streamed_list_of_nothing_is_a_bookmark",
)

for module in (test_lists, test_watches):
    tests = {name: value for name, value in vars(module).items() if name.startswith("test_")}
    globals().update({name: value for name, value in tests.items() if name not in OTHERWISE})


class Proxied:
    """A server with the URL of a proxy, which adds its own credentials."""

    ca_file = None

    def __init__(self, server: ClusterServer, url: str) -> None:
        self.behind = server
        self.url = url

    def token(self, user: str | None = None) -> str | None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


class ProxiedSite(Site):
    """A site that reads at a proxy, and writes at the server behind it.

    The proxy has what the test has made: a read at version 0 may be older.
    """

    def __init__(self, server: ClusterServer, namespace: str) -> None:
        super().__init__(server, namespace)
        self.own = Site(cast("Proxied", server).behind, namespace)

    async def make(self, path: str, body: Any) -> dict[str, Any]:
        made = await super().make(path, body)
        version = made["metadata"]["resourceVersion"]
        query = f"limit=1&resourceVersion={version}&resourceVersionMatch=NotOlderThan"
        reply = await self.ask("GET", f"{path}?{query}", kept=False)
        assert reply.status == 200, reply.body
        return made

    async def _open(self, method: str, path: str, body: Any, headers: dict[str, str], token: str | None) -> Exchange:
        if method == "GET":
            return await super()._open(method, path, body, headers, token)
        return await self.own._open(method, path, body, headers, self.own.server.token())


@pytest_asyncio.fixture
async def server(server: ClusterServer) -> AsyncIterator[ClusterServer]:
    async with (
        server.client() as client,
        proxying(client, *CACHED, keep_managed_fields=True) as proxy,
    ):
        yield cast("ClusterServer", Proxied(server, proxy.url))


@pytest_asyncio.fixture
async def site(server: ClusterServer) -> ProxiedSite:
    return ProxiedSite(server, await new_namespace(cast("Proxied", server).behind))


async def test_a_streamed_list_of_nothing_is_a_bookmark(site: Site) -> None:
    stream = await watch(site.server.url, f"{site.configmaps}?watch=1&{INITIAL}")
    kind, bookmark = await stream.event()
    assert (kind, bookmark["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})
    await stream.close()


async def test_objects_have_a_type_where_those_of_the_server_have_one(site: ProxiedSite) -> None:
    """Items of built-in lists have none. Those of custom resources and of metadata have one, and so have events."""
    own, group, metrics = site.own, f"{uuid.uuid4().hex[:8]}.example.com", MemoryMetrics()
    await own.server.install_crds(definition(group))
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}}
    objects = {own.configmaps: configmap("a"), own.of(f"{group}/v1", "widgets"): widget}
    async with (
        own.server.client() as client,
        proxying(client, CACHED[0], f"widgets.{group}", keep_managed_fields=True, metrics=metrics) as proxy,
    ):
        through = Site(cast("ClusterServer", Proxied(own.server, proxy.url)), own.namespace)
        for path, body in objects.items():
            version = (await own.make(path, body))["metadata"]["resourceVersion"]
            for place, accept in (("", JSON), ("", METADATA), ("/a", JSON)):
                expected, found = [
                    (await one.get(f"{path}{place}?resourceVersion={version}", accept=accept, kept=False)).json
                    for one in (own, through)
                ]
                assert found.get("items", found) == expected.get("items", expected)
                assert (found["kind"], found["apiVersion"]) == (expected["kind"], expected["apiVersion"])
            async with own.watch(f"{path}?watch=1&resourceVersion=0") as direct:
                expected = await direct.event()
            async with through.watch(f"{path}?watch=1&resourceVersion=0") as cached:
                assert await cached.event() == expected
    counted = metrics.values(source="cache", method="GET")["kinformer_proxy_requests_total"]
    assert counted == 4 * len(objects)
