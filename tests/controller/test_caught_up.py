"""A reconcile that reads what it has just written: `Request.caught_up`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

import pytest

from kinformer import Client, Controller, ListWatch, Request, SharedInformer
from kinformer.controller import ControllerStatistics
from kinformer.exceptions import WatchError
from kinformer.testing import APIServer, Features, faults
from tests.support.kube import config_map, pod
from tests.support.lagging_source import LaggingSource
from tests.support.metrics_sink import MemoryMetrics

pytestmark = pytest.mark.virtual_time

PATH = "/api/v1/namespaces/default/configmaps"
Body = Callable[[Request, SharedInformer], Awaitable[None]]


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map("main")]


async def reconciled(
    client: Client, body: Body, *, lag: float = 2.0, sink: MemoryMetrics | None = None, **options: Any
) -> ControllerStatistics:
    """Run `body` once, as the first reconcile of `main`, with a cache that is `lag` seconds behind; what it raises."""
    source = LaggingSource(ListWatch(client, "v1/configmaps", namespace="default"), lag=lag)
    result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with SharedInformer(source, **options) as informer:

        async def reconcile(request: Request) -> None:
            if request.name != "main" or result.done():
                return
            try:
                await body(request, informer)
            except BaseException as error:
                result.set_exception(error)
            else:
                result.set_result(None)

        controller = Controller(reconcile, name="test", metrics=sink).for_(informer)
        running = asyncio.create_task(controller.run())
        try:
            async with asyncio.timeout(100):
                await result
        finally:
            statistics = controller.statistics()
            running.cancel()
            await asyncio.wait({running})
    return statistics


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_what_it_creates_changes_and_deletes_is_in_the_cache_at_once(server: APIServer, client: Client) -> None:
    steps: list[object] = []

    async def body(request: Request, informer: SharedInformer) -> None:
        def child() -> Any:
            found = informer.lister.get("child", namespace="default")
            return None if found is None else found["data"]["step"]

        await client.request("POST", PATH, body=config_map("child", data={"step": "1"}))
        steps.append(child())
        began = now()
        await request.caught_up()
        assert now() - began == pytest.approx(2, abs=0.5)
        steps.append(child())
        await client.request("PATCH", f"{PATH}/child", body={"data": {"step": "2"}})
        await request.caught_up()
        steps.append(child())
        await client.request("DELETE", f"{PATH}/child")
        await request.caught_up()
        steps.append(child())

    sink = MemoryMetrics()
    statistics = await reconciled(client, body, sink=sink)
    assert steps == [None, "1", "2", None]
    assert (statistics.caught_up_waits, statistics.caught_up_timeouts) == (3, 0)
    assert sink.values(controller="test")["kinformer_controller_caught_up_waits_total"] == 3


async def test_without_a_write_or_once_it_is_seen_it_returns_at_once(server: APIServer, client: Client) -> None:
    async def body(request: Request, informer: SharedInformer) -> None:
        began = now()
        await request.caught_up()
        await client.request("GET", f"{PATH}/main")
        await request.caught_up()
        assert now() == began
        await client.request("POST", PATH, body=config_map("child"))
        await asyncio.sleep(5)
        began = now()
        await request.caught_up()
        assert now() == began

    assert (await reconciled(client, body)).caught_up_waits == 0


async def test_a_cache_that_stays_behind_is_a_timeout_that_names_the_write_and_the_next_run_waits_on(
    server: APIServer, client: Client
) -> None:
    async def body(request: Request, informer: SharedInformer) -> None:
        await client.request("POST", PATH, body=config_map("child"))
        began = now()
        with pytest.raises(
            TimeoutError, match=r"^default/main: its own write to v1/configmaps in default default/child"
        ):
            await request.caught_up(timeout=1.5)
        assert now() - began == pytest.approx(1.5)
        with pytest.raises(TimeoutError):
            await request.caught_up(timeout=0.1)
        await request.caught_up(timeout=5)
        assert informer.lister.get("child", namespace="default") is not None

    sink = MemoryMetrics()
    statistics = await reconciled(client, body, sink=sink)
    assert (statistics.caught_up_waits, statistics.caught_up_timeouts) == (3, 2)
    assert sink.values(controller="test")["kinformer_controller_caught_up_timeouts_total"] == 2


async def test_it_may_be_cancelled_and_asked_again(server: APIServer, client: Client) -> None:
    async def body(request: Request, informer: SharedInformer) -> None:
        await client.request("POST", PATH, body=config_map("child"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await request.caught_up()
        assert informer.lister.get("child", namespace="default") is None
        await request.caught_up()
        assert informer.lister.get("child", namespace="default") is not None

    assert (await reconciled(client, body)).caught_up_timeouts == 0


async def test_a_server_that_went_back_before_the_write_ends_it_with_an_error(
    server: APIServer, client: Client
) -> None:
    for name in "abcde":
        server.create(config_map(name))

    async def body(request: Request, informer: SharedInformer) -> None:
        server.faults.add(faults.drop_event(), verb="watch", times=1)
        await client.request("POST", PATH, body=config_map("child"))
        server.faults.add(faults.rewind(4), verb="get", resource="v1/namespaces")
        await client.request("GET", "/api/v1/namespaces/default")
        with pytest.raises(WatchError, match="went back"):
            await request.caught_up(60)

    await reconciled(client, body, lag=0)


async def test_a_delete_of_what_the_cache_has_not_heard_of_is_waited_for_by_its_version() -> None:
    """Another client has made the object a moment before: a cache without it would pass for one that saw its end."""

    async def body(request: Request, informer: SharedInformer) -> None:
        server.create(config_map("fresh"))
        status = await client.request("DELETE", f"{PATH}/fresh")
        await request.caught_up()
        assert int(informer.last_sync_resource_version) >= int(status["metadata"]["resourceVersion"])

    async with APIServer(features=Features(delete_versions=True)) as server, server.client() as client:
        server.create(config_map("main"))
        assert (await reconciled(client, body)).caught_up_waits == 1


async def test_a_delete_of_what_a_selector_leaves_out_is_not_waited_for() -> None:
    async with APIServer(features=Features(delete_versions=True)) as server, server.client() as client:
        server.create(config_map("main", labels={"app": "web"}))
        server.create(config_map("other"))
        source = ListWatch(client, "v1/configmaps", namespace="default", field_selector="metadata.name=main")
        async with SharedInformer(source) as informer:
            done = asyncio.Event()

            async def reconcile(request: Request) -> None:
                await client.request("DELETE", f"{PATH}/other")
                began = now()
                await request.caught_up()
                assert now() == began
                done.set()

            running = asyncio.create_task(Controller(reconcile).for_(informer).run())
            async with asyncio.timeout(20):
                await done.wait()
            running.cancel()
            await asyncio.wait({running})


async def test_an_eviction_is_waited_for_by_its_version() -> None:
    async with APIServer(features=Features(delete_versions=True)) as server, server.client() as client:
        server.create(pod("main"))
        source = LaggingSource(ListWatch(client, "v1/pods", namespace="default"), lag=2)
        async with SharedInformer(source) as informer:
            done = asyncio.Event()

            async def reconcile(request: Request) -> None:
                eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "main"}}
                path = "/api/v1/namespaces/default/pods/main/eviction"
                await client.request("POST", path, body=eviction)
                assert informer.lister.get("main", namespace="default") is not None
                await request.caught_up()
                assert informer.lister.get("main", namespace="default") is None
                done.set()

            running = asyncio.create_task(Controller(reconcile).for_(informer).run())
            async with asyncio.timeout(20):
                await done.wait()
            running.cancel()
            await asyncio.wait({running})


@pytest.mark.parametrize("versions", [False, True], ids=["before 1.38", "1.38"])
@pytest.mark.parametrize("as_model", [False, True])
async def test_the_status_of_a_delete_by_another_client_can_be_told(versions: bool, as_model: bool) -> None:
    async def body(request: Request, informer: SharedInformer) -> None:
        deleting = asyncio.create_task(client.request("DELETE", f"{PATH}/child"), context=Context())
        status = await deleting  # as part of nothing, so it is not seen
        assert status["kind"] == "Status"
        request.wrote(status_model(dict(status)) if as_model else status)
        assert informer.lister.get("child", namespace="default") is not None
        await request.caught_up()
        assert informer.lister.get("child", namespace="default") is None

    async with APIServer(features=Features(delete_versions=versions)) as server, server.client() as client:
        server.create(config_map("main"))
        server.create(config_map("child"))
        assert (await reconciled(client, body)).caught_up_waits == 1


def status_model(status: dict[str, Any]) -> Any:
    from kubernetes_asyncio.client import V1ListMeta, V1Status, V1StatusDetails

    details = V1StatusDetails(
        name=status["details"]["name"], kind=status["details"]["kind"], uid=status["details"]["uid"]
    )
    metadata = V1ListMeta(resource_version=status["metadata"].get("resourceVersion"))
    return V1Status(kind="Status", status="Success", metadata=metadata, details=details)


async def test_writes_by_the_api_client_are_seen_without_being_told(server: APIServer, client: Client) -> None:
    from kubernetes_asyncio.client import CoreV1Api

    steps: list[object] = []

    async def body(request: Request, informer: SharedInformer) -> None:
        core = CoreV1Api(client.api_client)

        async def step() -> None:
            await request.caught_up()
            found = informer.lister.get("child", namespace="default")
            steps.append(None if found is None else found["data"]["step"])

        await core.create_namespaced_config_map("default", config_map("child", data={"step": "1"}))
        await step()
        await core.patch_namespaced_config_map("child", "default", {"data": {"step": "2"}})
        await step()
        await core.delete_namespaced_config_map("child", "default", dry_run="All")
        await core.delete_namespaced_config_map("child", "default", body={"dryRun": ["All"]})
        await step()
        await core.delete_namespaced_config_map("child", "default")
        await step()
        await core.create_namespaced_config_map("default", config_map("one", labels={"app": "x"}))
        await request.caught_up()
        await core.delete_collection_namespaced_config_map("default", label_selector="app=x")
        await request.caught_up()
        assert len(informer.lister) == 1

    statistics = await reconciled(client, body)
    assert steps == ["1", "2", "2", None]
    assert statistics.caught_up_waits == 5


async def test_a_failed_call_of_the_api_client_is_no_write(server: APIServer, client: Client) -> None:
    from kubernetes_asyncio.client import ApiException, CoreV1Api

    async def body(request: Request, informer: SharedInformer) -> None:
        with pytest.raises(ApiException):
            await CoreV1Api(client.api_client).create_namespaced_config_map("default", config_map("main"))
        await request.caught_up()

    assert (await reconciled(client, body)).caught_up_waits == 0


async def test_outside_a_controller_it_returns_at_once() -> None:
    await Request("default", "main").caught_up()


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "3", True, None])
async def test_a_timeout_that_is_none_is_named(timeout: Any) -> None:
    with pytest.raises(
        ValueError, match=r"invalid caught_up\(timeout=.*\): expected a finite number of seconds above 0"
    ):
        await Request("default", "main").caught_up(timeout)
