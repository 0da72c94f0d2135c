"""The dashboard's API from one object to the next: relations, Events, resources that a page opens, troubles, ages.

Internals: the rows, since a server takes no time of a test for its objects.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from kinformer import KubeObject
from kinformer.cli.dashboard.view.rows import row_of
from kinformer.testing import APIServer, faults
from tests.cli.dashboard_page import serving_dashboard
from tests.support.kube import pod
from tests.support.waiting import until
from tests.support.web_server import reading


@asynccontextmanager
async def asking(server: APIServer, *resources: str, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving_dashboard(server, resources or ("v1/pods", "v1/nodes"), **options) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


async def ask(client: httpx.AsyncClient, path: str, **params: str) -> Any:
    answer = await client.get(f"/api/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def references(groups: list[Any]) -> dict[str, list[tuple[str, str, int]]]:
    return {group["title"]: [(one["resource"], one["key"], one["depth"]) for one in group["items"]] for group in groups}


def owner(document: dict[str, Any]) -> list[dict[str, Any]]:
    found = {key: document[key] for key in ("apiVersion", "kind")}
    return [{**found, **{key: document["metadata"][key] for key in ("name", "uid")}, "controller": True}]


@pytest.fixture
def web(server: APIServer) -> dict[str, Any]:
    """A deployment `web`, its replica set `web-7f`, and the pods of that, `a` and `b`, on node-a."""
    server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    common = {"apiVersion": "apps/v1", "spec": spec}
    metadata = {"name": "web", "namespace": "default"}
    deployment: dict[str, Any] = server.create({**common, "kind": "Deployment", "metadata": metadata})
    metadata = {"name": "web-7f", "namespace": "default", "labels": {"app": "web"}}
    replicas = server.create(
        {**common, "kind": "ReplicaSet", "metadata": {**metadata, "ownerReferences": owner(deployment)}}
    )
    for name in "ab":
        document = pod(name, node="node-a")
        document["metadata"]["ownerReferences"] = owner(replicas)
        server.create(document)
    return deployment


async def test_relations_are_owners_owned_node_and_pods(server: APIServer, web: dict[str, Any]) -> None:
    replica_sets = ("apps/v1/replicasets", "default/web-7f")
    async with asking(server, "v1/pods", "v1/nodes", "apps/v1/deployments", "apps/v1/replicasets") as client:

        async def relations(resource: str, key: str) -> dict[str, list[tuple[str, str, int]]]:
            return references(await ask(client, "relations", resource=resource, key=key))

        await until(lambda: ask(client, "report"), holds=lambda report: all(one["live"] for one in report["resources"]))
        owned = [(*replica_sets, 0), ("v1/pods", "default/a", 1), ("v1/pods", "default/b", 1)]
        deployment = ("apps/v1/deployments", "default/web")
        assert await relations(*deployment) == {"Owned": owned}
        assert await relations("v1/pods", "default/a") == {
            "Owners": [(*replica_sets, 0), (*deployment, 1)],
            "Node": [("v1/nodes", "node-a", 0)],
        }
        assert await relations("v1/nodes", "node-a") == {
            "Pods": [("v1/pods", "default/a", 0), ("v1/pods", "default/b", 0)]
        }
        assert (await client.get("/api/relations", params={"resource": "v1/nodes", "key": "no"})).status_code == 404


async def test_an_owner_has_a_resource_only_if_the_page_can_open_it(server: APIServer, web: dict[str, Any]) -> None:
    for picks, resource in ((False, None), (True, "apps/v1/replicasets")):
        async with asking(server, picks=picks) as client:
            groups = await until(
                lambda client=client: client.get("/api/relations", params={"resource": "v1/pods", "key": "default/a"}),
                holds=lambda answer: answer.status_code == 200,
            )
            assert references(groups.json())["Owners"] == [(resource, "default/web-7f", 0)]


async def test_events_of_an_object_come_newest_first_and_not_from_its_namesake(server: APIServer) -> None:
    made = server.create(pod("web"))["metadata"]

    def event(name: str, uid: str, last: str) -> None:
        about = {"kind": "Pod", "namespace": "default", "name": "web", "uid": uid}
        metadata = {"name": name, "namespace": "default"}
        times = {"firstTimestamp": last, "lastTimestamp": last, "reason": name, "message": "m", "count": 2}
        server.create({"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about, **times})

    event("older", made["uid"], "2026-01-01T10:00:00Z")
    event("newer", made["uid"], "2026-01-01T11:00:00Z")
    event("namesake", "another", "2026-01-01T12:00:00Z")
    async with asking(server, picks=True) as client:

        async def found() -> Any:
            return await ask(client, "occurrences", resource="v1/pods", key="default/web")

        answer = await until(found, holds=lambda answer: answer["synced"] and len(answer["items"]) == 2)
        assert [(one["reason"], one["count"]) for one in answer["items"]] == [("newer", 2), ("older", 2)]


async def test_a_resource_is_followed_when_it_is_asked_for_and_its_rows_come_by_the_open_stream(
    server: APIServer,
) -> None:
    metadata = {"name": "settings", "namespace": "default"}
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
    async with asking(server, picks=True) as client:
        offered = {one["name"]: one["followed"] for one in await ask(client, "resources")}
        assert offered["v1/pods"]
        assert not offered["v1/configmaps"]
        assert "v1/bindings" not in offered, "what cannot be listed is not offered"
        url = f"{client.base_url}/api/events".replace("//api", "/api")
        async with reading(url, view="table", resource="v1/configmaps") as stream:
            assert await ask(client, "follow", resource="cm") == {"resource": "v1/configmaps"}
            while (event := await stream.next()).type != "TABLE" or not event.data.get("keys"):
                pass
            assert event.data["keys"] == ["default/settings"]
            server.delete("v1/configmaps", "default", "settings")
            while (event := await stream.next()).type != "TABLE":
                pass
            assert (event.data["keys"], event.data["gone"]) == ([], ["default/settings"])
            changes = await ask(client, "changes", resource="v1/configmaps", key="default/settings")
            assert [change["type"] for change in changes] == ["DELETED"]
        assert (await client.get("/api/follow", params={"resource": "things"})).status_code == 404


async def test_secrets_that_a_page_opens_are_hidden(server: APIServer) -> None:
    metadata = {"name": "db", "namespace": "default"}
    server.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": "hunter2"}})
    async with asking(server, picks=True) as client:
        await ask(client, "follow", resource="secrets")
        query = {"resource": "v1/secrets", "key": "default/db"}
        answer = await until(
            lambda: client.get("/api/object", params=query), holds=lambda answer: answer.status_code == 200
        )
        assert answer.json()["data"] == {"password": "(hidden)"}


@pytest.mark.parametrize("path", ["follow", "occurrences"])
async def test_a_link_elsewhere_makes_the_server_follow_nothing(server: APIServer, path: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    async with asking(server, picks=True) as client:
        query = {"resource": "v1/secrets" if path == "follow" else "v1/pods", "key": "default/web"}
        answer = await client.get(f"/api/{path}", params=query, headers=headers)
        assert answer.status_code == 403
        assert [one["name"] for one in (await ask(client, "report"))["resources"]] == ["v1/pods", "v1/nodes"]


async def test_a_service_offers_only_what_it_follows(server: APIServer) -> None:
    async with asking(server) as client:
        assert await ask(client, "resources") == []
        answer = await client.get("/api/follow", params={"resource": "v1/secrets"})
        assert answer.status_code == 404
        assert "v1/secrets is not followed by this service" in answer.json()["detail"]


@pytest.mark.slow
async def test_an_outage_is_one_trouble_with_its_reason_and_its_beginning(server: APIServer) -> None:
    async with asking(server) as client:

        async def troubles() -> Any:
            return (await ask(client, "report"))["troubles"]

        await until(troubles, holds=lambda found: found == [])
        await until(lambda: ask(client, "report"), holds=lambda report: all(one["live"] for one in report["resources"]))
        began = time.time()
        restarting = asyncio.create_task(server.restart(downtime=2.5))

        def is_one(found: Any) -> bool:
            return len(found) == 1 and len(found[0]["resources"]) == 2 and found[0]["reason"] == "connection refused"

        (one,) = await until(troubles, holds=is_one)
        assert one["cause"] == "unreachable"
        assert one["synced"] is True
        assert began - 0.1 <= one["since"] <= time.time()
        await asyncio.sleep(1.0)
        assert (await troubles())[0]["since"] == one["since"], "it does not begin anew with each try"
        await restarting
        await until(troubles, holds=lambda found: found == [])


async def test_a_right_that_is_withdrawn_is_a_trouble_and_one_that_never_was_is_not(server: APIServer) -> None:
    server.faults.add(faults.status(403), resource="v1/pods")
    async with asking(server, "v1/pods", "v1/nodes") as client:

        async def report() -> Any:
            return await ask(client, "report")

        def is_live(found: Any) -> bool:
            return bool(found["withheld"]["items"]) and found["resources"][1]["live"]

        found = await until(report, holds=is_live)
        assert found["withheld"]["words"] == "1 of 2 resources is not yours to read"
        assert found["troubles"] == []
        server.faults.add(faults.status(403), resource="v1/nodes")
        await server.restart()

        def is_forbidden(found: Any) -> bool:
            return [one["cause"] for one in found["troubles"]] == ["forbidden"]

        (one,) = (await until(report, holds=is_forbidden))["troubles"]
        assert (one["resources"], one["synced"]) == (["v1/nodes"], True)


@pytest.mark.parametrize(
    ("document", "cell"),
    [
        (
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "status": {"lastScheduleTime": "2026-01-01T00:00:00Z"},
                "spec": {},
            },
            ["", 1767225600.0, ""],
        ),
        (
            {"apiVersion": "v1", "kind": "Event", "lastTimestamp": "2026-01-01T00:00:00Z"},
            ["", 1767225600.0, ""],
        ),
        (
            {"apiVersion": "batch/v1", "kind": "Job", "status": {"startTime": "2026-01-01T00:00:00Z"}},
            ["", 1767225600.0, ""],
        ),
        (
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "status": {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:30Z"},
            },
            "30s",
        ),
    ],
)
def test_an_age_inside_a_cell_is_a_moment_that_the_page_counts_from(document: dict[str, Any], cell: Any) -> None:
    named = {**document, "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"}}
    row = json.loads(row_of(KubeObject.from_dict(named)).shown())
    assert cell in row["c"]
