"""Waiting for one object by a list and a watch of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, ConfigError, ForbiddenError, KubeObject, NotFoundError
from kinformer.conditions import has_condition, is_deleted, is_pod_ready, is_pod_running, matches
from kinformer.exceptions import DeletedError
from kinformer.testing import APIServer, faults
from tests.support.fault_scene import HANG, Reply, listed
from tests.support.http_server import HttpServer, line, status_answer
from tests.support.kube import config_map, pod

pytestmark = pytest.mark.virtual_time

KEY = "default/web-1"


@pytest.fixture
def initial_objects() -> Iterable[Mapping[str, Any]]:
    return [pod("web-1", phase="Pending"), pod("web-2"), pod("web-1", namespace="other")]


def become(server: APIServer, phase: str, *, ready: bool = False) -> None:
    document = server.get("v1/pods", "default", "web-1")
    condition = {"type": "Ready", "status": str(ready), "reason": "ContainersNotReady"}
    document["status"] = {"phase": phase, "conditions": [condition]}
    server.update(document)


@asynccontextmanager
async def waiting(client: Client, *arguments: Any, **options: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """A wait that has made its list, and watches."""
    task = asyncio.ensure_future(client.wait_for("v1/pods", *arguments, **options))
    await asyncio.sleep(1)
    assert not task.done()
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def reflectors() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if "reflector" in task.get_name()]


def asked(server: APIServer) -> list[dict[str, str]]:
    return [dict(request.params) for request in server.requests if request.path.endswith("/pods")]


async def test_what_is_so_already_is_returned_at_once(server: APIServer, client: Client) -> None:
    become(server, "Running", ready=True)
    found = await client.wait_for("v1/pods", KEY, is_pod_ready, timeout=5)
    assert found is not None
    assert (found.key, found.path("status.phase")) == (KEY, "Running")


async def test_one_object_is_asked_for_and_its_newest_state_alone(server: APIServer, client: Client) -> None:
    become(server, "Running", ready=True)
    await client.wait_for("v1/pods", KEY, is_pod_ready, timeout=5)
    requests = asked(server)
    assert requests
    for params in requests:
        assert params["fieldSelector"] == "metadata.name=web-1"
        assert "resourceVersion" not in params  # "0" would be what some cache has: an answer of before the last write
    assert {request.path for request in server.requests if "pods" in request.path} == {
        "/api/v1/namespaces/default/pods"
    }


async def test_each_state_is_shown_to_the_condition_in_order(server: APIServer, client: Client) -> None:
    seen: list[str | None] = []

    def is_done(obj: KubeObject | None) -> bool:
        seen.append(None if obj is None else obj.path("status.phase"))
        return seen[-1] == "Succeeded"

    async with waiting(client, KEY, is_done, timeout=30) as task:
        for phase in ("Running", "Unknown", "Running", "Succeeded", "Failed"):
            become(server, phase)
        found = await task
    assert seen == ["Pending", "Running", "Unknown", "Running", "Succeeded"]
    assert found.path("status.phase") == "Succeeded"


async def test_an_object_that_does_not_exist_yet_is_waited_for(server: APIServer, client: Client) -> None:
    async with waiting(client, "default/new", is_pod_running) as task:
        server.create(pod("new"))
        assert (await task).name == "new"


async def test_the_absence_of_an_object_can_be_waited_for(server: APIServer, client: Client) -> None:
    uid = server.get("v1/pods", "default", "web-1")["metadata"]["uid"]
    async with waiting(client, KEY, is_deleted(uid), timeout=30) as task:
        server.delete("v1/pods", "default", "web-1")
        assert await task is None
    assert await client.wait_for("v1/pods", KEY, is_deleted(uid), timeout=5) is None
    server.create(pod("web-1"))
    another = await client.wait_for("v1/pods", KEY, is_deleted(uid), timeout=5)
    assert another is not None


async def test_a_delete_is_an_error_that_says_how_the_object_was(server: APIServer, client: Client) -> None:
    become(server, "Pending")
    async with waiting(client, KEY, is_pod_ready, timeout=30) as task:
        server.delete("v1/pods", "default", "web-1")
        with pytest.raises(DeletedError, match=r"v1/pods default/web-1 was deleted during.*is Pending \(0/1 ") as e:
            await task
    assert e.value.object.path("status.phase") == "Pending"


async def test_a_delete_can_be_waited_through(server: APIServer, client: Client) -> None:
    async with waiting(client, KEY, is_pod_running, timeout=30, allow_recreate=True) as task:
        server.delete("v1/pods", "default", "web-1")
        await asyncio.sleep(1)
        server.create(pod("web-1"))
        assert (await task).path("status.phase") == "Running"
    async with waiting(client, KEY, is_pod_ready, timeout=3, allow_recreate=True) as task:
        server.delete("v1/pods", "default", "web-1")
        with pytest.raises(TimeoutError, match=r"is_pod_ready within 3 s; it was deleted; its last state is Run"):
            await task


async def test_a_delete_and_a_recreation_that_a_relist_finds_are_a_delete(server: APIServer, client: Client) -> None:
    async with waiting(client, KEY, is_pod_running, timeout=300) as task:
        server.pause()
        server.delete("v1/pods", "default", "web-1")
        server.create(pod("web-1"))
        await server.compact()
        await server.restart(downtime=3)
        server.resume()
        with pytest.raises(DeletedError):
            await task


async def test_a_timeout_says_how_the_object_is(server: APIServer, client: Client) -> None:
    become(server, "Pending")
    with pytest.raises(TimeoutError) as raised:
        await client.wait_for("v1/pods", KEY, is_pod_ready, timeout=5)
    version = server.get("v1/pods", "default", "web-1")["metadata"]["resourceVersion"]
    assert str(raised.value) == (
        "v1/pods default/web-1: no is_pod_ready within 5 s; it is Pending (0/1 containers ready), "
        f"Ready=False (ContainersNotReady), at resourceVersion {version}"
    )
    with pytest.raises(TimeoutError, match=r"default/none: no condition Ready within 5 s; it is absent$"):
        await client.wait_for("v1/pods", "default/none", has_condition("Ready"), timeout=5)
    with pytest.raises(TimeoutError, match=r"no spec\.nodeName=node-1 within 5 s; it is Pending"):
        await client.wait_for("v1/pods", KEY, matches("spec.nodeName", "node-1"), timeout=5)


async def test_a_timeout_while_nothing_is_answered_names_the_error(server: APIServer, client: Client) -> None:
    server.faults.add(faults.status(500), resource="v1/pods")
    with pytest.raises(TimeoutError, match=r"within 9 s; it was never seen, because no list has succeeded; 500"):
        await client.wait_for("v1/pods", KEY, is_pod_ready, timeout=9)


async def test_a_refusal_is_raised_as_what_it_is_and_says_how_the_object_was() -> None:
    rules = [("eve", "list", "v1/pods"), ("eve", "watch", "v1/pods"), ("bob", "list", "v1/configmaps")]
    async with APIServer(users={"e": "eve", "b": "bob"}, rules=rules) as server:
        server.create(pod("web-1", phase="Pending"))
        async with server.client("bob") as client:
            with pytest.raises(ForbiddenError, match=r"cannot .* resource.*web-1: it was never seen"):
                await client.wait_for("v1/pods", KEY, is_pod_running, timeout=60)
        async with server.client("eve") as client, waiting(client, KEY, is_pod_running, timeout=600) as task:
            server.faults.add(faults.status(403), resource="v1/pods")
            await server.restart(downtime=1)
            with pytest.raises(ForbiddenError, match=r"v1/pods default/web-1: it is Pending \(0/1 containers ready\)"):
                await task


async def test_one_refusal_may_be_a_token_that_is_being_renewed(server: APIServer, client: Client) -> None:
    become(server, "Running")
    server.faults.add(faults.status(401), resource="v1/pods", times=1)
    assert await client.wait_for("v1/pods", KEY, is_pod_running, timeout=60) is not None


async def test_a_resource_that_does_not_exist_is_an_error(client: Client) -> None:
    with pytest.raises(NotFoundError, match="nearest is v1/pods"):
        await client.wait_for("v1/pod", KEY, is_pod_running, timeout=60)


@pytest.mark.parametrize("fault", ["restart", "410", "cut", "half-open"])
async def test_it_survives_what_an_informer_survives(server: APIServer, client: Client, fault: str) -> None:
    async with waiting(client, KEY, is_pod_ready, timeout=3600) as task:
        if fault == "410":
            await server.compact()
        elif fault == "cut":
            server.faults.add(faults.reset(), verb="watch", times=3)
            become(server, "Running")
        elif fault == "half-open":
            server.pause()
            become(server, "Running", ready=True)
            await asyncio.sleep(200)
            server.resume()
        if fault != "half-open":
            await server.restart(downtime=20)
        become(server, "Running", ready=True)
        assert is_pod_ready(await task)


async def test_an_answer_of_a_condition_that_is_missed_in_a_gap_is_found_by_the_next_list(
    server: APIServer, client: Client
) -> None:
    async with waiting(client, KEY, is_pod_ready, timeout=3600) as task:
        server.pause()
        become(server, "Running", ready=True)
        await server.compact()
        await server.restart(downtime=5)
        server.resume()
        assert is_pod_ready(await task)


async def test_a_wait_that_is_cancelled_leaves_nothing_behind(server: APIServer, client: Client) -> None:
    async with waiting(client, KEY, is_pod_ready) as task:
        assert reflectors()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not reflectors()
    with pytest.raises(TimeoutError, match=r"^$"):  # not the wait's own
        await asyncio.wait_for(client.wait_for("v1/pods", KEY, is_pod_ready, timeout=60), 2)
    assert not reflectors()


async def test_what_a_condition_raises_comes_out(client: Client) -> None:
    def condition(obj: KubeObject | None) -> bool:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match=r"^of its own$"):
        await client.wait_for("v1/pods", KEY, condition, timeout=60)


@pytest.mark.parametrize("path", ["list", "watch"])
async def test_a_state_that_cannot_be_decoded_is_no_delete(path: str) -> None:
    bad = config_map("a", rv=8) | {"metadata": {"name": "a", "namespace": "default", "labels": {"a": 7}}}
    bad["metadata"]["resourceVersion"] = "8"
    first = listed(bad, rv=8) if path == "list" else listed(config_map("a", rv=7, uid="uid-a"), rv=7)

    async def answer(request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/configmaps") or "sendInitialEvents" in request.query:
            return status_answer(422, "Invalid")
        if "watch" in request.query:
            return await Reply([line("MODIFIED", bad), HANG] if path == "watch" else [HANG]).give(request)
        return await first.give(request)

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        with pytest.raises(TimeoutError, match="its state at resourceVersion 8 cannot be decoded"):
            await client.wait_for("v1/configmaps", "default/a", is_deleted("uid-a"), timeout=30)


async def test_a_key_that_cannot_be_one_is_named_at_once(server: APIServer, client: Client) -> None:
    with pytest.raises(ValueError, match=r"'web-1' has no namespace, but v1/pods is namespaced"):
        await client.wait_for("v1/pods", "web-1", is_pod_ready)
    with pytest.raises(ValueError, match="more than one slash"):
        await client.wait_for("v1/pods", "v1/pods/web-1", is_pod_ready)
    with pytest.raises(ValueError, match="has no name"):
        await client.wait_for("v1/pods", "default/", is_pod_ready)
    with pytest.raises(ConfigError):
        await client.wait_for("pods", KEY, is_pod_ready)
    assert not asked(server)


async def test_a_condition_that_is_asynchronous_is_refused(client: Client) -> None:
    async def condition(obj: KubeObject | None) -> bool:
        return True

    with pytest.raises(TypeError, match="pass a plain function"):
        await client.wait_for("v1/pods", KEY, condition)
    with pytest.raises(TypeError, match="is asynchronous"):
        await client.wait_for("v1/pods", KEY, lambda obj: condition(obj))


async def test_an_object_without_a_namespace_has_a_key_without_one(server: APIServer, client: Client) -> None:
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}})
    found = await client.wait_for("v1/namespaces", "new", matches("status.phase", "Active"), timeout=10)
    assert found is not None
    with pytest.raises(ValueError, match=r"'default/new' has a namespace, but v1/namespaces is cluster-scoped"):
        await client.wait_for("v1/namespaces", "default/new", matches("status.phase", "Active"))


async def test_a_server_that_ignores_the_selector_confuses_nothing(client: Client, server: APIServer) -> None:
    server.create(config_map("a", data={"x": "1"}))
    found = await client.wait_for("v1/configmaps", "default/a", matches("data.x", "1"), timeout=10)
    assert found is not None
    assert found.name == "a"
