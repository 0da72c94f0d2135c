"""Custom resources of the embedded server: held against their schema, with the texts of a kube-apiserver v1.36."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kinformer.testing import APIServer
from tests.support import kube
from tests.support.apiserver_http import ask, send
from tests.support.kube import widget_definition

MERGE = "application/merge-patch+json"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FIELDS: dict[str, Any] = {
    "size": {"type": "integer", "minimum": 1, "maximum": 10},
    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
    "word": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
    "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    "when": {"type": "string", "format": "date-time"},
    "mode": {"x-kubernetes-int-or-string": True},
    "nested": {"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 5}}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
}  # fmt: skip


def definition() -> dict[str, Any]:
    spec = {"type": "object", "required": ["size"], "properties": FIELDS}
    status = {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "First", "type": "string", "jsonPath": ".spec.tags[*]"},
        {"name": "Note", "type": "string", "jsonPath": ".spec.free.note", "priority": 1},
    ]
    return widget_definition(schema, subresources={"status": {}, "scale": scale}, additionalPrinterColumns=columns)


def widget(name: str = "w", **spec: Any) -> dict[str, Any]:
    return kube.widget(name, **{"size": 1, **spec})


@pytest.fixture
async def widgets(server: APIServer) -> APIServer:
    assert (await send(server, "POST", DEFINITIONS, definition())).status == 201
    return server


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"size": "x"}, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'),
        ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ({"size": 11}, "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"),
        ({"size": None}, "spec.size: Required value"),
        ({"color": "green"}, 'spec.color: Unsupported value: "green": supported values: "red", "blue"'),
        ({"word": "AB"}, "spec.word: Invalid value: \"AB\": spec.word in body should match '^[a-z]+$'"),
        ({"word": "a"}, 'spec.word: Invalid value: "a": spec.word in body should be at least 2 chars long'),
        ({"word": "abcdef"}, "spec.word: Too long: may not be more than 5 bytes"),
        ({"tags": ["a", "b", "c"]}, "spec.tags: Too many: 3: must have at most 2 items"),
        ({"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
        (
            {"tags": [1]},
            'spec.tags[0]: Invalid value: "integer": spec.tags[0] in body must be of type string: "integer"',
        ),
        ({"when": "x"}, 'spec.when: Invalid value: "x": spec.when in body must be of type date-time: "x"'),
        (
            {"mode": True},
            'spec.mode: Invalid value: "boolean": spec.mode in body must be of type integer,string: "boolean"',
        ),
        (
            {"one": {"a": "1", "b": "2"}},
            ('<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid'
            " alternatives"),
        ),
    ],
)  # fmt: skip
async def test_a_custom_resource_is_held_against_its_schema(widgets: APIServer, spec: Any, text: str) -> None:
    reply = await send(widgets, "POST", WIDGETS, widget(**spec))
    assert (reply.status, reply.json["message"]) == (422, f'Widget.example.com "w" is invalid: {text}')


async def test_a_custom_resource_is_given_its_defaults_and_loses_what_its_schema_does_not_know(
    widgets: APIServer,
) -> None:
    body = widget(color=None, surprise=1, free={"kept": 1})
    reply = await send(widgets, "POST", WIDGETS, body)
    assert reply.json["spec"] == {"size": 1, "color": "red", "nested": {"a": 5}, "free": {"kept": 1}}
    assert reply.headers["warning"] == '299 - "unknown field \\"spec.surprise\\""'
    body["metadata"]["surprise"] = 1
    strict = await send(widgets, "POST", f"{WIDGETS}?fieldValidation=Strict", body)
    assert 'unknown field "metadata.surprise", unknown field "spec.surprise"' in strict.json["message"]


async def test_a_status_is_checked_by_itself_and_a_scale_by_the_schema(widgets: APIServer) -> None:
    await send(widgets, "POST", WIDGETS, widget())
    reply = await send(widgets, "PATCH", f"{WIDGETS}/w/status", {"status": {"phase": 1}}, MERGE)
    text = 'status.phase: Invalid value: "integer": phase in body must be of type string: "integer"'
    assert reply.json["message"] == f'Widget.example.com "w" is invalid: {text}'
    scaled = await send(widgets, "PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": 7}}, MERGE)
    assert (scaled.json["kind"], scaled.json["spec"]) == ("Scale", {"replicas": 7})
    reply = await send(widgets, "PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": 70}}, MERGE)
    assert "spec.size in body should be less than or equal to 10" in reply.json["message"]


async def test_the_columns_of_a_definition_are_those_of_its_tables(widgets: APIServer) -> None:
    await send(widgets, "POST", WIDGETS, widget(tags=["x", "y"], free={"note": "hi"}))
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = (await ask(widgets.url, "GET", WIDGETS, headers=accept)).json
    assert [(one["name"], one["type"], one["priority"]) for one in table["columnDefinitions"]] == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("First", "string", 0),
        ("Note", "string", 1),
    ]
    assert table["rows"][0]["cells"] == ["w", 1, "x", "hi"]
    bare = (await ask(widgets.url, "GET", f"{WIDGETS}?includeObject=None", headers=accept)).json
    assert bare["rows"][0]["object"] is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"scope": "Foo"},
            'spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"',
        ),
        (
            {"versions": []},
            (
                "[spec.versions: Invalid value: []: must have exactly one version marked as storage version,"
                " status.storedVersions: Invalid value: null: must have at least one stored version]"
            ),
        ),
        ({"group": None}, "[metadata.name: Invalid value"),
    ],
)
async def test_a_definition_that_is_wrong_is_refused(server: APIServer, change: Any, text: str) -> None:
    body = definition()
    body["spec"].update(change)
    reply = await send(server, "POST", DEFINITIONS, body)
    assert reply.status == 422
    begin = f'CustomResourceDefinition.apiextensions.k8s.io "widgets.example.com" is invalid: {text}'
    assert reply.json["message"].startswith(begin)


async def test_a_schema_has_to_be_structural(server: APIServer) -> None:
    for schema, text in (
        ({"type": "string"}, 'openAPIV3Schema.type: Invalid value: "string": must be object at the root'),
        ({"type": "object", "properties": {"a": {}}}, "properties[a].type: Required value: must not be empty for"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "properties[a].items: Required value"),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}},
            'properties[a].default: Invalid value: "string":  in body must be of type integer: "string"',
        ),
    ):
        body = copy.deepcopy(definition())
        body["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
        reply = await send(server, "POST", DEFINITIONS, body)
        assert reply.status == 422
        assert text in reply.json["message"]


async def test_what_a_definition_is_about_cannot_be_changed(widgets: APIServer) -> None:
    path = f"{DEFINITIONS}/widgets.example.com"
    for change, text in (
        ({"group": "other.io"}, 'spec.group: Invalid value: "other.io": field is immutable'),
        ({"scope": "Cluster"}, 'spec.scope: Invalid value: "Cluster": field is immutable'),
        ({"names": {"kind": "Other"}}, 'spec.names.kind: Invalid value: "Other": field is immutable'),
    ):
        reply = await send(widgets, "PATCH", path, {"spec": change}, MERGE)
        assert (reply.status, reply.json["message"].rpartition("is invalid: ")[2]) == (422, text)


async def test_numbers_of_a_custom_resource_come_back_as_go_writes_them(widgets: APIServer) -> None:
    text = json.dumps(widget(free={"mark": 1}))
    numbers = '"a":1.0,"b":1E2,"c":1.5,"d":9223372036854775807,"e":9223372036854775808,"f":99999999999999999999'
    assert (await send(widgets, "POST", WIDGETS, text.replace('"mark": 1', numbers))).status == 201
    reply = await send(widgets, "GET", f"{WIDGETS}/w")
    assert json.dumps(reply.json["spec"]["free"], separators=(",", ":")) == (
        '{"a":1,"b":100,"c":1.5,"d":9223372036854775807,"e":9223372036854776000,"f":100000000000000000000}'
    )
