"""Faults of the connection: streams that end, are cut, or go silent, and clocks that jump."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from kinformer import Client, ListWatch, Reflector, SharedInformer, SharedInformerFactory
from kinformer.testing import APIServer, faults
from tests.support.fault_scene import CUT, EVEN, HANG, Reply, event, listed, scene, wire
from tests.support.forwarder import Forwarder
from tests.support.kube import config_map
from tests.support.machine_clock import MachineClock
from tests.support.scripted_source import HANG as SILENCE
from tests.support.scripted_source import TIMEOUT, ProbedSource, RecordingStore, page
from tests.support.waiting import until

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("arrival")]


async def test_fault_01_the_server_ends_a_watch_at_its_timeout() -> None:
    """The server ends each watch at its timeoutSeconds.

    Nothing: the next watch starts at once from the last version. No relist, no error, `live` all the time.
    """
    async with scene("a", watch_timeout=5, watch_list=False) as s:
        for number in range(10):
            s.put("a", str(number))
            s.put(f"b{number}")
            await asyncio.sleep(6)
            assert s.health.live
        await s.in_step()
        assert s.health.watches >= 6
        assert len(s.asked("list")) == 1
        assert (s.relists, s.errors) == ({}, [])


async def test_fault_02_the_server_restarts() -> None:
    """The server goes away for seconds, then answers 429 for a while.

    `live` False meanwhile. Changes come as one relist, deletes included.
    """
    async with scene("a", "b", "c") as s:
        restarting = asyncio.ensure_future(s.server.restart(downtime=20))
        await asyncio.sleep(5)
        assert (s.health.state, s.health.live, s.health.synced) == ("backing_off", False, True)
        assert "connection refused" in str(s.health.last_error)
        assert len(s.cached) == 3
        s.put("a", "changed")
        s.drop("b")
        s.put("d")
        await s.server.compact()  # it comes back without history
        s.server.faults.add(faults.status(429, "storage is (re)initializing", retry_after=1), verb="watch", times=2)
        await restarting
        await s.in_step(60)
        assert s.relists == {"expired": 1}
        assert ("delete", "b", True) in s.mirror.calls
        assert s.kinds[0] == "ConnectError"
        assert sorted(s.mirror.of("add")) == ["a", "b", "c", "d"]


async def test_fault_03_the_server_is_killed() -> None:
    """The connection ends without the last chunk, as after `kill -9`.

    Nothing: the watch continues after the last whole event.
    """
    first = Reply([event("ADDED", "b", 8), 3.0, CUT])
    async with wire([listed(rv=7)], [first, Reply([event("ADDED", "c", 9), HANG])]) as w:
        await w.until(lambda: len(w.cached) == 2)
        assert [query["resourceVersion"] for query in w.asked("watch")] == ["7", "8"]
        assert (w.relists, w.errors, w.health.live) == ({}, [], True)
        await w.check_mirror()


async def test_fault_04_a_connection_is_half_open() -> None:
    """The connection stays open, and nothing arrives.

    The stream is replaced after `idle_timeout` (120 s). Without an answer to that, `live` is False within 30 s
    more.
    """
    async with scene("a") as s:
        s.put("b")
        await s.in_step()
        s.server.pause()
        await asyncio.sleep(119)
        assert s.health.live
        await asyncio.sleep(32)
        assert (s.health.live, s.health.state) == (False, "backing_off")
        assert "no response within 30 s" in str(s.health.last_error)
        s.put("c")
        s.server.resume()
        await s.in_step(60)
        assert s.relists == {}


async def test_fault_05_something_between_resets_an_idle_connection() -> None:
    """A load balancer resets the idle connection again and again.

    Nothing: one request each time.
    """
    async with scene("a") as s:
        for number in range(5):
            await asyncio.sleep(60)
            s.server.faults.add(faults.reset(), verb="watch", times=1)
            s.put("a", f"changed {number}")
            await s.in_step()
        assert (s.relists, s.errors) == ({}, [])
        assert s.mirror.of("update") == ["a"] * 5


async def test_after_a_cut_the_server_is_verified_and_watched_on_one_connection(server: APIServer) -> None:
    server.create(config_map("a"))
    async with (
        Forwarder(server.url) as forwarder,
        Client.from_url(forwarder.url) as client,
        SharedInformerFactory(client) as factory,
    ):
        informer = factory.for_resource("v1/configmaps")
        await informer.wait_synced()
        await asyncio.sleep(1)  # until it watches, and knows which cluster it is
        await forwarder.cut()
        await forwarder.restore()
        before = forwarder.accepted
        server.requests.clear()
        server.create(config_map("b"))
        await until(lambda: len(informer.lister) == 2)
        asked = [(request.path, "watch" in request.params) for request in server.requests]
        assert asked == [("/api/v1/configmaps", False), ("/api/v1/configmaps", True)]
        assert forwarder.accepted == before + 1


async def test_fault_06_the_stream_breaks_off_in_the_middle_of_a_line() -> None:
    """A line is cut in the middle, and the connection ends.

    Nothing: the fragment is dropped, and the event comes again.
    """
    async with scene("a") as s:
        handle = s.server.faults.add(faults.close_mid_line(), verb="watch", times=1)
        s.put("b")
        s.put("c")
        await s.in_step()
        assert handle.hits == 1
        assert sorted(s.mirror.of("add")) == ["a", "b", "c"]
        assert (s.relists, s.errors, s.informer.statistics().decode_errors) == ({}, [], 0)


async def test_fault_08_characters_and_line_ends_fall_apart() -> None:
    """Multi-byte characters and CR LF are split over chunks.

    Nothing: bytes are joined before they are read.
    """
    text = "Zürich 北京 \u2028 🚀"
    body = event("ADDED", "b", 8, data={"v": text}).replace(b"\n", b"\r\n") + event("ADDED", "c", 9)
    raw = body.replace(text.encode("ascii", "backslashreplace"), text.encode())
    pieces = [raw[at : at + 1] for at in range(len(raw))]
    async with wire([listed(rv=7)], [Reply([*pieces, HANG])]) as w:
        await w.until(lambda: len(w.cached) == 2)
        found = w.informer.lister.get("b")
        assert found is not None
        assert found["data"] == {"v": text}
        assert (w.relists, w.errors) == ({}, [])


async def test_fault_31_a_proxy_answers_with_html() -> None:
    """A proxy without a backend answers 502 with HTML.

    `live` False, `last_error` quotes the page's title. No relist afterwards.
    """
    async with scene("a", watch_timeout=3) as s:
        handle = s.server.faults.add(faults.html_502())
        await s.until(lambda: not s.health.live)
        assert str(s.health.last_error) == "502: 502 Bad Gateway"
        assert s.health.state == "backing_off"
        s.put("b")
        await asyncio.sleep(20)
        assert 3 <= s.health.consecutive_failures <= 6, "no storm"
        handle.remove()
        await s.in_step(60)
        assert s.relists == {}
        assert s.kinds == ["ServerError"]


async def test_fault_42_a_handler_is_slow() -> None:
    """A handler takes a second per call, at 1,000 changes a second.

    `statistics().pending` and `coalesced` grow. Everything else is on time. The slow one sees each object in its
    last state.
    """

    class Slow:
        def __init__(self) -> None:
            self.last: dict[str, str] = {}

        async def on_add(self, obj: Any) -> None:
            await self.on_update(None, obj)

        async def on_update(self, old: Any, new: Any) -> None:
            await asyncio.sleep(1)
            self.last[new.name] = new["data"]["v"]

    async with scene("a") as s:
        slow = Slow()
        s.informer.add_event_handler(slow, queue_size=16, name="slow")
        for number in range(3000):
            s.put(f"m{number % 10}", str(number))
            if number % 100 == 99:
                await asyncio.sleep(0.1)
        await s.in_step(5)
        statistics = s.informer.statistics()
        assert 0 < statistics.pending["slow"] <= 20
        assert statistics.coalesced > 2000
        assert (s.health.watches, s.relists, s.errors) == (1, {}, [])
        await s.until(lambda: not s.informer.statistics().pending["slow"], 60)
        await asyncio.sleep(1.1)
        assert slow.last == {f"m{digit}": str(2990 + digit) for digit in range(10)} | {"a": "0"}


async def test_fault_43_the_clock_jumps_and_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock jumps by a day, or the machine sleeps for an hour.

    Nothing for the clock. After a sleep the server's version is checked before the next watch.
    """
    machine = MachineClock()
    source = ProbedSource([page(rv=7)], [[TIMEOUT], [TIMEOUT], [SILENCE]], rv="9")
    monkeypatch.setattr(random, "random", lambda: 0.0)  # of a watch's timeout
    reflector = Reflector(
        source, RecordingStore(), watch_list=False, backoff=EVEN, clock=machine.clock, watch_timeout=5
    )
    task = asyncio.ensure_future(reflector.run())
    await asyncio.sleep(6)
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 86_400)
    assert (source.times("watch"), len(source.tips)) == ([0.0, 5.0], 1)
    machine.slept += 3600
    await asyncio.sleep(6)
    assert (source.times("watch"), len(source.tips)) == ([0.0, 5.0, 10.0], 2)
    assert reflector.health().live
    task.cancel()
    await asyncio.wait([task])


