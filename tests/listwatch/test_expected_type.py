"""The type that a ListWatch expects of built-in and custom resources, of metadata alone, and of any answer.

Internals: the table of kinds and the recorded discovery that it is compared with.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import Client, KubeObject, ListOptions, ListWatch, WatchEvent
from kinformer.exceptions import DecodeError, KinformerError, WatchError
from kinformer.kinds.builtin import builtin_kind, builtin_resource, is_namespaced_kind
from kinformer.objects import GroupVersionResource
from kinformer.objects.spellings import meanings
from kinformer.testing.kinds.builtins import recorded
from tests.support.http_server import HttpServer, json_answer, line
from tests.support.kube import config_map, widget
from tests.support.odd_json import JSON, or_odd

WIDGETS = "example.com/v1/widgets"
METADATA = ("PartialObjectMetadata", "meta.k8s.io/v1")


class Answers:
    """The next answers of a server, and its discovery."""

    def __init__(self) -> None:
        self.body: bytes = b""
        self.kind = "Widget"
        self.discoveries = 0
        self.source: ListWatch

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/apis/example.com/v1":
            self.discoveries += 1
            resources = [{"name": "gadgets", "kind": "Gadget"}, {"name": "widgets", "kind": self.kind}]
            return json_answer({"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": resources})
        return web.Response(body=self.body, content_type="application/json")

    async def list(self, document: Any) -> list[KubeObject]:
        self.body = document if isinstance(document, bytes) else json.dumps(document, separators=(",", ":")).encode()
        page = await self.source.list(ListOptions())
        return [obj async for objects in page.items for obj in objects]  # type: ignore[union-attr]

    async def watch(self, *lines: bytes, initial: bool = False) -> list[WatchEvent]:
        self.body = b"".join(lines)
        options = ListOptions(send_initial_events=True) if initial else ListOptions(resource_version="1")
        async with self.source.watch(options) as stream:
            return [event async for events in stream for event in events]


@asynccontextmanager
async def answers(resource: str, **options: Any) -> AsyncIterator[Answers]:
    scene = Answers()
    async with HttpServer(scene) as server, Client.from_url(server.url) as client:
        scene.source = ListWatch(client, resource, namespace="default", **options)
        yield scene


def widgets(*items: Any, kind: str = "WidgetList", version: str = "example.com/v1", **more: Any) -> dict[str, Any]:
    # The API server writes the lists of custom resources with their keys in this order.
    metadata = {"resourceVersion": "9"}
    return {"apiVersion": version, "items": list(items), "kind": kind, "metadata": metadata, **more}


def a_widget(name: str = "a", *, kind: str = "Widget", **fields: Any) -> dict[str, Any]:
    document = {**widget(name), "kind": kind, **fields}
    return {**document, "metadata": {**document["metadata"], "resourceVersion": "5", "uid": name}}


GADGET = a_widget("b", kind="Gadget")


def test_the_kinds_of_built_in_resources_are_those_of_discovery() -> None:
    for row in recorded()["resources"]:
        kind = builtin_kind(GroupVersionResource(row["group"], row["version"], row["plural"]))
        assert kind in ((row["kind"],) if "list" in row["verbs"] else ("", row["kind"])), row
        if kind:
            assert builtin_resource(row["group"], row["version"], kind) == GroupVersionResource.parse(
                f"{row['group']}/{row['version']}/{row['plural']}".removeprefix("/")
            )
            assert is_namespaced_kind(kind) == row["namespaced"], row
            for name in (kind, row["plural"], *row.get("shortNames", ())):
                assert (row["group"], kind) in meanings(name), row
    assert builtin_kind(GroupVersionResource("metrics.k8s.io", "v1", "pods")) == ""
    assert builtin_resource("metrics.k8s.io", "v1", "Pod") is None


# --- custom resources -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [widgets(GADGET), widgets(kind="GadgetList"), widgets(a_widget(), GADGET)])
async def test_another_kind_is_refused_while_discovery_does_not_have_it(wrong: Any) -> None:
    async with answers(WIDGETS) as scene:
        assert await scene.list(widgets(a_widget()))
        for _ in range(2):
            with pytest.raises(DecodeError, match=r"example.com/v1/widgets in default: expected Widget .*got Gadget"):
                await scene.list(wrong)
        assert scene.discoveries == 2
        with pytest.raises(WatchError, match=r"expected Widget of example.com/v1, got Gadget of example.com/v1 'b'"):
            await scene.watch(line("ADDED", GADGET))
        assert await scene.list(widgets(a_widget()))
        assert await scene.watch(line("ADDED", a_widget()))


@pytest.mark.parametrize("by", ["list", "empty list", "watch", "initial stream"])
async def test_another_kind_is_taken_once_discovery_has_it(by: str) -> None:
    async with answers(WIDGETS) as scene:
        assert await scene.list(widgets(a_widget()))
        scene.kind = "Gadget"
        ways = {
            "list": lambda: scene.list(widgets(GADGET, kind="GadgetList")),
            "empty list": lambda: scene.list(widgets(kind="GadgetList")),
            "watch": lambda: scene.watch(line("ADDED", GADGET)),
            "initial stream": lambda: scene.watch(line("ADDED", GADGET), initial=True),
        }
        with pytest.raises((DecodeError, WatchError)):
            await ways[by]()
        assert [obj.kind for obj in await scene.list(widgets(GADGET, kind="GadgetList"))] == ["Gadget"]
        assert await scene.watch(line("MODIFIED", GADGET))
        with pytest.raises(DecodeError):
            await scene.list(widgets(a_widget()))


async def test_an_object_of_another_version_or_namespace_never_asks_discovery() -> None:
    async with answers(WIDGETS) as scene:
        for wrong in (
            widgets(a_widget(apiVersion="example.com/v2")),
            widgets(version="example.com/v2"),
            widgets({**a_widget(), "metadata": {"name": "a", "namespace": "other"}}),
        ):
            with pytest.raises(DecodeError):
                await scene.list(wrong)
        assert scene.discoveries == 0
        assert await scene.list(widgets(a_widget()))


async def test_a_list_may_have_any_kind_that_its_definition_names() -> None:
    async with answers(WIDGETS) as scene:
        assert await scene.list(widgets(kind="Widgetry")) == []
        assert len(await scene.list(widgets(a_widget(), kind="Widgetry"))) == 1
        assert await scene.watch(line("ADDED", a_widget()))
        with pytest.raises(DecodeError, match="got GadgetList"):
            await scene.list(widgets(kind="GadgetList"))
    async with answers(WIDGETS) as scene:
        assert len(await scene.list(widgets(a_widget(), kind="Widgetry"))) == 1
        scene.kind = "Gadget"
        with pytest.raises(DecodeError, match="got Gadget"):
            await scene.list(widgets(GADGET, kind="Gadgetry"))
        assert len(await scene.list(widgets(GADGET, kind="Gadgetry"))) == 1
        with pytest.raises(DecodeError, match="got Widgetry"):
            await scene.list(widgets(kind="Widgetry"))


async def test_a_discovery_that_does_not_answer_leaves_the_kind_as_it_is() -> None:
    async with answers(WIDGETS) as scene:
        assert await scene.list(widgets(a_widget()))
        scene.kind = ""
        with pytest.raises(DecodeError):
            await scene.list(widgets(GADGET))
        assert await scene.list(widgets(a_widget()))


# --- built-in resources -----------------------------------------------------------------------------------------------


async def test_discovery_is_not_asked_for_a_built_in_resource() -> None:
    async with answers("v1/configmaps") as scene:
        with pytest.raises(DecodeError, match="expected ConfigMap of v1, got SecretList of v1"):
            await scene.list({"kind": "SecretList", "apiVersion": "v1", "items": []})
        assert scene.discoveries == 0


async def test_a_list_whose_kind_follows_its_items_is_checked_too() -> None:
    items = json.dumps([{"metadata": {"name": "a", "namespace": "default"}}]).encode()
    body = b'{"items":%b,"metadata":{"resourceVersion":"9"},"apiVersion":"v1","kind":"%b"}'
    async with answers("v1/configmaps") as scene:
        assert len(await scene.list(body % (items, b"ConfigMapList"))) == 1
        with pytest.raises(DecodeError, match="got SecretList"):
            await scene.list(body % (items, b"SecretList"))


# --- metadata alone ---------------------------------------------------------------------------------------------------


def partial(name: str = "a") -> dict[str, Any]:
    return {**config_map(name, rv=5), "kind": METADATA[0], "apiVersion": METADATA[1]}


def partial_list(*items: Any) -> dict[str, Any]:
    metadata = {"resourceVersion": "9"}
    return {"kind": f"{METADATA[0]}List", "apiVersion": METADATA[1], "metadata": metadata, "items": list(items)}


async def test_metadata_alone_has_a_type_of_its_own() -> None:
    async with answers("v1/configmaps", metadata_only=True) as scene:
        assert [obj.kind for obj in await scene.list(partial_list(partial()))] == [METADATA[0]]
        assert await scene.watch(line("ADDED", partial()))
        with pytest.raises(WatchError, match=r"expected PartialObjectMetadata of meta.k8s.io/v1, got ConfigMap of v1"):
            await scene.watch(line("ADDED", config_map("b", rv=6)))
        for wrong in ({"kind": "NodeList", "apiVersion": "v1"}, {"kind": "Table", "apiVersion": METADATA[1]}):
            with pytest.raises(DecodeError):
                await scene.list({**partial_list(), **wrong})


async def test_a_server_that_knows_no_metadata_alone_may_send_whole_objects() -> None:
    whole = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
    async with answers("v1/configmaps", metadata_only=True) as scene:
        assert [obj.kind for obj in await scene.list({**whole, "items": [config_map("a", rv=5)]})] == ["ConfigMap"]
        assert await scene.watch(line("ADDED", config_map("b", rv=6)))
        assert len(await scene.list(partial_list(partial()))) == 1  # the server was upgraded
        assert await scene.watch(line("ADDED", partial()))
        assert await scene.watch(line("ADDED", config_map("b", rv=6)), initial=True)


async def test_metadata_is_refused_where_whole_objects_were_requested() -> None:
    async with answers("v1/configmaps") as scene:
        for wrong in (partial_list(), partial_list(partial())):
            with pytest.raises(DecodeError):
                await scene.list(wrong)


# --- answers of any shape ---------------------------------------------------------------------------------------------

ITEM = (
    st.fixed_dictionaries(
        {
            "metadata": st.fixed_dictionaries(
                {"name": or_odd("a", "b"), "namespace": or_odd("default", "other")},
                optional={
                    "resourceVersion": or_odd("5"),
                    "uid": or_odd("u"),
                    "labels": or_odd({"a": "b"}, {"a": 7}),
                    "ownerReferences": or_odd([{"kind": "Pod"}]),
                    "managedFields": or_odd([{}]),
                },
            )
            | JSON
        },
        optional={"kind": or_odd("ConfigMap", "Secret"), "apiVersion": or_odd("v1", "v2"), "data": JSON},
    )
    | JSON
)
HEADER = st.fixed_dictionaries(
    {},
    optional={
        "kind": or_odd("ConfigMapList", "SecretList", "Table", "Status"),
        "apiVersion": or_odd("v1", "v2"),
        "metadata": st.fixed_dictionaries(
            {}, optional={"resourceVersion": or_odd("9"), "continue": JSON, "remainingItemCount": JSON, "name": JSON}
        )
        | JSON,
        "items": st.lists(ITEM, max_size=3) | JSON,
    },
)
GOOD = config_map("good", rv=4)
LISTED = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [GOOD]}
LINE = (
    st.fixed_dictionaries({"type": or_odd("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"), "object": ITEM}) | JSON
)


OPTIONS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"fields": ["data.v", "metadata.labels"]}, {"keep_managed_fields": True}]
)


def fits(obj: KubeObject) -> bool:
    """True if this is an object of the resource, or stands for one that cannot be decoded."""
    is_typed = (obj.kind, obj.api_version) == ("ConfigMap", "v1")
    return obj.namespace == "default" and (is_typed or not (obj.kind or obj.api_version))


@pytest.mark.slow
@settings(max_examples=150)
@given(document=HEADER | JSON, options=OPTIONS)
def test_any_list_is_refused_or_fits_the_resource(document: Any, options: dict[str, Any]) -> None:
    async def ask() -> None:
        async with answers("v1/configmaps", **options) as scene:
            assert len(await scene.list(LISTED)) == 1
            with contextlib.suppress(DecodeError):
                found = await scene.list(document)
                assert (document["kind"], document["apiVersion"]) == ("ConfigMapList", "v1")
                assert document["metadata"]["resourceVersion"]
                assert all(map(fits, found))
                readable = len(document["items"] or ()) - scene.source.stats.decode_errors
                assert len(found) == readable
            assert len(await scene.list(LISTED)) == 1

    asyncio.run(ask())


@pytest.mark.slow
@settings(max_examples=150)
@given(lines=st.lists(LINE, min_size=1, max_size=4), initial=st.booleans(), options=OPTIONS)
def test_any_line_of_a_watch_is_refused_or_fits_the_resource(
    lines: list[Any], initial: bool, options: dict[str, Any]
) -> None:
    async def ask() -> None:
        async with answers("v1/configmaps", **options) as scene:
            assert len(await scene.list(LISTED)) == 1
            with contextlib.suppress(KinformerError):
                for event in await scene.watch(*(json.dumps(one).encode() + b"\n" for one in lines), initial=initial):
                    assert event.type in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
                    assert event.type == "BOOKMARK" or fits(event.object)
            assert len(await scene.list(LISTED)) == 1
            assert await scene.watch(line("MODIFIED", GOOD))

    asyncio.run(ask())
