"""`Accept: application/json;drop=metadata.managedFields` (KEP-5958), behind a switch of the embedded server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kinformer.testing import APIServer, Features
from tests.support.apiserver_http import ask
from tests.support.kube import config_map, widget, widget_definition
from tests.support.machine_clock import NOON, MachineClock

CORE = "/api/v1/namespaces/default"
DROP = "application/json;drop=metadata.managedFields"
PARTIAL = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1;drop=metadata.managedFields"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1;drop=metadata.managedFields"
STREAMED = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@pytest.fixture(params=[False, True], ids=["1.36", "1.38"])
def knows(request: pytest.FixtureRequest) -> bool:
    """True if the server knows what is asked for."""
    return bool(request.param)


@pytest.fixture
async def server(knows: bool) -> AsyncIterator[APIServer]:
    # Objects are years old, so that two tables that are asked for one after the other show the same age.
    clock = MachineClock(NOON).clock
    async with APIServer(features=Features(drop_managed_fields=knows), clock=clock) as server:
        server.register_crd(widget_definition())
        yield server


def without(document: Any) -> Any:
    """The document without managedFields, wherever they are."""
    if isinstance(document, dict):
        return {name: without(value) for name, value in document.items() if name != "managedFields"}
    return [without(one) for one in document] if isinstance(document, list) else document


async def make(server: APIServer) -> None:
    for path, body in (
        (f"{CORE}/configmaps", config_map("a", data={"html": "<a href='x'>&\u2028</a>"})),
        (f"{CORE}/pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ("/apis/example.com/v1/namespaces/default/widgets", widget("w")),
        ("/apis/events.k8s.io/v1/namespaces/default/events", event("e")),
    ):
        reply = await ask(server.url, "POST", path, body=json.dumps(body))
        assert reply.status == 201, reply.body


def event(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": "2026-11-22T10:00:00.000000Z",
        "reportingController": "example.com/test",
        "reportingInstance": "test-1",
        "action": "Testing",
        "reason": "Tested",
        "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    }


PLACES = [
    f"{CORE}/configmaps",
    f"{CORE}/pods",
    f"{CORE}/events",
    "/apis/example.com/v1/namespaces/default/widgets",
    "/apis/events.k8s.io/v1/namespaces/default/events",
]


@pytest.mark.virtual_time
@pytest.mark.parametrize("path", PLACES)
async def test_objects_lists_and_streams_are_as_before_but_for_managed_fields(
    server: APIServer, knows: bool, path: str
) -> None:
    await make(server)
    name = {"configmaps": "a", "pods": "p", "widgets": "w", "events": "e"}[path.rsplit("/", 1)[1]]
    for target in (f"{path}/{name}", path, f"{path}?{STREAMED}&timeoutSeconds=1"):
        plain = await ask(server.url, "GET", target)
        asked = await ask(server.url, "GET", target, headers={"Accept": DROP})
        assert asked.status == plain.status == 200
        assert b"managedFields" in plain.body
        assert asked.lines == (without(plain.lines) if knows else plain.lines)
        if not knows:
            assert asked.body == plain.body


@pytest.mark.parametrize("path", PLACES[:4])
async def test_metadata_and_tables_are_without_them_too(server: APIServer, knows: bool, path: str) -> None:
    await make(server)
    for accept in (PARTIAL.format("List"), TABLE):
        plain = await ask(
            server.url, "GET", path, headers={"Accept": accept.replace(";drop=metadata.managedFields", "")}
        )
        asked = await ask(server.url, "GET", path, headers={"Accept": accept})
        assert b"managedFields" in plain.body
        assert asked.json == (without(plain.json) if knows else plain.json)


async def test_the_answers_to_writes_are_without_them_too_and_the_server_keeps_them(
    server: APIServer, knows: bool
) -> None:
    headers = {"Accept": DROP}
    created = await ask(server.url, "POST", f"{CORE}/configmaps", body=json.dumps(config_map("a")), headers=headers)
    merge = {**headers, "Content-Type": "application/merge-patch+json"}
    patched = await ask(server.url, "PATCH", f"{CORE}/configmaps/a", body=b'{"data":{"x":"y"}}', headers=merge)
    for reply in (created, patched):
        assert ("managedFields" in reply.json["metadata"]) is not knows
    assert (await ask(server.url, "GET", f"{CORE}/configmaps/a")).json["metadata"]["managedFields"]


async def test_what_else_is_to_be_dropped_is_not_acceptable_and_nothing_to_drop_is_nothing(
    server: APIServer, knows: bool
) -> None:
    await make(server)
    path = f"{CORE}/configmaps/a"

    async def get(accept: str) -> Any:
        return await ask(server.url, "GET", path, headers={"Accept": accept})

    plain = (await get("application/json")).body
    assert (await get("application/json;drop=")).body == plain
    assert (await get("application/json;drop=spec, application/json")).body == plain
    refused = await get("application/json;drop=spec")
    assert refused.status == (406 if knows else 200)
