"""Custom resources: their definitions, schemas, subresources, columns and versions."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest_asyncio

from tests.conformance.site import APPLY, Site
from tests.conformance.test_lists import ONE_METADATA, TABLE

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "replicas": {"type": "integer", "default": 1},
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "slow"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0, "multipleOf": 0.5},
        "tags": {"type": "array", "maxItems": 3, "minItems": 1, "uniqueItems": False, "items": {"type": "string"}},
        "when": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "nested": {
            "type": "object",
            "properties": {"on": {"type": "boolean", "default": True}, "deep": {"type": "string"}},
        },
        "hosts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["host"],
            "items": {
                "type": "object",
                "required": ["host"],
                "properties": {"host": {"type": "string"}, "port": {"type": "integer", "default": 80}},
            },
        },
    },
}
STATUS = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
    },
}


def definition(group: str) -> dict[str, Any]:
    """Widgets in a group of their own, as groups are the server's and not the namespace's."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "listKind": "WidgetList",
                "shortNames": ["wd"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "description": "How it runs"},
                        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                        {"name": "On", "type": "boolean", "jsonPath": ".spec.nested.on", "priority": 1},
                        {"name": "Hosts", "type": "string", "jsonPath": ".spec.hosts[*].host"},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    ],
                    "selectableFields": [{"jsonPath": ".spec.mode"}],
                }
            ],
        },
    }


