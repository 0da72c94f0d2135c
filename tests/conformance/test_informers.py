"""Informers against a real kube-apiserver that is killed: they equal the server at the end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from kinformer import (
    Backoff,
    Client,
    ForbiddenError,
    NotSyncedError,
    SharedInformer,
    SharedInformerFactory,
)
from kinformer.testing import ControlPlane
from tests.conformance.api import COLLECTIONS, WIDGETS, Api, read_configmaps
from tests.conformance.conftest import OpenApi, StartControlPlane
from tests.conformance.history import History, assert_equal, in_cache, on_server
from tests.conformance.test_control_plane import pids_of
from tests.support.forwarder import Forwarder
from tests.support.mirror import Mirror
from tests.support.waiting import until

NO_SOCKET = socket.socket()
NO_SOCKET.close()
IMPATIENT = Backoff(initial=0.1, factor=2.0, maximum=1.0, jitter=1.0, reset_after=120.0)
WITHOUT_WATCH_LIST = ["--feature-gates=WatchList=false"]


@asynccontextmanager
async def informers(client: Client, **options: Any) -> AsyncIterator[dict[str, tuple[SharedInformer, Mirror]]]:
    """A synced informer with a mirror for each of the resources."""
    async with client, SharedInformerFactory(client, backoff=IMPATIENT, **options) as factory:
        found = {}
        for resource in COLLECTIONS:
            informer, mirror = factory.for_resource(resource), Mirror()
            informer.add_event_handler(mirror)
            found[resource] = informer, mirror
        await factory.wait_for_cache_sync(timeout=30, handlers=True)
        yield found


async def go_on(histories: Iterable[History], changes: int) -> None:
    async with asyncio.TaskGroup() as group:
        for history in histories:
            group.create_task(history.go_on(changes))


async def watch_lists(api: Api, resource: str) -> int:
    """How many streamed lists of a resource the server has served since it started, by its own count.

    It streams the built-in resources to itself.
    """
    name = resource.rpartition("/")[2]
    lines = [line for line in (await api.text("/metrics")).splitlines() if f'resource="{name}"' in line]
    return sum(int(line.rpartition(" ")[2]) for line in lines if "watch_list_duration_seconds_count" in line)


async def assert_lists_were_streamed(api: Api, streamed: bool) -> None:
    resource = "example.com/v1/widgets"
    if streamed:  # the server counts one after the bookmark that ends it
        await until(lambda: watch_lists(api, resource), what=f"a streamed list of {resource}")
    else:
        assert await watch_lists(api, resource) == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("watch_list", "flags"),
    [(None, []), (True, []), (False, []), (None, WITHOUT_WATCH_LIST)],
    ids=["automatic", "WatchList", "LIST", "automatic, the server has no WatchList"],
)
async def test_informers_equal_the_server_after_changes_a_kill_and_a_410(
    start_control_plane: StartControlPlane, open_api: OpenApi, watch_list: bool | None, flags: list[str]
) -> None:
    control_plane = await start_control_plane(api_server_flags=flags)
    await control_plane.install_crds(WIDGETS)
    api = await open_api(control_plane)
    histories = [History(api, resource) for resource in COLLECTIONS]
    await go_on(histories, 100)
    async with Forwarder(control_plane.url) as forwarder:
        context = ssl.create_default_context(cafile=control_plane.ca_file)
        client = Client.from_url(forwarder.url, token=control_plane.token(), ssl=context)
        async with informers(client, watch_list=watch_list) as found:
            streams = watch_list is not False and not flags
            await assert_lists_were_streamed(api, streams)
            await follow(api, histories, found)
            await survive_a_kill(control_plane, api, histories, found)
            await survive_a_410(control_plane, api, histories, found, forwarder)
            await assert_lists_were_streamed(api, streams)


async def follow(api: Api, histories: list[History], found: dict[str, tuple[SharedInformer, Mirror]]) -> None:
    await go_on(histories, 200)
    for resource, (informer, mirror) in found.items():
        await assert_equal(api, resource, informer, mirror)
        assert informer.statistics().relists == {}
        assert len(mirror.calls) >= 200  # it followed, and was not just listed again


async def survive_a_kill(
    control_plane: ControlPlane,
    api: Api,
    histories: list[History],
    found: dict[str, tuple[SharedInformer, Mirror]],
) -> None:
    changes = asyncio.create_task(go_on(histories, 150))
    await asyncio.sleep(0.05)  # they are under way
    await control_plane.stop_api_server(kill=True)
    assert not changes.done()
    await control_plane.start_api_server()
    await changes
    for resource, (informer, mirror) in found.items():
        await assert_equal(api, resource, informer, mirror)
        await live_again(informer)


async def live_again(informer: SharedInformer) -> None:
    async with asyncio.timeout(10):
        while True:
            if informer.health().live:
                return
            await asyncio.sleep(0.02)


async def survive_a_410(
    control_plane: ControlPlane,
    api: Api,
    histories: list[History],
    found: dict[str, tuple[SharedInformer, Mirror]],
    forwarder: Forwarder,
) -> None:
    before = {resource: informer.statistics().relists.get("expired", 0) for resource, (informer, _) in found.items()}
    await forwarder.cut()
    await go_on(histories, 50)
    await control_plane.compact()
    await control_plane.restart()
    for resource, (informer, mirror) in found.items():
        event = await api.first_event(COLLECTIONS[resource], informer.last_sync_resource_version)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)  # what the informer is going to hear
        assert mirror.known  # and it has kept what it knew
    await forwarder.restore()
    for resource, (informer, mirror) in found.items():
        await assert_equal(api, resource, informer, mirror)
        assert informer.statistics().relists["expired"] > before[resource]
        await live_again(informer)


async def test_an_informer_that_insists_on_watch_list_says_what_the_server_without_it_answered(
    start_control_plane: StartControlPlane,
) -> None:
    control_plane = await start_control_plane(api_server_flags=WITHOUT_WATCH_LIST)
    async with control_plane.client() as client, SharedInformerFactory(client, backoff=IMPATIENT) as factory:
        factory.for_resource("v1/pods", watch_list=True)
        with pytest.raises(NotSyncedError, match="sendInitialEvents") as caught:
            await factory.wait_for_cache_sync(timeout=2)
    assert caught.value.unsynced["v1/pods"] is not None


async def test_a_user_without_a_role_reads_as_forbidden_and_syncs_once_it_has_one(
    start_control_plane: StartControlPlane, open_api: OpenApi
) -> None:
    control_plane = await start_control_plane(users=["alice"])
    api = await open_api(control_plane)
    async with (
        control_plane.client("alice") as client,
        SharedInformerFactory(client, namespace="default", backoff=IMPATIENT) as factory,
    ):
        configmaps, pods = factory.for_resource("v1/configmaps"), factory.for_resource("v1/pods")
        with pytest.raises(NotSyncedError, match=r'User "alice" cannot (list|watch) resource "pods"') as caught:
            await factory.wait_for_cache_sync(timeout=3)
        assert {name: type(error) for name, error in caught.value.unsynced.items()} == {
            "v1/configmaps": ForbiddenError,
            "v1/pods": ForbiddenError,
        }
        assert configmaps.health().state == "forbidden"
        assert not configmaps.health().live
        with pytest.raises(ForbiddenError):
            await factory.wait_for_cache_sync(timeout=30, fail_fast=True)
        for kind, body in read_configmaps("alice").items():
            await api.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/default/{kind}", body)
        await configmaps.wait_synced(timeout=30)
        assert in_cache(configmaps) == await on_server(api, "v1/configmaps")
        assert not pods.has_synced


def sockets_to(url: str) -> int:
    """How many transports of this process hold a socket to a server."""
    gc.collect()
    found = [one for one in gc.get_objects() if isinstance(one, asyncio.Transport)]
    peers = [one.get_extra_info("peername") for one in found if one.get_extra_info("socket", NO_SOCKET).fileno() >= 0]
    return sum(peer is not None and peer[1] == urlsplit(url).port for peer in peers)


async def test_leaving_lets_go_of_a_server_that_no_longer_answers(start_control_plane: StartControlPlane) -> None:
    control_plane = await start_control_plane()
    api_server = max(pids_of(control_plane.folder))
    try:
        async with control_plane.client() as client, SharedInformerFactory(client) as factory:
            factory.for_resource("v1/pods")
            await factory.wait_for_cache_sync(timeout=30)
            assert sockets_to(control_plane.url) > 0
            os.kill(api_server, signal.SIGSTOP)  # no more answers, to the farewell of TLS neither
        assert sockets_to(control_plane.url) == 0
    finally:
        os.kill(api_server, signal.SIGCONT)
