"""Handlers with `thread=True`, and plain ones that hold the event loop."""

from __future__ import annotations

import asyncio
import threading
import time

import msgspec
import pytest

from kinformer import Client, ConfigError, KubeObject, SharedInformer, SharedInformerFactory
from kinformer.testing import APIServer
from tests.support.log_records import Said, message_of, records, said
from tests.support.memory_source import MemorySource
from tests.support.waiting import until


class Blocking:
    """A handler of plain functions that block for some time, or until `loop` has had a turn meanwhile.

    It notes the calls that overlap, and those in which the loop had no turn.
    """

    def __init__(self, seconds: float = 0.0, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.threads: set[int] = set()
        self.overlaps = 0
        self.held_loop = 0
        self._seconds = seconds
        self._loop = loop
        self._busy = threading.Lock()

    def on_add(self, obj: KubeObject, *, is_in_initial_list: bool) -> None:
        self._called("initial" if is_in_initial_list else "add", obj)

    def on_update(self, old: KubeObject, new: KubeObject) -> None:
        assert int(old.resource_version) < int(new.resource_version)
        self._called("update", new)

    def on_delete(self, obj: KubeObject) -> None:
        self._called("delete", obj)

    def _called(self, what: str, obj: KubeObject) -> None:
        if not self._busy.acquire(blocking=False):
            self.overlaps += 1
            return
        try:
            time.sleep(self._seconds)
            if self._loop is not None:
                turn = threading.Event()
                self._loop.call_soon_threadsafe(turn.set)
                self.held_loop += not turn.wait(10)
            self.threads.add(threading.get_ident())
            self.calls.append((what, obj.name, obj.resource_version))
        finally:
            self._busy.release()


async def test_its_calls_are_made_in_order_one_at_a_time_and_hold_no_loop() -> None:
    source = MemorySource()
    for number in range(3):
        source.set(f"a-{number}")
    handler = Blocking(loop=asyncio.get_running_loop())
    async with SharedInformer(source) as informer:
        registration = informer.add_event_handler(handler, thread=True)
        await registration.wait_synced(10)
        source.set("a-0")
        source.set("a-0")
        source.delete("a-1")
        await until(lambda: len(handler.calls) == 6)
    assert sorted(handler.calls[:3]) == [("initial", f"a-{number}", str(number + 2)) for number in range(3)]
    assert handler.calls[3:] == [("update", "a-0", "5"), ("update", "a-0", "6"), ("delete", "a-1", "7")]
    assert (handler.overlaps, handler.held_loop) == (0, 0)
    assert threading.get_ident() not in handler.threads


async def test_many_quick_calls_keep_their_order_and_their_count() -> None:
    source = MemorySource()
    handler = Blocking()
    async with SharedInformer(source) as informer:
        informer.add_event_handler(handler, thread=True, queue_size=None)
        await informer.wait_synced(10)
        for _ in range(500):
            source.set("a")
        await until(lambda: len(handler.calls) == 500)
    assert [int(version) for _, _, version in handler.calls] == list(range(2, 502))
    assert not handler.overlaps


async def test_calls_that_wait_for_a_thread_are_counted_and_folded() -> None:
    source = MemorySource()
    source.set("a")
    goes_on = threading.Event()
    seen: list[str] = []

    def on_update(old: KubeObject, new: KubeObject) -> None:
        goes_on.wait(10)
        seen.append(new.resource_version)

    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        informer.add_event_handler(on_update=on_update, thread=True, queue_size=4, name="slow")
        for _ in range(50):
            source.set("a")
            await asyncio.sleep(0)
        await until(lambda: informer.statistics().coalesced > 30)
        assert 1 <= informer.statistics().pending["slow"] <= 4
        goes_on.set()
        await until(lambda: seen[-1:] == ["52"])
        assert informer.statistics().pending["slow"] == 0
    assert seen == sorted(seen, key=int)
    assert len(seen) < 20


async def test_an_error_in_the_thread_is_counted_and_named_and_the_rest_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = MemorySource()
    for name in ("bad", "exit", "good"):
        source.set(name)
    heard: list[str] = []

    def on_add(obj: KubeObject) -> None:
        if obj.name == "bad":
            raise RuntimeError("cannot take it")
        if obj.name == "exit":
            raise SystemExit(3)
        heard.append(obj.name)

    async with SharedInformer(source) as informer:
        registration = informer.add_event_handler(on_add=on_add, thread=True, name="mine")
        await registration.wait_synced(10)
        assert informer.statistics().handler_errors == 2
    assert heard == ["good"]
    assert sorted(said(caplog, "handler_failed")) == [
        Said("ERROR", "kinformer.handler", "v1/configmaps", key) for key in ("default/bad", "default/exit")
    ]
    assert all("handler mine " in record.getMessage() for record in records(caplog, "handler_failed"))
    assert "cannot take it" in caplog.text  # in the traceback


async def test_a_coroutine_function_is_refused_by_name() -> None:
    async def on_add(obj: KubeObject) -> None: ...

    class Half:
        def on_add(self, obj: KubeObject) -> None: ...
        async def on_delete(self, obj: KubeObject) -> None: ...

    async with SharedInformer(MemorySource()) as informer:
        with pytest.raises(ConfigError, match=r"thread=True\): on_add of handler .*on_add is a coroutine function"):
            informer.add_event_handler(on_add=on_add, thread=True)
        with pytest.raises(ConfigError, match=r"on_delete of handler .*Half is a coroutine function"):
            informer.add_event_handler(Half(), thread=True)


async def test_a_coroutine_that_a_plain_function_returns_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    source.set("a")

    async with SharedInformer(source) as informer:
        registration = informer.add_event_handler(
            on_add=lambda obj: asyncio.sleep(0), thread=True, name="mine", filter=lambda obj: True
        )
        await registration.wait_synced(10)
        assert informer.statistics().handler_errors == 1
    assert said(caplog, "handler_failed") == [Said("ERROR", "kinformer.handler", "v1/configmaps", "default/a")]
    assert "returned a coroutine" in caplog.text  # in the traceback


async def test_leaving_delivers_what_waits_and_names_a_call_that_does_not_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = MemorySource()
    source.set("a")
    handler, goes_on = Blocking(0.02), threading.Event()
    async with SharedInformer(source, shutdown_timeout=0.6) as informer:
        informer.add_event_handler(handler, thread=True)
        informer.add_event_handler(on_add=lambda obj: goes_on.wait(20), thread=True, name="stuck")
        await informer.wait_synced(10)
        for _ in range(5):
            source.set("a")
        await until(lambda: informer.last_sync_resource_version == "7")
        left = time.monotonic()
    assert time.monotonic() - left < 3
    assert [what for what, *_ in handler.calls] == ["initial", *["update"] * 5]
    assert len(caplog.records) == 1
    assert said(caplog, "abandoned") == [Said("ERROR", "kinformer.handler", "v1/configmaps")]
    assert "handler stuck " in message_of(caplog, "abandoned")
    goes_on.set()


async def test_a_removed_handler_gets_no_call_of_those_that_waited() -> None:
    source = MemorySource()
    handler, begun, goes_on = Blocking(), threading.Event(), threading.Event()

    def on_update(old: KubeObject, new: KubeObject) -> None:
        handler.on_update(old, new)
        begun.set()
        goes_on.wait(10)

    source.set("a")
    async with SharedInformer(source) as informer:
        registration = informer.add_event_handler(on_update=on_update, thread=True)
        await registration.wait_synced(10)
        for _ in range(5):
            source.set("a")
        await asyncio.to_thread(begun.wait, 10)
        await informer.remove_event_handler(registration)
        goes_on.set()
        await asyncio.sleep(0.05)
    assert len(handler.calls) == 1


async def test_waiting_for_a_handler_from_inside_it_is_refused() -> None:
    source = MemorySource()
    source.set("a")
    refused: list[str] = []
    async with SharedInformer(source) as informer:
        loop = asyncio.get_running_loop()

        def on_add(obj: KubeObject) -> None:
            try:
                asyncio.run(registration.wait_synced(1))
            except RuntimeError as error:
                refused.append(str(error))
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)

        registration = informer.add_event_handler(on_add=on_add, thread=True, name="mine")
        await registration.wait_synced(10)
    assert refused == ["wait_synced was called inside handler mine and would wait for it; call it from another task"]


