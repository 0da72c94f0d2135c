"""Resources that can be listed, and not watched: an error in every wait, or `poll=`."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kinformer import (
    Client,
    ConfigError,
    Fleet,
    ForbiddenError,
    ListPage,
    ListWatch,
    Reflector,
    SharedInformer,
    SharedInformerFactory,
    blocking,
    derive,
    wait_for,
    watch,
)
from kinformer.controller import Controller, Request, Result
from kinformer.exceptions import NotWatchableError, StoppedError, WatchError
from kinformer.manager import readiness
from kinformer.testing import APIServer, faults
from kinformer.watchcache import Share
from tests.support.fault_scene import EVEN, Reply
from tests.support.http_server import HttpServer, json_answer, status_answer
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.metrics_server import METRICS, MetricsServer
from tests.support.mirror import Mirror
from tests.support.waiting import settle, until

pytestmark = pytest.mark.virtual_time


@asynccontextmanager
async def metrics_server(**options: Any) -> AsyncIterator[tuple[MetricsServer, Client]]:
    metrics = MetricsServer(**options)
    async with HttpServer(metrics) as server, Client.from_url(server.url) as client:
        yield metrics, client


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


# --- without poll ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("watch_list", [None, True, False])
async def test_every_wait_says_that_it_cannot_be_watched_and_names_poll(watch_list: bool | None) -> None:
    says = "cannot be watched .*get, list.*poll=30"
    async with metrics_server() as (metrics, client), SharedInformerFactory(client, watch_list=watch_list) as factory:
        pods = factory.for_resource(METRICS)
        names = factory.add(derive(pods, lambda obj, _: obj.name, name="names"))
        await until(lambda: pods.health().last_error is not None)
        await settle()
        loop = asyncio.get_running_loop()
        began = loop.time()
        waits = {
            "factory": lambda: factory.wait_for_cache_sync(timeout=60),
            "never fails fast": lambda: factory.wait_for_cache_sync(timeout=60, fail_fast=False),
            "handlers": lambda: factory.wait_for_cache_sync(timeout=60, handlers=True),
            "informer": lambda: pods.wait_synced(timeout=60),
            "fails fast": lambda: pods.wait_synced(timeout=60, fail_fast=True),
            "object": lambda: wait_for(pods, "shop/web-1", lambda obj: obj is None, 60),
            "confirm": lambda: pods.confirm(timeout=60),
            "confirm one": lambda: pods.confirm(namespace="shop", name="web-1", timeout=60),
            "version": lambda: pods.wait_for_resource_version("7", timeout=60),
        }
        for what, waiting in waits.items():
            with pytest.raises(WatchError, match=says):
                await waiting()
            assert loop.time() - began < 5, what
        if watch_list is not False:
            with pytest.raises(WatchError, match=says):
                await names.wait_synced(timeout=60)
        with pytest.raises(NotWatchableError, match=says):
            await client.wait_for(METRICS, "shop/web-1", lambda obj: obj is None, timeout=60)
        async with watch(ListWatch(client, METRICS), watch_list=watch_list) as events:
            with pytest.raises(NotWatchableError, match=says):
                _ = [event async for event in events]
        health = pods.health()
        assert (health.live, isinstance(health.last_error, NotWatchableError)) == (False, True)
        assert not readiness(factory)[0]
        before = len(metrics.lists)
        await asyncio.sleep(600)
        assert len(metrics.lists) == before, "what it says is the same after another list"
        metrics.verbs = ["get", "list", "watch"]  # now a 405 is a proxy's, and lists may help
        if not watch_list:
            await until(lambda: len(metrics.lists) > before, 150)


@pytest.mark.parametrize("verbs", [["list", "watch"], [], None, "list", [7]])
async def test_a_405_that_discovery_does_not_explain_is_a_refused_option_as_ever(verbs: Any) -> None:
    async with metrics_server(verbs=verbs) as (metrics, client), SharedInformerFactory(client) as factory:
        pods = factory.for_resource(METRICS)
        await factory.wait_for_cache_sync(timeout=60)
        assert len(pods.lister) == 2
        await until(lambda: len(metrics.lists) > 2, 60)


async def test_a_resource_that_learns_to_be_watched_is_followed(server: APIServer, client: Client) -> None:
    server.create(config_map("a"))
    resources = [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": ["list"]}]
    document = {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v1":
            return json_answer(document)
        if "watch" in request.query and resources[0]["verbs"] == ["list"]:
            return status_answer(405, "MethodNotAllowed")
        async with client.stream(request.path, dict(request.query), watch="watch" in request.query) as body:
            return await Reply([chunk async for chunk in body]).give(request)

    async with (
        HttpServer(answer) as proxy,
        Client.from_url(proxy.url) as through,
        SharedInformerFactory(through, watch_list=False) as factory,
    ):
        maps = factory.for_resource("v1/configmaps", namespace="default", watch_timeout=2)
        await until(lambda: isinstance(maps.health().last_error, NotWatchableError))
        resources[0]["verbs"] = ["list", "watch"]
        await until(lambda: maps.health().live, 60)
        await maps.wait_synced(timeout=5)


async def test_a_watch_that_is_forbidden_is_said_in_every_wait_once_that_lasts() -> None:
    rules = [("reader", "list", "v1/configmaps")]
    async with APIServer(users={"token": "reader"}, rules=rules) as server, server.client("reader") as client:
        server.create(config_map("a"))
        async with SharedInformerFactory(client) as factory:
            maps = factory.for_resource("v1/configmaps")
            loop = asyncio.get_running_loop()
            began = loop.time()
            alone = asyncio.ensure_future(maps.wait_synced(timeout=120))
            with pytest.raises(ForbiddenError, match=r"watch.*configmaps.*grant the verb watch, or pass poll=30"):
                await factory.wait_for_cache_sync(timeout=120)
            assert 15 <= loop.time() - began < 40
            with pytest.raises(ForbiddenError, match="poll=30"):
                await alone
            assert maps.has_synced
            assert (maps.health().state, maps.health().live) == ("forbidden", False)
            with pytest.raises(ForbiddenError, match="poll=30"):
                await wait_for(maps, "default/b", lambda obj: obj is not None)
            with pytest.raises(ForbiddenError, match="poll=30"):
                await maps.wait_synced(timeout=60, fail_fast=True)
            await maps.wait_synced(timeout=60, fail_fast=False)
        async with SharedInformerFactory(client, poll=30) as factory:
            maps = factory.for_resource("v1/configmaps")
            await factory.wait_for_cache_sync(timeout=10)
            assert maps.health().live
            server.create(config_map("b"))
            await until(lambda: len(maps.lister) == 2, 34)


async def test_a_watch_that_is_allowed_in_time_ends_the_wait(server: APIServer, client: Client) -> None:
    handle = server.faults.add(faults.status(403), verb="watch")
    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource("v1/configmaps")
        waiting = asyncio.ensure_future(factory.wait_for_cache_sync(timeout=60))
        await until(lambda: maps.has_synced, 10)
        await asyncio.sleep(1)
        assert not waiting.done()
        handle.remove()
        await waiting
        assert maps.health().live


async def test_a_wait_for_a_watch_ends_with_the_informer(server: APIServer, client: Client) -> None:
    server.faults.add(faults.status(403), verb="watch")
    async with SharedInformer(ListWatch(client, "v1/configmaps")) as maps:
        waiting = asyncio.ensure_future(maps.wait_synced())
        await until(lambda: maps.has_synced and maps.health().state == "forbidden", 10)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 1)


async def test_a_watch_that_is_forbidden_later_ends_no_wait_for_a_first_sync(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client, watch_timeout=2) as factory:
        maps = factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(timeout=30)
        await until(lambda: maps.health().live)
        server.faults.add(faults.status(403), verb="watch")
        await asyncio.sleep(60)
        assert maps.health().state == "forbidden"
        await factory.wait_for_cache_sync(timeout=30)


# --- with poll -------------------------------------------------------------------------------------------------------


async def test_it_is_listed_every_30_seconds_and_never_watched() -> None:
    mirror = Mirror()
    async with metrics_server() as (metrics, client), SharedInformerFactory(client) as factory:
        pods = factory.for_resource(METRICS, poll=30)
        pods.add_event_handler(mirror)
        await factory.wait_for_cache_sync(timeout=10, handlers=True)
        lived = 0
        for _ in range(600):
            await asyncio.sleep(1)
            lived += pods.health().live
        assert lived == 600
        assert all(27 <= gap <= 33 for gap in gaps(metrics.lists))
        assert len({round(gap, 3) for gap in gaps(metrics.lists)}) > 10, "they are jittered"
        health = pods.health()
        assert (health.state, health.synced, health.watches, metrics.watches) == ("polling", True, 0, 0)
        assert health.staleness is not None
        assert health.staleness <= 33
        assert (health.last_error, pods.last_sync_resource_version) == (None, "")
        assert dict(pods.statistics().relists) == {"poll": len(metrics.lists) - 1}
        assert len(mirror.calls) == 2, "equal objects cause no call"
        assert metrics.versions == {None}, "each list has the newest state"
        assert readiness(factory)[0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compact": True},
        {"fields": ["containers"]},
        {"transform": lambda document: document},
        {"namespaces": ["shop", "other"]},
        {"page_size": 1},
    ],
    ids=["whole", "compact", "fields", "transform", "namespaces", "pages"],
)
async def test_objects_without_a_version_are_compared_by_their_bytes(options: dict[str, Any]) -> None:
    async with metrics_server() as (metrics, client):
        mirror = Mirror()
        names = options.pop("namespaces", None)
        if names:  # the server knows one path
            sources = {"shop": ListWatch(client, METRICS), "other": MemorySource()}
            informer: Any = SharedInformer(sources, poll=30, **options)
        else:
            fields = options.pop("fields", None)
            informer = SharedInformer(ListWatch(client, METRICS, fields=fields), poll=30, **options)
        async with informer as pods:
            pods.add_event_handler(mirror)
            await pods.wait_synced(timeout=10)
            await asyncio.sleep(40)
            metrics.usage |= {"web-1": "900m", "web-3": "1m"}
            del metrics.usage["web-2"]
            await asyncio.sleep(70)
            assert sorted(call[:2] for call in mirror.calls[2:]) == [
                ("add", "web-3"),
                ("delete", "web-2"),
                ("update", "web-1"),
            ]
            assert pods.lister.get("web-1", namespace="shop")["containers"][0]["usage"] == {"cpu": "900m"}
            assert mirror.known.keys() == pods.by_key.keys()


async def test_it_is_live_until_the_last_list_is_a_minute_late() -> None:
    async with (
        metrics_server() as (metrics, client),
        SharedInformerFactory(client, backoff=EVEN) as factory,
    ):
        pods = factory.for_resource(METRICS, poll=30)
        await factory.wait_for_cache_sync(timeout=10)
        metrics.seconds = 3600
        await until(lambda: len(metrics.lists) == 2, 34)
        assert pods.health().live
        await until(lambda: not pods.health().live, 31)
        assert isinstance(pods.health().last_error, TimeoutError)
        metrics.seconds = 0
        metrics.fails = 503
        await asyncio.sleep(120)
        assert (pods.health().live, len(pods.lister)) == (False, 2)
        assert pods.health().staleness > 120
        metrics.fails = None
        await until(lambda: pods.health().live, 60)
        assert pods.health().state == "polling"
        assert pods.health().staleness < 2


@pytest.mark.slow
async def test_a_list_whose_body_does_not_end_makes_it_stale() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        pieces: list[bytes | float] = [b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[']
        pieces += [b" ", 20.0] * 30 if len(server.requests) > 1 else []
        return await Reply([*pieces, b"]}"]).give(request)

    async with (
        HttpServer(answer) as server,
        Client.from_url(server.url) as client,
        SharedInformer(ListWatch(client, "v1/configmaps"), poll=10) as maps,
    ):
        await maps.wait_synced(timeout=5)
        await asyncio.sleep(60)
        assert maps.health().live
        await asyncio.sleep(15)
        assert not maps.health().live, "computed at the look"
        await until(lambda: maps.health().live, 600)


async def test_confirm_lists() -> None:
    async with metrics_server() as (metrics, client), SharedInformerFactory(client) as factory:
        pods = factory.for_resource(METRICS, poll=300)
        await factory.wait_for_cache_sync(timeout=10)
        await asyncio.sleep(20)
        for call in (
            {},
            {"namespace": "shop", "name": "web-3"},
            {"namespace": "shop"},
            {"label_selector": "app!=x"},
        ):
            metrics.usage["web-3"] = f"{len(metrics.lists)}m"
            found = {pod.name: pod["containers"][0]["usage"]["cpu"] for pod in await pods.confirm(**call)}
            assert found["web-3"] == metrics.usage["web-3"]
            assert pods.health().staleness < 1
        assert len(metrics.lists) == 5
        await asyncio.gather(*(pods.confirm() for _ in range(20)))
        assert len(metrics.lists) == 6, "calls share a list that has not begun"
        metrics.fails = 403
        with pytest.raises(ForbiddenError):
            await pods.confirm()
        metrics.fails, metrics.seconds = None, 20
        with pytest.raises(TimeoutError):
            await pods.confirm(timeout=5)


async def test_a_cache_that_must_be_fresh_is_listed_for_it() -> None:
    async with metrics_server() as (metrics, client), SharedInformerFactory(client) as factory:
        factory.for_resource(METRICS, poll=600)
        await factory.wait_for_cache_sync(timeout=10)
        assert readiness(factory, max_staleness=30)[0]
        for _ in range(200):
            await asyncio.sleep(1)
            assert readiness(factory, max_staleness=30)[0]
        assert 10 <= len(metrics.lists) <= 20


async def test_a_wait_ends_if_its_informer_does(client: Client) -> None:
    async with metrics_server() as (metrics, client):
        informer = SharedInformer(ListWatch(client, METRICS), poll=300, shutdown_timeout=1)
        async with informer:
            await informer.wait_synced(timeout=10)
            metrics.seconds = 20
            confirming = asyncio.ensure_future(informer.confirm(timeout=None))
            await asyncio.sleep(5)
        with pytest.raises(StoppedError):
            await asyncio.wait_for(confirming, 1)


async def test_it_is_refused_where_it_cannot_work(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"poll=0.*greater than 0"):
        SharedInformer(ListWatch(client, METRICS), poll=0)
    with pytest.raises(ConfigError, match="snapshot with poll="):
        SharedInformer(ListWatch(client, METRICS), poll=30, snapshot=tmp_path / "x")
    with pytest.raises(ConfigError, match="poll=30"):
        watch(ListWatch(client, METRICS), poll=30)
    with pytest.raises(ConfigError, match=r"poll=30.*share="):
        SharedInformerFactory(client, share=Share(tmp_path / "x.sock")).for_resource(METRICS, poll=30)
    async with SharedInformerFactory(client, snapshot=tmp_path) as factory:
        maps = factory.for_resource("v1/configmaps", poll=30)
        assert maps.snapshot_file is None, "a default that cannot apply is not applied"
        assert factory.for_resource("v1/configmaps", poll=30) is maps
        assert factory.for_resource("v1/configmaps", poll=60) is not maps
        assert factory.for_resource("v1/configmaps") is not maps
        await factory.wait_for_cache_sync(timeout=10)
        with pytest.raises(ConfigError, match=r"is polled \(poll=30\); use confirm"):
            await maps.wait_for_resource_version("7")


async def test_a_controller_reads_its_own_writes_in_a_cache_that_is_polled(server: APIServer, client: Client) -> None:
    server.create(config_map("a", data={"step": "0"}))
    seen: list[str] = []

    async def reconcile(request: Request) -> Result:
        obj = maps.lister.get(request.name, namespace=request.namespace)
        assert obj is not None
        seen.append(obj["data"]["step"])
        if len(seen) < 4:
            await client.patch("v1/configmaps", obj.key, {"data": {"step": str(len(seen))}})
        return Result(requeue_after=0.5)

    async with SharedInformerFactory(client, poll=120) as factory:
        maps = factory.for_resource("v1/configmaps", namespace="default")
        controller = Controller(reconcile).for_(maps)
        running = asyncio.ensure_future(controller.run())
        await until(lambda: len(seen) >= 4, 30)
        running.cancel()
        await asyncio.wait([running])
    assert seen[:4] == ["0", "1", "2", "3"]


async def test_a_404_of_a_resource_that_is_polled_keeps_its_objects() -> None:
    async with metrics_server() as (metrics, client), SharedInformerFactory(client) as factory:
        pods = factory.for_resource(METRICS, poll=30)
        await factory.wait_for_cache_sync(timeout=10)
        metrics.fails = 404
        await asyncio.sleep(600)
        assert (pods.health().state, pods.health().live, len(pods.lister)) == ("absent", False, 2)


async def test_a_source_of_the_programs_own_is_polled() -> None:
    class Rows:
        """A table that can be read, and not followed."""

        def __init__(self) -> None:
            self.rows = {"a": "1"}

        async def list(self, options: Any) -> ListPage:
            return ListPage([config_map(name, data={"v": value}) for name, value in self.rows.items()])

        def watch(self, options: Any) -> Any:
            raise NotImplementedError

    rows = Rows()
    async with SharedInformer(rows, poll=5) as informer, informer.events() as stream:
        await informer.wait_synced(timeout=5)
        assert (await anext(stream)).type == "ADDED"
        rows.rows = {"a": "2"}
        event = await anext(stream)
        assert (event.type, event.old["data"], event.object["data"]) == ("UPDATED", {"v": "1"}, {"v": "2"})


async def test_a_reflector_alone_polls_too() -> None:
    source, stored = MemorySource(), {}
    source.set("a")

    class Store:
        def replace(self, items: list[Any], version: str) -> None:
            stored.clear()
            stored.update({obj.key: obj for obj in items})

        def resync(self) -> None:
            stored["resynced"] = True

        add = update = delete = lambda self, obj: None

    reflector = Reflector(source, Store(), poll=30, resync_period=10)
    running = asyncio.ensure_future(reflector.run())
    await asyncio.sleep(15)
    assert (reflector.health().state, reflector.health().live) == ("polling", True)
    assert stored.keys() == {"default/a", "resynced"}
    source.set("b")
    reflector.refresh(str(source.version))
    await asyncio.sleep(1)
    assert "default/b" in stored
    running.cancel()
    await asyncio.wait([running])


async def test_a_program_without_a_loop_polls_too() -> None:
    async with HttpServer(MetricsServer()) as server:

        def program() -> tuple[list[str], str, float | None]:
            with blocking.Informers(url=server.url) as informers:
                pods = informers.for_resource(METRICS, poll=30)
                pods.wait_synced(timeout=10)
                names = [pod.name for pod in pods.confirm(timeout=5)]
                with pytest.raises(NotWatchableError, match="poll=30"):
                    informers.for_resource(METRICS).wait_synced(timeout=10)
                return names, pods.health().state, pods.health().staleness

        names, state, staleness = await asyncio.to_thread(program)
        assert (sorted(names), state) == (["web-1", "web-2"], "polling")
        assert staleness is not None


async def test_the_clusters_of_a_fleet_are_polled() -> None:
    async with HttpServer(metrics := MetricsServer()) as server:
        fleet = Fleet({"east": Client.from_url(server.url), "west": Client.from_url(server.url)})
        usage = fleet.union(METRICS, poll=30)
        async with fleet:
            await usage.wait_synced(timeout=10)
            assert sorted(usage.by_key) == [
                f"{name}/shop/web-{number}" for name in ("east", "west") for number in (1, 2)
            ]
            del metrics.usage["web-1"]
            await until(lambda: len(usage.by_key) == 2, 34)
            assert usage.health().live


async def test_processes_that_share_a_cache_say_so_too() -> None:
    class Knowing(MetricsServer):
        """It tells who asks, as sharing needs."""

        async def __call__(self, request: web.Request) -> web.StreamResponse:
            if request.path.endswith("/selfsubjectreviews"):
                return json_answer({"status": {"userInfo": {"username": "bob"}}})
            return await super().__call__(request)

    with tempfile.TemporaryDirectory(prefix="kf") as folder:
        path = Path(folder) / "cache.sock"
        async with (
            HttpServer(Knowing()) as server,
            Client.from_url(server.url) as client,
            SharedInformerFactory(client, share=Share(path)) as first,
            SharedInformerFactory(client, share=Share(path)) as second,
        ):
            for factory in (first, second):
                factory.for_resource(METRICS)
                with pytest.raises(NotWatchableError, match="poll=30"):
                    await factory.wait_for_cache_sync(timeout=60)
            assert [factory.shared_cache.role for factory in (first, second)] == ["holder", "follower"]
