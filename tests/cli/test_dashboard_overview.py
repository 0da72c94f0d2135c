"""The dashboard's pages over all resources: what is wrong right now, and what has changed.

Without chromium and playwright the tests of the page are skipped, and say so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from kinformer.testing import APIServer, faults
from tests.cli.dashboard_page import serving_dashboard
from tests.support import kube
from tests.support.waiting import until

RESOURCES = ("v1/pods", "v1/nodes", "apps/v1/deployments", "apps/v1/replicasets")


def node(name: str, ready: str = "True") -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def owned_by(owner: dict[str, Any]) -> list[dict[str, Any]]:
    found = {key: owner[key] for key in ("apiVersion", "kind")}
    return [{**found, **{key: owner["metadata"][key] for key in ("name", "uid")}, "controller": True}]


def workload(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def crashing(name: str, **metadata: Any) -> dict[str, Any]:
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:00Z"}}
    container = {"name": "main", "ready": False, "restartCount": 9, "state": state, "lastState": last}
    return kube.pod(name, node="node-a", status={"phase": "Running", "containerStatuses": [container]}, **metadata)


def create_web(server: APIServer) -> None:
    """A deployment `web` with two pods that crash."""
    deployment = server.create(workload("Deployment", "web"))
    replicas = server.create(workload("ReplicaSet", "web-7f", ownerReferences=owned_by(deployment)))
    for name in ("web-7f-a", "web-7f-b"):
        server.create(crashing(name, ownerReferences=owned_by(replicas)))


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [node("node-a"), kube.pod("fine", node="node-a")]


@asynccontextmanager
async def asking(server: APIServer, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving_dashboard(server, RESOURCES, **options) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


async def ask(client: httpx.AsyncClient, path: str, **params: Any) -> Any:
    answer = await client.get(f"/api/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


# --- problems -----------------------------------------------------------------------------------------------------


async def test_a_problem_names_its_owner_and_where_both_are_opened(server: APIServer) -> None:
    create_web(server)
    async with asking(server, problems=True) as client:
        found = await until(lambda: ask(client, "problems"), holds=lambda found: found["items"])
        (one,) = found["items"]
        assert (one["rule"], one["severity"], one["count"]) == ("crashes", "error", 2)
        assert one["owner"]["resource"] == "apps/v1/deployments"
        assert one["owner"]["key"] == "default/web"
        assert (one["resource"], one["key"].startswith("default/web-7f-")) == ("v1/pods", True)
        report = (await ask(client, "report"))["problems"]
        assert (report["counts"], report["synced"], report["unread"]) == ({"error": 1}, True, {})


async def test_a_report_has_a_version_that_changes_with_the_problems(server: APIServer) -> None:
    async with asking(server, problems=True) as client:

        async def report() -> Any:
            return (await ask(client, "report"))["problems"]

        before = await until(report, holds=lambda found: found["synced"])
        assert before["counts"] == {}
        server.update(node("node-a", ready="False"))
        after = await until(report, holds=lambda found: found["counts"] == {"critical": 1})
        assert after["version"] > before["version"]


async def test_a_resource_that_cannot_be_read_is_named(server: APIServer) -> None:
    server.faults.add(faults.status(403), resource="v1/persistentvolumes")
    create_web(server)
    async with asking(server, problems=True) as client:

        async def report() -> Any:
            return (await ask(client, "report"))["problems"]

        found = await until(report, holds=lambda found: found["synced"] and found["unread"])
        assert list(found["unread"]) == ["v1/persistentvolumes"]
        assert "403" in found["unread"]["v1/persistentvolumes"]
        assert found["counts"]["error"] == 1, "the others are shown"


async def test_a_service_has_no_problems_to_show(server: APIServer) -> None:
    async with asking(server) as client:
        assert (await ask(client, "report"))["problems"] is None
        assert (await client.get("/api/problems")).status_code == 404


# --- changes ------------------------------------------------------------------------------------------------------


async def test_the_timeline_has_the_changes_of_all_resources_since_a_number(server: APIServer) -> None:
    async with asking(server) as client:
        began = await ask(client, "timeline")
        assert began["items"] == []
        await until(lambda: ask(client, "report"), holds=lambda report: all(one["live"] for one in report["resources"]))
        server.update(node("node-a", ready="False"))
        server.update(kube.pod("fine", node="node-a", phase="Failed"))

        async def items(after: int = 0) -> Any:
            return (await ask(client, "timeline", after=after))["items"]

        first, second = await until(items, holds=lambda found: len(found) == 2)
        by_kind = {one["kind"]: one for one in (first, second)}
        assert by_kind["Node"]["resource"] == "v1/nodes"
        assert (by_kind["Pod"]["namespace"], by_kind["Pod"]["name"]) == ("default", "fine")
        assert by_kind["Pod"]["type"] == "changed"
        assert await items(after=first["number"]) == [second]
        assert (await ask(client, "timeline", after=second["number"]))["last"] == second["number"]
        change = await ask(client, "change", number=by_kind["Pod"]["number"])
        assert {"path": "status.phase", "old": "Running", "new": "Failed"} in change["differences"]
        assert (await client.get("/api/change", params={"number": 99})).status_code == 404


async def test_noise_is_in_the_timeline_only_on_request(server: APIServer) -> None:
    async with asking(server) as client:
        await until(lambda: ask(client, "report"), holds=lambda report: all(one["live"] for one in report["resources"]))
        beat = node("node-a")
        beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:05:00Z"
        server.update(beat)
        found = await until(
            lambda: ask(client, "timeline", noise=True), holds=lambda found: found["items"]
        )
        assert found["items"][0]["noise"] is True
        assert (await ask(client, "timeline"))["items"] == []


async def test_a_deleted_object_has_owners_as_long_as_its_changes_are_kept(server: APIServer) -> None:
    create_web(server)
    async with asking(server) as client:
        await until(lambda: ask(client, "report"), holds=lambda report: all(one["live"] for one in report["resources"]))
        server.delete("v1/pods", "default", "web-7f-a")
        await until(lambda: ask(client, "timeline"), holds=lambda found: found["items"])
        groups = await ask(client, "relations", resource="v1/pods", key="default/web-7f-a")
        assert [one["name"] for one in groups[0]["items"]] == ["web-7f", "web"]
