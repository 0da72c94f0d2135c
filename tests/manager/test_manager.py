"""The manager: an operator's whole process, started and stopped in the right order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from prometheus_client import CollectorRegistry

from kinformer import Backoff, Client, ConfigError, Controller, ForbiddenError, LeaderElector, Manager, Request
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.exceptions import LeadershipLostError
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.log_records import Said, message_of, said
from tests.support.manager_run import page, running, within
from tests.support.waiting import until

CONFIG_MAPS = "v1/configmaps"
QUIET = signal.SIGWINCH  # does nothing to a process that does not handle it


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map("a")]


def elector(client: Client, **options: Any) -> LeaderElector:
    times = {"lease_duration": 3, "renew_deadline": 2, "retry_period": 0.05}
    return LeaderElector(client, namespace="default", name="op", **{**times, **options})


class Work:
    """A reconcile that tells when it has been called."""

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.keys: list[str] = []

    async def __call__(self, request: Request) -> None:
        self.keys.append(request.key)
        self.called.set()

    def controller(self, manager: Manager, **options: Any) -> Controller:
        return Controller(self, name="work", **options).for_(manager.factory.for_resource(CONFIG_MAPS))


# --- the work ------------------------------------------------------------------------------------------------


async def test_controllers_run_until_it_is_told_to_stop(client: Client) -> None:
    work = Work()
    async with Manager(client) as manager:
        manager.add(work.controller(manager))
        async with running(manager) as task:
            await within(5, work.called.wait())
            manager.stop()
            await within(5, task)
    assert work.keys == ["default/a"]
    await client.request("GET", "/version")  # a client that was given is not closed


async def test_a_client_of_its_own_is_closed_at_the_end(
    server: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config") or tmp_path / "config"))
    async with Manager() as manager:
        assert (await manager.client.request("GET", "/version"))["gitVersion"]
    with pytest.raises(RuntimeError, match="not open"):
        await manager.client.request("GET", "/version")


async def test_coroutine_functions_run_too_and_may_return_without_ending_it(client: Client) -> None:
    ran: list[str] = []

    async def once() -> None:
        ran.append("once")

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ran.append("cancelled")

    async with Manager(client) as manager:
        manager.add(once)
        manager.add(for_ever, needs_leadership=False)
        async with running(manager) as task:
            await asyncio.sleep(0.05)
            assert not task.done()
            manager.stop()
            await within(5, task)
    assert ran == ["once", "cancelled"]


async def test_what_one_of_them_raises_ends_the_others_and_comes_out(client: Client) -> None:
    ended: list[str] = []

    async def fails() -> None:
        raise LookupError("no such thing")

    async def goes_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async with Manager(client) as manager:
        manager.add(goes_on)
        manager.add(fails, needs_leadership=False)
        with pytest.raises(LookupError, match="no such thing"):
            await within(5, manager.run())
    assert ended == ["cancelled"]


async def test_one_that_ends_by_a_cancellation_of_its_own_has_failed(client: Client) -> None:
    async def awaits_what_is_cancelled() -> None:
        waiting = asyncio.ensure_future(asyncio.Event().wait())
        waiting.cancel()
        await waiting

    async with Manager(client) as manager:
        manager.add(awaits_what_is_cancelled)
        with pytest.raises(RuntimeError, match="awaits_what_is_cancelled ended with a CancelledError, although"):
            await within(5, manager.run())


async def test_what_is_under_way_is_finished_and_what_does_not_end_is_cancelled_again(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            steps.append("first")
            try:
                await asyncio.Event().wait()
            finally:
                steps.append("second")

    work = Work()
    async with Manager(client, shutdown_timeout=0.05) as manager:
        manager.add(work.controller(manager))
        manager.add(stubborn)
        async with running(manager) as task:
            await within(5, work.called.wait())
            manager.stop()
            await within(5, task)
    assert steps == ["first", "second"]
    assert said(caplog, "slow_shutdown") == [Said("WARNING", "kinformer.manager")]


@pytest.mark.virtual_time
async def test_after_a_failure_what_does_not_end_is_cancelled_again_when_the_time_is_over(client: Client) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    cancelled: list[float] = []

    async def fails() -> None:
        await asyncio.sleep(1)
        raise LookupError("no such thing")

    async def stubborn() -> None:
        while len(cancelled) < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(loop.time() - began)

    async with Manager(client, shutdown_timeout=20, signals=()) as manager:
        manager.add(fails)
        manager.add(stubborn)
        with pytest.raises(LookupError, match="no such thing"):
            await within(60, manager.run())
    assert cancelled == pytest.approx([1, 21], abs=0.5)


@pytest.mark.virtual_time
async def test_a_wish_to_stop_while_the_others_end_after_a_failure_neither_hurries_them_nor_hides_it(
    client: Client,
) -> None:
    finished: list[str] = []

    async def fails() -> None:
        raise LookupError("no such thing")

    async def finishes() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(3)
            finished.append("what it had")

    async with Manager(client, signals=()) as manager:
        manager.add(fails)
        manager.add(finishes)
        asyncio.get_running_loop().call_later(1, manager.stop)
        with pytest.raises(LookupError, match="no such thing"):
            await within(60, manager.run())
    assert finished == ["what it had"]


async def test_it_is_used_in_order_and_once(client: Client) -> None:
    manager = Manager(client)
    with pytest.raises(RuntimeError, match="inside `async with`"):
        await manager.run()
    async with manager:
        work = Work()
        manager.add(work.controller(manager))
        with pytest.raises(ValueError, match="a controller 'work' already exists"):
            manager.add(work.controller(manager))
        with pytest.raises(TypeError, match="expected a controller, a coroutine function, a collection or a fleet"):
            manager.add("work")  # type: ignore[arg-type]
        manager.stop()
        await within(5, manager.run())
        with pytest.raises(RuntimeError, match="can run only once"):
            await manager.run()
        with pytest.raises(RuntimeError, match="before run"):
            manager.add(work.controller(manager))
        with pytest.raises(RuntimeError, match="pass listen="):
            _ = manager.port
    with pytest.raises(RuntimeError, match="can be entered only once"):
        await manager.__aenter__()


@pytest.mark.parametrize("options", [{"listen": "8080"}, {"listen": "host:http"}, {"shutdown_timeout": -1}, {"odd": 1}])
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Manager(Client(), **options)


# --- leading -------------------------------------------------------------------------------------------------


async def test_what_needs_the_lead_waits_for_it_and_what_does_not_runs_at_once(
    server: APIServer, client: Client
) -> None:
    everywhere = asyncio.Event()

    async def on_every_replica() -> None:
        everywhere.set()

    first, second = Work(), Work()
    async with (
        Manager(client, elector=lambda client: elector(client, identity="one")) as one,
        Manager(client, elector=lambda client: elector(client, identity="two")) as two,
    ):
        one.add(first.controller(one))
        async with running(one) as leading:
            await within(5, first.called.wait())
            two.add(second.controller(two))
            two.add(on_every_replica, needs_leadership=False)
            async with running(two):
                await within(5, everywhere.wait())
                await two.factory.wait_for_cache_sync(5)
                assert not second.keys, "its caches are warm, and it waits"
                assert one.elector is not None
                assert one.elector.health().state == "leading"
                one.stop()
                await within(5, leading)
                assert not one.elector.is_leader
                await within(5, second.called.wait())


async def test_a_lost_lead_cancels_reconciles_at_once_and_ends_the_manager(server: APIServer, client: Client) -> None:
    started, outcome = asyncio.Event(), []

    async def reconcile(request: Request) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await client.request("POST", "/api/v1/namespaces/default/configmaps", body=config_map("late"))
            except LeadershipLostError:
                outcome.append("refused")

    manager = Manager(client, elector=lambda client: elector(client, renew_deadline=0.3))
    async with manager:
        controller = Controller(reconcile, name="work", shutdown_timeout=60)
        manager.add(controller.for_(manager.factory.for_resource(CONFIG_MAPS)))
        async with running(manager) as task:
            await within(5, started.wait())
            server.faults.add(faults.status(503), resource="coordination.k8s.io/v1/leases")
            with pytest.raises(LeadershipLostError):
                await within(5, task)
    assert outcome == ["refused"]
    assert not any(request.method == "POST" and "configmaps" in request.path for request in server.requests)


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_a_lost_lead_is_raised_although_something_never_ends(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    end = asyncio.Event()
    left: list[asyncio.Task[Any] | None] = []

    async def never_ends() -> None:
        left.append(asyncio.current_task())
        while not end.is_set():
            with suppress(asyncio.CancelledError):
                await end.wait()

    try:
        async with Manager(client, elector=elector, shutdown_timeout=5, signals=()) as manager:
            manager.add(never_ends)
            async with running(manager) as task:
                await until(lambda: left)
                server.faults.add(faults.status(503), resource="coordination.k8s.io/v1/leases")
                with pytest.raises(LeadershipLostError, match="no longer leads default/op"):
                    await within(60, task)
        assert said(caplog, "abandoned") == [Said("ERROR", "kinformer.manager")]
        assert "leader" in message_of(caplog, "abandoned").split()
    finally:
        end.set()
        await asyncio.wait({one for one in left if one is not None})


# --- probes --------------------------------------------------------------------------------------------------


async def test_probes_end_with_it_in_a_cancelled_scope_too(client: Client) -> None:
    async with aiohttp.ClientSession() as prober:
        with anyio.CancelScope() as scope:
            async with Manager(client, listen="127.0.0.1:0", signals=()) as manager:
                url = f"http://127.0.0.1:{manager.port}/livez"
                async with prober.get(url) as answer:
                    assert answer.status == 200
                    await answer.read()  # and the connection is kept
                scope.cancel()
                await asyncio.sleep(1)
        with pytest.raises(aiohttp.ClientError):
            await prober.get(url)


async def test_probes_say_how_it_is(server: APIServer, client: Client) -> None:
    work, problems = Work(), {"disk": ""}
    manager = Manager(client, listen="127.0.0.1:0", elector=elector)
    assert manager._health.ready()[0] is False  # what no probe can ask for yet
    async with manager:
        manager.add(work.controller(manager))
        manager.add_check("disk", lambda: problems["disk"])
        with pytest.raises(ValueError, match="a check 'disk' already"):
            manager.add_check("disk", lambda: None)
        async with running(manager) as task:
            await within(5, work.called.wait())
            status, body = await page(manager, "/readyz")
            assert (status, body["ready"], body["failed"]) == (200, True, {})
            problems["disk"] = "full"
            assert (await page(manager, "/readyz"))[1]["failed"] == {"disk": "full"}
            assert (await page(manager, "/livez"))[0] == 200
            problems["disk"] = ""
            status, body = await page(manager, "/statusz")
            assert body["controllers"]["work"]["reconciles"] == {"success": 1}
            assert body["leader_election"]["is_leader"] is True
            assert body["resources"][CONFIG_MAPS]["statistics"]["objects"] == 1
            assert (await page(manager, "/nothing"))[0] == 404
            manager.stop()
            await within(5, task)
        status, body = await page(manager, "/readyz")
        assert (status, body["failed"]["manager"]) == (503, "stopping")


async def test_a_cache_that_cannot_sync_is_named_with_its_reason(server: APIServer, client: Client) -> None:
    refusal = {"kind": "Status", "status": "Failure", "code": 403, "message": "no pods for you"}
    server.faults.add(faults.status(403, refusal), resource="v1/pods")
    async with Manager(client, listen="127.0.0.1:0", backoff=Backoff(initial=0.01, maximum=0.05)) as manager:
        manager.factory.for_resource("v1/pods")
        manager.factory.for_resource(CONFIG_MAPS)
        with pytest.raises(ForbiddenError):
            await manager.factory.wait_for_cache_sync(5, fail_fast=True)
        status, body = await page(manager, "/readyz")
        assert status == 503
        assert body["failed"]["caches"].startswith("v1/pods: 403 ForbiddenError")
        assert body["resources"]["v1/pods"]["reason"] == "403 ForbiddenError"


async def test_a_check_of_life_or_one_that_raises_fails_the_probe(client: Client) -> None:
    def broken() -> None:
        raise LookupError("lost")

    async with Manager(client, listen="127.0.0.1:0") as manager:
        manager.add_check("broken", broken, live=True)
        for path in ("/livez", "/healthz", "/readyz"):
            status, body = await page(manager, path)
            assert status == 503
            assert body["failed"] == {"broken": "LookupError"}


async def test_a_sink_that_can_be_read_is_served_with_informers_queues_and_controllers(client: Client) -> None:
    metrics = PrometheusMetrics(CollectorRegistry())
    work = Work()
    async with Manager(client, listen="127.0.0.1:0", metrics=metrics) as manager:
        manager.add(work.controller(manager, metrics=metrics))
        async with running(manager):
            await within(5, work.called.wait())
            status, text = await page(manager, "/metrics")
            assert status == 200
            for line in (
                'kinformer_objects{resource="v1/configmaps"} 1.0',
                'workqueue_adds_total{name="work"} 1.0',
                'controller_runtime_max_concurrent_reconciles{controller="work"} 1.0',
                'controller_runtime_reconcile_total{controller="work",result="error"} 0.0',
            ):
                assert line in text


async def test_a_port_that_is_taken_is_an_error_on_entering_and_leaves_nothing_open(client: Client) -> None:
    async with Manager(client, listen="127.0.0.1:0") as first:
        with pytest.raises(OSError, match="address"):
            async with Manager(client, listen=f"127.0.0.1:{first.port}"):
                raise AssertionError("entered")


# --- signals -------------------------------------------------------------------------------------------------


async def test_signals_are_handled_while_it_runs_and_put_back_after(client: Client) -> None:
    def mine(number: int, frame: object) -> None:
        raise AssertionError("this handler was to be replaced")

    before = signal.signal(QUIET, mine)
    try:
        async with Manager(client, signals=[QUIET]) as manager:
            async with running(manager) as task:
                await asyncio.sleep(0.02)
                os.kill(os.getpid(), QUIET)
                await within(5, task)
            assert signal.getsignal(QUIET) is mine
    finally:
        signal.signal(QUIET, before)


async def test_a_second_signal_ends_the_patience_and_a_third_is_not_ours(client: Client) -> None:
    steps: list[str] = []
    begun = asyncio.Event()

    async def reconcile(request: Request) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("cancelled")

    others = []
    before = signal.signal(QUIET, lambda number, frame: others.append(number))
    try:
        async with Manager(client, signals=[QUIET], shutdown_timeout=1000) as manager:
            controller = Controller(reconcile, name="work", shutdown_timeout=1000)
            manager.add(controller.for_(manager.factory.for_resource(CONFIG_MAPS)))
            async with running(manager) as task:
                await within(5, begun.wait())
                os.kill(os.getpid(), QUIET)
                await asyncio.sleep(0.03)
                assert not task.done()
                os.kill(os.getpid(), QUIET)
                await within(5, task)
                os.kill(os.getpid(), QUIET)
        assert steps == ["cancelled"]
        assert others == [QUIET]
    finally:
        signal.signal(QUIET, before)


async def test_what_the_program_has_told_its_loop_to_do_at_a_signal_is_done_again_afterwards(client: Client) -> None:
    loop, heard = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(QUIET, heard.set)
    try:
        async with Manager(client, signals=[QUIET]) as manager, running(manager) as task:
            await asyncio.sleep(0)
            os.kill(os.getpid(), QUIET)
            await within(5, task)
            assert not heard.is_set()
        os.kill(os.getpid(), QUIET)
        await within(5, heard.wait())
    finally:
        loop.remove_signal_handler(QUIET)


async def test_in_another_thread_it_runs_without_signals(server: APIServer) -> None:
    async def main() -> None:
        async with Client.from_url(server.url) as client, Manager(client) as manager:
            manager.stop()
            await manager.run()

    await asyncio.to_thread(asyncio.run, main())


PROGRAM = """
import asyncio, logging, sys
from kinformer import Client, Controller, Manager

async def main():
    async with Client.from_url(sys.argv[1]) as client, Manager(client, listen="127.0.0.1:0") as manager:
        async def reconcile(request):
            print("begun", flush=True)
            await asyncio.sleep(0.3)
            print("finished", flush=True)
        manager.add(Controller(reconcile, name="work").for_(manager.factory.for_resource("v1/configmaps")))
        await manager.run()
        print("stopped", flush=True)

asyncio.run(main())
print("left", flush=True)
"""


@pytest.mark.process
async def test_a_process_that_gets_sigterm_finishes_what_it_does_and_exits_cleanly(server: APIServer) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", PROGRAM, server.url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await within(30, process.stdout.readline()) == b"begun\n"
        process.terminate()
        output, errors = await within(30, process.communicate())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    assert output.split() == [b"finished", b"stopped", b"left"]
    assert not errors
