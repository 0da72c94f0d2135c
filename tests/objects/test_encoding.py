"""The JSON of a program's values, with the same meaning, or an error that names the path of one that has none."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes_asyncio.client import V1ConfigMap, V1ObjectMeta

from kinformer import Client, KubeObject, SharedInformer, SharedInformerFactory
from kinformer.controller import Applier, write_status
from kinformer.derived import mapped
from kinformer.exceptions import DecodeError
from kinformer.testing import APIServer
from kinformer.testing.explore import Step
from tests.support.kube import config_map, entry, widget
from tests.support.memory_source import MemorySource

NAN, INF = float("nan"), float("inf")


class Phase(Enum):
    READY = "Ready"


class Level(IntEnum):
    HIGH = 3


class Plain(msgspec.Struct, rename="camel"):
    first_name: str = "x"
    last_name: str | msgspec.UnsetType = msgspec.UNSET


@dataclass
class Ratio:
    ratio: float


class Text(str):
    pass


AS_SENT: list[tuple[str, object, object]] = [
    ("a tuple is a list", (1, (2,)), [1, [2]]),
    ("an Enum is its value", [Phase.READY, Level.HIGH], ["Ready", 3]),
    ("bytes are base64, as Go sends them", [b"ab", bytearray(b"ab"), memoryview(b"ab")], ["YWI="] * 3),
    ("an aware datetime is RFC 3339", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), "2030-01-02T03:04:05Z"),
    (
        "with microseconds and its offset",
        datetime(2030, 1, 2, 3, 4, 5, 600, tzinfo=timezone(timedelta(hours=2))),
        "2030-01-02T03:04:05.000600+02:00",
    ),
    ("a date is ISO 8601", date(2030, 1, 2), "2030-01-02"),
    ("a UUID is its text", UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ("a Decimal is its digits, as a quantity is", Decimal("1.50"), "1.50"),
    ("an integer is its digits", [2**53 + 1, 2**63 - 1, -(2**63)], [2**53 + 1, 2**63 - 1, -(2**63)]),
    ("a float is the shortest number", [0.1, -0.0, 1e300], [0.1, -0.0, 1e300]),
    ("a Struct has its names, without what is unset", Plain(), {"firstName": "x"}),
    ("a dataclass has its members", Ratio(0.5), {"ratio": 0.5}),
    ("msgspec.Raw is kept", msgspec.Raw(b'{"a":1}'), {"a": 1}),
    ("an integer or an Enum as a key is its text", {1: "a", Phase.READY: "b"}, {"1": "a", "Ready": "b"}),
]

REFUSED: list[tuple[object, str]] = [
    (NAN, "spec.value: JSON has no number nan"),
    (-INF, "spec.value: JSON has no number -inf"),
    ([{"a.b": NAN}], "spec.value[0]['a.b']: JSON has no number nan"),
    (Ratio(NAN), "spec.value.ratio: JSON has no number nan"),
    ((0, Ratio(INF)), "spec.value[1].ratio: JSON has no number inf"),
    (Decimal("NaN"), "spec.value: JSON has no number NaN"),
    ({"a"}, "spec.value: a set has no order; pass a list"),
    (frozenset(), "spec.value: a set has no order; pass a list"),
    (timedelta(hours=1), "spec.value: a timedelta has no form that every field takes"),
    (datetime(2030, 1, 1), "spec.value: a datetime without a time zone"),
    (entry("a"), "spec.value: a KubeObject is not encoded"),
    (types.MappingProxyType({}), "spec.value: a mappingproxy is not encoded; pass dict(...)"),
    ({1.5: "a"}, "spec.value: a key is a float; pass strings"),
    ({b"a": "a"}, "spec.value: a key is a bytes; pass strings"),
    ({True: "a"}, "spec.value: a key is a bool; pass strings"),
    ({1: "a", "1": "b"}, "spec.value: two keys become the same text"),
    ({"\ud800": 1}, "spec.value: a key: 'utf-8' codec can't encode"),
    ("a\ud800", "spec.value: 'utf-8' codec can't encode"),
    (Text("a"), "spec.value: Encoding objects of type Text is unsupported"),
    (object(), "spec.value: Encoding objects of type object is unsupported"),
    (range(3), "spec.value: Encoding objects of type range is unsupported"),
]


def of(value: object) -> dict[str, Any]:
    """Return a Widget with a value in its spec."""
    return widget("a", value=value)


@pytest.mark.parametrize(("value", "sent"), [(value, sent) for _, value, sent in AS_SENT], ids=[i for i, *_ in AS_SENT])
async def test_a_value_becomes_the_json_that_it_means(
    server: APIServer, client: Client, value: object, sent: object
) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    assert KubeObject.from_dict(of(value))["spec"] == {"value": sent}
    assert (await client.create(of(value)))["spec"] == {"value": sent}
    patched = await client.patch("example.com/v1/widgets", "default/a", {"spec": {"value": None, "other": value}})
    assert patched["spec"] == {"other": sent}
    assert server.update(of(value))["spec"] == {"value": sent}


async def test_an_integer_of_more_than_64_bits_is_its_digits_and_a_float64_for_the_server(
    server: APIServer, client: Client
) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    assert KubeObject.from_dict(of(2**64))["spec"] == {"value": 2**64}
    assert (await client.create(of(2**64)))["spec"] == {"value": 18446744073709552000}


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
async def test_a_value_without_json_is_refused_with_its_path(
    server: APIServer, client: Client, value: object, message: str
) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    path = "/apis/example.com/v1/namespaces/default/widgets"
    sends: list[Callable[[], Awaitable[object]]] = [
        lambda: client.create(of(value)),
        lambda: client.replace(of(value)),
        lambda: client.apply(of(value), field_manager="test"),
        lambda: client.patch("example.com/v1/widgets", "default/a", {"spec": {"value": value}}),
        lambda: client.patch(
            "example.com/v1/widgets", "default/a", [{"op": "add", "path": "/spec/value", "value": value}], type="json"
        ),
        lambda: client.request("POST", path, body=of(value)),
    ]
    for send in sends:
        with pytest.raises(TypeError) as caught:
            await send()
        assert message.replace("spec.value", "value") in str(caught.value)
    assert all(request.method == "GET" for request in server.requests)
    with pytest.raises(DecodeError, match=r"value.*: "):
        KubeObject.from_dict(of(value))
    for write in (server.create, server.update):
        with pytest.raises(TypeError):
            write(of(value))


async def test_a_merge_patch_removes_only_fields_that_are_none(server: APIServer, client: Client) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    await client.create(widget("a", ratio=0.5, limit=7))
    with pytest.raises(TypeError, match=r"a body of type dict cannot be sent as JSON: spec\.ratio: JSON has no number"):
        await client.patch("example.com/v1/widgets", "default/a", {"spec": {"ratio": NAN}})
    patched = await client.patch("example.com/v1/widgets", "default/a", {"spec": {"limit": None}})
    assert patched["spec"] == {"ratio": 0.5}


class ModelSpec(pydantic.BaseModel):
    ratio: float
    tags: list[str | None] = []


class Model(pydantic.BaseModel):
    apiVersion: str = "example.com/v1"  # noqa: N815 - the name on the wire
    kind: str = "Widget"
    metadata: dict[str, str] = {"name": "a", "namespace": "default"}
    spec: ModelSpec


class ModelWithText(Model):
    model_config = pydantic.ConfigDict(ser_json_inf_nan="strings")

    ratio: float


async def test_a_model_is_looked_at_as_it_is_sent(server: APIServer, client: Client) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    with pytest.raises(TypeError, match=r"spec\.ratio: JSON has no number nan"):
        await client.create(Model(spec=ModelSpec(ratio=NAN)))
    with pytest.raises(TypeError, match=r"data\.a: JSON has no number inf"):
        await client.create(V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=V1ObjectMeta(), data={"a": INF}))
    sent = await client.create(Model(spec=ModelSpec(ratio=0.5, tags=["a", None])))
    assert sent["spec"] == {"ratio": 0.5, "tags": ["a", None]}
    text = ModelWithText(spec=ModelSpec(ratio=1), ratio=INF)  # whose JSON is the model's own choice
    assert (await client.replace(_with_version(text, sent)))["ratio"] == "Infinity"


def _with_version(model: Model, obj: KubeObject) -> Model:
    return model.model_copy(update={"metadata": {**model.metadata, "resourceVersion": obj.resource_version}})


async def test_a_status_is_compared_as_it_is_sent(server: APIServer, client: Client) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    obj = await client.create(widget("a"))
    status = {"at": datetime(2030, 1, 1, tzinfo=UTC), "nodes": ("a", "b"), "phase": Phase.READY, "cpu": Decimal("0.5")}
    written = await write_status(client, "example.com/v1/widgets", obj, status)
    assert written["status"] == {"at": "2030-01-01T00:00:00Z", "nodes": ["a", "b"], "phase": "Ready", "cpu": "0.5"}
    assert await write_status(client, "example.com/v1/widgets", written, status) is written  # without a request
    with pytest.raises(TypeError, match=r"load: JSON has no number nan"):
        await write_status(client, "example.com/v1/widgets", written, {"load": NAN})


async def test_an_applier_refuses_what_it_could_not_send(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        maps = factory.for_resource("v1/configmaps")
        await maps.wait_synced(10)
        applier = Applier(client, "v1/configmaps", maps, field_manager="test")
        document = {**config_map("a"), "data": {"ratio": NAN}}
        for _ in range(2):  # the second is not taken for one that was applied
            with pytest.raises(TypeError, match=r"data\.ratio: JSON has no number nan"):
                await applier.apply(document)
        assert applier.requests == 0


async def test_a_transform_that_puts_nan_in_leaves_the_object_out() -> None:
    source = MemorySource()
    source.set("a", data={"used": 1, "of": 0})
    source.set("b", data={"used": 1, "of": 2, "none": None, "big": 1e306})

    def with_ratio(document: dict[str, Any]) -> dict[str, Any]:
        data = document["data"]
        data["ratio"] = data["used"] / data["of"] if data["of"] else NAN
        return document

    async with SharedInformer(source, transform=with_ratio) as informer:
        await informer.wait_synced()
        assert [obj["data"] for obj in informer.lister.list()] == [
            {"used": 1, "of": 2, "none": None, "big": 1e306, "ratio": 0.5}
        ]
        assert informer.statistics().transform_errors == 1


async def test_pages_are_sorted_by_numbers_that_json_does_not_have() -> None:
    source = MemorySource()
    for name in "abcd":
        source.set(name)
    ranks = {"a": INF, "b": NAN, "c": 1.0, "d": -INF}
    async with SharedInformer(source) as informer, mapped(informer, lambda obj: obj.name) as names:
        await names.wait_synced()
        pages, after = [], None
        for _ in range(4):
            page = await names.page(sort=ranks.__getitem__, limit=1, after=after)
            pages += page.items
            after = page.next
        assert (pages, after) == (["b", "d", "c", "a"], None)  # nan has no order, as a missing value


def test_a_step_of_an_exploration_has_json() -> None:
    with pytest.raises(TypeError, match=r"spec\.value: JSON has no number nan"):
        Step("create", body=of(NAN))


async def test_a_large_body_does_not_hold_the_loop_while_it_is_looked_at(server: APIServer, client: Client) -> None:
    items = [{"name": f"n{number}", "tags": ["a", "b"], "weight": 1.5} for number in range(20_000)]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    with pytest.raises(TypeError, match=r"items\[19999\]\.weight: JSON has no number nan"):
        await client.request(
            "POST", "/api/v1/namespaces/default/configmaps", body={"items": [*items[:-1], items[-1] | {"weight": NAN}]}
        )
    counting.cancel()
    assert turns > 5


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_plain_json_stays_as_it_is(value: object) -> None:
    assert KubeObject.from_dict(of(value))["spec"]["value"] == value


ODD = st.sampled_from([NAN, INF, -INF, Decimal("NaN"), {"a"}, timedelta(1), datetime(2030, 1, 1), entry("a")])


@given(
    st.recursive(
        ODD, lambda inner: st.tuples(JSON_VALUES, inner) | st.fixed_dictionaries({"a": JSON_VALUES, "b": inner})
    )
)
def test_what_json_lacks_is_found_at_any_depth(value: object) -> None:
    with pytest.raises(DecodeError, match="not a Kubernetes object: "):
        KubeObject.from_dict(of(value))


def test_a_value_that_contains_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(DecodeError, match="nested too deeply, or contains itself"):
        KubeObject.from_dict(of(circle))
