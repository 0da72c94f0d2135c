"""Definitions that change while there are objects: their defaults, their rules, and what is let through."""

from __future__ import annotations

import copy
from typing import Any

from tests.conformance.site import APPLY, Site
from tests.conformance.test_custom import Widgets, definition
from tests.conformance.test_custom import widgets as widgets  # the fixture
from tests.support.waiting import until

TEXT = {"type": "string"}


async def change(widgets: Widgets, properties: dict[str, Any], *, status: dict[str, Any] | None = None) -> None:
    """Replace properties of the spec, and wait until a server goes by the new definition."""
    site = widgets.site
    crd = (await site.ask("GET", widgets.definition, kept=False)).json
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    mark = f"mark{crd['metadata']['generation']}"
    schema["spec"]["properties"] |= {**copy.deepcopy(properties), mark: TEXT}
    schema["status"]["properties"] |= copy.deepcopy(status or {})
    await site.ask("PUT", widgets.definition, crd, kept=False)
    probe = widgets.widget("probe", **{mark: "x"})

    async def known() -> bool:
        reply = await site.ask("POST", f"{widgets.path}?dryRun=All&fieldValidation=Strict", probe, kept=False)
        return reply.status != 400 and site.namespace in str(reply.json)

    await until(known, 20)


async def test_a_default_that_came_later_is_seen_on_objects_that_exist(widgets: Widgets) -> None:
    site, path = widgets.site, widgets.path
    await site.post(path, widgets.widget("a", nested={"deep": "x"}, hosts=[{"host": "h"}]))
    await change(widgets, {"late": {"type": "string", "default": "here"}, "other": {"type": "object", "default": {}}})
    await site.get(f"{path}/a")
    await site.get(path)
    await site.get(f"{path}?fieldSelector=spec.mode%3Dslow")
    await change(widgets, {"late": {"type": "string", "default": "elsewhere"}})
    await site.get(f"{path}/a")
    await site.patch(f"{path}/a", {"metadata": {"labels": {"x": "1"}}})
    await change(widgets, {"late": {"type": "string", "default": "again"}})
    await site.get(f"{path}/a")
    await site.patch(f"{path}/a?fieldManager=first&force=true", widgets.widget("a", late="mine"), APPLY)
    await site.patch(f"{path}/a?fieldManager=first", widgets.widget("a"), APPLY)


async def test_a_watch_from_before_a_new_definition_starts_anew(widgets: Widgets) -> None:
    site, path = widgets.site, widgets.path
    await site.post(path, widgets.widget("a"))
    before = await site.revision(path)
    await change(widgets, {"late": {"type": "string", "default": "here"}})
    await site.patch(f"{path}/a", {"spec": {"size": 2}})
    async with site.watch(f"{path}?watch=1&resourceVersion={before}&timeoutSeconds=1") as stream:
        await stream.end()


async def test_what_is_wrong_by_a_new_definition_is_let_through_unchanged(widgets: Widgets) -> None:
    site, path = widgets.site, widgets.path
    spec: dict[str, Any] = {"name": "abc", "tags": ["a", "b"], "limits": {"a": 1, "b": 2}, "nested": {"deep": "x"}}
    hosts = [{"host": "h", "port": 1}, {"host": "i", "port": 2}]
    await site.post(path, widgets.widget("a", **spec, hosts=hosts, replicas=2))
    item = {
        "type": "object",
        "required": ["host"],
        "properties": {"host": TEXT, "port": {"type": "integer", "minimum": 2}},
    }
    await change(
        widgets,
        {
            "name": {"type": "string", "maxLength": 2},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a"]}},
            "limits": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 1}},
            "nested": {"type": "object", "required": ["extra"], "properties": {"deep": TEXT, "extra": TEXT}},
            "hosts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["host"],
                "items": item,
            },
        },
    )
    await site.patch(f"{path}/a", {"metadata": {"labels": {"x": "1"}}})
    await site.patch(f"{path}/a", {"spec": {"size": 2}})
    changes: tuple[dict[str, Any], ...] = (
        {"name": "abd"},
        {"name": "ab"},
        {"tags": ["a", "b", "a"]},
        {"limits": {"a": 0}},
        {"limits": {"b": 3}},
        {"limits": {"c": 4}},
        {"nested": {"deep": "y"}},
        {"nested": {"deep": "y", "extra": "z"}},
        {"hosts": [*hosts, {"host": "j", "port": 3}]},
        {"hosts": [*reversed(hosts)]},
        {"hosts": [{"host": "h", "port": 0}]},
        {"hosts": [{"host": "k", "port": 1}]},
        {"tags": ["a"]},
    )
    for spec in changes:
        await site.patch(f"{path}/a", {"spec": spec})
    await site.post(path, widgets.widget("b", name="abc"))


async def test_items_that_a_new_definition_takes_for_twins_are_let_through(widgets: Widgets) -> None:
    site, path = widgets.site, widgets.path
    await site.post(path, widgets.widget("a", tags=["a", "a"]))
    await change(widgets, {"tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}})
    await site.patch(f"{path}/a", {"spec": {"size": 2}})
    await site.patch(f"{path}/a", {"spec": {"tags": ["a", "a", "b", "b"]}})
    await site.patch(f"{path}/a", {"spec": {"tags": ["a", "b"]}})
    await site.patch(f"{path}/a", {"spec": {"tags": ["a", "b", "b"]}})


async def test_a_status_that_is_wrong_by_a_new_definition_is_let_through(widgets: Widgets) -> None:
    site, path = widgets.site, widgets.path
    await site.post(path, widgets.widget("a"))
    await site.patch(f"{path}/a/status", {"status": {"phase": "Odd", "replicas": 1}})
    await change(widgets, {}, status={"phase": {"type": "string", "enum": ["Ready"]}})
    await site.patch(f"{path}/a", {"spec": {"size": 2}})
    await site.patch(f"{path}/a/status", {"status": {"replicas": 2}})
    await site.patch(f"{path}/a/status", {"status": {"phase": "Other"}})
    await site.patch(f"{path}/a/status", {"status": {"phase": "Ready"}})
    await site.patch(f"{path}/a/status", {"status": {"phase": "Odd"}})


async def test_a_manager_has_an_entry_for_each_version_that_it_updates_in(site: Site) -> None:
    group = f"{site.namespace}.example.com"
    crd = definition(group)
    crd["spec"]["versions"].append({**copy.deepcopy(crd["spec"]["versions"][0]), "name": "v2", "storage": False})
    await site.server.install_crds(crd)
    first, second = (f"{site.of(f'{group}/{version}', 'widgets')}" for version in ("v1", "v2"))
    await site.until(second, 200)
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1, "name": "ab"}}
    await site.post(f"{first}?fieldManager=one", body)
    await site.patch(f"{second}/a?fieldManager=one", {"spec": {"size": 2}})
    await site.patch(f"{first}/a?fieldManager=one", {"spec": {"name": "abc"}})
    await site.patch(f"{second}/a?fieldManager=one", {"spec": {"name": "abd"}})
    applied = {**body, "spec": {"size": 3}}
    await site.patch(f"{first}/a?fieldManager=two&force=true", applied, APPLY)
    applied |= {"apiVersion": f"{group}/v2", "spec": {"size": 3, "tags": ["x"]}}
    await site.patch(f"{second}/a?fieldManager=two", applied, APPLY)
    await site.patch(f"{second}/a?fieldManager=two", {**applied, "spec": {"size": 3}}, APPLY)
