"""The parts of operators may be cancelled at every point, too: no task, no connection, no listener is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kinformer import (
    Client,
    Controller,
    KubeObject,
    LeaderElector,
    Manager,
    NotFoundError,
    Request,
    Result,
    SharedInformer,
    wait_for,
)
from kinformer.conditions import is_deleted
from kinformer.controller import Applier, EventRecorder, Finalizer, write_status
from kinformer.exceptions import LeadershipLostError
from kinformer.testing import APIServer
from tests.lifecycle.cancellation import AS_IT_COMES, WHILE_WAITING, cancel_everywhere
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("how", [WHILE_WAITING, AS_IT_COMES])]

MAPS = "v1/configmaps"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def no_check(cancelled: bool) -> None: ...


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map("a")]


@asynccontextmanager
async def warm(server: APIServer) -> AsyncIterator[Client]:
    """A client whose connection is open already, so that what it leaves open is not counted."""
    async with server.client() as client:
        await client.request("GET", "/version")
        yield client


async def test_running_a_controller(how: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        source = MemorySource()
        for name in "abc":
            source.set(name)
        runs = 0

        async def reconcile(request: Request) -> Result | None:
            nonlocal runs
            runs += 1
            number = runs
            await asyncio.sleep(0)
            if number == 2:
                raise OSError("once")
            if number == 4:
                request.wrote(source.set("d"))
                return Result(requeue_after=0)
            if number >= 5:
                raise LeadershipLostError("that is all")
            return None

        async with SharedInformer(source) as informer:
            controller = Controller(reconcile, workers=2, name="test", shutdown_timeout=0.1).for_(informer)

            async def use() -> None:
                with pytest.raises(LeadershipLostError):
                    await controller.run()

            async def works_again(cancelled: bool) -> None:
                nonlocal runs
                assert not controller.statistics().running
                assert informer.statistics().pending == {}
                runs = 0
                await use()

            yield use, works_again

    await cancel_everywhere(setting, how, at_least=2)


async def test_a_manager_from_its_start_to_its_end(
    server: APIServer, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.kubeconfig(tmp_path / "config")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        reconciled: list[str] = []

        async def use() -> None:
            def elector(client: Client) -> LeaderElector:
                return LeaderElector(client, namespace="default", name="op", retry_period=0.1)

            async with Manager(elector=elector, listen="127.0.0.1:0", signals=()) as manager:

                async def reconcile(request: Request) -> None:
                    reconciled.append(request.key)
                    manager.stop()

                manager.add(Controller(reconcile, name="test").for_(manager.factory.for_resource(MAPS)))
                await manager.run()

        def worked(cancelled: bool) -> None:
            assert cancelled or reconciled

        try:
            yield use, worked
        finally:
            with contextlib.suppress(NotFoundError):
                # Given back or not (a write may have been on its way), the next one is not to wait for it.
                server.delete("coordination.k8s.io/v1/leases", "default", "op")

    await cancel_everywhere(setting, how, at_least=3)


@pytest.mark.parametrize("what", ["comes", "goes"])
async def test_waiting_for_an_object(how: str, what: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        source = MemorySource()
        source.set("a")
        async with SharedInformer(source) as informer:

            async def comes() -> None:
                asyncio.get_running_loop().call_later(0.01, source.set, "new")
                await wait_for(informer, "default/new", lambda obj: obj is not None, timeout=10)

            async def goes() -> None:
                asyncio.get_running_loop().call_later(0.01, source.delete, "a")
                await wait_for(informer, "default/a", is_deleted(), timeout=10)

            async def nobody_listens(cancelled: bool) -> None:
                await asyncio.sleep(0.02)  # what was to come has come
                assert informer.statistics().pending == {}

            yield {"comes": comes, "goes": goes}[what], nobody_listens

    await cancel_everywhere(setting, how, at_least=2)


async def test_recording_events(server: APIServer, how: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        async with warm(server) as client:

            async def use() -> None:
                async with EventRecorder(client, controller="test.example.com") as events:
                    events.record(config_map("a"), "Hello")
                    await asyncio.sleep(0)
                    events.record(config_map("a"), "Hello")
                figures = events.statistics()
                assert figures.sent + figures.dropped + figures.folded >= 2

            yield use, no_check

    await cancel_everywhere(setting, how)


@pytest.mark.parametrize("what", ["finalizer", "status", "apply"])
async def test_helpers_that_write(server: APIServer, how: str, what: str) -> None:
    @asynccontextmanager
    async def setting() -> AsyncIterator[Any]:
        obj = KubeObject.from_dict(server.create(POD))
        async with warm(server) as client:
            informer = SharedInformer(MemorySource())
            applier = Applier(client, MAPS, informer, field_manager="test")
            wanted = {**config_map("applied"), "data": {"k": "v"}}

            async def finalizer() -> None:
                tool = Finalizer(client, "v1/pods", "example.com/x")
                await tool.remove(await tool.add(obj))

            async def status() -> None:
                await write_status(client, "v1/pods", obj, {"phase": "Running"})

            async def apply() -> None:
                await applier.apply(wanted)
                await applier.apply(wanted)

            async def is_done_when_repeated(cancelled: bool) -> None:
                if what == "apply":
                    applied = await applier.apply(wanted)
                    assert applied["data"] == {"k": "v"}

            try:
                yield {"finalizer": finalizer, "status": status, "apply": apply}[what], is_done_when_repeated
            finally:
                current = server.get("v1/pods", "default", "p")
                server.update({**current, "metadata": {**current["metadata"], "finalizers": []}})
                server.delete("v1/pods", "default", "p")

    await cancel_everywhere(setting, how)
