"""A sharded controller in a manager: it runs in every replica, is asked for its health, and gives its share back."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from kinformer import Client, Controller, LeaderElector, Manager, Request
from kinformer.sharding import ShardedController
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.manager_run import page, running, within
from tests.support.metrics_sink import MemoryMetrics
from tests.support.waiting import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SLOTS = 256
ALL, NONE = "f" * 64, "0" * 64  # slots, as an annotation has them: a bit for each
TIMES: dict[str, Any] = {"lease_duration": 3, "renew_deadline": 2, "retry_period": 0.1}


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map(f"m{number}") for number in range(12)]


class Work:
    """A reconcile of config maps, for a share of them; a key in `hold` stays until that is set."""

    def __init__(self, client: Client, identity: str, **options: Any) -> None:
        self.names: list[str] = []
        self.ended: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.controller = ShardedController(
            self.reconcile,
            client,
            "v1/configmaps",
            namespace="default",
            identity=identity,
            name="shared",
            workers=20,
            shutdown_timeout=1,
            **{**TIMES, **options},
        )

    async def reconcile(self, request: Request) -> None:
        self.names.append(request.name)
        await self.hold.wait()
        self.ended.append(request.name)


async def test_replicas_with_an_elector_share_the_work_and_only_one_leads(client: Client) -> None:
    led: list[str] = []

    def replica(name: str) -> tuple[Manager, Work]:
        async def leads() -> None:
            led.append(name)

        manager = Manager(
            client, elector=lambda client: LeaderElector(client, namespace="default", name="op", identity=name, **TIMES)
        )
        work = Work(client, name)
        manager.add(work.controller)
        manager.add(leads)
        return manager, work

    (one, first), (two, second) = replica("one"), replica("two")
    async with one, two, running(one), running(two):
        await until(lambda: first.controller.health().balanced and second.controller.health().balanced)
        await until(lambda: len(first.controller.informer.lister) + len(second.controller.informer.lister) == 12)
        await until(lambda: len({*first.names, *second.names}) == 12)
        await until(lambda: bool(led))
    assert len(led) == 1
    assert first.controller.health().members == 2


async def test_a_renewal_whose_answer_has_not_come_when_it_stops_keeps_no_slots(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, renewed, held = client.request, asyncio.Event(), asyncio.Event()

    async def without_answer(method: str, path: str, **options: Any) -> Any:
        answer = await request(method, path, **options)
        if method == "PUT" and held.is_set():
            held.clear()  # this once
            renewed.set()
            await asyncio.Event().wait()
        return answer

    monkeypatch.setattr(client, "request", without_answer)
    work = Work(client, "one")
    async with Manager(client) as manager:
        manager.add(work.controller)
        async with running(manager) as task:
            await until(lambda: len(work.ended) == 12)
            held.set()
            await renewed.wait()
            manager.stop()
            await within(5, task)
    (lease,) = (await client.request("GET", LEASES))["items"]
    assert lease["spec"].get("holderIdentity", "") == ""
    assert lease["metadata"]["annotations"]["kinformer.dev/slots"] == NONE


async def test_stopping_finishes_what_is_under_way_and_then_gives_the_share_back(client: Client) -> None:
    work = Work(client, "one")
    work.hold.clear()
    async with Manager(client) as manager:
        manager.add(work.controller)
        async with running(manager) as task:
            await until(lambda: len(work.names) == 12)
            manager.stop()
            await asyncio.sleep(0.05)
            assert not task.done()
            (lease,) = (await client.request("GET", LEASES))["items"]
            assert lease["spec"]["holderIdentity"] == "one"
            assert lease["metadata"]["annotations"]["kinformer.dev/slots"] == ALL
            work.hold.set()
            await within(5, task)
    assert len(work.ended) == 12
    (lease,) = (await client.request("GET", LEASES))["items"]
    assert lease["spec"].get("holderIdentity", "") == ""
    assert lease["metadata"]["annotations"]["kinformer.dev/slots"] == NONE


async def test_readyz_waits_for_its_membership_and_its_informers_and_names_what_is_wrong(
    server: APIServer, client: Client
) -> None:
    refusal = server.faults.add(faults.status(403), resource="coordination.k8s.io/v1/leases")
    async with Manager(client, listen="127.0.0.1:0") as manager:
        work = Work(client, "one")
        work.controller.owns("v1/secrets", "ConfigMap")
        manager.add(work.controller)
        assert (await page(manager, "/readyz"))[1]["failed"] == {"controller shared": "it has not been started"}
        async with running(manager):
            await until(lambda: refusal.hits > 0)
            await until(lambda: work.controller.health().last_error is not None)
            status, body = await page(manager, "/readyz")
            assert status == 503
            assert body["failed"]["controller shared"].startswith("403")
            refusal.remove()
            await until(lambda: len(work.names) == 12)
            status, body = await page(manager, "/readyz")
            assert (status, body["failed"]) == (200, {})
            assert set(body["resources"]) == {"v1/configmaps of shared", "v1/secrets of shared"}
            _, body = await page(manager, "/statusz")
            assert body["shares"]["shared"]["slots"] == SLOTS
            assert body["shares"]["shared"]["last_error"] is None
            assert body["controllers"]["shared"]["reconciles"]["success"] >= 12


async def test_one_for_each_of_several_namespaces_shares_them_in_one_manager(server: APIServer, client: Client) -> None:
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "second"}})
    server.create({**config_map("other"), "metadata": {"name": "other", "namespace": "second"}})
    seen: set[str] = set()

    async def reconcile(request: Request) -> None:
        seen.add(request.key)

    async with Manager(client) as manager:
        for namespace in ("default", "second"):
            controller = ShardedController(
                reconcile,
                client,
                "v1/configmaps",
                namespace=namespace,
                name=f"shared in {namespace}",
                shutdown_timeout=1,
                **TIMES,
            )
            manager.add(controller)
        async with running(manager):
            await until(lambda: len(seen) == 13)
            for namespace in ("default", "second"):
                leases = await client.request("GET", LEASES.replace("/default/", f"/{namespace}/"))
                assert len(leases["items"]) == 1
    assert "second/other" in seen


async def test_its_crash_ends_the_manager_with_what_it_crashed_of(server: APIServer, client: Client) -> None:
    def crash(informer: Any, error: BaseException) -> None:
        raise LookupError("enough")

    server.faults.add(faults.status(500), verb="list", resource="v1/configmaps")
    work = Work(client, "one", informer={"on_error": crash, "watch_list": False})
    async with Manager(client) as manager:
        manager.add(work.controller)
        with pytest.raises(LookupError, match="enough"):
            await within(10, manager.run())


async def test_two_controllers_of_one_name_are_refused_whichever_they_are(client: Client) -> None:
    async with Manager(client) as manager:
        work = Work(client, "one")
        manager.add(work.controller)
        with pytest.raises(ValueError, match="a controller 'shared' already"):
            manager.add(Controller(work.reconcile, name="shared"))


async def test_its_figures_are_exported_while_it_runs(client: Client) -> None:
    metrics = MemoryMetrics()
    work = Work(client, "one", metrics=metrics)
    async with Manager(client) as manager:
        manager.add(work.controller)
        async with running(manager):
            await until(lambda: len(work.names) == 12)
            found = {reading.name: reading.values for reading in metrics.collected["shared"]("shared")}
            expected = {"live": 1, "balanced": 1, "slots": SLOTS, "pending_slots": 0, "members": 1}
            expected |= {"ledger_objects": 12, "doubts": 0}
            for name, value in expected.items():
                assert found[f"kinformer_shard_{name}"] == [(("shared",), value)]
            assert "kinformer_shard_dropped_total" in found
            assert "v1/configmaps" in metrics.collected
        assert not metrics.collected


@pytest.mark.virtual_time
async def test_its_page_names_the_metrics_that_are_exported(client: Client) -> None:
    async def reconcile(request: Request) -> None:
        return None

    metrics = MemoryMetrics()
    controller = ShardedController(reconcile, client, "v1/pods", lease_namespace="default", name="c", metrics=metrics)
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(10)
    exported = {reading.name for reading in metrics.collected["c"]("c")}
    running.cancel()
    await asyncio.wait({running})
    page = (Path(__file__).parents[2] / "docs" / "sharding.md").read_text()
    assert set(re.findall(r"`(kinformer_shard_\w+)`", page)) == exported
