"""`kinformer.blocking`: programs with threads, each in a worker thread while the server runs on the test's loop."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from kinformer import (
    Client,
    ConfigError,
    ForbiddenError,
    KubeObject,
    NotFoundError,
    NotSyncedError,
    SharedInformer,
    SharedInformerFactory,
    StoppedError,
    blocking,
)
from kinformer.conditions import is_deleted, matches
from kinformer.exceptions import TemporaryError
from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.log_records import Said, message_of, said
from tests.support.waiting import until

T = TypeVar("T")


async def in_thread(program: Callable[[], T], seconds: float = 30) -> T:
    """Run a blocking program in a thread of its own, and return its result."""
    return await asyncio.wait_for(asyncio.to_thread(program), seconds)


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kinformer event loop"]


def make(server: APIServer, name: str, **fields: Any) -> KubeObject:
    return KubeObject.from_dict(server.create({"apiVersion": "v1", "kind": "ConfigMap", **config_map(name, **fields)}))


# --- informers -------------------------------------------------------------------------------------------------------


async def test_a_blocking_program_reads_waits_writes_and_hears_of_changes(server: APIServer) -> None:
    make(server, "a")

    def program() -> list[tuple[str, str]]:
        heard: list[tuple[str, str]] = []
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default", indexers={"x": "data.x"})
            assert maps is informers.for_resource("v1/configmaps", namespace="default")
            maps.wait_synced(timeout=10)
            assert [obj.key for obj in maps.lister.list()] == ["default/a"]
            registration = maps.add_event_handler(
                on_add=lambda obj: heard.append(("add", obj.name)),
                on_update=lambda old, new: heard.append(("update", new.name)),
            )
            registration.wait_synced(timeout=10)
            answer = informers.request(
                "PATCH", "/api/v1/namespaces/default/configmaps/a", body={"data": {"x": "seven"}}
            )
            assert isinstance(answer, KubeObject)
            maps.wait_for_resource_version(answer.resource_version, timeout=10)
            assert [obj.key for obj in maps.lister.by_index("x", "seven")] == ["default/a"]
            assert maps.wait_for("default/a", lambda obj: obj and obj.path("data.x") == "seven", timeout=10)
            assert maps.health().live
            assert informers.health()["v1/configmaps"].synced
            assert informers.statistics()["v1/configmaps"].objects == 1
            assert "ok" in informers.text("/readyz")
            maps.add_indexers({"name": lambda obj: [obj.name]})
            assert maps.indexer.index_values("name") == ["a"]
        assert not maps.health().live
        return heard

    assert await in_thread(program) == [("add", "a"), ("update", "a")]
    assert not loop_threads()


async def test_the_listers_are_those_of_the_informer(server: APIServer) -> None:
    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps")
            made = [found for found in gc.get_objects() if type(found) is SharedInformer]
            assert (maps.lister, maps.indexer) in [(one.lister, one.indexer) for one in made]

    await in_thread(program)


async def test_informers_may_be_asked_for_and_handlers_added_from_any_thread(server: APIServer) -> None:
    for number in range(5):
        make(server, f"a-{number}")
    heard: dict[int, set[str]] = {number: set() for number in range(8)}
    calling: set[int] = set()

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            faces: list[blocking.Informer[None]] = []

            def follow(number: int) -> None:
                maps = informers.for_resource("v1/configmaps", namespace="default")
                faces.append(maps)

                def on_add(obj: KubeObject) -> None:
                    time.sleep(0.01)
                    calling.add(threading.get_ident())
                    heard[number].add(obj.name)

                maps.add_event_handler(on_add=on_add).wait_synced(timeout=10)

            threads = [threading.Thread(target=follow, args=(number,)) for number in heard]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert all(face is faces[0] for face in faces)
            assert len(faces) == 8
            assert not {thread.ident for thread in loop_threads()} & calling

    await in_thread(program)
    assert all(names == {f"a-{number}" for number in range(5)} for names in heard.values())


async def test_a_handler_in_a_thread_may_wait_and_write_by_the_informers(server: APIServer) -> None:
    make(server, "a")
    done = threading.Event()

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")

            def on_add(obj: KubeObject) -> None:
                if obj.name == "a":
                    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
                    informers.request("POST", "/api/v1/namespaces/default/configmaps", body=body)
                    assert maps.wait_for("default/b", lambda found: found is not None, timeout=10)
                    done.set()

            maps.add_event_handler(on_add=on_add)
            assert done.wait(10)

    await in_thread(program)


async def test_a_burst_of_changes_is_one_call_of_a_debounced_handler(server: APIServer) -> None:
    for number in range(50):
        make(server, f"first-{number}")
    seen: list[int] = []
    release = threading.Event()

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            secrets = informers.for_resource("v1/secrets", namespace="default")

            def reload() -> None:
                assert threading.current_thread().name != "kinformer event loop"
                seen.append(len(maps.lister) + len(secrets.lister))

            informers.add_debounced_handler(reload, maps, secrets, debounce=0.3)
            assert release.wait(30)

    running = asyncio.ensure_future(in_thread(program))
    await until(lambda: seen == [50])
    for number in range(50):
        make(server, f"second-{number}")
    server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}})
    await until(lambda: len(seen) == 2)
    await asyncio.sleep(0.5)
    assert seen == [50, 101]
    release.set()
    await running
    assert loop_threads() == []


@pytest.mark.parametrize("failure", [ValueError("no disk"), SystemExit(3), TemporaryError("the volume is being moved")])
async def test_a_debounced_handler_that_fails_is_called_again(
    server: APIServer, caplog: pytest.LogCaptureFixture, failure: BaseException
) -> None:
    calls: list[int] = []
    caplog.set_level("INFO", "kinformer.controller")

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            done = threading.Event()

            def reload() -> None:
                calls.append(len(calls))
                if len(calls) < 4:
                    raise failure
                done.set()

            informers.add_debounced_handler(reload, informers.for_resource("v1/configmaps"), debounce=0, name="files")
            assert done.wait(30)

    await in_thread(program)
    assert calls == [0, 1, 2, 3]
    level, reason = ("INFO", "not_done") if isinstance(failure, TemporaryError) else ("ERROR", "reconcile_failed")
    logged = said(caplog, reason)[0]
    assert (logged.level, logged.resource, logged.key) == (level, "v1/configmaps", "all")
    assert "controller files" in message_of(caplog, reason)


async def test_leaving_waits_for_a_debounced_call_that_runs_and_drops_one_that_waits(server: APIServer) -> None:
    calls: list[str] = []

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            began = threading.Event()
            maps = informers.for_resource("v1/configmaps")

            def slow() -> None:
                began.set()
                time.sleep(0.3)
                calls.append("slow")

            informers.add_debounced_handler(slow, maps, debounce=0)
            informers.add_debounced_handler(lambda: calls.append("late"), maps, debounce=60)
            assert began.wait(30)

    await in_thread(program)
    assert calls == ["slow"]
    assert loop_threads() == []


async def test_a_debounced_handler_whose_informer_is_given_back_ends_with_a_line(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps")
            called = threading.Event()
            informers.add_debounced_handler(called.set, maps, debounce=0, name="files")
            assert called.wait(30)
            informers.release(maps)
            assert informers.get("v1/namespaces", "default").name == "default"

    await in_thread(program)
    assert "files" in message_of(caplog, "stopped")


async def test_what_cannot_be_a_debounced_handler_is_refused(server: APIServer) -> None:
    async def coroutine() -> None: ...

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps")
            for function in (coroutine, lambda event: None, "reload"):
                with pytest.raises(TypeError, match="debounced handler"):
                    informers.add_debounced_handler(function, maps)  # type: ignore[arg-type]
            with pytest.raises(ConfigError, match="debounce"):
                informers.add_debounced_handler(print, maps, debounce=-1)

    await in_thread(program)


async def test_models_are_typed_and_read(server: APIServer) -> None:
    make(server, "a", data={"x": "1"})

    class ConfigMap(msgspec.Struct):
        data: dict[str, str]

    def program() -> str:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default", model=ConfigMap)
            assert maps is informers.for_resource("v1/configmaps", namespace="default", model=ConfigMap)
            for event in maps.events():
                return event.object.model.data["x"]
        raise AssertionError

    assert await in_thread(program) == "1"


async def test_what_the_server_refuses_is_the_error_that_a_coroutine_gets() -> None:
    async with APIServer(users={"t": "reader"}, rules=[("reader", "list", "v1/pods")]) as server:

        def program() -> None:
            with blocking.Informers(url=server.url, token="t") as informers:
                secrets = informers.for_resource("v1/secrets")
                with pytest.raises(ForbiddenError):
                    secrets.wait_synced(10, fail_fast=True)
                with pytest.raises(NotSyncedError, match="v1/secrets"):
                    informers.wait_for_cache_sync(0.05)
                with pytest.raises(ForbiddenError):
                    informers.request("GET", "/api/v1/secrets")
                with pytest.raises(TimeoutError, match="is absent"):
                    informers.for_resource("v1/pods").wait_for("default/x", lambda pod: pod, timeout=0.05)

        await in_thread(program)


async def test_released_informers_end_and_asking_again_makes_another(server: APIServer) -> None:
    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            one = informers.for_resource("v1/configmaps")
            informers.release(one)
            assert one.health().state == "stopped"
            with pytest.raises(StoppedError):
                one.add_event_handler(on_add=print)
            two = informers.for_resource("v1/configmaps")
            assert two is not one
            two.wait_synced(10)

    await in_thread(program)


async def test_one_object_is_waited_for_without_an_informer(server: APIServer) -> None:
    make(server, "a")

    def program() -> tuple[list[str], bool]:
        with blocking.Informers(url=server.url) as informers:
            found = informers.wait_for("v1/configmaps", "default/a", lambda obj: obj is not None, timeout=10)
            with pytest.raises(TimeoutError, match="default/a"):
                informers.wait_for("v1/configmaps", "default/a", matches("data.x", "1"), timeout=0.2)
            changing = threading.Thread(
                target=informers.request,
                args=("PATCH", "/api/v1/namespaces/default/configmaps/a"),
                kwargs={"body": {"data": {"x": "1"}}},
            )
            changing.start()
            changed = informers.wait_for("v1/configmaps", "default/a", matches("data.x", "1"), timeout=10)
            changing.join()
            informers.request("DELETE", "/api/v1/namespaces/default/configmaps/a")
            assert found is not None
            assert changed is not None
            gone = informers.wait_for("v1/configmaps", "default/a", is_deleted(changed.uid), timeout=10)
            return [found.key, changed.path("data.x")], gone is None

    assert await in_thread(program) == (["default/a", "1"], True)


# --- streams ---------------------------------------------------------------------------------------------------------


async def test_events_are_an_iterator_that_ends_when_the_informers_are_left(server: APIServer) -> None:
    make(server, "a")
    heard: list[tuple[str, str, bool]] = []

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            synced = threading.Event()

            def read() -> None:
                with maps.events() as events:
                    for event in events:
                        heard.append((event.type, event.object.name, event.is_in_initial_list))
                        if events.has_synced:
                            synced.set()

            reading = threading.Thread(target=read)
            reading.start()
            assert synced.wait(10)
            informers.request("DELETE", "/api/v1/namespaces/default/configmaps/a")
            while len(heard) < 2:
                time.sleep(0.01)
        reading.join(10)
        assert not reading.is_alive()

    await in_thread(program)
    assert heard == [("ADDED", "a", True), ("DELETED", "a", False)]


async def test_a_loop_over_events_that_is_broken_off_leaves_the_stream(server: APIServer) -> None:
    for number in range(200):
        make(server, f"a-{number}")

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            names = []
            for event in maps.events(name="mine"):
                names.append(event.object.name)
                if len(names) == 150:
                    assert "mine" in maps.statistics().pending
                    break
            assert len(set(names)) == 150
            maps.wait_synced(10)  # the break waits for nothing, and a later call comes after it
            assert "mine" not in maps.statistics().pending

    await in_thread(program)


async def test_the_next_event_is_waited_for_as_long_as_is_said_and_none_is_lost(server: APIServer) -> None:
    make(server, "a")

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            events = maps.events(filter=lambda obj: obj.namespace == "default")
            with pytest.raises(RuntimeError, match="has not been entered"):
                events.get()
            with events:
                assert events.get(timeout=10).object.name == "a"
                with pytest.raises(TimeoutError):
                    events.get(timeout=0.02)
                for name in "bcd":
                    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
                    informers.request("POST", "/api/v1/namespaces/default/configmaps", body=body)
                assert [events.get(timeout=10).object.name for _ in "bcd"] == ["b", "c", "d"]
            with pytest.raises(StoppedError):
                events.get(timeout=1)
            with pytest.raises(RuntimeError, match="entered only once"):
                events.__enter__()

    await in_thread(program)


# --- entering and leaving --------------------------------------------------------------------------------------------


async def test_leaving_delivers_what_waits_for_handlers_and_ends_waits_of_other_threads(server: APIServer) -> None:
    for number in range(10):
        make(server, f"a-{number}")
    heard: list[str] = []
    ended: list[BaseException] = []

    def program() -> float:
        def on_add(obj: KubeObject) -> None:
            time.sleep(0.02)
            answer = informers.request("GET", f"/api/v1/namespaces/default/configmaps/{obj.name}")
            heard.append(answer["metadata"]["name"])

        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            maps.wait_synced(10)

            def wait(call: Callable[[], object]) -> None:
                try:
                    call()
                except StoppedError as error:
                    ended.append(error)

            calls: list[Callable[[], object]] = [
                lambda: maps.wait_for("default/never", lambda obj: obj),
                lambda: maps.wait_for_resource_version(str(10**9)),
            ]
            waiting = [threading.Thread(target=wait, args=(call,)) for call in calls]
            for thread in waiting:
                thread.start()
            time.sleep(0.1)
            maps.add_event_handler(on_add=on_add)
            left = time.monotonic()
        for thread in waiting:
            thread.join(10)
        with pytest.raises(StoppedError, match="was exited"):
            informers.request("GET", "/version")
        with pytest.raises(StoppedError, match="for_resource"):
            informers.for_resource("v1/pods")
        with pytest.raises(RuntimeError, match="entered only once"):
            informers.__enter__()
        return time.monotonic() - left

    assert await in_thread(program) < 5
    assert sorted(heard) == sorted(f"a-{number}" for number in range(10))
    assert len(ended) == 2
    assert not loop_threads()


async def test_leaving_while_a_handler_never_returns_ends_within_the_deadline(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    make(server, "a")
    begun, goes_on = threading.Event(), threading.Event()

    def program() -> float:
        def stuck(obj: KubeObject) -> None:
            begun.set()
            goes_on.wait(30)

        with blocking.Informers(url=server.url, shutdown_timeout=0.3) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            maps.add_event_handler(on_add=stuck, name="stuck")
            assert begun.wait(10)
            left = time.monotonic()
        return time.monotonic() - left

    assert await in_thread(program) < 5
    goes_on.set()
    assert said(caplog, "abandoned") == [Said("ERROR", "kinformer.handler", "v1/configmaps")]
    assert "handler stuck " in message_of(caplog, "abandoned")
    assert not loop_threads()


@pytest.mark.parametrize("reason", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
@pytest.mark.parametrize("place", ["condition", "filter"])
async def test_a_loop_that_a_function_ends_ends_every_call_with_the_reason(
    server: APIServer, place: str, reason: BaseException
) -> None:
    make(server, "a")
    ended: list[tuple[str, str]] = []

    def end_it(obj: object) -> bool:
        raise reason

    def attempt(what: str, call: Callable[[], object]) -> None:
        try:
            call()
            ended.append((what, ""))
        except BaseException as error:
            ended.append((what, f"{type(error).__name__}: {error}"))

    def program() -> None:
        informers = blocking.Informers(url=server.url)
        with informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            maps.wait_synced(10)
            waits: dict[str, Callable[[], object]] = {
                "version": lambda: maps.wait_for_resource_version("100000"),
                "object": lambda: informers.wait_for("v1/configmaps", "default/never", lambda obj: obj),
                "events": lambda: list(maps.events()),
            }
            threads = [threading.Thread(target=attempt, args=wait) for wait in waits.items()]
            for thread in threads:
                thread.start()
            time.sleep(0.3)
            if place == "filter":
                maps.add_event_handler(on_add=print, filter=end_it)
            else:
                with pytest.raises(type(reason)):
                    maps.wait_for("default/a", end_it, timeout=10)
            for thread in threads:
                thread.join(10)
            assert sorted(what for what, _ in ended) == ["events", "object", "version"]
            attempt("later", lambda: informers.request("GET", "/version"))
            assert [obj.name for obj in maps.lister.list()] == ["a"]  # reads need no loop

    with pytest.raises(StoppedError, match=r"leaving: the event loop of blocking\.Informers has ended"):
        await in_thread(program)
    assert len(ended) == 4
    assert ("events", "") in ended  # an iteration ends as with any leaving
    for what, text in ended:
        if what == "events":
            continue
        assert text.startswith("StoppedError: "), what
        assert f"because a function that runs there raised {type(reason).__name__}" in text
    assert not loop_threads()


async def test_of_threads_that_enter_and_leave_at_once_one_does_each(server: APIServer) -> None:
    make(server, "a")

    def program() -> None:
        for _ in range(20):
            informers = blocking.Informers(url=server.url)
            barrier, entered, refused = threading.Barrier(8), [], []

            def enter(barrier: threading.Barrier = barrier, one: blocking.Informers = informers) -> None:
                barrier.wait()
                try:
                    one.__enter__()
                    entered.append(1)  # noqa: B023
                except RuntimeError as error:
                    refused.append(str(error))  # noqa: B023

            def leave(barrier: threading.Barrier = barrier, one: blocking.Informers = informers) -> None:
                barrier.wait()
                one.__exit__(None, None, None)

            for target in (enter, leave):
                threads = [threading.Thread(target=target) for _ in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(20)
            assert (len(entered), len(refused)) == (1, 7)
            assert all("entered only once" in text for text in refused)
            assert not loop_threads()

    await in_thread(program, 60)


async def test_an_error_within_goes_on_and_the_thread_ends(server: APIServer) -> None:
    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            informers.for_resource("v1/pods").wait_synced(10)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await in_thread(program)
    assert not loop_threads()


async def test_entering_that_fails_raises_the_reason_and_leaves_no_thread(tmp_path: Path) -> None:
    def program() -> None:
        with blocking.Informers(kubeconfig=tmp_path / "none"):
            raise AssertionError

    with pytest.raises(ConfigError, match="none: No such file"):
        await in_thread(program)
    assert not loop_threads()


async def test_waiting_from_where_it_would_wait_for_itself_is_refused(server: APIServer) -> None:
    make(server, "a")
    refused: list[str] = []

    def attempt(call: Callable[[], object]) -> None:
        try:
            call()
        except RuntimeError as error:
            refused.append(str(error))

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            done = threading.Event()

            def on_add(obj: KubeObject) -> None:
                registered.wait(10)
                attempt(lambda: registration.wait_synced(1))
                attempt(lambda: maps.remove_event_handler(registration, drain=True))
                attempt(lambda: informers.wait_for_cache_sync(1, handlers=True))
                attempt(lambda: informers.release(maps))
                attempt(lambda: informers.__exit__(None, None, None))
                done.set()

            def only(obj: KubeObject) -> bool:
                attempt(lambda: maps.wait_synced(1))
                return True

            maps.wait_synced(10)
            registered = threading.Event()
            registration = maps.add_event_handler(on_add=on_add, filter=only, name="mine")
            registered.set()
            assert done.wait(10)

    await in_thread(program)
    assert len(refused) == 6
    assert "on the thread of the event loop of blocking.Informers" in refused[0]
    assert all("mine" in text for text in refused[1:])


async def test_what_was_not_entered_says_so(server: APIServer) -> None:
    informers = blocking.Informers(url=server.url)
    with pytest.raises(RuntimeError, match=r"for_resource\('v1/pods'\): blocking.Informers has not been entered"):
        informers.for_resource("v1/pods")
    with pytest.raises(RuntimeError, match=r"request: blocking\.Informers has not been entered"):
        informers.request("GET", "/version")


# --- ways to a server, and arguments ---------------------------------------------------------------------------------


def kubeconfig_of(server: APIServer, namespace: str = "default") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
            for name, namespace in (("one", "default"), ("two", "second"))
        ],
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {}}],
    }


async def test_the_ways_to_a_server_are_those_of_a_client(
    server: APIServer, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(kubeconfig_of(server)))
    monkeypatch.setenv("KUBECONFIG", str(file))
    api_client = client.api_client

    def program() -> list[str]:
        ways: list[dict[str, Any]] = [
            {},
            {"kubeconfig": file},
            {"context": "two"},
            {"url": server.url},
            {"api_client": api_client},
        ]
        namespaces = []
        for way in ways:
            with blocking.Informers(**way) as informers:
                assert informers.server == server.url
                informers.for_resource("v1/configmaps").wait_synced(10)
                namespaces.append(informers.namespace)
        return namespaces

    assert await in_thread(program, 60) == ["default", "default", "second", "default", "default"]


def test_two_ways_to_a_server_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="url and in_cluster are different ways"):
        blocking.Informers(url="http://127.0.0.1:1", in_cluster=True)
    with pytest.raises(ConfigError, match="token requires url"):
        blocking.Informers(token="t")
    with pytest.raises(ConfigError, match="unknown option 'page_sise'"):
        blocking.Informers(page_sise=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("face", "behind", "less"),
    [
        (blocking.Informers.for_resource, SharedInformerFactory.for_resource, set()),
        (blocking.Informers.release, SharedInformerFactory.release, set()),
        (blocking.Informers.wait_for_cache_sync, SharedInformerFactory.wait_for_cache_sync, set()),
        (blocking.Informer.add_event_handler, SharedInformer.add_event_handler, {"thread"}),
        (blocking.Informer.remove_event_handler, SharedInformer.remove_event_handler, set()),
        (blocking.Informer.events, SharedInformer.events, set()),
        (blocking.Informer.add_indexers, SharedInformer.add_indexers, set()),
    ],
)
def test_each_method_has_the_parameters_of_the_one_behind_it(face: Any, behind: Any, less: set[str]) -> None:
    def parameters(function: Any) -> dict[str, tuple[object, object]]:
        found = inspect.signature(function).parameters
        return {name: (found[name].kind, found[name].default) for name in found if name not in less}

    assert parameters(face) == parameters(behind)


def test_the_derived_methods_show_the_signature_and_the_text_of_those_behind_them() -> None:
    informers = blocking.Informers(url="http://127.0.0.1:1")
    assert list(inspect.signature(informers.request).parameters)[:3] == ["method", "path", "body"]
    assert informers.request.__doc__ == Client.request.__doc__
    assert not inspect.iscoroutinefunction(informers.request)


def test_each_member_of_an_informer_has_a_blocking_twin_or_a_reason() -> None:
    """A member that is added to the informer has to be thought of here."""
    without = {
        "build_indexers": "`add_indexers` builds in slices",
        "run": "for task groups",
        "optional": "an option that the program gave",
        "shutdown_timeout": "an option that the program gave",
        "snapshot_file": "an option that the program gave",
        "handlers_synced": "`wait_for_cache_sync(handlers=True)`",
        "wait_handlers_synced": "`wait_for_cache_sync(handlers=True)`",
    }
    there = {name for name in dir(SharedInformer) if not name.startswith("_")}
    assert there - set(dir(blocking.Informer)) == set(without)
    factory = {name for name in dir(SharedInformerFactory) if not name.startswith("_")}
    assert factory - set(dir(blocking.Informers)) == {
        *("informers", "whole_informers", "add", "derived", "fleets"),  # they belong to a loop
        "shared_cache",  # of a factory with `share=`, which has no blocking twin
    }


async def test_coroutine_functions_are_refused_as_handlers(server: APIServer) -> None:
    async def on_add(obj: KubeObject) -> None: ...

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps")
            with pytest.raises(ConfigError, match=r"on_add .* is a coroutine function"):
                maps.add_event_handler(on_add=on_add)

    await in_thread(program)


async def test_it_survives_a_restart_of_the_server(server: APIServer) -> None:
    make(server, "a")
    heard: list[tuple[str, str]] = []
    stop = threading.Event()

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            with maps.events() as events:
                while not stop.is_set():
                    try:
                        event = events.get(timeout=0.05)
                    except TimeoutError:
                        continue
                    heard.append((event.type, event.object.name))

    running = asyncio.ensure_future(in_thread(program))
    await until(lambda: heard == [("ADDED", "a")])
    await server.restart()
    server.delete("v1/configmaps", "default", "a")
    make(server, "b")
    await until(lambda: len(heard) == 3, 20)
    stop.set()
    await running
    assert sorted(heard[1:]) == [("ADDED", "b"), ("DELETED", "a")]


async def test_missing_objects_are_errors_of_the_request(server: APIServer) -> None:
    def program() -> None:
        with blocking.Informers(url=server.url) as informers, pytest.raises(NotFoundError):
            informers.request("GET", "/api/v1/namespaces/default/pods/none")

    await in_thread(program)
