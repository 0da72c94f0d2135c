"""The spawner in examples/spawner: reads by key and waits, on caches that all spawners share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kinformer import ForbiddenError
from kinformer.testing import APIServer
from tests.examples.example_program import imported
from tests.support.waiting import until

PODS = "v1/pods"


@pytest.fixture
def module(server: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
    return imported("spawner/spawner.py", monkeypatch)


@pytest_asyncio.fixture
async def reflectors(module: Any) -> AsyncIterator[Any]:
    reflectors = module.Reflectors()
    yield reflectors
    await reflectors.close()


@pytest.fixture
def spawner(module: Any, reflectors: Any) -> Any:
    return module.Spawner(reflectors, "default", "ada", image="notebook:1")


def become(server: APIServer, phase: str, **status: Any) -> None:
    found = server.get(PODS, "default", "notebook-ada")
    assert found is not None
    server.update({**found, "status": {"phase": phase, **status}})


async def started(server: APIServer, spawner: Any) -> str:
    starting = asyncio.create_task(spawner.start())
    await until(lambda: server.get(PODS, "default", "notebook-ada"))
    become(server, "Running", podIP="10.0.0.7", conditions=[{"type": "Ready", "status": "True"}])
    return await starting  # type: ignore[no-any-return]


def say(server: APIServer, message: str, time: str) -> None:
    pod = server.get(PODS, "default", "notebook-ada")
    assert pod is not None
    about = {"kind": "Pod", "namespace": "default", "name": "notebook-ada", "uid": pod["metadata"]["uid"]}
    metadata = {"name": f"notebook-ada.{time}".replace(":", "-").lower(), "namespace": "default"}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about}
    server.create({**event, "message": message, "reason": "Pulling", "type": "Normal", "lastTimestamp": time})


async def test_a_server_starts_is_polled_from_memory_and_stops(server: APIServer, spawner: Any) -> None:
    assert await spawner.poll() == 0
    assert await started(server, spawner) == "http://10.0.0.7:8888"
    asked = len(server.requests)
    assert [await spawner.poll() for _ in range(100)] == [None] * 100
    assert len(server.requests) == asked
    become(server, "Failed", containerStatuses=[{"name": "notebook", "state": {"terminated": {"exitCode": 137}}}])
    await until(spawner.poll, holds=lambda status: status == 137)
    await spawner.stop()
    assert await spawner.poll() == 0
    assert server.get(PODS, "default", "notebook-ada") is None


async def test_a_server_that_ends_before_it_answers_is_an_error_with_its_events(
    server: APIServer, spawner: Any, reflectors: Any
) -> None:
    starting = asyncio.create_task(spawner.start())
    await until(lambda: server.get(PODS, "default", "notebook-ada"))
    say(server, "Failed to pull image", "2026-01-01T00:00:02Z")
    say(server, "Pulling image", "2026-01-01T00:00:01Z")
    await until(lambda: reflectors.events("default"), holds=lambda events: len(events.lister) == 2)
    become(server, "Failed")
    with pytest.raises(RuntimeError, match="did not start: Pulling image; Failed to pull image"):
        await starting


async def test_a_server_that_does_not_answer_in_time_is_an_error_that_says_how_it_is(
    server: APIServer, module: Any, reflectors: Any
) -> None:
    spawner = module.Spawner(reflectors, "default", "ada", image="notebook:1", start_timeout=0.2)
    with pytest.raises(TimeoutError, match="default/notebook-ada"):
        await spawner.start()


async def test_a_pod_of_an_earlier_hub_is_replaced(server: APIServer, spawner: Any) -> None:
    await started(server, spawner)
    first = server.get(PODS, "default", "notebook-ada")
    starting = asyncio.create_task(spawner.start())
    uid = first["metadata"]["uid"] if first else ""
    await until(lambda: (server.get(PODS, "default", "notebook-ada") or first)["metadata"]["uid"] != uid)
    become(server, "Running", podIP="10.0.0.8", conditions=[{"type": "Ready", "status": "True"}])
    assert await starting == "http://10.0.0.8:8888"


async def test_progress_has_the_events_that_exist_and_those_that_come(server: APIServer, spawner: Any) -> None:
    await started(server, spawner)
    say(server, "Pulling image", "2026-01-01T00:00:01Z")
    pod = server.get(PODS, "default", "notebook-ada")
    assert pod is not None
    progress = spawner.progress(pod["metadata"]["uid"])
    assert await anext(progress) == "Pulling image"
    say(server, "Started container", "2026-01-01T00:00:02Z")
    assert await anext(progress) == "Started container"
    await progress.aclose()


async def test_all_spawners_share_one_watch(server: APIServer, module: Any, reflectors: Any) -> None:
    names = [f"user-{number}" for number in range(20)]
    spawners = [module.Spawner(reflectors, "default", name, image="i") for name in names]
    assert await asyncio.gather(*(spawner.poll() for spawner in spawners)) == [0] * 20
    assert sum("watch" in request.params for request in server.requests) == 1


@pytest.mark.slow
async def test_a_stop_that_the_cache_missed_is_noticed(server: APIServer, spawner: Any) -> None:
    await started(server, spawner)
    away = asyncio.create_task(server.restart(0.3))
    await asyncio.sleep(0.1)
    server.delete(PODS, "default", "notebook-ada")
    await server.compact()
    assert await spawner.poll() is None  # the last state that is known
    await away
    await until(spawner.poll, 20, holds=lambda status: status == 0)


async def test_a_hub_that_cancels_all_its_tasks_leaves_no_connection_open(
    server: APIServer, module: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reflectors = module.Reflectors()
    await reflectors.pods("default")
    tasks = [task for task in asyncio.all_tasks() if task.get_name() == "kinformer background"]
    for task in tasks:
        task.cancel()
    assert tasks
    await asyncio.wait(tasks)
    assert "Unclosed" not in caplog.text


async def test_a_missing_right_is_an_error_at_the_first_use(
    module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with APIServer(users={"t0ken": "hub"}, rules=[]) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig-hub", "hub")))
        reflectors = module.Reflectors()
        with pytest.raises(ForbiddenError, match='User "hub" cannot'):
            await module.Spawner(reflectors, "default", "ada", image="i").poll()
        await reflectors.close()