async def test_fault_45_a_connection_of_the_pool_is_dead() -> None:
    """A kept connection has died before the next request.

    Nothing: the request is repeated at once on a new connection.
    """
    body = b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(connections)
        connections.append(0)
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                connections[number] += 1
                if connections[number] > 1:
                    return  # every connection dies with its second request
                if b"watch=true" in request:
                    writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
                else:
                    writer.write(head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    errors: list[Any] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, Client.from_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        source = ListWatch(client, "v1/configmaps")
        options: dict[str, Any] = {"watch_list": False, "backoff": EVEN}
        async with SharedInformer(source, **options, on_error=lambda _, error: errors.append(error)) as informer:
            await informer.wait_synced(timeout=10)
            await until(lambda: informer.health().watches)
            assert connections[0] == 2, "the first watch met the dead connection of the list"
            assert errors == []
            assert informer.health().live


async def test_fault_46_it_is_left_in_the_middle_of_a_stream() -> None:
    """The informer is left, or its task cancelled, while answers arrive.

    Leaving returns within its deadline. No task, connection or warning of the loop is left.
    """
    half = event("ADDED", "b", 8)[:40]
    for watches in ([Reply([half, HANG])], [Reply([event("ADDED", "b", 8), HANG])]):
        async with wire([listed(rv=7)], watches) as w:
            await w.server.until_asked()
            await asyncio.sleep(0.01)
            before = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - before < 1
        assert w.server.open == 0
        assert w.health.state == "stopped"


async def test_fault_46_it_is_left_in_the_middle_of_a_list() -> None:
    """See above: a LIST of which half has come."""
    half = b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"na'
    async with wire([Reply([half, HANG])], synced=False) as w:
        await w.server.until_asked()
        await asyncio.sleep(0.01)
    assert w.server.open == 0
    assert (w.health.state, w.health.synced) == ("stopped", False)
