"""Typed informers: objects with a model of each kind, changes to a model, and objects that fit none.

Internals: the informer with a model, which otherwise a factory makes, over a source of the test.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import logging
import pickle
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from kubernetes_asyncio.client import V1ConfigMap, V1Pod

from kinformer import Client, ConfigError, KubeObject, SharedInformer, SharedInformerFactory, wait_for
from kinformer.exceptions import DecodeError
from kinformer.informer.typed import ModelInformer
from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.log_records import Said, said
from tests.support.memory_source import MemorySource
from tests.support.waiting import settle, until


class StructMap(msgspec.Struct):
    data: dict[str, str] = {}


@dataclass
class DataMap:
    data: dict[str, str]


class DictMap(TypedDict):
    data: dict[str, str]


class PydanticMap(pydantic.BaseModel):
    data: dict[str, str]


@pydantic.dataclasses.dataclass
class PydanticData:
    data: dict[str, str]


class Numbers(msgspec.Struct):
    data: dict[str, int]


def data_of(model: Any) -> dict[str, str]:
    found: dict[str, str] = model["data"] if isinstance(model, dict) else model.data
    return found


KINDS = [StructMap, DataMap, DictMap, PydanticMap, PydanticData, V1ConfigMap]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_handlers_streams_filters_indexes_and_listers_have_the_model(kind: type[Any]) -> None:
    source = MemorySource()
    source.set("a", data={"v": "1"})
    informer = ModelInformer(SharedInformer(source), kind)
    informer.add_indexers({"v": lambda obj: [data_of(obj.model)["v"]], "path": "data.v"})
    seen: list[tuple[str, ...]] = []

    async def on_add(obj: Any, *, is_in_initial_list: bool) -> None:
        seen.append(("add", data_of(obj.model)["v"], str(is_in_initial_list)))

    informer.add_event_handler(
        on_add=on_add,
        on_update=lambda old, new: seen.append(("update", data_of(old.model)["v"], data_of(new.model)["v"])),
        on_delete=lambda obj: seen.append(("delete", data_of(obj.model)["v"])),
        filter=lambda obj: data_of(obj.model)["v"] != "hidden",
    )
    async with informer, informer.events(filter=lambda obj: data_of(obj.model)["v"] != "hidden") as stream:
        await informer.wait_synced(10)
        first = await anext(stream)
        assert (first.type, data_of(first.object.model), first.old) == ("ADDED", {"v": "1"}, None)
        if not isinstance(first.object.model, dict):
            assert isinstance(first.object.model, kind)
        await settle()
        source.set("a", data={"v": "2"})
        second = await anext(stream)
        assert second.old is not None
        assert (data_of(second.old.model), data_of(second.object.model)) == ({"v": "1"}, {"v": "2"})
        source.set("b", data={"v": "hidden"})
        await settle()
        [found] = informer.lister.by_index("v", "2")
        assert data_of(found.model) == {"v": "2"}
        for read in (
            informer.lister.get("a", namespace="default"),
            informer.indexer.get_by_key("default/a"),
            informer.indexer.get(found),
            *informer.indexer.index("v", found),
            *informer.indexer.by_index("path", "2"),
            *informer.lister.by_namespace("default").list("!nothing")[:0],
        ):
            assert isinstance(read, KubeObject)
            assert read == found
            assert data_of(read.model) == {"v": "2"}
        assert sorted(data_of(obj.model)["v"] for obj in informer.lister) == ["2", "hidden"]
        assert len(informer.lister.list("!nothing", namespace="default")) == len(informer.lister) == 2
        assert informer.lister.get("none", namespace="default") is None
        source.delete("a")
        await settle()
    assert seen == [("add", "1", "True"), ("update", "1", "2"), ("delete", "2")]


async def test_a_wait_gives_its_condition_and_its_caller_the_model() -> None:
    source = MemorySource()
    source.set("a", data={"v": "1"})
    informer: SharedInformer[StructMap] = ModelInformer(SharedInformer(source), StructMap)
    async with informer:
        now = await wait_for(informer, "default/a", lambda obj: obj and obj.model.data["v"] == "1", 10)
        assert now is not None
        assert now.model.data == {"v": "1"}
        later = asyncio.ensure_future(wait_for(informer, "default/a", lambda obj: obj and obj.model.data["v"] == "2"))
        await settle()
        source.set("a", data={"v": "2"})
        then = await later
        assert then is not None
        assert then.model.data == {"v": "2"}


async def test_a_model_is_decoded_when_it_is_first_read_and_once_for_each_handler_and_event() -> None:
    decodes: list[dict[str, str]] = []

    @dataclass
    class Counted:
        data: dict[str, str]

        def __post_init__(self) -> None:
            decodes.append(self.data)

    source = MemorySource()
    source.set("a", data={"v": "1"})
    informer = ModelInformer(SharedInformer(source), Counted)
    twice: list[bool] = []
    informer.add_event_handler(on_add=lambda obj: twice.append(obj.model is obj.model), name="reads")
    informer.add_event_handler(on_add=lambda obj: obj.name, name="reads no model")
    async with informer:
        await informer.wait_synced(10)
        await settle()
        assert twice == [True]
        assert decodes == [{"v": "1"}]
        found = informer.lister.get("a", namespace="default")
        assert found is not None
        assert decodes == [{"v": "1"}]
        assert found.model is found.model
        assert len(decodes) == 2


@pytest.mark.parametrize(
    "kind", [StructMap, DataMap, DictMap, PydanticMap, V1ConfigMap], ids=lambda kind: kind.__name__
)
async def test_what_one_handler_does_to_a_model_nobody_else_sees(kind: type[Any]) -> None:
    source = MemorySource()
    source.set("a", data={"v": "1"})
    informer = ModelInformer(SharedInformer(source), kind)
    seen: list[dict[str, str]] = []

    def spoil(obj: Any) -> None:
        seen.append(dict(data_of(obj.model)))
        data_of(obj.model)["v"] = "spoilt"
        data_of(obj.model)["more"] = "spoilt"

    def spoil_both(old: Any, new: Any) -> None:
        spoil(old)
        spoil(new)

    for name in ("one", "two"):
        informer.add_event_handler(on_add=spoil, on_update=spoil_both, name=name)
    async with informer:
        await informer.wait_synced(10)
        await settle()
        for found in informer.lister.list():
            spoil(found)
        found = informer.lister.get("a", namespace="default")
        spoil(found)
        spoil(copy.copy(found))
        assert seen == [{"v": "1"}] * 5
        seen.clear()
        source.set("a", data={"v": "2"})
        await settle()
        assert seen == [{"v": "1"}, {"v": "2"}] * 2
        assert informer.indexer.get_by_key("default/a").to_dict()["data"] == {"v": "2"}


async def test_a_resync_is_one_object_with_one_model() -> None:
    source = MemorySource()
    source.set("a")
    informer = ModelInformer(SharedInformer(source), StructMap)
    same: list[bool] = []
    informer.add_event_handler(on_update=lambda old, new: same.append(old is new), resync_period=0.02)
    async with informer:
        await until(lambda: same)
    assert same[0]


async def test_an_object_that_does_not_fit_is_an_error_of_the_handler_that_reads_it_and_no_event_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = MemorySource()
    source.set("good", data={"v": "1"})
    source.set("bad", data={"v": "many"})
    informer = ModelInformer(SharedInformer(source), Numbers)
    seen: list[str] = []
    read: list[int] = []

    def on_add(obj: Any) -> None:
        seen.append(obj.name)
        read.append(obj.model.data["v"])

    class Lenient(msgspec.Struct):
        data: dict[str, Any]

    ModelInformer(informer, Lenient).add_event_handler(
        on_add=lambda obj: seen.append(obj.model.data["v"]), name="lenient"
    )
    informer.add_event_handler(on_add=on_add, name="strict")
    with caplog.at_level(logging.ERROR, "kinformer"):
        async with informer:
            await informer.wait_synced(10)
            await settle()
            assert sorted(seen) == ["1", "bad", "good", "many"]
            assert read == []  # a string is no number for msgspec, be it "1"
            assert informer.statistics().handler_errors == 2
            assert informer.health().live
            bad = informer.lister.get("bad", namespace="default")
            assert bad is not None
            with pytest.raises(
                DecodeError, match=r"^v1/configmaps default/bad does not fit Numbers: .*`\$\.data\["
            ) as caught:
                _ = bad.model
            assert isinstance(caught.value.__cause__, msgspec.ValidationError)
    assert sorted(said(caplog, "handler_failed")) == [
        Said("ERROR", "kinformer.handler", "v1/configmaps", key) for key in ("default/bad", "default/good")
    ]
    assert "v1/configmaps default/bad does not fit Numbers" in caplog.text  # in the traceback


FITS_NOT: list[tuple[type[Any], dict[str, Any], str]] = [
    (StructMap, {"data": {"k": 1}}, r"Expected `str`, got `int` - at `\$\.data\[\.\.\.\]`"),
    (PydanticMap, {"data": {"k": 1}}, r"Input should be a valid string - at `\$\.data\.k`"),
    (PydanticMap, {}, r"Field required - at `\$\.data`"),
    (PydanticData, {}, r"Field required - at `\$\.data`"),
    (V1ConfigMap, {"data": ["k"]}, r"Expected `dict`, got `list` - at `\$\.data`"),
    (
        V1Pod,
        {"spec": {"containers": [{"name": "a"}, "b"]}},
        r"Expected `dict`, got `str` - at `\$\.spec\.containers\.1`",
    ),
    (V1Pod, {"spec": {"priority": "high"}}, r"Expected `int`, got `str` - at `\$\.spec\.priority`"),
    (V1Pod, {"spec": {"hostNetwork": 1}}, r"Expected `bool`, got `int` - at `\$\.spec\.hostNetwork`"),
    (V1Pod, {"status": {"startTime": "soon"}}, r"Expected `datetime`, got `str` - at `\$\.status\.startTime`"),
]


@pytest.mark.parametrize(("kind", "fields", "text"), FITS_NOT)
def test_what_does_not_fit_is_named_with_its_field(kind: type[Any], fields: dict[str, Any], text: str) -> None:
    obj = KubeObject.from_dict({"metadata": {"name": "a"}, **fields})
    with pytest.raises(DecodeError, match=text):
        obj.decode(kind)


def test_an_error_does_not_quote_the_object() -> None:
    secret = KubeObject.from_dict({"metadata": {"name": "a"}, "data": {"password": ["hunter2"]}})
    for kind in (StructMap, PydanticMap, PydanticData, V1ConfigMap):
        with pytest.raises(DecodeError) as caught:
            secret.decode(kind)
        error: BaseException | None = caught.value
        while error is not None:  # all that a traceback shows
            assert "hunter2" not in str(error)
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_a_quantity_that_was_written_as_a_number_is_text_for_the_models_of_kubernetes_asyncio() -> None:
    limits = {"limits": {"cpu": 2, "memory": "1Gi"}}
    pod = KubeObject.from_dict(
        {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "resources": limits}]}}
    ).decode(V1Pod)
    assert pod.spec.containers[0].resources.limits == {"cpu": "2", "memory": "1Gi"}


async def test_one_cache_serves_any_number_of_models(server: APIServer, client: Client) -> None:
    server.create(config_map("a", data={"v": "1"}))
    async with SharedInformerFactory(client) as factory:
        by_value: Callable[[Any], list[str]] = lambda obj: [obj.model.data["v"]]  # noqa: E731
        typed = factory.for_resource("v1/configmaps", model=StructMap, indexers={"v": by_value})
        assert factory.for_resource("v1/configmaps", model=StructMap, indexers={"v": by_value}) is typed
        other = factory.for_resource("v1/configmaps", model=V1ConfigMap)
        plain = factory.for_resource("v1/configmaps")
        assert len(factory.informers) == 1
        assert typed == other == plain == factory.informers[0]
        assert {typed, other, plain} == {plain}
        assert isinstance(typed, SharedInformer)
        with pytest.raises(ValueError, match="a different function"):
            factory.for_resource("v1/configmaps", model=DataMap, indexers={"v": by_value})
        await factory.wait_for_cache_sync(10)
        assert [obj.model for obj in typed.lister.by_index("v", "1")] == [StructMap({"v": "1"})]
        [read] = other.lister.list()
        assert read.model.data == {"v": "1"}
        assert isinstance(read.model, V1ConfigMap)
        [untyped] = plain.lister.list()
        with pytest.raises(AttributeError, match="without a model"):
            _ = untyped.model
        assert sum(request.params.get("watch") == "true" for request in server.requests) == 1
        assert typed.health().resource_version == plain.health().resource_version
        assert factory.statistics()["v1/configmaps"].objects == typed.statistics().objects == 1
        for held in (typed, typed, other):
            await factory.release(held)
        assert plain.health().live
        await factory.release(plain)
        assert factory.informers == ()
        assert typed.health().state == "stopped"
        with pytest.raises(ValueError, match="not held"):
            await factory.release(typed)


@pytest.mark.parametrize(
    "options",
    [{"fields": ["data.v"]}, {"compact": True}, {"fields": ["data.v"], "compact": True}],
    ids=["fields", "compact", "both"],
)
async def test_an_object_that_is_kept_in_part_or_packed_has_its_model_wherever_it_is_read(
    server: APIServer, client: Client, options: dict[str, Any]
) -> None:
    for name in ("a", "b"):
        server.create(config_map(name, data={"v": name}))
    async with SharedInformerFactory(client) as factory:
        informer = factory.for_resource(
            "v1/configmaps", model=StructMap, indexers={"v": lambda obj: [obj.model.data["v"]]}, **options
        )
        heard: list[str] = []
        informer.add_event_handler(on_add=lambda obj: heard.append(obj.model.data["v"]))
        await factory.wait_for_cache_sync(10)
        await until(lambda: len(heard) == 2)
        [indexed] = informer.lister.by_index("v", "b")
        for obj in (indexed, informer.lister.get("b", namespace="default"), informer.indexer.get(indexed)):
            assert obj is not None
            assert obj.model == StructMap({"v": "b"})
            assert obj["data"] == obj.to_dict()["data"] == json.loads(obj.raw)["data"] == {"v": "b"}
            assert pickle.loads(pickle.dumps(obj)).model == obj.model
        assert informer.statistics().index_errors == 0
        assert sorted(heard) == ["a", "b"]


@pytest.mark.parametrize("model", [7, "Pod", lambda: None, print], ids=["number", "text", "lambda", "function"])
async def test_what_is_no_model_is_refused_before_anything_starts(client: Client, model: Any) -> None:
    async with SharedInformerFactory(client) as factory:
        with pytest.raises(ConfigError, match="model="):
            factory.for_resource("v1/pods", model=model)
        assert factory.informers == ()


async def test_an_object_with_its_model_can_be_copied_and_pickled_and_is_still_the_object() -> None:
    source = MemorySource()
    entry = source.set("a", data={"v": "1"})
    async with ModelInformer(SharedInformer(source), StructMap) as informer:
        await informer.wait_synced(10)
        obj = informer.by_key["default/a"]
    assert obj == entry
    assert hash(obj) == hash(entry)
    obj.model.data["v"] = "mine"
    for other in (copy.copy(obj), copy.deepcopy(obj), pickle.loads(pickle.dumps(obj))):
        assert other == entry
        assert other.model == StructMap({"v": "1"})
        assert repr(other) == repr(entry)


async def test_a_typed_informer_and_its_objects_leave_nothing_behind() -> None:
    source = MemorySource()
    source.set("a")
    informer = ModelInformer(SharedInformer(source), DataMap)
    async with informer:
        await informer.wait_synced(10)
        found = informer.lister.get("a", namespace="default")
        assert found is not None
        found.model.data["self"] = found  # type: ignore[assignment]  # a cycle through what the model holds
    gone = weakref.ref(found.model)
    del found
    gc.collect()
    assert gone() is None
