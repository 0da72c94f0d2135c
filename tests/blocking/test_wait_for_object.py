"""`informers.wait_for`: one object, from a program without a loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from kinformer import KubeObject, blocking
from kinformer.conditions import is_pod_running
from kinformer.exceptions import DeletedError
from kinformer.testing import APIServer
from tests.support.kube import pod
from tests.support.waiting import until


async def watched(server: APIServer) -> None:
    await until(lambda: any("watch" in request.params for request in server.requests))


async def test_a_blocking_program_waits_for_one_object(server: APIServer) -> None:
    server.create(pod("web-1", phase="Pending"))

    def program() -> KubeObject | None:
        with blocking.Informers(url=server.url) as informers:
            return informers.wait_for("v1/pods", "default/web-1", is_pod_running, timeout=20)

    waiting = asyncio.ensure_future(asyncio.to_thread(program))
    await watched(server)
    server.update(server.get("v1/pods", "default", "web-1") | {"status": {"phase": "Running"}})
    found = await waiting
    assert found is not None
    assert found.path("status.phase") == "Running"


@pytest.mark.slow
async def test_the_errors_are_those_of_the_client(server: APIServer) -> None:
    server.create(pod("web-1", phase="Pending"))
    ended: Future[str] = Future()

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            with pytest.raises(TimeoutError, match=r"no is_pod_running within 2 s; it is Pending"):
                informers.wait_for("v1/pods", "default/web-1", is_pod_running, timeout=2)
            with pytest.raises(ValueError, match="has no namespace"):
                informers.wait_for("v1/pods", "web-1", is_pod_running)
            ended.set_result("soon")
            with pytest.raises(DeletedError, match="was deleted"):
                informers.wait_for("v1/pods", "default/web-1", is_pod_running, timeout=20)

    waiting = asyncio.ensure_future(asyncio.to_thread(program))
    await asyncio.wrap_future(ended)
    before = len(server.requests)
    await until(lambda: any("watch" in request.params for request in server.requests[before:]))
    server.delete("v1/pods", "default", "web-1")
    await waiting
