"""Checks of the programs on pages, for checks that are longer than a page's source should have."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from kinformer import Client, Request, SharedInformer, SharedInformerFactory, blocking
from kinformer.contrib.backends import Backend, Backends
from kinformer.testing import APIServer
from tests.docs.scenes import endpoint, slice_of_web
from tests.support.kube import pod
from tests.support.waiting import until
from tests.support.web_server import reading, serving

_BAD_SELECTORS = [
    "app in (",
    "app=web,",
    "!",
    "app==a==b",
    "a" * 64 + "=b",
    "app=\u00e9",
    "%00",
    "=",
    "app notin (a",
    " ,",
]


async def _until_ready(service: httpx.AsyncClient) -> None:
    while (await service.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - another task makes it ready
        await asyncio.sleep(0.01)


async def check_web_service(app: Any) -> None:
    """The service of docs/fastapi.md answers from a cache of `web-1`, `web-2` and `db-1`."""
    async with serving(app) as url, httpx.AsyncClient(base_url=url) as service:
        await _until_ready(service)
        assert (await service.get("/nodes/node-2/pods")).json() == ["default/web-2"]
        assert len((await service.get("/pods", params={"selector": "app=web"})).json()["items"]) == 2
        assert (await service.get("/pods/default/db-1")).json()["spec"]["nodeName"] == "node-1"
        assert (await service.get("/pods/default/db-2")).status_code == 404
        assert (await service.get("/pods/table")).json()["total"] == 3
        for path in ("/pods", "/pods/events"):
            for bad in _BAD_SELECTORS:
                answer = await service.get(path, params={"selector": bad})
                assert answer.status_code == 400, (path, bad, answer.text)
                assert "selector" in answer.json()["detail"], (path, bad, answer.text)
        async with reading(url + "/pods/events", selector="app=web") as reader:
            assert {(await reader.next()).data["metadata"]["name"] for _ in range(2)} == {"web-1", "web-2"}


async def check_cache_for_other_users(app: Any, server: APIServer) -> None:
    """The service of docs/proxy.md answers reads of a team's pods to those of the team, and an informer follows it."""
    server.create(pod("of-a", namespace="team-a"))
    server.create(pod("of-b", namespace="team-b"))
    async with (
        serving(app) as url,
        Client.from_url(url, token="token-of-ann") as client,
        SharedInformerFactory(client, namespace="team-a") as factory,
    ):
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced(timeout=10)
        assert list(pods.by_key) == ["team-a/of-a"]
        server.create(pod("more-of-a", namespace="team-a"))
        await until(lambda: "team-a/more-of-a" in pods.by_key)
        assert (await client.get("v1/pods", "team-a/of-a")).name == "of-a"
        for path in ("/api/v1/namespaces/team-b/pods", "/api/v1/namespaces/team-b/pods/of-b?watch=1"):
            async with httpx.AsyncClient(base_url=url) as service:
                assert (await service.get(path, headers={"Authorization": "Bearer token-of-ann"})).status_code == 403
                assert (await service.get(path)).status_code in (401, 403)


async def check_balancing(
    server: APIServer,
    pool: Backends,
    round_robin: Callable[[], Backend | None],
    least_requests: Callable[[], AbstractContextManager[Backend]],
    requests: Counter[str],
    of_session: Callable[[str], Backend | None],
) -> None:
    """Each way to choose one of three backends is what its name says, also after one has gone."""
    hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert sorted(one.host for _ in range(6) if (one := round_robin())) == sorted(hosts * 2)
    with least_requests() as first, least_requests() as second, least_requests() as third:
        assert len({first, second, third}) == 3
    assert not +requests
    before = {str(number): of_session(str(number)) for number in range(100)}
    server.update(
        slice_of_web(*(endpoint(host, name, ready=host != hosts[2]) for host, name in zip(hosts, "abc", strict=True)))
    )
    await until(lambda: len(pool.snapshot()) == 2)
    after = {session: of_session(session) for session in before}
    assert all(after[session] == one for session, one in before.items() if one and one.host != hosts[2])
    assert {one.host for one in before.values() if one} == set(hosts)


async def check_collector(
    collect: Callable[[blocking.Informer, queue.Queue[Any], threading.Event], None],
) -> None:
    """A thread that collects events gets that of `web-2`, and ends when it is told to."""

    def collect_one() -> None:
        results: queue.Queue[Any] = queue.Queue()
        stop = threading.Event()
        with blocking.Informers() as informers:
            thread = threading.Thread(target=collect, args=(informers.for_resource("v1/pods"), results, stop))
            thread.start()
            assert results.get(timeout=10) == ("ADDED", "default/web-2")
            stop.set()
            thread.join(10)
            assert not thread.is_alive()

    await asyncio.to_thread(collect_one)


async def check_hook(server: APIServer, main: Callable[[], None]) -> None:
    """A program writes the ConfigMap `settings`, and ends when it has the key `stop`."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    server.create({**document, "data": {"level": "debug"}})
    running = asyncio.ensure_future(asyncio.to_thread(main))
    await until(lambda: (server.get("v1/configmaps", "default", "settings") or {})["data"] == {"level": "info"})
    server.update({**document, "data": {"stop": "yes"}})
    await running


async def check_reload(server: APIServer, main: Callable[[Path], None]) -> None:
    """A program writes the ConfigMap `settings` to a file, and ends when its level is `stop`."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    with TemporaryDirectory() as folder:
        written = Path(folder, "settings")
        running = asyncio.ensure_future(asyncio.to_thread(main, Path(folder)))
        await until(written.exists)
        server.update({**document, "data": {"level": "info"}})
        await until(lambda: written.read_text() == "{'level': 'info'}")
        server.update({**document, "data": {"level": "stop"}})
        await running


async def check_reconcile(
    server: APIServer, foos: SharedInformer, reconcile: Callable[[Request], Awaitable[object]]
) -> None:
    """A reconcile makes the Deployment and the status of a Foo, and lets a deleted Foo go."""
    metadata = {"name": "a", "namespace": "prod"}
    server.create({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata, "spec": {"replicas": 3}})
    await until(lambda: "prod/a" in foos.by_key)
    await reconcile(Request("prod", "a"))
    deployment, foo = (server.get(resource, "prod", "a") for resource in ("apps/v1/deployments", "example.com/v1/foos"))
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 3
    assert foo is not None
    assert foo["status"] == {"replicas": 3}
    server.delete("example.com/v1/foos", "prod", "a")
    await until(lambda: foos.by_key["prod/a"].deletion_timestamp)
    await reconcile(Request("prod", "a"))
    assert server.get("example.com/v1/foos", "prod", "a") is None
