"""The factory: one informer for each thing that is asked for, on the embedded API server."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kinformer import (
    Client,
    ConfigError,
    ForbiddenError,
    KubeObject,
    LabelSelector,
    NotSyncedError,
    SharedInformerFactory,
)
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.log_records import Said, records, said
from tests.support.waiting import until


@pytest_asyncio.fixture
async def factory(client: Client) -> AsyncIterator[SharedInformerFactory]:
    async with SharedInformerFactory(client) as entered:
        yield entered


async def test_asking_twice_for_the_same_returns_the_same(factory: SharedInformerFactory) -> None:
    first = factory.for_resource("v1/configmaps", label_selector="app=x")
    again = factory.for_resource("v1/configmaps", label_selector={"app": "x"}, indexers={"v": "data.v"})
    other = factory.for_resource("v1/configmaps")
    assert first is again
    assert other is not first
    assert factory.informers == (first, other)
    assert first.indexer.by_index("v", "1") == []


async def test_another_option_for_the_same_informer_is_refused_with_both_values(factory: SharedInformerFactory) -> None:
    factory.for_resource("v1/configmaps", resync_period=10)
    with pytest.raises(ConfigError, match=r"resync_period=10.*resync_period=0"):
        factory.for_resource("v1/configmaps")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nosuch": 1}, "nosuch"),
        ({"fields": ["spec.x"], "indexers": {"node": "spec.nodeName"}}, "spec.nodeName"),
        ({"metadata_only": True, "indexers": {"node": "spec.nodeName"}}, "metadata_only"),
        ({"namespace": "a", "namespaces": ["b"]}, "not both"),
        ({"namespaces": "abc"}, "one string"),
        ({"namespaces": []}, "at least one name"),
        ({"fields": "spec"}, "one string"),
        ({"fields": ["spec"], "metadata_only": True}, "cannot be combined"),
    ],
)
async def test_options_that_cannot_work_are_refused_by_name(
    factory: SharedInformerFactory, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        factory.for_resource("v1/pods", **options)


async def test_the_cache_follows_the_server(server: APIServer, factory: SharedInformerFactory) -> None:
    server.create(config_map("a", data={"v": "1"}))
    informer = factory.for_resource("v1/configmaps", namespace="default", indexers={"v": "data.v"})
    await factory.wait_for_cache_sync(timeout=10)
    server.create(config_map("b", data={"v": "2"}))
    server.update(config_map("a", data={"v": "3"}))
    await until(lambda: informer.indexer.index_keys("v", "3") == ["default/a"])
    server.delete("v1/configmaps", "default", "b")
    await until(lambda: len(informer.lister) == 1)
    found = informer.lister.get("a")
    assert found is not None
    assert (found.api_version, found.kind, found["data"]) == ("v1", "ConfigMap", {"v": "3"})


async def test_built_in_objects_look_alike_from_list_and_watch(
    server: APIServer, factory: SharedInformerFactory
) -> None:
    server.create(config_map("listed"))
    informer = factory.for_resource("v1/configmaps", namespace="default", watch_list=False)
    await factory.wait_for_cache_sync(timeout=10)
    server.create(config_map("watched"))
    await until(lambda: len(informer.lister) == 2)
    listed, watched = informer.lister.get("listed"), informer.lister.get("watched")
    assert listed is not None
    assert watched is not None
    assert set(listed) == set(watched)
    assert (listed.kind, listed.api_version) == (watched.kind, watched.api_version)
    assert "managedFields" not in listed["metadata"]


@pytest.mark.parametrize(
    ("options", "keeps"),
    [
        ({"fields": ["data.v"]}, {"apiVersion", "kind", "metadata", "data"}),
        ({"metadata_only": True}, {"apiVersion", "kind", "metadata"}),
        ({}, {"apiVersion", "kind", "metadata", "data"}),
    ],
)
async def test_what_is_kept_of_an_object_is_a_choice(
    server: APIServer, factory: SharedInformerFactory, options: dict[str, Any], keeps: set[str]
) -> None:
    server.create(config_map("a", labels={"app": "a"}, data={"v": "1", "w": "2"}))
    informer = factory.for_resource("v1/configmaps", namespace="default", **options)
    await factory.wait_for_cache_sync(timeout=10)
    server.create(config_map("b", labels={"app": "b"}, data={"v": "1", "w": "2"}))
    await until(lambda: len(informer.lister) == 2)
    for obj in informer.lister:
        assert set(obj) == keeps
        assert obj.get("data") in (None, {"v": "1"}, {"v": "1", "w": "2"})
        assert obj.labels == {"app": obj.name}
        if options.get("fields"):
            assert obj["data"] == {"v": "1"}


async def test_several_namespaces_in_one_cache(server: APIServer, factory: SharedInformerFactory) -> None:
    for namespace in ("one", "two", "three"):
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        server.create(config_map("a", namespace=namespace))
    informer = factory.for_resource("v1/configmaps", namespaces=["one", "two"])
    await factory.wait_for_cache_sync(timeout=10)
    assert sorted(informer.lister.keys()) == ["one/a", "two/a"]


async def test_a_410_in_the_middle_causes_one_relist_and_loses_nothing(
    server: APIServer, factory: SharedInformerFactory
) -> None:
    server.create(config_map("a"))
    deleted: list[str] = []
    informer = factory.for_resource("v1/configmaps", namespace="default")
    informer.add_event_handler(on_delete=lambda obj: deleted.append(obj.name))
    await factory.wait_for_cache_sync(timeout=10)
    await server.compact()
    handle = server.faults.add(faults.expired(), verb="watch", resource="v1/configmaps", times=1)
    await server.restart()
    server.create(config_map("b"))
    server.delete("v1/configmaps", "default", "a")
    await until(lambda: handle.hits == 1 and informer.lister.keys() == ["default/b"], 15)
    await until(lambda: deleted == ["a"])


@pytest.mark.slow
async def test_a_forbidden_resource_is_named_within_seconds(caplog: pytest.LogCaptureFixture) -> None:
    users = {"secret-token": "alice"}
    rules = [("alice", "list", "v1/configmaps"), ("alice", "watch", "v1/configmaps")]
    async with (
        APIServer(users=users, rules=rules) as server,
        server.client("alice") as client,
        SharedInformerFactory(client) as factory,
    ):
        factory.for_resource("v1/configmaps")
        factory.for_resource("v1/secrets")
        with pytest.raises(
            NotSyncedError,
            match=r"the factory has not .* v1/secrets: 403 Forbidden: secrets is forbidden",
        ) as caught:
            await factory.wait_for_cache_sync(timeout=2)
        assert list(caught.value.unsynced) == ["v1/secrets"]
        assert isinstance(caught.value.unsynced["v1/secrets"], ForbiddenError)
        with pytest.raises(ForbiddenError):
            await factory.wait_for_cache_sync(timeout=20, fail_fast=True)
        assert factory.health()["v1/secrets"].state == "forbidden"
        assert factory.health()["v1/configmaps"].live


async def test_a_handler_that_would_wait_for_itself_is_refused_at_once(client: Client, server: APIServer) -> None:
    server.create(config_map("a"))
    errors: list[str] = []
    factory = SharedInformerFactory(client)

    async def waits(obj: KubeObject) -> None:
        for waiting in (factory.__aexit__(None, None, None), factory.wait_for_cache_sync(handlers=True)):
            try:
                await waiting
            except RuntimeError as error:
                errors.append(str(error))

    async with factory:
        informer = factory.for_resource("v1/configmaps")
        informer.add_event_handler(on_add=waits, name="waits")
        await factory.wait_for_cache_sync(timeout=5, handlers=True)
        assert errors == [
            "informer v1/configmaps cannot be exited from inside its handler waits",
            "wait_for_cache_sync(handlers=True) would wait for informer v1/configmaps from inside its handler waits",
        ]
        assert factory.for_resource("v1/configmaps") is informer, "the factory has not been left"


async def test_an_informer_is_not_asked_for_on_another_loop_than_the_factorys(client: Client) -> None:
    async def ask() -> None:
        factory.for_resource("v1/secrets")

    async with SharedInformerFactory(client) as factory:
        with pytest.raises(RuntimeError, match="the factory belongs to another event loop"):
            await asyncio.to_thread(asyncio.run, ask())
        assert factory.informers == ()


@pytest.mark.virtual_time
async def test_a_long_wait_says_in_the_log_for_what(caplog: pytest.LogCaptureFixture) -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        server.faults.add(faults.status(503), resource="v1/pods")
        factory.for_resource("v1/pods")
        with caplog.at_level(logging.WARNING, "kinformer.factory"), pytest.raises(NotSyncedError):
            await factory.wait_for_cache_sync(timeout=26)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.factory", "v1/pods")] * 3
    assert "v1/pods: 503" in records(caplog, "unsynced")[0].getMessage()


async def test_the_last_release_ends_an_informer(factory: SharedInformerFactory) -> None:
    informer = factory.for_resource("v1/configmaps")
    assert factory.for_resource("v1/configmaps") is informer
    await factory.release(informer)
    assert informer.health().state != "stopped"
    await factory.release(informer)
    assert informer.health().state == "stopped"
    with pytest.raises(ValueError, match="not held"):
        await factory.release(informer)
    assert factory.for_resource("v1/configmaps") is not informer


async def test_a_release_that_is_refused_inside_a_handler_leaves_the_informer_held(
    server: APIServer, factory: SharedInformerFactory
) -> None:
    informer = factory.for_resource("v1/configmaps")
    refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def on_add(obj: Any) -> None:
        if not refused.done():
            with pytest.raises(RuntimeError, match="from inside its handler") as caught:
                await factory.release(informer)
            refused.set_result(str(caught.value))

    informer.add_event_handler(on_add=on_add, name="release")
    server.create(config_map("a"))
    async with asyncio.timeout(10):
        assert await refused == "informer v1/configmaps cannot be exited from inside its handler release"
    assert factory.informers == (informer,)
    await factory.release(informer)
    assert informer.health().state == "stopped"


async def test_a_release_that_is_refused_inside_a_handler_of_the_namespaces_leaves_both_held(
    server: APIServer, factory: SharedInformerFactory
) -> None:
    maps = factory.for_resource("v1/configmaps", namespaces=LabelSelector.parse("kubernetes.io/metadata.name=default"))
    namespaces, _ = factory.informers
    refused: list[str] = []

    async def on_add(obj: Any) -> None:
        try:
            await factory.release(maps)
        except RuntimeError as error:
            refused.append(str(error))

    namespaces.add_event_handler(on_add=on_add, name="release")
    await until(lambda: refused)
    assert refused == ["informer v1/namespaces cannot be exited from inside its handler release"]
    assert set(factory.informers) == {namespaces, maps}
    assert maps.health().state != "stopped"
    await factory.release(maps)
    assert factory.informers == ()


async def test_waiting_for_the_handlers_too(server: APIServer, factory: SharedInformerFactory) -> None:
    for number in range(5):
        server.create(config_map(f"n{number}"))
    heard: list[str] = []

    async def on_add(obj: Any) -> None:
        await asyncio.sleep(0.01)
        heard.append(obj.name)

    factory.for_resource("v1/configmaps", namespace="default").add_event_handler(on_add=on_add)
    await factory.wait_for_cache_sync(timeout=10, handlers=True)
    assert len([name for name in heard if name.startswith("n")]) == 5


async def test_an_informer_asked_for_before_entering_starts_on_entering(client: Client) -> None:
    factory = SharedInformerFactory(client, watch_timeout=60)
    informer = factory.for_resource("v1/namespaces")
    async with factory:
        await factory.wait_for_cache_sync(timeout=10)
        assert informer.lister.get("default") is not None
        assert factory.statistics()["v1/namespaces"].objects >= 1
    with pytest.raises(RuntimeError, match="exited"):
        factory.for_resource("v1/pods")


async def test_an_unknown_default_is_refused() -> None:
    with pytest.raises(ConfigError, match="resync"):
        SharedInformerFactory(None, resync=1)  # type: ignore[arg-type]


async def test_two_caches_that_fail_at_once_are_one_error_and_none_is_left_over() -> None:
    def stop(informer: Any, error: BaseException) -> None:
        raise LookupError(informer.name)

    async def wait(client: Client) -> None:
        async with SharedInformerFactory(client, on_error=stop) as factory:
            for resource in ("v1/pods", "v1/secrets", "v1/configmaps"):
                factory.for_resource(resource)
            await factory.wait_for_cache_sync(timeout=5)

    left_over: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: left_over.append(context))
    async with APIServer(users={"token": "reader"}, rules=[]) as server, server.client("reader") as client:
        with pytest.raises(LookupError):
            await wait(client)
    gc.collect()
    assert not left_over


async def test_several_namespaces_in_the_place_of_one_are_an_error_that_names_the_option(client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        several: Any = ["team-a", "team-b"]
        with pytest.raises(ConfigError, match=r"v1/pods: namespace=\['team-a', 'team-b'\] .* use namespaces="):
            factory.for_resource("v1/pods", namespace=several)


async def test_a_factory_shows_its_server_and_its_informers() -> None:
    factory = SharedInformerFactory(Client.from_url("http://127.0.0.1:8001"))
    assert repr(factory) == "<SharedInformerFactory of <Client not entered>: no informers>"
    factory.for_resource("v1/pods", namespace="a")
    pods = factory.for_resource("v1/pods", namespace="b")
    assert repr(factory) == "<SharedInformerFactory of <Client not entered>: v1/pods, v1/pods#2>"
    assert repr(pods.indexer) == "<IndexView of 0 objects>"