async def test_the_informers_of_a_client_share_the_limiter_of_threads(server: APIServer, client: Client) -> None:
    for kind in ("ConfigMap", "Secret"):
        server.create({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "default"}})
    client.handler_limiter.total_tokens = 1
    running, most = 0, 0
    lock = threading.Lock()

    def on_add(obj: KubeObject) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1

    async with SharedInformerFactory(client) as one, SharedInformerFactory(client) as other:
        added = [
            factory.for_resource(resource, namespace="default").add_event_handler(on_add=on_add, thread=True)
            for factory in (one, other)
            for resource in ("v1/configmaps", "v1/secrets")
        ]
        for registration in added:
            await registration.wait_synced(10)
        assert client.handler_limiter.statistics().total_tokens == 1
    assert most == 1


async def test_a_call_that_takes_the_last_thread_delays_other_handlers_and_loses_nothing(
    server: APIServer, client: Client
) -> None:
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}})
    client.handler_limiter.total_tokens = 1
    stuck, inside = threading.Event(), threading.Event()
    other = Blocking()

    def hold(obj: KubeObject) -> None:
        inside.set()
        stuck.wait(20)

    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource("v1/configmaps", namespace="default")
        maps.add_event_handler(on_add=hold, thread=True)
        await until(inside.is_set)
        maps.add_event_handler(other, thread=True)
        for number in range(5):
            server.update(server.get("v1/configmaps", "default", "a") | {"data": {"v": str(number)}})
        latest = server.get("v1/configmaps", "default", "a")["metadata"]["resourceVersion"]
        await until(lambda: maps.by_key["default/a"].resource_version == latest)
        assert other.calls == []
        stuck.set()
        await until(lambda: bool(other.calls) and other.calls[-1][2] == latest)
    assert other.overlaps == 0
    assert [what for what, _, _ in other.calls] == ["initial", "update", "update", "update", "update", "update"]


