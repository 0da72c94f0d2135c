"""Streams of changes, and waits for one object, on both servers: what they tell through kills, gaps and compactions."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kinformer import Client, ListWatch, watch
from kinformer.conditions import is_deleted, is_pod_ready
from kinformer.exceptions import DeletedError, ExpiredError
from kinformer.testing import ClusterServer, ControlPlane
from kinformer.watching import StreamEvent, WatchStream
from tests.conformance.api import COLLECTIONS, Api, collection, manifest
from tests.conformance.conftest import OpenApi
from tests.conformance.history import History, on_server
from tests.conformance.test_informers_on_both import IMPATIENT
from tests.conformance.versions import PROMPT_STREAMS, Minor
from tests.support.cli import CommandLine, Ended
from tests.support.forwarder import Forwarder
from tests.support.waiting import until

CONFIGMAPS = "v1/configmaps"
PODS = COLLECTIONS["v1/pods"]
READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


class Reader:
    """Reads a stream, and holds each event against those before it."""

    def __init__(self, events: WatchStream) -> None:
        self.events = events
        self.known: dict[str, tuple[str, str]] = {}
        self.found_gone = 0  # deletes of which only a list knows
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for event in self.events:
            self.tell(event)

    def tell(self, event: StreamEvent) -> None:
        before = self.known.get(event.key)
        assert (event.type == "ADDED") == (before is None), (event, before)
        assert before is None or before[0] == event.uid
        if event.type == "DELETED":
            del self.known[event.key]
            self.found_gone += event.object is None
        else:
            assert before is None or before[1] != event.object.resource_version
            self.known[event.key] = (event.uid, event.object.resource_version)

    async def agrees(self, api: Api, namespace: str = "") -> None:
        """Wait until what was told is what the server has."""
        found = await on_server(api, CONFIGMAPS, namespace=namespace)
        truth = {key: (item["metadata"]["uid"], item["metadata"]["resourceVersion"]) for key, item in found.items()}
        await until(
            lambda: (self.known == truth and self.events.has_synced) or self._reading.done(),
            40,
            what="the reader has been told the truth, and that this was all",
        )
        if self._reading.done():
            self._reading.result()
        assert self.known == truth
        assert self.events.objects == len(truth)

    async def stop(self) -> None:
        self._reading.cancel()
        await asyncio.wait([self._reading])
        if not self._reading.cancelled():
            self._reading.result()


@asynccontextmanager
async def reading(client: Client, **options: Any) -> AsyncIterator[Reader]:
    async with watch(ListWatch(client, CONFIGMAPS), backoff=IMPATIENT, **options) as events:
        reader = Reader(events)
        try:
            yield reader
        finally:
            await reader.stop()


def through(server: ClusterServer, url: str) -> Client:
    context = ssl.create_default_context(cafile=server.ca_file) if server.ca_file else None
    return Client.from_url(url, token=server.token(), ssl=context)


@pytest.mark.slow
@pytest.mark.parametrize("watch_list", [None, False], ids=["stream", "LIST"])
async def test_a_cut_network_and_a_compaction_are_told_as_a_difference(
    own_server: ClusterServer, open_api: OpenApi, watch_list: bool | None
) -> None:
    api = await open_api(own_server)
    history = History(api, CONFIGMAPS)
    await history.go_on(60)
    async with (
        Forwarder(own_server.url) as forwarder,
        through(own_server, forwarder.url) as client,
        reading(client, watch_list=watch_list) as reader,
    ):
        await reader.agrees(api)
        await forwarder.cut()
        await history.go_on(40)
        await forwarder.restore()
        await reader.agrees(api)
        assert reader.found_gone == 0  # the server remembers what was missed, deletes included
        await forwarder.cut()
        await history.go_on(60)
        await own_server.compact()
        await own_server.restart()
        event = await api.first_event(COLLECTIONS[CONFIGMAPS], reader.events.resource_version)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)  # what the stream is going to hear
        await forwarder.restore()
        await reader.agrees(api)
        assert reader.found_gone > 0
        assert reader.events.health().relists == 1
        await history.go_on(20)
        await reader.agrees(api)


@pytest.mark.slow
async def test_a_server_that_is_killed_amid_changes_loses_no_event(
    own_server: ClusterServer, open_api: OpenApi
) -> None:
    api = await open_api(own_server)
    history = History(api, CONFIGMAPS)
    async with own_server.client() as client, reading(client) as reader:
        await reader.agrees(api)
        for _ in range(2):
            changes = asyncio.ensure_future(history.go_on(150))
            await asyncio.sleep(0.05)  # they are under way
            assert not changes.done()
            if isinstance(own_server, ControlPlane):
                await own_server.stop_api_server(kill=True)
                await own_server.start_api_server()
            else:
                await own_server.restart()
            await changes
            await reader.agrees(api)
        await until(lambda: reader.events.health().live, 20)


@pytest.mark.slow
async def test_a_bookmark_takes_the_version_on_where_nothing_is_told(
    server: ClusterServer, open_api: OpenApi, namespace: str
) -> None:
    api = await open_api(server)
    await api.create(collection(CONFIGMAPS, namespace), manifest(CONFIGMAPS, "mine", "1"))
    source_of = {"label_selector": "value=1", "namespace": namespace}
    async with (
        server.client() as client,
        watch(ListWatch(client, CONFIGMAPS, **source_of), watch_timeout=4, backoff=IMPATIENT) as events,
    ):
        assert (await anext(events)).key == f"{namespace}/mine"
        reader = asyncio.ensure_future(anext(events))  # nothing comes, and the marks are read all the same
        await until(lambda: events.resource_version, 20)
        other = await api.create(collection(CONFIGMAPS, namespace), manifest(CONFIGMAPS, "other", "2"))
        reached = int(other["metadata"]["resourceVersion"])
        await until(lambda: int(events.resource_version) >= reached, 20)
        assert not reader.done()
        reader.cancel()
        await asyncio.wait([reader])
        assert events.health().relists == 0


async def test_a_stream_is_resumed_with_what_happened_until_the_server_has_forgotten(
    own_server: ClusterServer, open_api: OpenApi
) -> None:
    api = await open_api(own_server)
    history = History(api, CONFIGMAPS)
    await history.go_on(60)
    async with own_server.client() as client:
        async with reading(client) as reader:
            await reader.agrees(api)
            await until(lambda: reader.events.has_synced, 10)
            known, version = dict(reader.known), reader.events.resource_version
        await history.go_on(60)
        async with reading(client, resource_version=version) as reader:
            reader.known = known
            await reader.agrees(api)
            assert reader.found_gone == 0
        await own_server.restart()  # its watch cache begins anew
        async with watch(ListWatch(client, CONFIGMAPS), resource_version=version, backoff=IMPATIENT) as events:
            with pytest.raises(ExpiredError, match=f"since resourceVersion {version} are lost"):
                async with asyncio.timeout(40):
                    await anext(events)


# --- waits for one object -----------------------------------------------------------------------------


async def restarted(server: ClusterServer, *, compacted: bool = False) -> None:
    """Kill the server and start it again."""
    if compacted:
        await server.compact()
    if isinstance(server, ControlPlane):
        await server.stop_api_server(kill=True)
        await server.start_api_server()
    else:
        await server.restart()


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True], ids=["killed", "compacted"])
async def test_a_wait_survives_its_server(own_server: ClusterServer, open_api: OpenApi, compacted: bool) -> None:
    api = await open_api(own_server)
    await api.create(PODS, manifest("v1/pods", "web-1", "1"))
    async with own_server.client() as client:
        waiting = asyncio.ensure_future(client.wait_for("v1/pods", "default/web-1", is_pod_ready, timeout=60))
        await asyncio.sleep(1)
        for number in range(20):
            await api.create(COLLECTIONS[CONFIGMAPS], manifest(CONFIGMAPS, f"other-{number}", "1"))
        await restarted(own_server, compacted=compacted)
        assert not waiting.done()
        await api.merge(f"{PODS}/web-1/status", READY)
        found = await waiting
        assert found is not None
        assert found.path("status.phase") == "Running"
        waiting = asyncio.ensure_future(client.wait_for("v1/pods", "default/web-1", is_deleted(found.uid), timeout=60))
        await asyncio.sleep(1)
        await api.remove(f"{PODS}/web-1")
        assert await waiting is None


@pytest.mark.slow
async def test_a_wait_for_an_object_that_is_deleted_says_how_it_was(
    server: ClusterServer, open_api: OpenApi, namespace: str, kubernetes: Minor
) -> None:
    patience = 1 if kubernetes >= PROMPT_STREAMS else 5  # seconds, for the end of a streamed list
    api = await open_api(server)
    pods = collection("v1/pods", namespace)
    await api.create(pods, manifest("v1/pods", "web-1", "1"))
    async with server.client() as client:
        waiting = asyncio.ensure_future(client.wait_for("v1/pods", f"{namespace}/web-1", is_pod_ready, timeout=60))
        await asyncio.sleep(patience)
        await api.remove(f"{pods}/web-1")
        with pytest.raises(DeletedError, match=r"was deleted during the wait; its last state is .*, at resource"):
            await waiting
        with pytest.raises(TimeoutError, match="it is absent"):
            await client.wait_for("v1/pods", f"{namespace}/web-1", is_pod_ready, timeout=patience)


@pytest.mark.slow
async def test_the_command_waits_through_a_kill_of_the_server(
    own_server: ClusterServer, open_api: OpenApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api = await open_api(own_server)
    await api.create(PODS, manifest("v1/pods", "web-1", "1"))
    kinformer = CommandLine(capsys)
    to = ("--kubeconfig", str(own_server.kubeconfig(tmp_path / "kubeconfig")))
    late = await kinformer("wait", "pod", "web-1", "--for", "condition=Ready", "--timeout", "1s", *to)
    assert (late.status, late.out) == (1, "")
    assert "timed out" in late.err
    waiting = asyncio.ensure_future(kinformer("wait", "pod", "web-1", "--for", "condition=Ready", "--timeout=60s", *to))
    await asyncio.sleep(1)
    await restarted(own_server)
    await api.merge(f"{PODS}/web-1/status", READY)
    ready = await waiting
    assert ready == Ended(0, "pod/web-1 condition met\n", "")
    waiting = asyncio.ensure_future(kinformer("wait", "pod", "web-1", "--for=delete", "--timeout=60s", *to))
    await asyncio.sleep(1)
    await api.remove(f"{PODS}/web-1")
    gone = await waiting
    assert gone == Ended(0, "pod/web-1 condition met\n", "")
