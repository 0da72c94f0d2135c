"""Server-side apply in sequences: empty values, nulls, and the fields that go or stay."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.conformance.site import APPLY, STRATEGIC, Site
from tests.conformance.test_custom import Widgets
from tests.conformance.test_custom import widgets as widgets  # the fixture
from tests.conformance.test_objects import configmap, deployment, pod
from tests.conformance.test_patches import apply


def config(**fields: Any) -> dict[str, Any]:
    """An apply configuration of a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **fields}


async def test_data_that_is_applied_after_none_is_there(site: Site) -> None:
    path = f"{site.configmaps}/a"
    await apply(site, path, config(data={"a": "1"}), "first")
    await apply(site, path, config(data={}), "first")
    await apply(site, path, config(data={"a": "2"}), "first")
    await apply(site, path, config(data=None), "first")
    await apply(site, path, config(data={"a": "3"}), "first")
    await apply(site, path, config(), "first")
    await apply(site, path, config(data={"a": "4"}), "first")


async def test_nothing_that_is_applied_takes_nothing_from_others(site: Site) -> None:
    path = f"{site.configmaps}/a"
    await apply(site, path, config(data={"a": "1"}), "first")
    await apply(site, path, config(data={}), "second")
    await apply(site, path, config(data=None), "third")
    await apply(site, path, config(data={"b": "2"}), "second")
    await apply(site, path, config(data={}), "first")
    await apply(site, path, config(), "second")
    await apply(site, path, config(), "third")


async def test_the_first_apply_finds_an_owner_of_what_nobody_followed(site: Site) -> None:
    path = f"{site.configmaps}/a"
    await site.post(site.configmaps, configmap("a", a="1", b="1"))
    await site.patch(path, {"metadata": {"managedFields": [{}]}})
    await apply(site, path, config(data={"a": "2"}), "first")
    await apply(site, path, config(data={"a": "2"}), "first", force="true")
    await site.patch(path, {"metadata": {"managedFields": [{}]}})
    await site.patch(path, {"metadata": {"managedFields": [{}]}})


async def test_items_of_lists_come_and_go_with_their_owners(site: Site) -> None:
    deployments = site.of("apps/v1", "deployments")
    body = deployment("a", 1)
    main = body["spec"]["template"]["spec"]["containers"][0]
    applied: tuple[dict[str, Any], ...] = (
        {"ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}], "env": []},
        {"ports": [], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "args": ["x"]},
        {"ports": [{"containerPort": 80}], "env": [{"name": "B", "value": "2"}, {"name": "A"}], "args": []},
        {"ports": None, "env": None, "args": None, "resources": {}},
        {"ports": [{"containerPort": 81}], "securityContext": {}},
    )
    for fields in applied:
        body["spec"]["template"]["spec"]["containers"] = [{**main, **fields}]
        await apply(site, f"{deployments}/a", body, "first")
    both = [{"name": "side", "image": "registry.invalid/side:1"}, {**main, "args": ["y"]}]
    body["spec"]["template"]["spec"]["containers"] = both
    await apply(site, f"{deployments}/a", body, "second")
    body["spec"]["template"]["spec"]["containers"] = both[:1]
    await apply(site, f"{deployments}/a", body, "second")


async def test_finalizers_are_owned_one_by_one(site: Site) -> None:
    path = f"{site.configmaps}/a"
    for manager, names in (
        ("first", ["x.io/a", "x.io/b"]),
        ("second", ["x.io/c", "x.io/b", "x.io/a"]),
        ("first", []),
        ("second", ["x.io/c"]),
        ("first", None),
        ("second", []),
    ):
        await apply(site, path, config(metadata={"name": "a", "finalizers": names}), manager)


async def test_conflicts_name_fields_before_what_is_below_them(site: Site) -> None:
    services = site.core("services")
    ports = [{"port": 80, "targetPort": 1, "name": "a"}, {"port": 81, "targetPort": 1, "name": "b"}]
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"ports": ports, "selector": {"a": "1"}, "sessionAffinity": "ClientIP"},
    }
    await apply(site, f"{services}/a", body, "first")
    body["spec"] |= {"ports": [{**port, "targetPort": 2} for port in ports], "selector": {"b": "1"}}
    await apply(site, f"{services}/a", body, "second")
    await apply(site, f"{services}/a", body, "second", force="true")
    body["spec"]["ports"] = [{**port, "name": "a"} for port in ports]
    await apply(site, f"{services}/a", body, "second")