async def test_a_typed_handler_gets_its_model_in_the_thread(server: APIServer, client: Client) -> None:
    class ConfigMap(msgspec.Struct):
        data: dict[str, str]

    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    server.create({**document, "data": {"x": "1"}})
    seen: list[tuple[str, bool]] = []
    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource("v1/configmaps", namespace="default", model=ConfigMap)
        main = threading.get_ident()
        registration = maps.add_event_handler(
            on_add=lambda obj: seen.append((obj.model.data["x"], threading.get_ident() != main)), thread=True
        )
        await registration.wait_synced(10)
    assert seen == [("1", True)]


# --- plain handlers on the loop ---------------------------------------------------------------------------------------


async def test_a_plain_handler_that_holds_the_loop_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    for name in "abcdefghijkl":  # on a busy machine, not each call has the CPU
        source.set(name)

    def blocks(obj: KubeObject) -> None:
        if obj.name in "abc" or not said(caplog, "loop_held"):
            time.sleep(0.12)
        if obj.name == "b":
            raise RuntimeError("and fails")

    async def waits(obj: KubeObject) -> None:
        await asyncio.sleep(0.15)

    async with SharedInformer(source) as informer:
        registrations = [
            informer.add_event_handler(on_add=blocks, name="blocks"),
            informer.add_event_handler(on_add=waits, name="waits"),
            informer.add_event_handler(on_add=lambda obj: waits(obj), name="waits too"),
            informer.add_event_handler(on_add=lambda obj: time.sleep(0.12), name="threaded", thread=True),
        ]
        for registration in registrations:
            await registration.wait_synced(10)
    (held,) = said(caplog, "loop_held")
    assert held[:3] == ("WARNING", "kinformer.handler", "v1/configmaps")
    for word in ("handler blocks ", " 0.1 s", "thread=True"):
        assert word in message_of(caplog, "loop_held")


# --- what belongs to the loop, from another thread --------------------------------------------------------------------


async def test_a_call_from_another_thread_names_the_informer_and_the_way(client: Client) -> None:
    async with SharedInformer(MemorySource()) as informer, SharedInformerFactory(client) as factory:
        calls = {
            "add_event_handler": lambda: informer.add_event_handler(on_add=print),
            "events": informer.events,
            "add_indexers": lambda: informer.add_indexers({"x": "spec.x"}),
            "for_resource": lambda: factory.for_resource("v1/pods"),
        }
        for name, call in calls.items():
            with pytest.raises(RuntimeError) as refused:
                await asyncio.to_thread(call)
            owner = r"v1/pods" if name == "for_resource" else "informer v1/configmaps"
            for words in (name, owner, "asyncio.run_coroutine_threadsafe", "kinformer.blocking"):
                assert words in str(refused.value)


async def test_a_call_from_another_loop_names_the_informer_and_the_way() -> None:
    async with SharedInformer(MemorySource()) as informer:

        async def elsewhere() -> None:
            await informer.wait_synced(1)

        with pytest.raises(RuntimeError, match=r"wait_synced: informer v1/configmaps belongs to another event loop"):
            await asyncio.to_thread(asyncio.run, elsewhere())
