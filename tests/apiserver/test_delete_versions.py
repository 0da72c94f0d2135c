"""The resourceVersion in the Status of a DELETE, an eviction and a binding, behind a switch of the embedded server."""

from __future__ import annotations

from typing import Any

import pytest

from kinformer.testing import APIServer, Features
from tests.support.apiserver_http import send, watch
from tests.support.kube import config_map, pod

CORE = "/api/v1/namespaces/default"


async def written(server: APIServer) -> list[tuple[Any, str]]:
    """Return the metadata of each Status, and the version of the event that followed."""
    server.create(config_map("a"))
    for name in ("p", "q"):
        server.create(pod(name, phase=None))
    found = []
    for resource, method, path, body in (
        ("configmaps", "DELETE", "configmaps/a", None),
        (
            "pods",
            "POST",
            "pods/p/binding",
            {"kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "node-1"}},
        ),
        ("pods", "POST", "pods/q/eviction", {"kind": "Eviction", "metadata": {"name": "q"}}),
    ):
        stream = await watch(server.url, f"{CORE}/{resource}?watch=1&resourceVersion={server.resource_version}")
        kind = {"Binding": "v1", "Eviction": "policy/v1"}
        body = body and {"apiVersion": kind[str(body["kind"])], **body}
        reply = await send(server, method, f"{CORE}/{path}", body)
        assert (reply.status, reply.json["kind"], reply.json["status"]) == (201 if body else 200, "Status", "Success")
        event, last = "", ""
        while not last or (path.endswith("eviction") and event != "DELETED"):
            event, document = await stream.event()
            last = document["metadata"]["resourceVersion"]
        await stream.close()
        found.append((reply.json["metadata"], last))
    return found


async def test_it_is_that_of_the_write() -> None:
    async with APIServer(features=Features(delete_versions=True)) as server:
        for metadata, version in await written(server):
            assert metadata == {"resourceVersion": version}


async def test_without_the_switch_there_is_none(server: APIServer) -> None:
    assert [metadata for metadata, _ in await written(server)] == [{}, {}, {}]


@pytest.mark.parametrize("dry_run", [False, True])
async def test_an_object_that_stays_for_a_while_is_answered_as_before(dry_run: bool) -> None:
    async with APIServer(features=Features(delete_versions=True)) as server:
        held = config_map("a")
        held["metadata"]["finalizers"] = ["example.com/clean-up"]
        server.create(held)
        reply = await send(server, "DELETE", f"{CORE}/configmaps/a{'?dryRun=All' if dry_run else ''}")
        assert reply.json["kind"] == "ConfigMap"
        assert reply.json["metadata"]["deletionTimestamp"]
