"""Informers on both servers: whatever happens on the way, they equal the server at the end."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from kinformer import Backoff, Client, NotFoundError, NotSyncedError, SharedInformer, SharedInformerFactory
from kinformer.testing import ClusterServer
from tests.conformance.api import COLLECTIONS, WIDGETS, Api, collection, manifest
from tests.conformance.conftest import OpenApi
from tests.conformance.history import History, assert_equal, in_cache, on_server
from tests.support.forwarder import Forwarder
from tests.support.mirror import Mirror
from tests.support.waiting import until

IMPATIENT = Backoff(initial=0.1, factor=2.0, maximum=1.0, jitter=1.0, reset_after=120.0)
CONFIGMAPS = "v1/configmaps"
RESOURCES = [CONFIGMAPS, "v1/pods"]


@pytest.mark.parametrize("watch_list", [None, False, True], ids=["automatic", "LIST", "stream"])
async def test_a_cache_and_what_handlers_heard_equal_the_server(
    server: ClusterServer, open_api: OpenApi, namespace: str, watch_list: bool | None
) -> None:
    api = await open_api(server)
    histories = {resource: History(api, resource, namespace=namespace) for resource in RESOURCES}
    for history in histories.values():
        await history.go_on(60)
    options: dict[str, Any] = {"namespace": namespace, "watch_list": watch_list}
    async with server.client() as client, SharedInformerFactory(client, **options) as factory:
        informers = {resource: factory.for_resource(resource) for resource in RESOURCES}
        mirrors = {resource: Mirror() for resource in RESOURCES}
        for resource, informer in informers.items():
            informer.add_event_handler(mirrors[resource])
        await factory.wait_for_cache_sync(timeout=30, handlers=True)
        for resource, history in histories.items():
            await history.go_on(200)
            await assert_equal(api, resource, informers[resource], mirrors[resource], namespace=namespace)
            assert informers[resource].statistics().relists == {}
            late = Mirror()
            await informers[resource].add_event_handler(late).wait_synced(timeout=10)
            assert late.known == mirrors[resource].known


@pytest.mark.slow
async def test_a_cut_network_is_made_up_for(own_server: ClusterServer, open_api: OpenApi) -> None:
    api = await open_api(own_server)
    history = History(api, CONFIGMAPS)
    await history.go_on(40)
    async with Forwarder(own_server.url) as forwarder:
        context = ssl.create_default_context(cafile=own_server.ca_file) if own_server.ca_file else None
        client = Client.from_url(forwarder.url, token=own_server.token(), ssl=context)
        async with client, SharedInformerFactory(client, backoff=IMPATIENT) as factory:
            informer, mirror = factory.for_resource(CONFIGMAPS), Mirror()
            informer.add_event_handler(mirror)
            await factory.wait_for_cache_sync(timeout=30, handlers=True)
            await forwarder.cut()
            await history.go_on(40)
            await forwarder.restore()
            await assert_equal(api, CONFIGMAPS, informer, mirror)
            assert "expired" not in informer.statistics().relists  # the server remembers what was missed
            await forget_and_restart(own_server, api, history, forwarder, informer)
            await assert_equal(api, CONFIGMAPS, informer, mirror)
            assert informer.statistics().relists["expired"] == 1
            await until(lambda: informer.health().live, 20)


async def forget_and_restart(
    server: ClusterServer, api: Api, history: History, forwarder: Forwarder, informer: SharedInformer
) -> None:
    await forwarder.cut()
    await history.go_on(40)
    await server.compact()
    await server.restart()
    event = await api.first_event(COLLECTIONS[CONFIGMAPS], informer.last_sync_resource_version)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)  # what the informer is going to hear
    await forwarder.restore()


async def test_a_restart_in_the_middle_of_changes_loses_nothing(own_server: ClusterServer, open_api: OpenApi) -> None:
    api = await open_api(own_server)
    histories = [History(api, resource) for resource in RESOURCES]
    async with own_server.client() as client, SharedInformerFactory(client, backoff=IMPATIENT) as factory:
        informers = [factory.for_resource(resource) for resource in RESOURCES]
        mirrors = [Mirror() for _ in RESOURCES]
        for informer, mirror in zip(informers, mirrors, strict=True):
            informer.add_event_handler(mirror)
        await factory.wait_for_cache_sync(timeout=30, handlers=True)
        async with asyncio.TaskGroup() as group:
            for history in histories:
                group.create_task(history.go_on(150))
            await asyncio.sleep(0.05)  # they are under way
            await own_server.restart()
        for resource, informer, mirror in zip(RESOURCES, informers, mirrors, strict=True):
            await assert_equal(api, resource, informer, mirror)
        await until(lambda: all(informer.health().live for informer in informers), 20)


async def test_own_writes_are_read_after_waiting_for_their_version(server: ClusterServer, namespace: str) -> None:
    async with server.client() as client, SharedInformerFactory(client) as factory:
        informer = factory.for_resource(CONFIGMAPS, namespace=namespace)
        await factory.wait_for_cache_sync(timeout=30)
        for number in range(20):
            body = manifest(CONFIGMAPS, f"mine-{number}", "1")
            written = await client.request("POST", collection(CONFIGMAPS, namespace), body=body)
            await informer.wait_for_resource_version(written["metadata"]["resourceVersion"], timeout=10)
            read = informer.lister.get(f"mine-{number}")
            assert read is not None
            assert read.uid == written["metadata"]["uid"]


@pytest.mark.virtual_time
async def test_own_writes_that_a_selector_hides_are_waited_for_too(server: ClusterServer, namespace: str) -> None:
    async with server.client() as client, SharedInformerFactory(client) as factory:
        informer = factory.for_resource(CONFIGMAPS, namespace=namespace, label_selector="value=2")
        await factory.wait_for_cache_sync(timeout=30)
        path = collection(CONFIGMAPS, namespace)
        written = await client.request("POST", path, body=manifest(CONFIGMAPS, "hidden", "1"))
        await informer.wait_for_resource_version(written["metadata"]["resourceVersion"], timeout=30)
        assert informer.lister.get("hidden") is None


async def test_what_is_kept_of_an_object_is_what_was_asked_for(
    server: ClusterServer, open_api: OpenApi, namespace: str
) -> None:
    api = await open_api(server)
    await History(api, "v1/pods", namespace=namespace).go_on(100)
    async with server.client() as client, SharedInformerFactory(client, namespace=namespace) as factory:
        whole = factory.for_resource("v1/pods", keep_managed_fields=True)
        metadata = factory.for_resource("v1/pods", metadata_only=True)
        paged = factory.for_resource("v1/pods", watch_list=False, page_size=7)
        chosen = factory.for_resource("v1/pods", label_selector="value in (1, 2, 99)")
        await factory.wait_for_cache_sync(timeout=30)
        server_has = await on_server(api, "v1/pods", namespace=namespace, managed_fields=True)
        assert in_cache(whole) == server_has
        bare = await on_server(api, "v1/pods", namespace=namespace)
        assert in_cache(paged) == bare
        kept = in_cache(metadata)
        assert {key: item["metadata"] for key, item in kept.items()} == {
            key: item["metadata"] for key, item in bare.items()
        }
        assert not any("spec" in item for item in kept.values())
        assert in_cache(chosen) == {
            key: item for key, item in bare.items() if item["metadata"]["labels"]["value"] in ("1", "2", "99")
        }


async def test_selectors_and_indexes_follow_what_enters_and_leaves(server: ClusterServer, namespace: str) -> None:
    async with server.client() as client, SharedInformerFactory(client, namespace=namespace) as factory:
        bound = factory.for_resource("v1/pods", field_selector="spec.nodeName=n1", indexers={"node": "spec.nodeName"})
        red = factory.for_resource("v1/pods", label_selector="value=red")
        mirror = Mirror()
        red.add_event_handler(mirror)
        await factory.wait_for_cache_sync(timeout=30)
        path = collection("v1/pods", namespace)
        pod = manifest("v1/pods", "p", "red")
        pod["spec"]["nodeName"] = "n1"
        await client.request("POST", path, body=pod)
        await client.request("POST", path, body=manifest("v1/pods", "q", "red"))
        changed = await client.request("PATCH", f"{path}/p", body={"metadata": {"labels": {"value": "blue"}}})
        version = changed["metadata"]["resourceVersion"]
        for informer in (bound, red):
            await informer.wait_for_resource_version(version, timeout=30)
        assert [pod.name for pod in bound.lister.by_index("node", "n1")] == ["p"]
        assert sorted(pod.name for pod in red.lister) == ["q"]
        async with asyncio.timeout(10):
            while True:
                if set(mirror.known) == {f"{namespace}/q"}:
                    break
                await asyncio.sleep(0.02)
        assert mirror.wrong == []


async def test_events_are_streamed_in_order(server: ClusterServer, namespace: str) -> None:
    async with server.client() as client, SharedInformerFactory(client, namespace=namespace) as factory:
        informer = factory.for_resource(CONFIGMAPS)
        await factory.wait_for_cache_sync(timeout=30)
        path = collection(CONFIGMAPS, namespace)
        async with informer.events(filter=lambda obj: obj.name == "a") as stream:
            await client.request("POST", path, body=manifest(CONFIGMAPS, "a", "1"))
            first = await asyncio.wait_for(anext(stream), 10)
            await client.request("PATCH", f"{path}/a", body={"data": {"value": "2"}})
            second = await asyncio.wait_for(anext(stream), 10)
            await client.request("DELETE", f"{path}/a")
            third = await asyncio.wait_for(anext(stream), 10)
        assert [event.type for event in (first, second, third)] == ["ADDED", "UPDATED", "DELETED"]
        assert second.old is not None
        assert second.old["data"]["value"] == "1"
        assert third.object["data"]["value"] == "2"


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_custom_resource_may_come_late_and_go(own_server: ClusterServer, open_api: OpenApi) -> None:
    api = await open_api(own_server)
    async with own_server.client() as client, SharedInformerFactory(client, backoff=IMPATIENT) as factory:
        informer, mirror = factory.for_resource("example.com/v1/widgets"), Mirror()
        informer.add_event_handler(mirror)
        with pytest.raises(NotSyncedError) as caught:
            await factory.wait_for_cache_sync(timeout=2)
        assert isinstance(caught.value.unsynced["example.com/v1/widgets"], NotFoundError)
        assert informer.health().state == "absent"
        await own_server.install_crds(WIDGETS)
        await informer.wait_synced(timeout=30)
        await History(api, "example.com/v1/widgets").go_on(100)
        await assert_equal(api, "example.com/v1/widgets", informer, mirror)
        assert mirror.known
        await api.remove(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{WIDGETS['metadata']['name']}")
        async with asyncio.timeout(60):
            while True:
                if informer.health().state == "absent" and not mirror.known:
                    break
                await asyncio.sleep(0.02)
        assert len(informer.lister) == 0
        assert mirror.wrong == []
