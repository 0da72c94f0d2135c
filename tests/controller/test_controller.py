"""The controller: one reconcile at a time for each object, until it has succeeded, and none that reads an old cache.

Internals: a fence that lapses when the test says so.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from kinformer import (
    Client,
    ConfigError,
    ConflictError,
    Controller,
    KubeObject,
    ListWatch,
    Request,
    Result,
    SharedInformer,
    StoppedError,
    TerminalError,
)
from kinformer._runtime.fence import Fence
from kinformer.controller import generation_changed
from kinformer.exceptions import LeadershipLostError, TemporaryError, TooManyRequestsError
from kinformer.testing import APIServer
from kinformer.workqueue import ExponentialFailureRateLimiter
from tests.support.lagging_source import LaggingSource
from tests.support.log_records import Said, message_of, records, said
from tests.support.memory_source import MemorySource
from tests.support.metrics_sink import MemoryMetrics

pytestmark = pytest.mark.virtual_time

Script = Callable[[Request], Awaitable[Result | None]]


class Recorder:
    """A reconcile that notes its runs, and then does what a test says."""

    def __init__(self, then: Script | None = None) -> None:
        self.runs: list[tuple[float, Request]] = []
        self.running: Counter[str] = Counter()
        self.most = 0
        self._then = then
        self.began = asyncio.get_running_loop().time()

    async def __call__(self, request: Request) -> Result | None:
        self.runs.append((round(asyncio.get_running_loop().time() - self.began, 3), request))
        self.running[request.key] += 1
        assert self.running[request.key] == 1, "two reconciles of one key"
        self.most = max(self.most, self.running.total())
        try:
            return None if self._then is None else await self._then(request)
        finally:
            self.running[request.key] -= 1

    @property
    def keys(self) -> list[str]:
        return [request.key for _, request in self.runs]

    @property
    def times(self) -> list[float]:
        return [when for when, _ in self.runs]

    def clear(self) -> None:
        self.runs.clear()


@asynccontextmanager
async def running(controller: Controller, *informers: SharedInformer) -> AsyncIterator[asyncio.Task[None]]:
    for informer in informers:
        await informer.__aenter__()
    task = asyncio.ensure_future(controller.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        for informer in reversed(informers):
            await informer.__aexit__(None, None, None)


def controller_for(informer: SharedInformer, reconcile: Any, **options: Any) -> Controller:
    return Controller(reconcile, name="test", **options).for_(informer)


async def settle() -> None:
    await asyncio.sleep(0.001)


# --- what triggers -------------------------------------------------------------------------------------------


async def test_each_object_is_reconciled_at_the_start_and_after_each_change() -> None:
    source = MemorySource()
    source.set("a")
    source.set("b")
    informer, recorder = SharedInformer(source), Recorder()
    async with running(controller_for(informer, recorder), informer):
        await settle()
        assert sorted(recorder.keys) == ["default/a", "default/b"]
        recorder.clear()
        source.set("a")
        await settle()
        source.delete("b")
        await settle()
        source.set("c")
        await settle()
        assert recorder.keys == ["default/a", "default/b", "default/c"]
        assert [str(reason) for _, request in recorder.runs for reason in request.reasons] == [
            "UPDATED v1/configmaps",
            "DELETED v1/configmaps",
            "ADDED v1/configmaps",
        ]


async def test_no_reconcile_starts_before_every_informer_has_synced_and_the_log_says_what_is_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ready, late = MemorySource(), MemorySource()
    ready.set("a")
    late.hang = True
    first, second, recorder = SharedInformer(ready), SharedInformer(late, name="v1/slow"), Recorder()
    controller = controller_for(first, recorder).watches(second, lambda obj: [])
    async with running(controller, first, second):
        await asyncio.sleep(6)
        assert recorder.keys == []
        assert not controller.synced
        assert [one[:2] for one in said(caplog, "unsynced")] == [("WARNING", "kinformer.controller")]
        assert "v1/slow" in message_of(caplog, "unsynced")
        late.hang = False
        await asyncio.sleep(120)  # the request that hangs is given up, and made again
        assert recorder.keys == ["default/a"]
        assert controller.synced


async def test_no_reconcile_starts_before_the_last_of_the_first_objects_has_been_mapped() -> None:
    source, recorder = MemorySource(), Recorder()
    source.set("a")
    source.set("b")

    async def slowly(obj: KubeObject) -> list[str]:
        await asyncio.sleep(5)
        return [obj.key]

    informer = SharedInformer(source)
    controller = Controller(recorder, name="test").watches(informer, slowly)
    async with running(controller, informer):
        await asyncio.sleep(9)
        assert not controller.synced
        await asyncio.sleep(2)
        assert controller.synced
        assert recorder.times == [10, 10]


async def test_what_an_informer_that_was_never_entered_keeps_waiting_is_named(caplog: pytest.LogCaptureFixture) -> None:
    forgotten = SharedInformer(MemorySource(), name="v1/forgotten")
    async with running(controller_for(forgotten, Recorder())):
        await asyncio.sleep(6)
    assert [one[:2] for one in said(caplog, "unsynced")] == [("WARNING", "kinformer.controller")]
    assert "v1/forgotten: it has not been entered" in message_of(caplog, "unsynced")


@pytest.mark.slow
async def test_the_end_of_a_state_that_a_reconcile_has_read_is_reconciled_however_many_changes_wait() -> None:
    source, exists = MemorySource(), {}
    informer = SharedInformer(source)

    async def reconcile(request: Request) -> None:
        exists[request.key] = informer.indexer.get_by_key(request.key) is not None

    async def slowly(obj: KubeObject) -> list[str]:
        await asyncio.sleep(0.01)
        return [obj.key]

    controller = Controller(reconcile, name="test").watches(informer, slowly)
    async with running(controller, informer):
        await settle()
        for number in range(3000):
            source.set(f"c{number}")
        await settle()  # the cache has them all, and nearly all of their events wait for the mapper
        controller.trigger("default/c2999")
        await settle()
        assert exists["default/c2999"]
        source.delete("c2999")
        await asyncio.sleep(60)
        assert exists["default/c2998"]
        assert not exists["default/c2999"]


async def test_a_key_whose_reconcile_ignored_its_cancellation_waits_for_it_in_the_next_run() -> None:
    source, end, left = MemorySource(), asyncio.Event(), []
    source.set("a")
    source.set("b")

    async def stubborn(request: Request) -> None:
        if request.key == "default/a" and not left:
            left.append(asyncio.current_task())
            while not end.is_set():
                with suppress(asyncio.CancelledError):
                    await end.wait()

    informer, recorder = SharedInformer(source), Recorder(stubborn)
    controller = controller_for(informer, recorder, shutdown_timeout=1)
    async with informer:
        first = asyncio.ensure_future(controller.run())
        await settle()
        first.cancel()
        await asyncio.wait({first})
        assert recorder.running["default/a"] == 1
        recorder.clear()
        async with running(controller):
            await asyncio.sleep(10)
            assert recorder.keys == ["default/b"]
            end.set()
            await settle()
            assert recorder.keys == ["default/b", "default/a"]


async def test_the_controlling_owner_is_reconciled_when_what_it_owns_changes() -> None:
    owners, owned = MemorySource(), MemorySource()
    owners.set("x")
    first, second, recorder = SharedInformer(owners), SharedInformer(owned, name="v1/owned"), Recorder()
    controller = controller_for(first, recorder).owns(second, "ConfigMap")
    async with running(controller, first, second):
        await settle()
        recorder.clear()
        for number, reference in enumerate(
            [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": True},
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "no-controller", "uid": "2"},
                {"apiVersion": "v1", "kind": "Secret", "name": "another-kind", "uid": "3", "controller": True},
            ]
        ):
            put(owned, f"child-{number}", reference)
        await settle()
        assert recorder.keys == ["default/x"]
        assert [tuple(reason) for reason in recorder.runs[0][1].reasons] == [
            ("ADDED", "v1/owned", "default/child-0"),
        ]


def put(source: MemorySource, name: str, *owners: dict[str, Any]) -> None:
    """An object with owners."""
    obj = source.set(name).to_dict()
    obj["metadata"]["ownerReferences"] = list(owners)
    source.version += 1
    obj["metadata"]["resourceVersion"] = str(source.version)
    changed = KubeObject.from_dict(obj)
    source.objects[changed.key] = changed
    source.history.pop()
    source.record("ADDED", changed)


@pytest.mark.parametrize(
    ("owner_kind", "api_version", "hit"),
    [
        ("Deployment", "apps/v1", True),
        ("apps/Deployment", "apps/v1", True),
        ("apps/Deployment", "mine.io/v1", False),
        ("apps/v1/Deployment", "apps/v1beta1", True),
        ("apps/v1/Deployment", "mine.io/v1", False),
        ("v1/Service", "v1", True),
        ("v1/Service", "serving.knative.dev/v1", False),
        ("serving.knative.dev/Service", "serving.knative.dev/v1", True),
    ],
)
async def test_an_owner_kind_may_name_its_group(owner_kind: str, api_version: str, hit: bool) -> None:
    owned, recorder, kind = MemorySource(), Recorder(), owner_kind.rpartition("/")[2]
    put(owned, "c", {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "1", "controller": True})
    informer = SharedInformer(owned)
    async with running(Controller(recorder, name="test").owns(informer, owner_kind), informer):
        await settle()
    assert recorder.keys == (["default/x"] if hit else [])


@pytest.mark.parametrize(("api_version", "hit"), [("v1", True), ("serving.knative.dev/v1", False)])
async def test_an_owner_kind_alone_is_of_the_group_of_what_is_reconciled(
    server: APIServer, client: Client, api_version: str, hit: bool
) -> None:
    owned, recorder = MemorySource(), Recorder()
    put(owned, "c", {"apiVersion": api_version, "kind": "Service", "name": "x", "uid": "1", "controller": True})
    services, informer = SharedInformer(ListWatch(client, "v1/services")), SharedInformer(owned)
    controller = Controller(recorder, name="test").for_(services).owns(informer, "Service")
    async with running(controller, services, informer):
        await services.wait_synced(5)
        await settle()
    assert recorder.keys == (["default/x"] if hit else [])


async def test_what_has_no_namespace_is_owned_by_nothing_that_has_one() -> None:
    owners, owned = MemorySource(), MemorySource()
    owners.set("x")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": True}
    first, second, recorder = SharedInformer(owners), SharedInformer(owned), Recorder()
    async with running(controller_for(first, recorder).owns(second, "ConfigMap"), first, second):
        await settle()
        recorder.clear()
        # Anybody may write such a reference; a reconcile of "x" would fail for ever.
        child = KubeObject.from_dict(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c", "uid": "9", "ownerReferences": [reference]}}
        )
        owned.version += 1
        owned.record(
            "ADDED",
            KubeObject.from_dict(
                {**child.to_dict(), "metadata": {**child["metadata"], "resourceVersion": str(owned.version)}}
            ),
        )
        await settle()
        assert second.indexer.get_by_key("c") is not None
        assert recorder.keys == []


async def test_an_owner_without_a_namespace_is_found_from_what_it_owns_in_one() -> None:
    owners, owned = MemorySource(), MemorySource()
    owners.set("x", namespace="")
    owners.objects = {"x": next(iter(owners.objects.values()))}
    put(owned, "c", {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": True})
    first, second, recorder = SharedInformer(owners), SharedInformer(owned), Recorder()
    async with first:
        await first.wait_synced()  # before that, nothing says that the owners have no namespace
        async with running(controller_for(first, recorder).owns(second, "ConfigMap"), second):
            await settle()
            assert set(recorder.keys) == {"x"}


@pytest.mark.parametrize(
    "owner_kind",
    ["", "apps/", "/Deployment", "v1/apps/Deployment", "a/b/c/Deployment", "apps/v1/", "//Service", None],
)
async def test_an_owner_kind_that_is_none_is_refused(owner_kind: Any) -> None:
    with pytest.raises(ConfigError, match="owner_kind"):
        Controller(Recorder()).owns(SharedInformer(MemorySource()), owner_kind)


@pytest.mark.parametrize("owner_kind", ["deployments", "apps/deployments", "apps/v1/deployments"])
async def test_the_name_of_a_resource_is_refused_with_its_kind(owner_kind: str) -> None:
    with pytest.raises(ConfigError, match=r"the kind of deployments is (apps/)?Deployment"):
        Controller(Recorder()).owns(SharedInformer(MemorySource()), owner_kind)


async def test_a_mapper_is_asked_about_both_states_of_an_update_and_may_be_a_coroutine() -> None:
    source, recorder = MemorySource(), Recorder()

    async def by_label(obj: KubeObject) -> list[str | Request]:
        await asyncio.sleep(0)
        return [Request("default", obj.labels["for"]), "cluster-wide"]

    informer = SharedInformer(source)
    async with running(Controller(recorder, name="test").watches(informer, by_label), informer):
        source.set("a", labels={"for": "x"})
        await settle()
        recorder.clear()
        source.set("a", labels={"for": "y"})
        await settle()
        assert recorder.keys == ["default/y", "cluster-wide", "default/x"]


async def test_a_mapper_or_predicate_that_raises_is_logged_and_counted_and_hides_no_other_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, recorder = MemorySource(), Recorder()

    def mapper(obj: KubeObject) -> list[str | Request]:
        return [{"bad": "a/b/c", "ugly": Request("a/b", "c")}.get(obj.name, obj.key)]

    def predicate(event: Any) -> bool:
        return bool(event.object["data"]["v"] if event.object.name != "worse" else event.object["nothing"])

    informer = SharedInformer(source)
    controller = Controller(recorder, name="test").watches(informer, mapper, predicate)
    async with running(controller, informer):
        for name in ("bad", "ugly", "worse", "good"):
            source.set(name)
        await settle()
        assert recorder.keys == ["default/good"]
        assert controller.statistics().source_errors == 3
        keys = [f"default/{name}" for name in ("bad", "ugly", "worse")]
        assert sorted(said(caplog, "mapper_failed")) == [
            Said("ERROR", "kinformer.controller", "v1/configmaps", key) for key in keys
        ]


async def test_a_mapper_that_awaits_something_cancelled_has_failed_and_hides_no_other_event() -> None:
    source, recorder = MemorySource(), Recorder()

    async def mapper(obj: KubeObject) -> list[str]:
        if obj.name == "bad":
            lookup: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            lookup.cancel()
            await lookup
        return [obj.key]

    informer = SharedInformer(source)
    controller = Controller(recorder, name="test").watches(informer, mapper)
    async with running(controller, informer):
        source.set("bad")
        source.set("good")
        await settle()
        assert recorder.keys == ["default/good"]
        assert controller.statistics().source_errors == 1


async def test_a_predicate_says_which_events_trigger() -> None:
    source, recorder = MemorySource(), Recorder()
    informer = SharedInformer(source)
    controller = Controller(recorder, name="test").for_(informer, lambda event: event.object.name.startswith("w"))
    async with running(controller, informer):
        source.set("web")
        source.set("db")
        await settle()
        assert recorder.keys == ["default/web"]


async def test_live_changes_are_reconciled_before_the_backlog_of_the_start() -> None:
    source = MemorySource()
    for number in range(20):
        source.set(f"old-{number}")

    async def slow(request: Request) -> None:
        await asyncio.sleep(1)

    informer, recorder = SharedInformer(source), Recorder(slow)
    async with running(controller_for(informer, recorder), informer):
        await asyncio.sleep(2.5)
        source.set("new")
        await asyncio.sleep(1)
        assert recorder.keys[3] == "default/new"
        await asyncio.sleep(30)
        assert len(recorder.keys) == 21


async def test_a_backlog_that_fails_again_and_again_stays_behind_live_changes() -> None:
    source = MemorySource()
    for number in range(20):
        source.set(f"old-{number}")

    async def fail(request: Request) -> None:
        await asyncio.sleep(1)
        if request.name.startswith("old"):
            raise OSError("no")

    informer, recorder = SharedInformer(source), Recorder(fail)
    limiter = ExponentialFailureRateLimiter(0.01, 0.01)
    async with running(controller_for(informer, recorder, rate_limiter=limiter), informer):
        for number in range(5):
            await asyncio.sleep(7.5)
            before = len(recorder.keys)
            source.set(f"new-{number}")
            await asyncio.sleep(2.5)
            assert f"default/new-{number}" in recorder.keys[before : before + 2], "behind one that is overdue at most"


async def test_a_resync_reconciles_everything_behind_live_changes() -> None:
    source = MemorySource()
    source.set("a")
    informer, recorder = SharedInformer(source, resync_period=60), Recorder()
    async with running(controller_for(informer, recorder), informer):
        await asyncio.sleep(61)
        assert [str(request.reasons[0]) for _, request in recorder.runs] == [
            "INITIAL v1/configmaps",
            "SYNC v1/configmaps",
        ]


async def test_a_program_may_trigger_a_key_itself() -> None:
    informer, recorder = SharedInformer(MemorySource()), Recorder()
    controller = controller_for(informer, recorder)
    with pytest.raises(RuntimeError, match="not running"):
        controller.trigger("default/a")
    async with running(controller, informer):
        await settle()
        controller.trigger("default/a")
        controller.trigger(Request("default", "b"))
        for wrong in ("a/b/c", Request("a/b", "c")):
            with pytest.raises(ValueError, match="slash"):
                controller.trigger(wrong)
        await settle()
        assert recorder.keys == ["default/a", "default/b"]
        assert str(recorder.runs[0][1].reasons[0]) == "TRIGGER"


async def test_a_debounce_counts_from_the_first_trigger_so_that_a_busy_key_is_not_put_off_for_ever() -> None:
    source = MemorySource()
    informer, recorder = SharedInformer(source), Recorder()
    async with running(controller_for(informer, recorder, debounce=1), informer):
        for _ in range(30):
            source.set("busy")
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        assert 3 <= len(recorder.keys) <= 4


async def test_reasons_are_those_since_the_last_run_began_each_once_and_not_without_end() -> None:
    source = MemorySource()
    informer = SharedInformer(source)
    go = asyncio.Event()

    async def wait(request: Request) -> None:
        await go.wait()

    recorder = Recorder(wait)
    controller = controller_for(informer, recorder).watches(informer, lambda obj: ["default/hub"])
    async with running(controller, informer):
        source.set("hub")
        await settle()
        for number in range(20):
            source.set(f"spoke-{number}")
        await settle()
        go.set()
        await settle()
        _, request = [run for run in recorder.runs if run[1].key == "default/hub"][1]
        assert [reason.key for reason in request.reasons] == ["default/hub"][1:] + [
            f"default/spoke-{number}" for number in range(8)
        ]


# --- workers -------------------------------------------------------------------------------------------------


async def test_as_many_keys_are_reconciled_at_once_as_there_are_workers_and_never_one_twice() -> None:
    source = MemorySource()
    for number in range(10):
        source.set(f"cm-{number}")

    async def slow(request: Request) -> None:
        source.set(request.name)  # a change during the run
        await asyncio.sleep(1)

    informer, recorder = SharedInformer(source), Recorder(slow)
    controller = controller_for(informer, recorder, workers=4)
    async with running(controller, informer):
        await asyncio.sleep(0.5)
        assert controller.statistics().active == 4
        await asyncio.sleep(20)
        assert recorder.most == 4
        assert len(recorder.runs) > 20


async def test_any_number_of_changes_during_a_run_are_one_more_run() -> None:
    source = MemorySource()

    async def slow(request: Request) -> None:
        await asyncio.sleep(1)

    informer, recorder = SharedInformer(source), Recorder(slow)
    async with running(controller_for(informer, recorder), informer):
        for _ in range(9):
            source.set("a")
            await asyncio.sleep(0.1)
        await asyncio.sleep(5)
        assert recorder.keys == ["default/a", "default/a"]


# --- what comes of a run -----------------------------------------------------------------------------------


async def test_a_key_that_fails_waits_longer_each_time_and_from_the_start_after_it_has_succeeded() -> None:
    source = MemorySource()
    source.set("a")
    failing = True

    async def fail(request: Request) -> None:
        if failing:
            raise OSError("no")

    informer, recorder = SharedInformer(source), Recorder(fail)
    limiter = ExponentialFailureRateLimiter(1, 60)
    controller = controller_for(informer, recorder, rate_limiter=limiter)
    async with running(controller, informer):
        await asyncio.sleep(8)
        assert recorder.times == [0, 1, 3, 7]
        assert [request.attempt for _, request in recorder.runs] == [0, 1, 2, 3]
        assert str(recorder.runs[1][1].reasons[0]) == "RETRY"
        failing = False
        await asyncio.sleep(20)
        assert recorder.times == [0, 1, 3, 7, 15]
        assert limiter.num_requeues("default/a") == 0
        assert controller.statistics().reconciles == {"error": 4, "success": 1}


async def test_a_failure_is_logged_with_key_reasons_and_trace_and_a_conflict_without_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = MemorySource()
    source.set("a")
    source.set("b")

    async def fail(request: Request) -> None:
        if request.attempt == 0:
            raise ConflictError(409, "Conflict", "changed") if request.name == "b" else OSError("no such thing")

    caplog.set_level(logging.INFO, "kinformer.controller")
    informer = SharedInformer(source)
    async with running(controller_for(informer, Recorder(fail)), informer):
        await asyncio.sleep(1)
    (failed,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert said(caplog, "reconcile_failed") == [Said("ERROR", "kinformer.controller", "v1/configmaps", "default/a")]
    assert "INITIAL v1/configmaps; attempt 1" in failed.getMessage()
    assert failed.exc_info
    assert said(caplog, "conflict") == [Said("INFO", "kinformer.controller", "v1/configmaps", "default/b")]


async def test_a_server_that_asks_for_time_gets_it() -> None:
    source = MemorySource()
    source.set("a")

    async def fail(request: Request) -> None:
        raise TooManyRequestsError(429, "TooManyRequests", "slow down", retry_after=30)

    informer, recorder = SharedInformer(source), Recorder(fail)
    async with running(controller_for(informer, recorder), informer):
        await asyncio.sleep(61)
        assert recorder.times == [0, 30, 60]


async def test_a_terminal_error_is_not_tried_again_until_something_changes(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    source.set("a")

    async def fail(request: Request) -> None:
        raise TerminalError("the spec makes no sense")

    informer, recorder = SharedInformer(source), Recorder(fail)
    controller = controller_for(informer, recorder)
    async with running(controller, informer):
        await asyncio.sleep(10_000)
        assert len(recorder.runs) == 1
        source.set("a")
        await asyncio.sleep(1)
        assert len(recorder.runs) == 2
        assert recorder.runs[1][1].attempt == 0
        assert controller.statistics().terminal_errors == 2
        failed = Said("ERROR", "kinformer.controller", "v1/configmaps", "default/a")
        assert said(caplog, "terminal_error") == [failed, failed]
        assert "the spec makes no sense" in records(caplog, "terminal_error")[0].getMessage()


async def test_a_reconcile_may_ask_to_be_called_again_later_or_at_once() -> None:
    source = MemorySource()
    source.set("a")
    answers = iter([Result(requeue_after=60), Result(requeue_after=0), Result(), None])

    async def answer(request: Request) -> Result | None:
        return next(answers)

    informer, recorder = SharedInformer(source), Recorder(answer)
    controller = controller_for(informer, recorder)
    async with running(controller, informer):
        await asyncio.sleep(1000)
        assert recorder.times == [0, 60, 60]
        assert str(recorder.runs[1][1].reasons[0]) == "REQUEUE"
        assert controller.statistics().reconciles == {"requeue_after": 1, "requeue": 1, "success": 1}


async def test_a_reconcile_that_cannot_end_yet_runs_again_and_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    source, sink = MemorySource(), MemoryMetrics()
    source.set("a")
    caplog.set_level(logging.DEBUG)

    async def wait_for_address(request: Request) -> None:
        if len(recorder.runs) < 5:
            raise TemporaryError("no address yet", requeue_after=60)
        if len(recorder.runs) == 5:
            raise TemporaryError("the address does not answer", requeue_after=0)

    informer, recorder = SharedInformer(source), Recorder(wait_for_address)
    controller = controller_for(informer, recorder, metrics=sink)
    async with running(controller, informer):
        await asyncio.sleep(1000)
        assert recorder.times == [0, 60, 120, 180, 240, 240]
        assert [request.attempt for _, request in recorder.runs] == [0] * 6
        assert str(recorder.runs[1][1].reasons[0]) == "REQUEUE"
        assert controller.statistics().reconciles == {"requeue_after": 4, "requeue": 1, "success": 1}
        assert sink.values(controller="test")["controller_runtime_reconcile_errors_total"] == 0
    logged = records(caplog, "not_done")
    assert [record.levelname for record in logged] == ["INFO", "DEBUG", "DEBUG", "DEBUG", "INFO"]
    assert not any(record.exc_info for record in logged)
    assert "no address yet" in logged[0].getMessage()


async def test_without_a_delay_it_waits_longer_each_time_and_from_the_start_after_a_success() -> None:
    source = MemorySource()
    source.set("a")

    async def wait(request: Request) -> None:
        if len(recorder.runs) != 4:
            raise TemporaryError("the volume is being moved")

    informer, recorder = SharedInformer(source), Recorder(wait)
    limiter: ExponentialFailureRateLimiter[str] = ExponentialFailureRateLimiter(1, 60)
    controller = controller_for(informer, recorder, rate_limiter=limiter)
    async with running(controller, informer):
        await asyncio.sleep(99)
        source.set("a")
        await asyncio.sleep(2.5)
        assert recorder.times == [0, 1, 3, 7, 99, 100]
        assert [request.attempt for _, request in recorder.runs] == [0, 1, 2, 3, 0, 1]
        assert controller.statistics().reconciles == {"requeue": 5, "success": 1}


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf")])
@pytest.mark.parametrize("delayed", [Result, partial(TemporaryError, "not yet")])
async def test_a_delay_that_never_ends_is_refused(delayed: Callable[..., object], after: float) -> None:
    with pytest.raises(ValueError, match="requeue_after"):
        delayed(requeue_after=after)


async def test_what_is_no_result_is_an_error_that_names_it(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    source.set("a")

    async def wrong(request: Request) -> Any:
        return 60

    informer, recorder = SharedInformer(source), Recorder(wrong)
    async with running(controller_for(informer, recorder), informer):
        await asyncio.sleep(100)
    assert len(recorder.runs) == 1
    assert said(caplog, "terminal_error") == [Said("ERROR", "kinformer.controller", "v1/configmaps", "default/a")]
    assert "returned 60, expected a Result" in message_of(caplog, "terminal_error")


async def test_a_reconcile_that_takes_too_long_is_cancelled_and_tried_again() -> None:
    source = MemorySource()
    source.set("a")
    source.set("b")
    cancelled: list[str] = []

    async def hang(request: Request) -> None:
        if request.name == "b":
            raise TimeoutError("of its own, and no timeout of the controller's")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(request.key)
            raise

    informer, recorder = SharedInformer(source), Recorder(hang)
    limiter = ExponentialFailureRateLimiter(100, 100)
    controller = controller_for(informer, recorder, timeout=5, rate_limiter=limiter)
    async with running(controller, informer):
        await asyncio.sleep(50)
        assert cancelled == ["default/a"]
        figures = controller.statistics()
        assert (figures.timeouts, figures.reconciles["error"]) == (1, 2)


async def test_a_cancellation_inside_a_reconcile_is_a_failure_of_that_reconcile_alone() -> None:
    source = MemorySource()
    source.set("a")

    async def awaits_something_cancelled(request: Request) -> None:
        if request.attempt == 0:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

    informer, recorder = SharedInformer(source), Recorder(awaits_something_cancelled)
    async with running(controller_for(informer, recorder), informer):
        await asyncio.sleep(1)
        assert len(recorder.runs) == 2


# --- reading one's own writes ----------------------------------------------------------------------------------


async def test_a_key_is_not_reconciled_again_before_the_cache_has_what_it_wrote() -> None:
    server = MemorySource()
    server.set("a")
    source = LaggingSource(server)
    informer = SharedInformer(source)
    found: list[bool] = []

    async def make_child(request: Request) -> None:
        if request.name == "a" and (found or not source.gate.is_set()):
            child = informer.lister.get("child", namespace="default")
            found.append(child is not None)
            if child is None:
                request.wrote(server.set("child"))

    recorder = Recorder(make_child)
    controller = controller_for(informer, recorder)
    async with running(controller, informer):
        await settle()
        source.gate.clear()  # from here on the cache does not hear of anything
        recorder.clear()
        for _ in range(5):
            controller.trigger("default/a")
            await settle()
        controller.trigger("default/other")
        await settle()
        assert recorder.keys == ["default/a", "default/other"], "a waits; its worker does not"
        assert found[0] is False
        assert controller.statistics().own_write_waits == 1
        source.gate.set()
        await settle()
        assert recorder.keys.count("default/a") == 2, "once, for all that came meanwhile"
        assert found.count(False) == 1, "nothing was made twice"
        assert controller.statistics().own_write_timeouts == 0


async def test_a_write_that_never_comes_back_is_waited_for_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    server = MemorySource()
    server.set("a")
    informer = SharedInformer(server)
    metrics = MemoryMetrics()

    async def claim(request: Request) -> None:
        if len(recorder.runs) == 1:
            server.hang = True
            ghost = informer.lister.get("a", namespace="default").to_dict()  # type: ignore[union-attr]
            ghost["metadata"]["resourceVersion"] = "1000000"
            request.wrote(ghost)

    recorder = Recorder(claim)
    controller = controller_for(informer, recorder, metrics=metrics)
    async with running(controller, informer):
        await asyncio.sleep(1)
        controller.trigger("default/a")
        await asyncio.sleep(60)
        assert recorder.times == [0, 11]
        (unseen,) = said(caplog, "own_write_unseen")
        assert (unseen.level, unseen.logger, unseen.key) == ("WARNING", "kinformer.controller", "default/a")
        assert unseen.resource
        values = metrics.values(controller="test")
        assert values["kinformer_controller_own_write_waits_total"] == 1
        assert values["kinformer_controller_own_write_timeouts_total"] == 1


async def test_writes_that_no_informer_follows_are_not_waited_for() -> None:
    server = MemorySource()
    server.set("a")
    informer = SharedInformer(server)

    async def write_elsewhere(request: Request) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "resourceVersion": "1000000"}}
        request.wrote(secret)
        request.wrote({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "resourceVersion": "odd"}})
        with pytest.raises(TypeError, match="expected the API object"):
            request.wrote("a string")

    recorder = Recorder(write_elsewhere)
    controller = controller_for(informer, recorder)
    async with running(controller, informer):
        await asyncio.sleep(1)
        controller.trigger("default/a")
        await asyncio.sleep(0.1)
        assert recorder.times == [0, 1]


async def test_a_key_that_has_seen_what_it_wrote_is_no_more_urgent_than_it_was() -> None:
    backlog, children = MemorySource(), MemorySource()
    for number in range(3):
        backlog.set(f"k{number}")
    children.set("other")
    late = LaggingSource(children)
    first, second = SharedInformer(backlog), SharedInformer(late)

    async def write_or_work(request: Request) -> Result:
        if len(recorder.runs) == 1:
            late.lag = 5.0
            request.wrote(children.set("child"))
        else:
            await asyncio.sleep(2)
        return Result(requeue_after=0)

    recorder = Recorder(write_or_work)
    controller = controller_for(first, recorder).watches(second, lambda obj: [])
    async with running(controller, first, second):
        await asyncio.sleep(9)
        a, b, c = recorder.keys[:3]
        assert recorder.keys == [a, b, c, b, c, a]  # c waited already when a had seen its child
        assert controller.statistics().own_write_waits == 1


async def test_writes_of_keys_that_never_run_again_are_forgotten_once_seen() -> None:
    server = MemorySource()
    informer = SharedInformer(server)

    async def write(request: Request) -> None:
        request.wrote(server.set(request.name, data={"done": "yes"}))

    recorder = Recorder(write)
    controller = Controller(recorder, name="test").for_(informer, lambda event: event.type == "ADDED")
    async with running(controller, informer):
        await settle()
        before = len(gc.get_referrers(informer))
        for number in range(500):
            server.set(f"o{number}")
            await settle()
        assert len(recorder.runs) == 500
        assert len(gc.get_referrers(informer)) < before + 100


async def test_wrote_of_a_request_that_a_test_made_by_hand_does_nothing() -> None:
    request = Request("default", "a")
    request.wrote({"metadata": {"name": "a"}})
    recorder = Recorder()
    assert await Controller(recorder).reconcile(request) is None
    assert recorder.keys == ["default/a"]
    assert request == Request("default", "a", attempt=3)
    assert Request("", "node-1").key == "node-1"


# --- the end -----------------------------------------------------------------------------------------------


async def test_cancelled_it_takes_nothing_new_and_lets_what_runs_end() -> None:
    source = MemorySource()
    for name in "abc":
        source.set(name)
    ended: list[str] = []

    async def slow(request: Request) -> None:
        await asyncio.sleep(3)
        ended.append(request.key)

    informer, recorder = SharedInformer(source), Recorder(slow)
    async with running(controller_for(informer, recorder), informer) as task:
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait({task})
        assert asyncio.get_running_loop().time() - recorder.began == pytest.approx(3, abs=0.1)
    assert task.cancelled()
    assert recorder.keys == ended
    assert len(ended) == 1


async def test_what_does_not_end_in_time_is_cancelled_once_and_may_clean_up() -> None:
    source = MemorySource()
    source.set("a")
    cleaned: list[float] = []

    async def stubborn(request: Request) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.5)
            cleaned.append(asyncio.get_running_loop().time())

    informer, recorder = SharedInformer(source), Recorder(stubborn)
    async with running(controller_for(informer, recorder, shutdown_timeout=2), informer) as task:
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        task.cancel()
        await asyncio.wait({task})
    assert cleaned == [pytest.approx(began + 2.5, abs=0.1)]


async def test_a_second_cancellation_ends_the_patience() -> None:
    source = MemorySource()
    source.set("a")

    async def hang(request: Request) -> None:
        await asyncio.Event().wait()

    informer, recorder = SharedInformer(source), Recorder(hang)
    async with running(controller_for(informer, recorder, shutdown_timeout=1000), informer) as task:
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)
        assert not task.done()
        task.cancel()
        await asyncio.sleep(0.1)
        assert task.done()


async def test_it_can_run_again_and_starts_from_the_cache() -> None:
    source = MemorySource()
    source.set("a")
    informer, recorder = SharedInformer(source), Recorder()
    controller = controller_for(informer, recorder)
    async with running(controller, informer):
        await settle()
    async with informer_of(source) as again:
        controller = controller_for(again, recorder)
        for _ in range(2):
            task = asyncio.ensure_future(controller.run())
            await settle()
            with pytest.raises(RuntimeError, match="already running"):
                await controller.run()
            with pytest.raises(RuntimeError, match="is running"):
                controller.owns(again, "Pod")
            task.cancel()
            await asyncio.wait({task})
        assert again.statistics().pending == {}
    assert recorder.keys == ["default/a"] * 3
    assert controller.statistics().reconciles == {"success": 2}


@asynccontextmanager
async def informer_of(source: MemorySource) -> AsyncIterator[SharedInformer]:
    async with SharedInformer(source) as informer:
        yield informer


async def test_an_informer_that_is_left_ends_the_controller_with_an_error() -> None:
    informer = SharedInformer(MemorySource(), name="v1/things")
    async with informer:
        task = asyncio.ensure_future(controller_for(informer, Recorder()).run())
        await settle()
    with pytest.raises(StoppedError, match="v1/things was exited while controller test was using"):
        await task


async def test_what_an_informer_crashes_of_comes_out_of_the_controller() -> None:
    source = MemorySource()

    def give_up(informer: Any, error: BaseException) -> None:
        raise LookupError("enough")

    informer = SharedInformer(source, on_error=give_up)
    await informer.__aenter__()
    task = asyncio.ensure_future(controller_for(informer, Recorder()).run())
    await settle()
    source.fail_with = OSError("the server is gone")
    source.cut()
    with pytest.raises(LookupError, match="enough"):
        await asyncio.wait_for(task, 60)
    with pytest.raises(LookupError, match="enough"):
        await informer.__aexit__(None, None, None)


async def test_options_that_cannot_work_are_refused_by_name() -> None:
    recorder, informer = Recorder(), SharedInformer(MemorySource())
    for options in ({"workers": 0}, {"workers": True}, {"timeout": -1}, {"shutdown_timeout": -1}, {"debounce": -0.1}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            Controller(recorder, **options)
    with pytest.raises(TypeError, match="reconcile=None is not callable"):
        Controller(None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="already has the main informer v1/configmaps"):
        controller_for(informer, recorder).for_(informer)
    with pytest.raises(ConfigError, match="has no sources"):
        await Controller(recorder).run()


# --- figures -------------------------------------------------------------------------------------------------


async def test_metrics_have_the_names_of_controller_runtime() -> None:
    source, metrics = MemorySource(), MemoryMetrics()
    source.set("a")

    async def slow(request: Request) -> Result | None:
        await asyncio.sleep(2)
        if request.attempt == 0 and len(recorder.runs) == 1:
            raise OSError("no")
        return None

    informer, recorder = SharedInformer(source), Recorder(slow)
    controller = controller_for(informer, recorder, workers=3, metrics=metrics, shutdown_timeout=0)
    assert metrics.values(controller="test", result="success")["controller_runtime_reconcile_total"] == 0
    async with running(controller, informer):
        await asyncio.sleep(1)
        values = metrics.values(controller="test")
        assert values["controller_runtime_active_workers"] == 1
        assert values["controller_runtime_max_concurrent_reconciles"] == 3
        await asyncio.sleep(10)
        values = metrics.values(controller="test")
        assert values["controller_runtime_reconcile_time_seconds"] == [2, 2]
        assert values["controller_runtime_reconcile_errors_total"] == 1
        assert metrics.values(controller="test", result="success")["controller_runtime_reconcile_total"] == 1
        assert metrics.values(name="test")["workqueue_adds_total"] == 2
        for name in "bcdefg":  # a backlog that nobody will work off
            source.set(name)
        await settle()
    assert "controller_runtime_active_workers" not in metrics.values(controller="test")
    assert "workqueue_depth" not in metrics.values(name="test"), "a queue that is gone is not exported for ever"


@pytest.mark.parametrize("started", [False, True])
async def test_no_gauge_of_the_queue_outlives_a_run_whose_lead_is_lost_while_a_key_is_taken(started: bool) -> None:
    informer, recorder, metrics = SharedInformer(MemorySource()), Recorder(), MemoryMetrics()
    controller = controller_for(informer, recorder, metrics=metrics)
    lost: list[BaseException] = []

    def check() -> None:
        if lost:
            raise lost[0]

    async def lead() -> None:
        with Fence(check):
            await controller.run()

    async with informer:
        task = asyncio.create_task(lead())
        await settle()
        assert "workqueue_depth" in metrics.values(name="test")
        controller.trigger("default/a")
        if started:  # in one turn: the key is taken, the lead is lost, and the run ends before the reconcile begins
            asyncio.get_running_loop().call_soon(lost.append, LeadershipLostError("another one leads"))
            task.cancel()
        else:
            lost.append(LeadershipLostError("another one leads"))
        await asyncio.wait({task})
        assert not recorder.runs
        assert not {"workqueue_depth", "workqueue_unfinished_work_seconds"} & set(metrics.values(name="test"))


async def test_only_changes_of_the_generation_trigger_where_a_controller_says_so() -> None:
    source, recorder = MemorySource(), Recorder()
    source.set("a")
    informer = SharedInformer(source)
    async with running(Controller(recorder, name="test").for_(informer, generation_changed), informer):
        await settle()
        source.set("a")
        await settle()
        assert recorder.keys == ["default/a", "default/a"], "without a generation each change may be one of the spec"
