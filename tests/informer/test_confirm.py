"""Confirmed reads: `confirm` returns objects that are at least as new as the server was at the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import (
    Client,
    ConnectError,
    ForbiddenError,
    KubeObject,
    LabelSelector,
    ListWatch,
    SharedInformer,
    SharedInformerFactory,
    derive,
    union,
)
from kinformer.exceptions import WatchError
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map, pod
from tests.support.lagging_source import LaggingSource
from tests.support.memory_source import MemorySource
from tests.support.opaque_versions import OpaqueVersions
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time


@asynccontextmanager
async def lagging(client: Client, lag: float = 1, **options: Any) -> AsyncIterator[SharedInformer]:
    async with SharedInformer(LaggingSource(ListWatch(client, "v1/pods", **options), lag=lag)) as informer:
        await informer.wait_synced()
        yield informer


def pods_requests(server: APIServer, *, watches: bool) -> list[dict[str, str]]:
    found = [request.params for request in server.requests if request.path.endswith("/pods")]
    return [dict(params) for params in found if ("watch" in params) == watches]


async def test_a_quiet_cache_is_proved_without_a_list_of_its_objects(server: APIServer, client: Client) -> None:
    server.create(pod("web-1"))
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        for number in range(5):  # the server goes on, without an event for pods
            server.create(config_map(f"c{number}"))
        server.requests.clear()
        assert pods.health().staleness is None
        assert [found.name for found in await pods.confirm()] == ["web-1"]
        staleness = pods.health().staleness
        assert staleness is not None
        assert 1 <= staleness <= 1.5
        assert [params["limit"] for params in pods_requests(server, watches=False)] == ["1"]
        assert [params["timeoutSeconds"] for params in pods_requests(server, watches=True)] == ["3"]
        assert pods.health().relists == 0


async def test_a_cache_that_is_behind_is_waited_for(server: APIServer, client: Client) -> None:
    async with lagging(client) as pods:
        server.create(pod("web-1"))
        assert pods.lister.list() == []
        assert [found.name for found in await pods.confirm()] == ["web-1"]
        server.delete("v1/pods", "default", "web-1")
        assert len(pods.lister) == 1
        assert await pods.confirm() == []


@pytest.mark.parametrize("by", ["name", "labels"])
async def test_some_objects_are_confirmed_by_their_metadata(server: APIServer, client: Client, by: str) -> None:
    async with lagging(client) as pods:

        async def confirmed() -> list[KubeObject]:
            if by == "name":
                return await pods.confirm(name="web-1", namespace="default")
            return await pods.confirm(label_selector="app=web")

        server.create(pod("other"))
        written = server.create(pod("web-1", labels={"app": "web"}))
        server.requests.clear()
        (found,) = await confirmed()
        assert found["spec"]["containers"], "the object, of which the metadata was listed"
        (asked,) = pods_requests(server, watches=False)
        assert "resourceVersion" not in asked
        written["metadata"]["annotations"] = {"step": "2"}
        server.update(written)
        (found,) = await confirmed()
        assert found.annotations == {"step": "2"}
        server.delete("v1/pods", "default", "web-1")
        assert await confirmed() == []
        server.create(pod("web-1", labels={"app": "web"}))
        (again,) = await confirmed()
        assert again.uid != found.uid


async def test_the_conditions_are_combined_with_the_informers_own(server: APIServer, client: Client) -> None:
    server.create(pod("a", labels={"app": "web", "tier": "front"}))
    server.create(pod("b", labels={"app": "db", "tier": "front"}))
    async with lagging(client, label_selector="app=web", field_selector="metadata.namespace=default") as pods:
        server.requests.clear()
        (found,) = await pods.confirm(label_selector="tier=front", name="a", namespace="default")
        assert found.name == "a"
        (asked,) = pods_requests(server, watches=False)
        assert asked["labelSelector"] == "app=web,tier=front"
        assert asked["fieldSelector"] == "metadata.namespace=default,metadata.name=a"
        assert await pods.confirm(name="b", namespace="default") == []


async def test_who_comes_while_a_proof_is_under_way_shares_the_next_one(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        server.create(config_map("c"))
        server.requests.clear()
        first = [asyncio.create_task(pods.confirm()) for _ in range(3)]
        await asyncio.sleep(0.5)
        later = [asyncio.create_task(pods.confirm()) for _ in range(5)]
        server.create(pod("web-1"))
        later += [asyncio.create_task(pods.confirm()) for _ in range(5)]
        await asyncio.gather(*first)
        assert {tuple(found.name for found in await each) for each in later} == {("web-1",)}
        assert len(pods_requests(server, watches=False)) == 2


async def test_a_watch_that_went_silent_is_noticed_and_the_rest_is_listed(server: APIServer, client: Client) -> None:
    server.faults.add(faults.stall(), verb="watch", resource="v1/pods", times=1)
    async with SharedInformerFactory(client, idle_timeout=600, watch_list=False) as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        await asyncio.sleep(1)
        server.create(pod("web-1"))
        assert [found.name for found in await pods.confirm(timeout=20)] == ["web-1"]
        assert pods.statistics().relists == {"requested": 1}


@pytest.mark.parametrize("timeout", [5, 20, 33])
async def test_it_lasts_for_its_own_timeout_while_watches_deliver_nothing(
    server: APIServer, client: Client, timeout: float
) -> None:
    loop = asyncio.get_running_loop()
    async with SharedInformerFactory(client, idle_timeout=600, watch_list=True) as factory:
        pods = factory.for_resource("v1/pods")
        names = factory.add(derive(pods, lambda obj, _: obj.name, name="names"))
        await factory.wait_for_cache_sync()
        server.faults.add(faults.stall(), verb="watch")
        server.create(pod("web-1"))
        for collection in (pods, names):
            began = loop.time()
            with pytest.raises(TimeoutError) as caught:
                await collection.confirm(timeout=timeout)
            assert loop.time() - began == pytest.approx(timeout, abs=0.1)
            version = pods.last_sync_resource_version
            message = (
                f"{collection.name}: not confirmed within {timeout} s: v1/pods has version {version}, and the server"
            )
            assert str(caught.value).startswith(message)
            server.create(config_map(f"after-{collection.name.removeprefix('v1/')}"))


async def test_changes_that_no_watch_delivers_are_listed(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client, idle_timeout=600) as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        server.faults.add(faults.stall(), verb="watch")
        server.create(pod("web-1"))
        assert [found.name for found in await pods.confirm(timeout=60)] == ["web-1"]


async def test_a_request_without_an_answer_is_no_timeout_of_the_caller(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        server.faults.add(faults.stall(), verb="list", resource="v1/pods")
        with pytest.raises(TimeoutError, match=r"not confirmed within 10 s: .*, and the server has not answered"):
            await pods.confirm()
        with pytest.raises(ConnectError, match=r"v1/pods: not confirmed: .*no response within 30 s"):
            await pods.confirm(timeout=60)


async def test_an_informer_that_has_not_synced_says_why(client: Client) -> None:
    source = MemorySource()
    source.hang = True
    async with SharedInformer(source) as informer, derive(informer, lambda obj, _: obj.name, name="names") as names:
        for collection in (informer, names):
            with pytest.raises(TimeoutError, match=r"not confirmed within 3 s: .*no response yet"):
                await collection.confirm(timeout=3)
        with pytest.raises(TimeoutError, match="v1/configmaps: version 7 was not seen within 3 s: no response yet"):
            await informer.wait_for_resource_version("7", timeout=3)


async def test_a_version_that_is_not_seen_in_time_is_named(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client, namespace="default") as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        has = pods.last_sync_resource_version
        with pytest.raises(TimeoutError, match=rf"v1/pods: version 99999 was not seen within 3 s: .* version {has}"):
            await pods.wait_for_resource_version("99999", timeout=3)


@pytest.mark.parametrize("by", [{}, {"name": "a"}, {"label_selector": "a=b"}], ids=["all", "a name", "a selector"])
async def test_a_namespace_that_is_not_followed_is_refused(
    server: APIServer, client: Client, by: dict[str, str]
) -> None:
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}})
    chosen = LabelSelector.parse("team=a")
    async with SharedInformerFactory(client) as factory:
        one = factory.for_resource("v1/pods", namespace="default")
        several = factory.for_resource("v1/pods", namespaces=["default", "shop"])
        labelled = factory.for_resource("v1/pods", namespaces=chosen)
        await factory.wait_for_cache_sync()
        for informer, followed in ((one, "default"), (several, "default, shop"), (labelled, "shop")):
            with pytest.raises(
                ValueError, match=f"namespace='other': informer v1/pods.* follows the namespaces {followed}$"
            ):
                await informer.confirm(namespace="other", **by)
        assert await factory.for_resource("v1/pods").confirm(namespace="other", **by) == []


async def test_a_namespace_that_has_just_been_chosen_is_among_what_is_confirmed(
    server: APIServer, client: Client
) -> None:
    chosen = LabelSelector.parse("team=a")
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods", namespaces=chosen)
        await pods.wait_synced()
        for number, by in enumerate(({}, {"namespace": True}, {"label_selector": "app=web"})):
            name = f"shop-{number}"
            metadata = {"name": name, "labels": {"team": "a"}}
            server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            server.create(pod("web-1", namespace=name, labels={"app": "web"}))
            options: dict[str, Any] = {"namespace": name} if "namespace" in by else by
            assert name in {found.namespace for found in await pods.confirm(**options)}
        server.delete("v1/pods", "shop-0", "web-1")
        server.update(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop-1", "labels": {"team": "b"}}}
        )
        assert {found.namespace for found in await pods.confirm()} == {"shop-2"}


async def test_an_object_that_a_transform_leaves_out_is_named_at_the_timeout(server: APIServer, client: Client) -> None:
    server.create(pod("web-1", labels={"app": "web"}))
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods", transform=lambda document: None)
        await pods.wait_synced()
        with pytest.raises(TimeoutError, match=r"v1/pods: not confirmed within 10 s: .*default/web-1 \(version"):
            await pods.confirm(label_selector="app=web")


async def test_an_object_that_is_deleted_meanwhile_is_not_waited_for(server: APIServer, client: Client) -> None:
    server.create(pod("web-1", labels={"app": "web"}))
    async with lagging(client, lag=1) as pods:
        server.create(pod("web-2", labels={"app": "web"}))
        confirming = asyncio.create_task(pods.confirm(label_selector="app=web"))
        await asyncio.sleep(0.1)
        server.delete("v1/pods", "default", "web-2")
        assert [found.name for found in await confirming if found.name != "web-2"] == ["web-1"]


async def test_a_server_that_went_back_ends_it_and_the_cache_is_listed_again(server: APIServer, client: Client) -> None:
    server.create(pod("web-1"))
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        for number in range(5):
            server.create(pod(f"late-{number}"))
        await pods.confirm()
        server.faults.add(faults.rewind(5), verb="list", resource="v1/pods", times=1)
        with pytest.raises(WatchError, match="went back"):
            await pods.confirm()
        await until(lambda: pods.health().relists > 0)
        assert {found.key for found in await pods.confirm()} == {"default/web-1"}


async def test_a_refusal_is_raised() -> None:
    rules = [("watcher", verb, "v1/pods") for verb in ("list", "watch")]
    async with (
        APIServer(users={"t": "watcher"}, rules=rules) as server,
        server.client(user="watcher") as watcher,
        SharedInformerFactory(watcher) as factory,
    ):
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        await pods.confirm()
        server.faults.add(faults.status(403), verb="list", resource="v1/pods")
        for selector in ("", "a=b"):
            with pytest.raises(ForbiddenError):
                await pods.confirm(label_selector=selector)


async def test_each_of_several_namespaces_is_confirmed(server: APIServer, client: Client) -> None:
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    sources = {
        namespace: LaggingSource(ListWatch(client, "v1/pods", namespace=namespace), lag=2)
        for namespace in ("default", "shop")
    }
    async with SharedInformer(sources) as pods:
        await pods.wait_synced()
        server.create(pod("a", labels={"app": "web"}))
        server.create(pod("b", namespace="shop", labels={"app": "web"}))
        assert {found.key for found in await pods.confirm(label_selector="app=web")} == {"default/a", "shop/b"}
        server.delete("v1/pods", "shop", "b")
        assert [found.key for found in await pods.confirm(namespace="shop")] == []
        server.create(pod("c"))
        assert {found.key for found in await pods.confirm()} == {"default/a", "default/c"}


async def test_a_derived_collection_is_computed_from_confirmed_caches(server: APIServer, client: Client) -> None:
    async with (
        lagging(client) as pods,
        derive(pods, lambda obj, fetch: obj.name, name="names") as names,
        union({"east": names, "west": names}) as both,
    ):
        await both.wait_synced()
        server.create(pod("web-1"))
        assert await names.confirm() == ["web-1"]
        server.create(pod("web-2"))
        assert len(await both.confirm()) == 4
        assert names.health().staleness is not None


async def test_bad_conditions_are_refused(server: APIServer, client: Client) -> None:
    server.create(pod("web-1"))
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        with pytest.raises(ValueError, match="namespace"):
            await pods.confirm(name="web-1")
        with pytest.raises(ValueError, match="selector"):
            await pods.confirm(label_selector="a in (")


# --- versions that are no numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["update", "delete", "replacement"])
async def test_versions_that_are_no_numbers_are_compared_until_they_are_equal(change: str) -> None:
    source = OpaqueVersions(MemorySource(watch_list=False))
    source.inner.set("a")
    async with SharedInformer(source) as maps:
        await maps.wait_synced()
        source.gate.clear()
        if change == "update":
            source.inner.set("a")
        else:
            source.inner.delete("a")
        if change == "replacement":
            source.inner.set("a")
        confirming = asyncio.create_task(maps.confirm(name="a", namespace="default"))
        await asyncio.sleep(5)
        assert not confirming.done()
        source.gate.set()
        wanted = [] if change == "delete" else [f"v{source.inner.version}"]
        assert [found.resource_version for found in await confirming] == wanted


async def test_an_object_with_a_version_that_is_no_number_is_named_at_the_timeout() -> None:
    source = OpaqueVersions(MemorySource(watch_list=False))
    source.inner.set("a")
    async with SharedInformer(source) as maps:
        await maps.wait_synced()
        source.gate.clear()
        source.inner.set("a")
        with pytest.raises(TimeoutError, match=r"default/a \(version v3 on the server, v2 in the cache\)"):
            await maps.confirm(name="a", namespace="default", timeout=10)