async def test_empties_and_nulls_of_a_custom_object(widgets: Widgets) -> None:
    site, path = widgets.site, f"{widgets.path}/a"
    applied: tuple[dict[str, Any], ...] = (
        {"limits": {"a": 1}, "maybe": "x", "free": {"a": {"b": 1}}, "tags": ["a"], "hosts": [{"host": "h", "port": 1}]},
        {"limits": {}, "maybe": None, "free": {"a": {}}, "tags": ["b"], "hosts": [{"host": "h"}]},
        {"limits": {"a": 2}, "free": {"a": {"b": 2, "c": None}}, "hosts": []},
        {"nested": {}, "mode": None, "replicas": None},
        {"nested": {"deep": "x"}, "limits": None},
        {"tags": None},
        {"hosts": [{"host": "i", "port": None}, {"host": "h"}]},
    )
    for spec in applied:
        await site.patch(f"{path}?fieldManager=first", widgets.widget("a", **spec), APPLY)
    await site.patch(f"{path}?fieldManager=second", widgets.widget("a", limits={"b": 1}), APPLY)
    await site.patch(f"{path}?fieldManager=first", widgets.widget("a"), APPLY)
    await site.patch(f"{path}?fieldManager=second", widgets.widget("a"), APPLY)


async def test_json_with_tabs_is_yaml(site: Site) -> None:
    path = f"{site.configmaps}/a?fieldManager=first"
    body = config(data={"a": "1\t2", "b": "x"})
    await site.patch(path, json.dumps(body, indent="\t"), APPLY)
    await site.patch(path, f"\n{json.dumps(body, indent=4)}\t\n".replace('": "', '":\t"'), APPLY)
    other = {**body, "metadata": {"name": "b"}}
    await site.post(site.configmaps, json.dumps(other, indent="\t"), content_type="application/yaml")
    block = "apiVersion: v1\t# one\nkind:\tConfigMap\nmetadata: {\n\tname: c }\ndata:\n  a:\t'1'\n  b: x\t\n"
    await site.post(site.configmaps, block, content_type="application/yaml")
    for text in (f"\t{block}", block.replace("  a", "\ta"), f"\n\t{json.dumps(body)}"):  # the words are the parser's
        reply = await site.ask("PATCH", path, text, content_type=APPLY, kept=False)
        assert reply.status == 400, reply.body


async def test_the_oldest_updates_become_one_entry(site: Site) -> None:
    path = f"{site.configmaps}/a"
    await apply(site, path, config(data={"applied": "1"}), "first")
    for number in range(13):
        await site.patch(f"{path}?fieldManager=m{number:02}", {"data": {f"k{number:02}": "1"}})
    await asyncio.sleep(1)  # updates within a second are sorted by their managers
    await site.patch(f"{path}?fieldManager=m00", {"data": {"k01": "2"}})
    await site.patch(f"{path}?fieldManager=m13", {"data": {"applied": "2", "k03": None}})


async def test_nobody_owns_what_the_server_adds_to_an_update(site: Site) -> None:
    daemon_sets, services = site.of("apps/v1", "daemonsets"), site.core("services")
    template = deployment("a", 1)["spec"]["template"]
    spec = {"selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}
    daemon_set = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a"}, "spec": spec}
    await apply(site, f"{daemon_sets}/a", daemon_set, "first")
    image = {"template": {"spec": {"containers": [{"name": "main", "image": "registry.invalid/main:2"}]}}}
    await site.patch(f"{daemon_sets}/a", {"spec": image}, STRATEGIC)
    await site.put(f"{daemon_sets}/a?fieldManager=second", daemon_set)
    service: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "1"}}}
    await site.post(services, service)
    service["spec"]["selector"] = {"a": "2"}
    await site.put(f"{services}/a?fieldManager=second", service)
    await site.post(site.pods, pod("a"))
    added = pod("a")
    added["spec"]["containers"].append({"name": "more", "image": "registry.invalid/more:1"})
    await site.put(f"{site.pods}/a", added)
