"""A wait for the first sync is never silent: after 5 s, and every 10 s, the log says what is missing and why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kinformer import (
    Client,
    KubeObject,
    ListPage,
    NotFoundError,
    NotSyncedError,
    SharedInformer,
    SharedInformerFactory,
)
from kinformer.list_watcher import ListOptions
from kinformer.testing import APIServer, faults
from tests.support.kube import pod
from tests.support.log_records import Said, message_of, records, said
from tests.support.memory_source import MemorySource
from tests.support.ports import reserved_port

pytestmark = pytest.mark.virtual_time


@contextmanager
def cancelled(task: asyncio.Task[None]) -> Iterator[None]:
    try:
        yield
    finally:
        task.cancel()


async def waited(seconds: float, factory: SharedInformerFactory) -> None:
    with pytest.raises(NotSyncedError):
        await factory.wait_for_cache_sync(timeout=seconds)


async def test_a_resource_that_does_not_exist_is_named_with_the_nearest_that_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        factory.for_resource("v1/podz")
        with pytest.raises(NotSyncedError) as caught:
            await factory.wait_for_cache_sync(timeout=6)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.factory", "v1/podz")]
    assert "v1/pods" in message_of(caplog, "unsynced").split()
    assert str(caught.value) == (
        "the factory has not synced after 6 s: v1/podz: the server has no such resource; nearest: v1/pods"
    )
    error = caught.value.unsynced["v1/podz"]
    assert isinstance(error, NotFoundError)
    assert error.nearest == "v1/pods"


async def test_a_custom_resource_that_is_not_installed_is_told_as_such(caplog: pytest.LogCaptureFixture) -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        factory.for_resource("example.com/v1/zyxwvuts")
        await waited(6, factory)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.factory", "example.com/v1/zyxwvuts")]
    assert "CustomResourceDefinition" in message_of(caplog, "unsynced")


async def test_warnings_come_after_five_seconds_and_every_ten(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    source.hang = True
    times: list[int] = []
    async with SharedInformer(source) as informer:
        waiting = asyncio.create_task(informer.wait_synced())
        with cancelled(waiting):
            for second in range(40):
                await asyncio.sleep(0.5 if second == 0 else 1)
                while len(times) < len(records(caplog, "unsynced")):
                    times.append(second)
    assert times == [5, 15, 25, 35]
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.informer", "v1/configmaps")] * 4


async def test_a_wait_of_four_seconds_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    source.hang = True
    async with SharedInformer(source) as informer:
        with pytest.raises(NotSyncedError):
            await informer.wait_synced(timeout=4.9)
    assert records(caplog, "unsynced") == []


async def test_of_fifty_waits_at_once_one_warns(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    source.hang = True
    async with SharedInformer(source) as informer:
        results = await asyncio.gather(*(informer.wait_synced(timeout=26) for _ in range(50)), return_exceptions=True)
    assert {type(result) for result in results} == {NotSyncedError}
    assert len(records(caplog, "unsynced")) == 3


async def test_an_informer_that_was_never_entered_says_so(caplog: pytest.LogCaptureFixture) -> None:
    informer = SharedInformer(MemorySource())
    with pytest.raises(NotSyncedError, match="it has not been entered; use `async with` on it, or on its factory"):
        await informer.wait_synced(timeout=6)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.informer", "v1/configmaps")]
    assert "`async with`" in message_of(caplog, "unsynced")


async def test_a_factory_that_was_never_entered_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with APIServer() as server, server.client() as client:
        factory = SharedInformerFactory(client)
        factory.for_resource("v1/pods")
        factory.for_resource("v1/nodes")
        await waited(6, factory)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.factory", "v1/nodes,v1/pods")]
    assert "`async with`" in message_of(caplog, "unsynced")


async def test_of_many_caches_the_first_ten_are_named_and_the_error_has_all(caplog: pytest.LogCaptureFixture) -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        for number in range(13):
            factory.for_resource("v1/podz", namespace=f"n{number:02}")
        with pytest.raises(NotSyncedError) as caught:
            await factory.wait_for_cache_sync(timeout=6)
    told = message_of(caplog, "unsynced")
    assert told.count("nearest: v1/pods") == str(caught.value).count("nearest: v1/pods") == 10
    assert told.endswith(" and 3 more")
    assert len(caught.value.unsynced) == 13


async def test_a_factory_without_informers_has_nothing_to_wait_for() -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        await factory.wait_for_cache_sync()


async def test_a_missing_right_is_told_in_the_words_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        APIServer(users={"t": "alice"}, rules=[("alice", "*", "v1/nodes")]) as server,
        server.client("alice") as client,
        SharedInformerFactory(client) as factory,
    ):
        factory.for_resource("v1/nodes")
        factory.for_resource("v1/pods")
        await waited(6, factory)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.factory", "v1/pods")]
    assert "403 Forbidden: pods is forbidden" in message_of(caplog, "unsynced")
    assert "v1/nodes" not in message_of(caplog, "unsynced")


async def test_a_server_that_cannot_be_reached_is_told_with_the_address(caplog: pytest.LogCaptureFixture) -> None:
    with reserved_port() as port:
        url = f"http://127.0.0.1:{port}"
    async with Client.from_url(url) as client, SharedInformerFactory(client) as factory:
        factory.for_resource("v1/pods")
        await waited(6, factory)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.factory", "v1/pods")]
    assert "not reachable" in message_of(caplog, "unsynced")
    assert f"127.0.0.1:{port}" in message_of(caplog, "unsynced")


class PagedSource(MemorySource):
    """Gives two pages, and never the third."""

    async def list(self, options: ListOptions) -> ListPage:
        number = int(options.continue_token or 0)
        if number == 2:
            await asyncio.Event().wait()
        items = [KubeObject.from_dict(pod(f"p{number}-{index}", rv="7")) for index in range(1500)]
        return ListPage(items, "7", str(number + 1))


async def test_a_list_in_progress_is_told_with_its_page_and_its_objects(caplog: pytest.LogCaptureFixture) -> None:
    async with SharedInformer(PagedSource(), name="v1/pods", watch_list=False) as informer:
        with pytest.raises(NotSyncedError):
            await informer.wait_synced(timeout=6)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.informer", "v1/pods")]
    assert "page 3, 3,000 objects" in message_of(caplog, "unsynced")


async def test_an_initial_stream_in_progress_is_told_with_its_objects(caplog: pytest.LogCaptureFixture) -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        for number in range(20):
            server.create(pod(f"p{number}"))
        server.faults.add(faults.no_initial_events_end(), resource="v1/pods")
        factory.for_resource("v1/pods", watch_list=True)
        await waited(6, factory)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.factory", "v1/pods")]
    assert "20 objects of the initial stream" in message_of(caplog, "unsynced")


async def test_of_several_namespaces_those_that_are_missing_are_named(caplog: pytest.LogCaptureFixture) -> None:
    sources = {"a": MemorySource(namespace="a")}
    for name in "bcdef":
        sources[name] = MemorySource(namespace=name)
        sources[name].fail_with = ConnectionError("refused")
    async with SharedInformer(sources, name="v1/configmaps") as informer:
        with pytest.raises(NotSyncedError):
            await informer.wait_synced(timeout=6)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.informer", "v1/configmaps")]
    assert message_of(caplog, "unsynced").endswith("ConnectionError: refused (in b, c, d and 2 more)")


async def test_handlers_that_have_not_finished_are_named(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    for name in "abc":
        source.set(name)

    async def slowly(obj: KubeObject) -> None:
        await asyncio.sleep(100)

    async with SharedInformer(source, shutdown_timeout=0) as informer:
        registration = informer.add_event_handler(on_add=slowly, name="slow")
        with pytest.raises(NotSyncedError):
            await registration.wait_synced(timeout=6)
    assert said(caplog, "unsynced") == [Said("WARNING", "kinformer.handler", "v1/configmaps")]
    assert "handler slow " in message_of(caplog, "unsynced")
    assert "2 calls" in message_of(caplog, "unsynced")


async def test_a_factory_that_waits_for_handlers_names_the_one_that_is_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def slowly(obj: KubeObject) -> None:
        await asyncio.sleep(100)

    async with (
        APIServer() as server,
        server.client() as client,
        SharedInformerFactory(client, shutdown_timeout=0) as factory,
    ):
        server.create(pod("a"))
        factory.for_resource("v1/pods").add_event_handler(on_add=slowly, name="slow")
        with pytest.raises(NotSyncedError, match="v1/pods: handler slow has not finished its initial adds"):
            await factory.wait_for_cache_sync(timeout=6, handlers=True)
    assert [one[:2] for one in said(caplog, "unsynced")] == [("WARNING", "kinformer.factory")]
    assert "v1/pods: handler slow " in message_of(caplog, "unsynced")
    assert "0 calls" in message_of(caplog, "unsynced")
