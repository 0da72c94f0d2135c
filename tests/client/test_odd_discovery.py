"""Discovery documents of any shape: an odd entry is left out, and the others are found.

Internals: the questions to discovery one by one, since an informer shows their answers only in sum.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import Client, ListWatch
from kinformer.client import APIResource, discover
from kinformer.connection.discovery import recent_entry, served_kind
from kinformer.exceptions import DecodeError, NotFoundError
from kinformer.listwatch.presence import presence
from kinformer.objects import GroupVersionResource
from tests.support.http_server import HttpServer
from tests.support.odd_json import JSON, or_odd

PODS = GroupVersionResource("", "v1", "pods")
THINGS = GroupVersionResource("example.com", "v1", "things")

GOOD = {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": True, "verbs": ["list"]}
GOOD_AGGREGATED = {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced", "verbs": ["list"]}
CORE = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [GOOD]}


def odd(*names: str, **usual: Any) -> st.SearchStrategy[Any]:
    """An object with these keys, each of them missing, usual or odd."""
    keys = {**dict.fromkeys(names), **usual}
    values = {key: or_odd(value) if value is not None else JSON for key, value in keys.items()}
    return st.fixed_dictionaries({}, optional=values) | JSON


ENTRY = odd("verbs", "shortNames", "categories", "singularName", name="things", kind="Thing", namespaced=True)
AGGREGATED_ENTRY = odd("verbs", "shortNames", resource="things", responseKind={"kind": "Thing"}, scope="Cluster")
VERSION = odd(version="v1", freshness="Stale", resources=[GOOD_AGGREGATED])
GROUP = odd(metadata={"name": "example.com"}, versions=[{"version": "v1", "resources": [GOOD_AGGREGATED]}])
NAMED = odd(name="example.com", versions=[{"groupVersion": "example.com/v1"}], preferredVersion={"groupVersion": 7})


def answering(documents: Mapping[str, Any], asked: list[str] | None = None) -> HttpServer:
    async def answer(request: web.Request) -> web.StreamResponse:
        if asked is not None:
            asked.append(request.rel_url.raw_path)
        document = documents.get(request.path)
        return web.Response(
            status=404 if document is None else 200, body=json.dumps(document).encode(), content_type="application/json"
        )

    return HttpServer(answer)


async def found_with(documents: Mapping[str, Any], asked: list[str] | None = None) -> list[APIResource]:
    async with answering(documents, asked) as server, Client.from_url(server.url) as client:
        return list(await discover(client))


def aggregated(*groups: Any) -> dict[str, Any]:
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": list(groups)}


def check(found: list[APIResource]) -> None:
    assert "v1/pods" in map(str, found)
    for resource in found:
        assert resource.gvr.resource == resource.name
        assert resource.kind
        assert str(resource) == str(resource.gvr)


@settings(max_examples=60)
@given(
    entries=st.lists(ENTRY, max_size=3),
    groups=st.lists(NAMED, max_size=2),
    versions=st.lists(st.text(max_size=4) | st.sampled_from(["..", "v1/pods", "v1?x", "v2"]), max_size=3),
    document=JSON,
)
@pytest.mark.slow
def test_any_entry_of_a_plain_document_leaves_the_others(
    entries: list[Any], groups: list[Any], versions: list[str], document: Any
) -> None:
    documents = {
        "/api": {"kind": "APIVersions", "versions": [*versions, "v1"]},
        "/apis": {"kind": "APIGroupList", "groups": groups},
        "/api/v1": {**CORE, "resources": [*entries, GOOD]},
        "/apis/example.com/v1": document,
    }
    check(asyncio.run(found_with(documents)))


@settings(max_examples=60)
@given(
    entries=st.lists(AGGREGATED_ENTRY, max_size=3),
    versions=st.lists(VERSION, max_size=2),
    groups=st.lists(GROUP, max_size=2),
    more=st.lists(GROUP, max_size=2),
)
def test_any_entry_of_an_aggregated_document_leaves_the_others(
    entries: list[Any], versions: list[Any], groups: list[Any], more: list[Any]
) -> None:
    core = {"metadata": {}, "versions": [*versions, {"version": "v1", "resources": [*entries, GOOD_AGGREGATED]}]}
    check(asyncio.run(found_with({"/api": aggregated(*groups, core), "/apis": aggregated(*more)})))


@settings(max_examples=60)
@given(documents=st.dictionaries(st.sampled_from(["/api", "/apis", "/api/v1", "/apis/example.com/v1"]), JSON))
def test_any_documents_are_read_or_refused_by_a_clear_error(documents: dict[str, Any]) -> None:
    async def ask() -> None:
        async with answering(documents) as server, Client.from_url(server.url) as client:
            for resource in (PODS, THINGS):
                assert await presence(client, resource) is not True
                assert (await recent_entry(client, resource)).get("namespaced") is None
                assert await served_kind(client, resource) == ""
            with contextlib.suppress(DecodeError, NotFoundError):
                assert list(await discover(client)) == []

    asyncio.run(ask())


async def test_an_entry_that_is_left_out_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kinformer.discovery")
    nameless = {"versions": [{"version": "v1", "resources": [{**GOOD_AGGREGATED, "resource": "secrets"}]}]}
    entries = [{**GOOD_AGGREGATED, "resource": "Not A Name"}, {**GOOD_AGGREGATED, "resource": "x", "responseKind": {}}]
    core = {"metadata": {}, "versions": [{"version": "v1", "resources": [*entries, GOOD_AGGREGATED]}]}
    found = await found_with({"/api": aggregated(core), "/apis": aggregated(nameless)})
    assert [str(resource) for resource in found] == ["v1/pods"], "no group without a name becomes the core group"
    assert "Not A Name" in caplog.text
    assert "'v1/x' has no kind" in caplog.text
    assert "/apis: a group: its name is ''" in caplog.text


async def test_no_name_of_a_version_leads_to_another_path(caplog: pytest.LogCaptureFixture) -> None:
    names = ["..", "v1/namespaces", "v1?watch=1", "../../etc", "", "example.com/v1"]
    groups = [{"versions": [{"groupVersion": name} for name in ["..", "../api/v1", "a/b/c", "v1", "a.b/v1?x"]]}]
    documents = {
        "/api": {"kind": "APIVersions", "versions": [*names, "v1"]},
        "/apis": {"kind": "APIGroupList", "groups": groups},
        "/api/v1": CORE,
    }
    asked: list[str] = []
    assert [str(resource) for resource in await found_with(documents, asked)] == ["v1/pods"]
    assert asked == ["/api", "/api/v1", "/apis"]


async def test_a_version_that_is_answered_by_another_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    documents = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": [{"versions": [{"groupVersion": "example.com/v1"}]}]},
        "/api/v1": CORE,
        "/apis/example.com/v1": CORE,
    }
    assert [str(resource) for resource in await found_with(documents)] == ["v1/pods"]
    assert "discovery ignores example.com/v1: the response is about 'v1'" in caplog.text


GADGETS = {"name": "gadgets", "kind": "Gadget"}
EXAMPLE = {"name": "example.com", "versions": [{"groupVersion": "example.com/v1"}]}


def discovery(groups: Any, things: Any = None) -> dict[str, Any]:
    documents = {
        "/api": {"kind": "APIVersions", "versions": []},
        "/apis": {"kind": "APIGroupList", "groups": groups},
    }
    return documents if things is None else {**documents, "/apis/example.com/v1": things}


@pytest.mark.parametrize(
    ("document", "is_present"),
    [
        ({"resources": [GADGETS]}, False),
        ({"resources": [GADGETS, {"name": "things", "kind": "Thing"}]}, True),
        ({"resources": [{"name": "things", "kind": "Thing"}, 7]}, True),
        ({"resources": [GADGETS, {"name": 7, "kind": "Thing"}]}, None),
        ({"resources": [GADGETS, {"name": "things"}]}, None),
        ({"resources": [GADGETS, "things"]}, None),
        ({"resources": {"name": "things"}}, None),
        ({}, None),
        ({"resources": [GADGETS], "kind": "Status"}, None),
        ({"resources": [GADGETS], "groupVersion": "example.com/v2"}, None),
    ],
)
async def test_an_absent_resource_is_one_that_every_readable_entry_lacks(
    document: dict[str, Any], is_present: bool | None
) -> None:
    whole = {"kind": "APIResourceList", "groupVersion": "example.com/v1", **document}
    async with answering(discovery([EXAMPLE], whole)) as server, Client.from_url(server.url) as client:
        assert await presence(client, THINGS) is is_present


@pytest.mark.parametrize(
    ("groups", "is_present"),
    [
        ([], False),
        ([{"name": "apps", "versions": [{"groupVersion": "apps/v1"}]}], False),
        ([EXAMPLE], None),  # its version is a 404
        ([{"name": "example.com", "versions": [{"groupVersion": 7}]}], None),
        ([{"name": "example.com", "versions": 7}], None),
        ([{"name": 7, "versions": 7}], None),
        ([7], None),
        (7, None),
    ],
)
async def test_an_absent_group_is_one_that_the_whole_list_lacks(groups: Any, is_present: bool | None) -> None:
    async with answering(discovery(groups)) as server, Client.from_url(server.url) as client:
        assert await presence(client, THINGS) is is_present


@pytest.mark.parametrize(
    ("group", "is_present"),
    [
        ({"versions": [{"version": "v1", "resources": [GOOD_AGGREGATED]}]}, False),
        ({"versions": []}, False),
        ({"versions": [{"version": "v1", "resources": [{**GOOD_AGGREGATED, "resource": "things"}]}]}, True),
        ({"versions": [{"version": "v2", "resources": [{**GOOD_AGGREGATED, "resource": "things"}]}]}, True),
        ({"versions": [{"version": 7, "resources": [GOOD_AGGREGATED]}]}, None),
        ({"versions": [{"version": "v1", "resources": [{**GOOD_AGGREGATED, "resource": 7}]}]}, None),
        ({"versions": [{"version": "v1", "resources": [7]}]}, None),
        ({"versions": [{"version": "v1"}]}, None),
        ({"versions": [7]}, None),
        ({"versions": {}}, None),
        ({"metadata": {}, "versions": []}, None),
    ],
)
async def test_what_an_aggregated_document_leaves_unclear_is_no_absence(
    group: dict[str, Any], is_present: bool | None
) -> None:
    core = {"metadata": {}, "versions": [{"version": "v1", "resources": [GOOD_AGGREGATED]}]}
    documents = {"/api": aggregated(core), "/apis": aggregated({"metadata": {"name": "example.com"}, **group})}
    async with answering(documents) as server, Client.from_url(server.url) as client:
        assert await presence(client, THINGS) is is_present


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "kube-system", "uid": "u"}},
        {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "default", "uid": "u"}},
        {"kind": "NamespaceList", "apiVersion": "v1", "items": []},
        {},
    ],
)
async def test_only_kube_system_identifies_a_cluster(document: dict[str, Any]) -> None:
    documents = {"/api/v1/namespaces/kube-system": document}
    async with answering(documents) as server, Client.from_url(server.url) as client:
        assert await ListWatch(client, "v1/pods").cluster() is None
