"""Resources within others (`x-kubernetes-embedded-resource`), which have metadata whatever the schema says of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.site import APPLY, Site
from tests.conformance.test_expressions import Kind
from tests.support.waiting import until

Object = dict[str, Any]

EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}
KEPT = {"x-kubernetes-preserve-unknown-fields": True}
OWN = {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}
NAMED = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}
SCHEMA: Object = {
    "type": "object",
    "properties": {
        "template": {**EMBEDDED, "properties": OWN},
        "named": {**EMBEDDED, "properties": {**OWN, "metadata": NAMED}},
        "free": {**EMBEDDED, **KEPT},
        "list": {"type": "array", "items": {**EMBEDDED, "properties": OWN}},
        "map": {"type": "object", "additionalProperties": {**EMBEDDED, "properties": OWN}},
        "any": {"type": "object", **KEPT},
    },
}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "11111111-2222-3333-4444-555555555555"}
METADATA = {
    "name": "one",
    "generateName": "one-",
    "namespace": "elsewhere",
    "labels": {"a": "b"},
    "annotations": {"example.com/c": "d"},
    "finalizers": ["example.com/e"],
    "ownerReferences": [OWNER],
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "generation": 3,
    "uid": OWNER["uid"],
    "resourceVersion": "7",
}


def resource(**fields: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Part", **fields}


@pytest.mark.parametrize("level", ["Strict", "Warn", "Ignore"])
async def test_the_metadata_of_a_resource_within_another_is_known_to_validation(site: Site, level: str) -> None:
    kind = Kind(site)
    await kind.defined(schema=SCHEMA)
    path = f"{kind.things}?dryRun=All&fieldValidation={level}"
    plain = resource(metadata={"name": "one", "labels": {"a": "b"}}, spec={"n": 1})
    for spec in (
        {"template": resource(metadata=METADATA, spec={"n": 1})},
        {"named": resource(metadata=METADATA)},
        {"free": resource(metadata=METADATA, more={"x": 1}), "any": {"metadata": {"color": "red"}}},
        {"list": [plain, resource(metadata=METADATA)], "map": {"x": plain}},
        {"template": resource(metadata={"color": "red", "name": "one"})},
        {"named": resource(metadata={"color": "red", "name": "one"})},
        {"free": resource(metadata={"color": "red", "ownerReferences": [{**OWNER, "color": "red"}]})},
        {"list": [plain, resource(metadata={"color": "red"}, more=1)], "map": {"x": resource(metadata={"size": 1})}},
        {"template": resource(metadata={"name": "one"}, extra=1, spec={"m": 1}), "other": 1},
        {"template": resource(metadata={"creationTimestamp": None, "labels": {}, "name": "", "finalizers": []})},
        {"template": resource(metadata=None)},
        {"template": resource(metadata={})},
    ):
        await site.post(path, kind.thing(spec))


async def test_the_metadata_of_a_resource_within_another_is_validated(site: Site) -> None:
    kind = Kind(site)
    await kind.defined(schema=SCHEMA)
    path = f"{kind.things}?dryRun=All"
    for metadata in (
        {"labels": {"a": "b c"}},
        {"labels": {"a b": "c"}},
        {"annotations": {"a b": "c"}},
        {"name": "One Two"},
        {"name": "a/b"},
        {"namespace": "Bad_NS"},
        {"finalizers": ["a b"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}]},
        {"name": "longer"},
    ):
        await site.post(path, kind.thing({"template": resource(metadata=metadata)}))
    await site.post(path, kind.thing({"named": resource(metadata={"name": "longer"})}))
    await site.post(path, kind.thing({"list": [resource(metadata={"labels": {"a": "b c"}})]}))
    await site.post(path, kind.thing({"map": {"x": resource(metadata={"labels": {"a": "b c"}})}}))


async def test_a_resource_within_another_has_a_version_and_a_kind(site: Site) -> None:
    kind = Kind(site)
    await kind.defined(schema=SCHEMA)
    path = f"{kind.things}?dryRun=All"
    for template in (
        {},
        {"kind": "Part"},
        {"apiVersion": "v1"},
        resource(kind=""),
        resource(apiVersion=""),
        resource(apiVersion="a/b/c"),
        resource(kind="Bad_Kind"),
        resource(kind=5),
        resource(apiVersion=5),
        resource(metadata="x"),
        resource(metadata={"labels": 5}),
        resource(metadata={"labels": {"a": 5}}),
        resource(metadata={"name": 5}),
        resource(metadata={"creationTimestamp": "soon"}),
    ):
        await site.post(path, kind.thing({"template": template}))


async def test_the_metadata_of_a_resource_within_another_is_owned_field_by_field(site: Site) -> None:
    kind = Kind(site)
    await kind.defined(schema=SCHEMA)
    header = {"apiVersion": f"{kind.group}/v1", "kind": "Thing", "metadata": {"name": "a"}}

    async def applied(manager: str, **metadata: Any) -> None:
        body = {**header, "spec": {"template": resource(metadata=metadata)}}
        await site.patch(f"{kind.things}/a?fieldManager={manager}&fieldValidation=Strict", body, APPLY)

    await applied("one", labels={"a": "1", "b": "1"}, finalizers=["example.com/a"], ownerReferences=[OWNER])
    await applied("two", labels={"c": "1"}, finalizers=["example.com/b"])
    await applied("two", labels={"a": "2"})
    await applied("one", labels={"b": "1"})
    await applied("one", color="red")
    await applied("one", labels=["a"])
    await site.patch(f"{kind.things}/a", {"spec": {"template": {"metadata": {"labels": {"d": "1"}}}}})
    await site.get(f"{kind.things}/a")


async def test_openapi_has_the_metadata_of_a_resource_within_another(site: Site) -> None:
    kind = Kind(site)
    await kind.defined(schema=SCHEMA)
    path = f"/openapi/v3/apis/{kind.group}/v1"
    await site.until(path, 200)
    # The kinds of other tests may still be published: only the whole name says which one this is.
    name = f"{'.'.join(reversed(kind.group.split('.')))}.v1.Thing"

    async def v2() -> Object:
        found: Object = (await site.ask("GET", "/openapi/v2", kept=False, accept="application/json")).json
        return found["definitions"]

    documents = {
        "v2": await until(v2, 20, holds=lambda types: name in types),
        "v3": (await site.ask("GET", path, kept=False)).json["components"]["schemas"],
    }
    for version, types in documents.items():
        spec = types[name]["properties"]["spec"]
        template = spec["properties"]["template"]
        assert set(template["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
        assert set(template["required"]) == {"kind", "apiVersion"}
        assert "ObjectMeta" in str(template["properties"]["metadata"])
        assert "ObjectMeta" in str(spec["properties"]["named"]["properties"]["metadata"])
        free = spec["properties"]["free"].get("properties", {})
        assert set(free) == ({"apiVersion", "kind", "metadata"} if version == "v3" else set())


async def test_values_of_any_type_are_pruned_unless_they_are_to_be_kept(site: Site) -> None:
    kind = Kind(site)
    within = {"any": {"type": "object", "additionalProperties": True}, "plain": {"type": "object"}}
    kept = {"type": "array", "items": {"type": "object", "properties": within}, **KEPT}
    await kind.defined(schema={"type": "object", "properties": {**within, "kept": kept}})
    value = {"text": "a", "number": 1, "object": {"a": 1}, "list": [1, {"b": 2}, [{"c": 3}]]}
    for spec in ({"any": value}, {"plain": value}, {"kept": [{"any": value, "plain": value, "more": value}]}):
        await site.post(f"{kind.things}?dryRun=All", kind.thing(spec))
        await site.post(f"{kind.things}?dryRun=All&fieldValidation=Strict", kind.thing(spec))
