"""Server-side apply on the embedded server: any sequence of applies keeps what was applied and what is owned."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer.testing import APIServer
from tests.support.apiserver_http import ask, send
from tests.support.kube import widget_definition

pytestmark = pytest.mark.slow

APPLY = "application/apply-patch+yaml"
PATH = "/apis/example.com/v1/namespaces/default/widgets/a"
TEXT = {"type": "string", "nullable": True}
SPEC = {
    "type": "object",
    "properties": {
        "value": TEXT,
        "map": {"type": "object", "nullable": True, "additionalProperties": TEXT},
        "atomicMap": {
            "type": "object",
            "nullable": True,
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": TEXT,
        },
        "atomicList": {"type": "array", "nullable": True, "items": {"type": "string"}},
        "set": {"type": "array", "nullable": True, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "items": {
            "type": "array",
            "nullable": True,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {
                "type": "object",
                "required": ["key"],
                "properties": {
                    "key": {"type": "string"},
                    "value": TEXT,
                    "map": {"type": "object", "nullable": True, "additionalProperties": TEXT},
                },
            },
        },
    },
}
GRANULAR = ("set", "items")

LETTERS = st.sampled_from("ab")
VALUES = st.none() | LETTERS
MAPS = st.none() | st.dictionaries(LETTERS, VALUES)
ITEMS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"key": st.sampled_from("xyz")}, optional={"value": VALUES, "map": MAPS}
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "value": VALUES,
        "map": MAPS,
        "atomicMap": MAPS,
        "atomicList": st.none() | st.lists(LETTERS, max_size=2),
        "set": st.none() | st.lists(LETTERS, unique=True),
        "items": st.none() | st.lists(ITEMS, unique_by=lambda item: item["key"], max_size=3),
    },
)
APPLIES = st.lists(st.tuples(st.sampled_from(["first", "second", "third"]), SPECS, st.booleans()), max_size=8)


def missing(applied: Any, found: Any, path: str = "spec", name: str = "") -> Iterator[str]:
    """The paths of values that are in a configuration and not in the object; a null or an empty map says nothing."""
    if applied is None or applied == {}:
        return
    if isinstance(applied, dict) and name != "atomicMap":
        for below, value in applied.items():
            inner = found.get(below) if isinstance(found, dict) else None
            yield from missing(value, inner, f"{path}.{below}", below)
    elif name == "set":
        yield from (f"{path}[{one}]" for one in applied if one not in (found or []))
    elif name == "items":
        by_key = {item["key"]: item for item in found or []}
        for item in applied:
            yield from missing(item, by_key.get(item["key"]), f"{path}[{item['key']}]")
    elif applied != found:
        yield path


def unfounded(fields: Any, obj: Any, applied: Any, path: str = "") -> Iterator[str]:
    """The paths that an entry of managedFields claims without need: the object has none, nor was a null or {} said."""
    for element, below in fields.items():
        kind, _, text = element.partition(":")
        if element == ".":
            continue
        where = f"{path}.{text}"
        if kind == "f":
            inner, said = (value.get(text) if isinstance(value, dict) else None for value in (obj, applied))
            there = isinstance(obj, dict) and text in obj
        else:
            wanted = json.loads(text)
            inner, said = (_item(value, wanted) for value in (obj, applied))
            there = inner is not None
        if not there and said not in (None, {}):
            yield where
        if not there and said is None and not (isinstance(applied, dict) and text in applied):
            yield where
        yield from unfounded(below, inner, said, where)


def _item(values: Any, wanted: Any) -> Any:
    if isinstance(wanted, dict):
        return next((item for item in values or [] if item["key"] == wanted["key"]), None)
    return wanted if wanted in (values or []) else None


async def run(applies: list[tuple[str, dict[str, Any], bool]]) -> None:
    said: dict[str, Any] = {}
    async with APIServer() as server:
        schema = {"type": "object", "properties": {"spec": {**SPEC, "nullable": True}}}
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await send(server, "POST", definitions, widget_definition(schema))).status == 201
        for manager, spec, force in applies:
            body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}
            path = f"{PATH}?fieldManager={manager}&force={str(force).lower()}"
            reply = await ask(server.url, "PATCH", path, body=json.dumps(body), headers={"Content-Type": APPLY})
            if reply.status == 409:
                assert not force
                continue
            assert reply.status in (200, 201), reply.body
            said[manager] = {"spec": spec}
            obj = reply.json
            assert list(missing(spec, obj.get("spec") or {})) == []
            entries = {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields") or []}
            for owner, fields in entries.items():
                assert list(unfounded(fields, obj, said.get(owner))) == [], owner  # `before-first-apply` said nothing


@given(applies=APPLIES)
def test_what_is_applied_is_there_and_what_is_claimed_exists(applies: list[tuple[str, dict[str, Any], bool]]) -> None:
    asyncio.run(run(applies))