class Widgets:
    """The collection of a new kind on a site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.group = f"{site.namespace}.example.com"
        self.path = site.of(f"{self.group}/v1", "widgets")
        self.definition = f"{DEFINITIONS}/widgets.{self.group}"

    def widget(self, name: str, /, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"{self.group}/v1",
            "kind": "Widget",
            "metadata": {"name": name},
            "spec": {"size": 1, **spec},
        }


@pytest_asyncio.fixture
async def widgets(site: Site) -> Widgets:
    found = Widgets(site)
    await site.server.install_crds(definition(found.group))
    return found


async def test_a_custom_object_gets_its_defaults_and_loses_what_is_unknown(widgets: Widgets) -> None:
    site = widgets.site
    body = widgets.widget(
        "a", unknown=1, free={"any": {"thing": 1}}, nested={"stray": 1}, hosts=[{"host": "h", "x": 1}]
    )
    await site.post(widgets.path, {**body, "extra": "?"})
    await site.get(f"{widgets.path}/a")
    await site.patch(f"{widgets.path}/a", {"spec": {"mode": None, "unknown": 2}})
    await site.post(f"{widgets.path}?fieldValidation=Strict", {**body, "metadata": {"name": "b"}})
    await site.post(f"{widgets.path}?fieldValidation=Warn", {**body, "metadata": {"name": "c"}})


async def test_a_custom_object_is_held_against_its_schema(widgets: Widgets) -> None:
    site = widgets.site
    for spec in (
        {"size": 0},
        {"size": 10},
        {"size": "one"},
        {"size": 1.5},
        {"size": None},
        {"mode": "idle"},
        {"name": "UPPER"},
        {"name": "a"},
        {"name": "abcdef"},
        {"ratio": 0},
        {"ratio": 0.3},
        {"tags": []},
        {"tags": ["a", "b", "c", "d"]},
        {"tags": [1]},
        {"tags": "a"},
        {"when": "yesterday"},
        {"port": 1},
        {"port": "http"},
        {"port": 1.5},
        {"maybe": None},
        {"name": None},
        {"limits": {"a": 1}},
        {"limits": {"a": "b"}},
        {"nested": []},
        {"nested": {"on": "yes"}},
        {"hosts": [{"port": 1}]},
        {"hosts": [{"host": "a"}, {"host": "a"}]},
    ):
        await site.post(f"{widgets.path}?dryRun=All", widgets.widget("a", **spec))
    without = widgets.widget("a")
    del without["spec"]["size"]
    await site.post(widgets.path, without)
    del without["spec"]
    await site.post(widgets.path, without)


async def test_a_custom_object_has_the_rules_of_every_object(widgets: Widgets) -> None:
    site = widgets.site
    made = (await site.post(widgets.path, widgets.widget("a"))).json
    await site.post(widgets.path, widgets.widget("a"))
    await site.post(widgets.path, widgets.widget("Not A Name"))
    await site.post(widgets.path, {**widgets.widget("b"), "kind": "Gadget"})
    await site.post(widgets.path, {**widgets.widget("b"), "apiVersion": "example.com/v2"})
    await site.post(widgets.path, {"metadata": {"name": "b"}, "spec": {"size": 1}})
    await site.put(f"{widgets.path}/a", widgets.widget("a", size=2))
    await site.put(f"{widgets.path}/a", {**made, "spec": {"size": 2}})
    await site.put(f"{widgets.path}/a", {**made, "spec": {"size": 3}})
    await site.patch(f"{widgets.path}/a", {"spec": {"size": 4}})
    await site.patch(f"{widgets.path}/a", {"spec": {"size": 5}}, "application/strategic-merge-patch+json")
    await site.patch(
        f"{widgets.path}/a", [{"op": "replace", "path": "/spec/size", "value": 99}], "application/json-patch+json"
    )
    await site.patch(f"{widgets.path}/a", {"metadata": {"labels": {"a b": "c"}}})
    await site.get(f"{widgets.path}/missing")
    await site.delete(f"{widgets.path}/a")
    await site.delete(f"{widgets.path}/a")


async def test_status_and_spec_of_a_custom_object_are_apart(widgets: Widgets) -> None:
    site = widgets.site
    await site.post(widgets.path, {**widgets.widget("a"), "status": {"phase": "Dropped"}})
    await site.patch(
        f"{widgets.path}/a/status",
        {"status": {"phase": "Ready"}, "spec": {"size": 9}, "metadata": {"labels": {"x": "1"}}},
    )
    await site.patch(f"{widgets.path}/a", {"status": {"phase": "Dropped"}, "spec": {"size": 2}})
    await site.get(f"{widgets.path}/a/status")
    await site.patch(f"{widgets.path}/a/status", {"status": {"phase": 1}})
    await site.patch(f"{widgets.path}/a", {"metadata": {"annotations": {"x": "1"}}})


async def test_a_custom_object_is_scaled(widgets: Widgets) -> None:
    site = widgets.site
    await site.post(widgets.path, widgets.widget("a"))
    await site.patch(f"{widgets.path}/a/status", {"status": {"replicas": 1, "selector": "app=a"}})
    await site.get(f"{widgets.path}/a/scale")
    await site.patch(f"{widgets.path}/a/scale", {"spec": {"replicas": 5}})
    await site.get(f"{widgets.path}/a")


async def test_custom_objects_are_applied(widgets: Widgets) -> None:
    site = widgets.site
    path = f"{widgets.path}/a"
    await site.patch(f"{path}?fieldManager=one", widgets.widget("a", hosts=[{"host": "x"}]), APPLY)
    other = widgets.widget("a", hosts=[{"host": "y", "port": 81}])
    del other["spec"]["size"]
    await site.patch(f"{path}?fieldManager=two", other, APPLY)
    await site.patch(f"{path}?fieldManager=two", widgets.widget("a", size=3), APPLY)
    await site.patch(f"{path}?fieldManager=one", widgets.widget("a"), APPLY)


async def test_custom_objects_come_as_tables_and_metadata(widgets: Widgets) -> None:
    site = widgets.site
    await site.make(widgets.path, widgets.widget("a", hosts=[{"host": "x"}, {"host": "y"}]))
    await site.make(widgets.path, widgets.widget("b", mode="fast"))
    await site.get(f"{widgets.path}?includeObject=None", accept=TABLE)
    await site.get(widgets.path)
    await site.get(f"{widgets.path}/a", accept=ONE_METADATA)


async def test_custom_objects_are_chosen_by_fields(widgets: Widgets) -> None:
    site = widgets.site
    await site.make(widgets.path, widgets.widget("a"))
    await site.make(widgets.path, widgets.widget("b", mode="fast"))
    for selector in ("metadata.name%3Da", "spec.mode%3Dfast", "spec.size%3D1"):
        await site.get(f"{widgets.path}?fieldSelector={selector}")


async def test_custom_objects_are_watched(widgets: Widgets) -> None:
    site = widgets.site
    await site.make(widgets.path, widgets.widget("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with site.watch(f"{widgets.path}?{query}") as stream:
        await stream.events(2, bookmarks=True)
        await site.patch(f"{widgets.path}/a", {"spec": {"size": 2}}, kept=False)
        await site.delete(f"{widgets.path}/a", kept=False)
        await stream.events(2)


async def test_a_kind_is_in_discovery(widgets: Widgets) -> None:
    site = widgets.site
    await site.until(f"/apis/{widgets.group}/v1", 200)
    await site.get(f"/apis/{widgets.group}")
    await site.get(f"/apis/{widgets.group}/v1")
    await site.get(f"/apis/{widgets.group}/v2")


async def test_a_definition_tells_how_it_stands(widgets: Widgets) -> None:
    site = widgets.site
    async with asyncio.timeout(10):
        while True:
            status = (await site.ask("GET", widgets.definition, kept=False)).json["status"]
            if {one["type"] for one in status["conditions"]} >= {"NamesAccepted", "Established"}:
                break
            await asyncio.sleep(0.02)
    kept = site.transcript.request("GET", "its status", {}, None)
    conditions = sorted(status["conditions"], key=lambda one: str(one["type"]))
    site.transcript.answer(kept, 200, {}, {**status, "conditions": conditions})
    await site.get(
        f"{DEFINITIONS}?includeObject=None&fieldSelector=metadata.name%3Dwidgets.{widgets.group}", accept=TABLE
    )


async def test_a_deleted_definition_takes_its_objects_and_watches_along(widgets: Widgets) -> None:
    site = widgets.site
    await site.make(widgets.path, widgets.widget("a"))
    async with site.watch(f"{widgets.path}?watch=1&resourceVersion=0") as stream:
        await stream.event()
        await site.ask("DELETE", widgets.definition, kept=False)
        assert [event["type"] for event in await stream.end()] == ["DELETED"]
    await site.until(widgets.path, 404)
    await site.get(widgets.path)
    await site.get(widgets.definition)


async def test_a_definition_that_is_wrong_is_refused(site: Site) -> None:
    good = definition(f"{site.namespace}.example.com")

    def changed(change: Any) -> dict[str, Any]:
        body = copy.deepcopy(good)
        change(body)
        return body

    def version(body: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = body["spec"]["versions"][0]
        return found

    for change in (
        lambda body: body["metadata"].update(name="other.example.com"),
        lambda body: body["spec"].pop("group"),
        lambda body: body["spec"].update(scope="Everywhere"),
        lambda body: body["spec"].update(versions=[]),
        lambda body: version(body).update(storage=False),
        lambda body: version(body).pop("schema"),
        lambda body: version(body)["schema"]["openAPIV3Schema"].pop("type"),
        lambda body: body["spec"]["names"].pop("kind"),
        lambda body: body["spec"]["names"].update(plural="Widgets"),
    ):
        await site.post(DEFINITIONS, changed(change))


async def test_a_second_version_serves_the_same_objects(widgets: Widgets) -> None:
    site = widgets.site
    await site.make(widgets.path, widgets.widget("a"))
    body = definition(widgets.group)
    second = {**copy.deepcopy(body["spec"]["versions"][0]), "name": "v2", "storage": False}
    body["spec"]["versions"].append(second)
    await site.server.install_crds(body)
    later = widgets.path.replace("/v1/", "/v2/")
    await site.get(f"{later}/a")
    await site.post(later, {**widgets.widget("b"), "apiVersion": f"{widgets.group}/v2"})
    await site.get(f"{widgets.path}/b")
    body["spec"]["versions"][1]["served"] = False
    await site.server.install_crds(body)
    await site.until(later, 404)
    await site.get(later)


async def test_a_finalizer_without_a_domain_is_warned_of(widgets: Widgets) -> None:
    site, path = widgets.site, f"{widgets.path}/a"
    body = widgets.widget("a")
    await site.post(widgets.path, {**body, "metadata": {"name": "a", "finalizers": ["hold", "example.com", "orphan"]}})
    await site.patch(path, {"metadata": {"finalizers": ["hold", "more", "x.io/a"]}})
    await site.patch(path, {"metadata": {"finalizers": ["hold"]}})
    await site.patch(path, {"metadata": {"finalizers": ["not valid", "-"]}})
    applied = {**body, "metadata": {"name": "b", "finalizers": ["hold"]}}
    await site.patch(f"{widgets.path}/b?fieldManager=first", applied, APPLY)
    await site.post(widgets.path, {**body, "metadata": {"name": "c", "finalizers": ["hold"]}, "spec": {}})
    leases = site.of("coordination.k8s.io/v1", "leases")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a", "finalizers": ["hold"]}}
    await site.post(leases, lease)
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["hold", "-"]}}
    await site.post(site.configmaps, config_map)
