"""What `Client.request` writes in a reconcile is waited for by itself: on real HTTP, with a cache that comes late."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

import pytest
from kubernetes_asyncio.client import CoreV1Api

from kinformer import AlreadyExistsError, Client, Controller, ListWatch, Request, SharedInformer
from kinformer.controller import Finalizer
from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.lagging_source import LaggingSource

LAG = 0.05  # seconds by which the cache is behind
PATH = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def late(client: Client, name: str | None = None) -> AsyncIterator[SharedInformer]:
    source = LaggingSource(ListWatch(client, "v1/configmaps", namespace="default"), lag=LAG)
    async with SharedInformer(source, name=name) as informer:
        yield informer


async def run_until(controller: Controller, finished: asyncio.Event) -> None:
    task = asyncio.ensure_future(controller.run())
    try:
        async with asyncio.timeout(10):
            await finished.wait()
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize("name", [None, "my maps"])
async def test_what_a_reconcile_creates_changes_and_deletes_is_in_the_cache_at_its_next_run(
    server: APIServer, client: Client, name: str | None
) -> None:
    async with late(client, name) as informer:
        server.create(config_map("main"))
        steps: list[str] = []
        wrong: list[str] = []
        finished = asyncio.Event()

        async def reconcile(request: Request) -> None:
            if request.name != "main":
                return
            child = informer.lister.get("child", namespace="default")
            if len(steps) == 0:
                await client.request("POST", PATH, body=config_map("child", data={"step": "1"}))
            elif len(steps) == 1:
                wrong.extend(["not created"] if child is None else [])
                await asyncio.gather(  # a task that the reconcile starts is seen, too
                    client.request("PATCH", f"{PATH}/child", body={"data": {"step": "2"}})
                )
            elif len(steps) == 2:
                wrong.extend(["not changed"] if child is None or child["data"]["step"] != "2" else [])
                await client.request("DELETE", f"{PATH}/child")
            else:
                wrong.extend(["not deleted"] if child is not None else [])
                finished.set()
            steps.append("done")
            controller.trigger(request)

        controller = Controller(reconcile, name="test").for_(informer)
        await run_until(controller, finished)
        assert wrong == []
        assert controller.statistics().own_write_waits >= 3
        assert controller.statistics().own_write_timeouts == 0


async def test_the_verbs_are_waited_for_like_requests(server: APIServer, client: Client) -> None:
    async with late(client) as informer:
        server.create(config_map("main"))
        seen: list[str] = []
        finished = asyncio.Event()

        async def reconcile(request: Request) -> None:
            if request.name != "main":
                return
            child = informer.lister.get("child", namespace="default")
            seen.append("absent" if child is None else child["data"]["step"])
            match len(seen):
                case 1:
                    await client.create(config_map("child", data={"step": "created"}), dry_run=True)
                    await client.create(config_map("child", data={"step": "created"}))
                case 2:
                    await client.patch("v1/configmaps", "default/child", {"data": {"step": "patched"}})
                case 3:
                    wanted = config_map("child", data={"step": "applied"})
                    await client.apply(wanted, field_manager="test", force=True)
                case 4:
                    assert child is not None
                    await client.replace(child.to_dict() | {"data": {"step": "replaced"}})
                case 5:
                    await client.delete("v1/configmaps", "default/child")
                case _:
                    finished.set()
            controller.trigger(request)

        controller = Controller(reconcile, name="test").for_(informer)
        await run_until(controller, finished)
        assert seen[:6] == ["absent", "created", "patched", "applied", "replaced", "absent"]
        assert controller.statistics().own_write_timeouts == 0


async def test_what_a_reconcile_creates_and_deletes_at_once_is_gone_at_its_next_run(
    server: APIServer, client: Client
) -> None:
    async with late(client) as informer:
        server.create(config_map("main"))
        found: list[bool] = []
        finished = asyncio.Event()

        async def reconcile(request: Request) -> None:
            if request.name != "main":
                return
            found.append(informer.lister.get("child", namespace="default") is not None)
            if len(found) == 1:
                await client.request("POST", PATH, body=config_map("child"))
                await asyncio.sleep(LAG / 2)  # so that the cache has the one before the other
                await client.request("DELETE", f"{PATH}/child")
                controller.trigger(request)
            else:
                finished.set()

        controller = Controller(reconcile, name="test").for_(informer)
        await run_until(controller, finished)
        assert found == [False, False]
        assert controller.statistics().own_write_timeouts == 0


async def test_a_dry_run_is_no_write(server: APIServer, client: Client) -> None:
    async with late(client) as informer:
        server.create(config_map("main"))
        runs: list[Request] = []
        finished = asyncio.Event()

        async def reconcile(request: Request) -> None:
            runs.append(request)
            await client.request("DELETE", f"{PATH}/main", params={"dryRun": "All"})
            await client.request("DELETE", f"{PATH}/main?dryRun=All")
            await client.request("DELETE", f"{PATH}/main", body={"dryRun": ["All"]})
            await client.request("POST", PATH, body=config_map("child"), params={"dryRun": "All"})
            controller.trigger(request) if len(runs) < 3 else finished.set()

        controller = Controller(reconcile, name="test").for_(informer)
        await run_until(controller, finished)
        assert controller.statistics().own_write_waits == 0


async def test_reads_and_writes_to_what_nobody_follows_delay_nothing(server: APIServer, client: Client) -> None:
    async with late(client) as informer:
        server.create(config_map("main"))
        runs: list[Request] = []
        finished = asyncio.Event()

        async def reconcile(request: Request) -> None:
            runs.append(request)
            await client.request("GET", f"{PATH}/main")
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"s-{len(runs)}"}}
            await client.request("POST", "/api/v1/namespaces/default/secrets", body=secret)
            elsewhere = {**config_map(f"c-{len(runs)}"), "metadata": {"name": f"c-{len(runs)}"}}
            await client.request("POST", "/api/v1/namespaces/kube-system/configmaps", body=elsewhere)
            controller.trigger(request) if len(runs) < 3 else finished.set()

        controller = Controller(reconcile, name="test").for_(informer)
        await run_until(controller, finished)
        assert informer.namespaces == ("default",)
        assert controller.statistics().own_write_waits == 0


async def test_a_write_that_fails_is_not_waited_for(server: APIServer, client: Client) -> None:
    async with late(client) as informer:
        server.create(config_map("main"))
        runs: list[Request] = []
        finished = asyncio.Event()

        async def reconcile(request: Request) -> None:
            runs.append(request)
            try:
                await client.request("POST", PATH, body=config_map("main"))
            except AlreadyExistsError:
                controller.trigger(request) if len(runs) < 3 else finished.set()

        controller = Controller(reconcile, name="test").for_(informer)
        await run_until(controller, finished)
        assert controller.statistics().own_write_waits == 0


@pytest.mark.parametrize("told", [False, True], ids=["by the client", "told"])
async def test_an_object_whose_last_finalizer_a_reconcile_took_is_gone_at_its_next_run(
    server: APIServer, client: Client, told: bool
) -> None:
    """The server answers with the version from before, which the cache has already."""
    held = config_map("main")
    held["metadata"]["finalizers"] = ["example.com/clean-up"]
    async with late(client) as informer:
        server.create(held)
        found: list[bool] = []
        finished = asyncio.Event()

        async def reconcile(request: Request) -> None:
            cached = informer.lister.get("main", namespace="default")
            if cached is not None and cached.deletion_timestamp is None:
                await client.request("DELETE", f"{PATH}/main")
            else:
                found.append(cached is not None)
                if len(found) == 1:
                    body = {"metadata": {"finalizers": None}}
                    if told:
                        patching = client.request("PATCH", f"{PATH}/main", body=body)
                        # As part of nothing, so it is not seen.
                        request.wrote(await asyncio.create_task(patching, context=Context()))
                    else:
                        await client.request("PATCH", f"{PATH}/main", body=body)
                else:
                    finished.set()
            controller.trigger(request)

        controller = Controller(reconcile, name="test").for_(informer)
        await run_until(controller, finished)
        assert found[:2] == [True, False]
        assert controller.statistics().own_write_timeouts == 0


async def test_a_collection_that_a_reconcile_deleted_is_gone_at_its_next_run(server: APIServer, client: Client) -> None:
    async with late(client) as informer:
        for name in ("main", "one", "two"):
            server.create(config_map(name, labels={} if name == "main" else {"app": "x"}))
        found: list[int] = []
        finished = asyncio.Event()

        async def reconcile(request: Request) -> None:
            if request.name != "main":
                return
            found.append(len(informer.lister))
            if len(found) == 1:
                await client.request("DELETE", PATH, params={"labelSelector": "app=x"})
            else:
                finished.set()
            controller.trigger(request)

        controller = Controller(reconcile, name="test").for_(informer)
        await run_until(controller, finished)
        assert found[:2] == [3, 1]


@pytest.mark.parametrize(
    ("own", "by"),
    [(True, "configmaps main was changed by this reconcile, perhaps"), (False, "main was changed by another")],
    ids=["its own", "another's"],
)
@pytest.mark.parametrize("way", ["finalizer", "created", "core_v1"])
async def test_a_conflict_with_its_own_write_is_said_to_be_one(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture, own: bool, by: str, way: str
) -> None:
    caplog.set_level(logging.INFO, "kinformer.controller")
    name = "child" if way == "created" else "main"
    async with late(client) as informer:
        server.create(config_map("main"))
        tried = asyncio.Event()

        async def reconcile(request: Request) -> None:
            if request.name != "main" or tried.is_set():
                return
            obj = informer.lister.get("main", namespace="default")
            assert obj is not None
            if way == "created":
                obj = await client.create(config_map("child"))
            change: dict[str, Any] = {"metadata": {"labels": {"new": "yes"}}}
            if not own:
                labels = {"labels": {"new": "yes"}}
                server.update({**obj.to_dict(), "metadata": {**obj.to_dict()["metadata"], **labels}})
            elif way == "finalizer":
                await Finalizer(client, "v1/configmaps", "example.com/cleanup").add(obj)  # whose result is dropped
            elif way == "created":
                await client.patch("v1/configmaps", obj.key, change)
            else:
                await CoreV1Api(client.api_client).patch_namespaced_config_map("main", "default", change)
            tried.set()
            await client.replace({**obj.to_dict(), "data": {"written": "yes"}})

        await run_until(Controller(reconcile, name="test").for_(informer), tried)
        (record,) = [record for record in caplog.records if getattr(record, "reason", "") == "conflict"]
        assert by.replace("main", name) in record.getMessage()
