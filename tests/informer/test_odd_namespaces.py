"""Namespace objects of any shape: one that cannot be followed is named, and the others are followed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import Client, LabelSelector, SharedInformerFactory
from kinformer.derived import group_by
from kinformer.testing import APIServer
from tests.support.http_server import HttpServer, hang, json_answer, status_answer
from tests.support.kube import config_map
from tests.support.odd_json import JSON, or_odd
from tests.support.waiting import until

CONFIG_MAPS = "v1/configmaps"
GOOD = {"metadata": {"name": "good", "uid": "g", "resourceVersion": "3", "labels": {"team": "a"}}}

NAMESPACE = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": or_odd("..", ".", "a/b", "a%b", "x?y", "other", "") | st.text(max_size=4)},
            optional={
                "namespace": or_odd("default"),
                "labels": or_odd({"team": "a"}),
                "resourceVersion": or_odd("2"),
            },
        )
        | JSON
    },
    # A list with items of another kind is refused, and so is an array of other values.
    optional={"kind": st.sampled_from(["Namespace", "", None, 7, []]), "spec": JSON},
) | JSON.filter(lambda value: isinstance(value, dict))


async def follow(namespaces: list[Any]) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            return status_answer(422, "Invalid")
        if "watch" in request.query:
            return await hang(request)
        metadata = {"resourceVersion": "7"}
        if request.path == "/api/v1/namespaces":
            document = {"kind": "NamespaceList", "apiVersion": "v1", "metadata": metadata, "items": [*namespaces, GOOD]}
            return web.Response(body=json.dumps(document).encode(), content_type="application/json")
        if request.path == "/api/v1/namespaces/good/configmaps":
            items = [config_map("a", namespace="good", rv=4)]
            return json_answer({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items})
        return status_answer(404, "NotFound")

    async with (
        HttpServer(answer) as server,
        Client.from_url(server.url) as client,
        SharedInformerFactory(client) as factory,
    ):
        maps = factory.for_resource(CONFIG_MAPS, namespaces=LabelSelector.parse("team=a"))
        await until(lambda: "good/a" in maps.by_key, 5, what=lambda: f"{maps.health()}")
        assert set(maps.by_key) == {"good/a"}


@pytest.mark.slow
@settings(max_examples=60)
@given(namespaces=st.lists(NAMESPACE, max_size=3))
def test_any_namespace_leaves_the_others(namespaces: list[Any]) -> None:
    asyncio.run(follow(namespaces))


@pytest.mark.parametrize("name", ["..", ".", "a%b", "a/b"])
async def test_a_namespace_with_a_name_that_cannot_be_requested_is_named(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    await follow([{"metadata": {"name": name, "uid": "u", "resourceVersion": "2"}}])
    (record,) = [record for record in caplog.records if record.name == "kinformer.informer"]
    assert repr(name) in record.getMessage()


async def test_a_collection_may_have_keys_that_are_no_namespaces(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for namespace in ("one", "two"):
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        server.create(config_map("web", namespace=namespace, data={"v": "one"}, labels={"app": "web"}))
    server.create(config_map("web", labels={"app": "web"}, data={"v": "one"}))
    async with SharedInformerFactory(client) as factory:
        everywhere = factory.for_resource(CONFIG_MAPS)
        chosen = factory.add(group_by(everywhere, lambda obj: ["..", "a%b", obj["data"]["v"]], name="chosen"))
        maps = factory.for_resource(CONFIG_MAPS, namespaces=chosen, label_selector="app=web")
        await maps.wait_synced(10)
        assert set(maps.namespaces or ()) == {"one"}
        server.create(config_map("late", namespace="one", data={"v": "two"}))
        await until(lambda: set(maps.namespaces or ()) == {"one", "two"})
        await until(lambda: set(maps.by_key) == {"one/web", "two/web"})
        assert maps.health().live
    for key in ("'..'", "'a%b'"):
        assert f"ignored {key}: " in caplog.text
