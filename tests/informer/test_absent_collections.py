"""A collection that is not served any more: whatever reads it keeps its objects until it is proved to be gone."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kinformer import Client, ListWatch, SharedInformerFactory, derive, union, watch
from kinformer.manager import readiness
from kinformer.testing import APIServer, faults
from kinformer.watchcache import Share
from tests.support.kube import widget, widget_definition
from tests.support.mirror import Mirror
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

ALPHA = "example.com/v1alpha1/widgets"
DEFINITION = "apiextensions.k8s.io/v1/customresourcedefinitions"
SHORT = {"watch_timeout": 5}


def define(server: APIServer, *, alpha: bool) -> None:
    definition = widget_definition()
    [v1] = definition["spec"]["versions"]
    definition["spec"]["versions"] = [{**v1, "name": "v1alpha1", "storage": False, "served": alpha}, v1]
    server.register_crd(definition)


@pytest.fixture(autouse=True)
def widgets(server: APIServer) -> None:
    define(server, alpha=True)
    for number in range(8):
        server.create(widget("a", namespace=f"team-{number}"))


@pytest.fixture
def path() -> Iterator[Path]:
    """Give a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="kf") as folder:
        yield Path(folder)


def remove_unseen(server: APIServer) -> None:
    """Delete the definition while every watch is cut, so that nobody gets the deletes."""
    server.faults.add(faults.status(503), verb="watch", times=20)
    server.faults.add(faults.reset(), verb="watch")
    server.delete(DEFINITION, None, "widgets.example.com")
    server.faults.clear()


async def test_what_is_derived_from_a_version_that_ends_stays(server: APIServer, client: Client, path: Path) -> None:
    async with SharedInformerFactory(client, **SHORT) as factory:
        widgets = factory.for_resource(ALPHA, snapshot=path / "widgets")
        names = factory.add(derive(widgets, lambda obj, _: obj.name, name="names"))
        both = factory.add(union({"east": widgets}, name="both"))
        told = [Mirror(), Mirror()]
        widgets.add_event_handler(told[0])
        both.add_event_handler(told[1])
        await factory.wait_for_cache_sync(timeout=30, handlers=True)
        define(server, alpha=False)
        await until(lambda: widgets.health().state == "absent")
        await asyncio.sleep(600)
        assert [len(one.by_key) for one in (widgets, names, both)] == [8, 8, 8]
        assert [one.of("delete") for one in told] == [[], []]
        assert not readiness(factory)[0]
    async with SharedInformerFactory(client, **SHORT) as factory:
        again = factory.for_resource(ALPHA, snapshot=path / "widgets")
        await until(lambda: again.health().state == "absent")
        define(server, alpha=True)
        await again.wait_synced(timeout=90)
        assert len(again.lister) == 8


async def test_a_stream_tells_no_deletes(server: APIServer, client: Client) -> None:
    async with watch(ListWatch(client, ALPHA), watch_timeout=5) as events:
        for _ in range(8):
            assert (await anext(events)).type == "ADDED"
        define(server, alpha=False)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 600)
        assert events.health().state == "absent"
        server.delete(DEFINITION, None, "widgets.example.com")
        assert {(await anext(events)).type for _ in range(8)} == {"DELETED"}


async def test_the_informers_of_many_namespaces_share_a_proof(server: APIServer, client: Client) -> None:
    mirror = Mirror()
    async with SharedInformerFactory(client) as factory:
        widgets = factory.for_resource(ALPHA, namespaces=[f"team-{number}" for number in range(8)])
        widgets.add_event_handler(mirror)
        await factory.wait_for_cache_sync(timeout=30, handlers=True)
        remove_unseen(server)
        await until(lambda: widgets.health().state == "absent")
        before = len(server.requests)
        await until(lambda: not len(widgets.lister), 300)
        assert mirror.wrong == []
        assert not mirror.known
        questions = [request.path for request in server.requests[before:] if "/widgets" not in request.path]
        seconds = 120
        assert questions.count("/apis") <= seconds / 10
        assert len([path for path in questions if path.endswith("widgets.example.com")]) <= seconds / 10


@pytest.mark.slow
async def test_processes_that_share_a_cache_keep_it(server: APIServer, client: Client, path: Path) -> None:
    told = [Mirror(), Mirror()]
    async with (
        SharedInformerFactory(client, share=Share(path / "cache.sock"), **SHORT) as first,
        SharedInformerFactory(client, share=Share(path / "cache.sock"), **SHORT) as second,
    ):
        caches = [factory.for_resource(ALPHA) for factory in (first, second)]
        for cache, mirror in zip(caches, told, strict=True):
            cache.add_event_handler(mirror)
            await cache.wait_synced(timeout=30)
        define(server, alpha=False)
        await until(lambda: not any(cache.health().live for cache in caches))
        await asyncio.sleep(600)
        assert [len(cache.lister) for cache in caches] == [8, 8]
        assert [mirror.of("delete") for mirror in told] == [[], []]
        server.delete(DEFINITION, None, "widgets.example.com")
        await until(lambda: not any(len(cache.lister) for cache in caches), 300)
        assert [mirror.wrong for mirror in told] == [[], []]


async def test_what_an_optional_resource_has_left_is_not_fresh(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client, optional=True, **SHORT) as factory:
        widgets = factory.for_resource(ALPHA)
        await factory.wait_for_cache_sync(timeout=30)
        await widgets.confirm()
        assert readiness(factory, max_staleness=30)[0]
        define(server, alpha=False)
        await until(lambda: widgets.health().state == "absent")
        await asyncio.sleep(60)
        assert not readiness(factory, max_staleness=30)[0]
        server.delete(DEFINITION, None, "widgets.example.com")
        await until(lambda: not len(widgets.lister), 300)
        assert readiness(factory, max_staleness=30)[0]
