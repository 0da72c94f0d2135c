"""The verbs refuse what cannot be meant, with an error that names the field."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, ConfigError, KubeObject, NotFoundError
from kinformer.exceptions import ForbiddenError, SelectorError
from kinformer.testing import APIServer
from tests.support.http_server import HttpServer, json_answer, status_answer
from tests.support.kube import config_map, widget

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}


def without(field: str) -> dict[str, Any]:
    """Return a ConfigMap without a field of its identity."""
    document = config_map("a")
    if field in document:
        del document[field]
    else:
        del document["metadata"][field]
    return document


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (without("kind"), r"v1 default/a: kind is missing"),
        (without("apiVersion"), r"ConfigMap default/a: apiVersion is missing"),
        (without("namespace"), r"v1 ConfigMap a: metadata.namespace is missing, but v1/configmaps is namespaced"),
        (
            {**NODE, "metadata": {"name": "a", "namespace": "b"}},
            r"metadata.namespace is 'b', but v1/nodes is cluster-s",
        ),
        (
            {**config_map("a"), "kind": "ConfigMpa"},
            r"no kind 'ConfigMpa' in apiVersion 'v1'; the nearest is v1 ConfigMap",
        ),
        (
            {**widget("a"), "apiVersion": "example.com/v2"},
            r"in apiVersion 'example.com/v2'; the nearest is example.com/v1",
        ),
        ({**config_map("a"), "kind": "Xyzzy"}, r"the server has no kind 'Xyzzy' in apiVersion 'v1'$"),
        ({"metadata": ["a"]}, r"a dict is not an object of the API: .*\$\.metadata"),
        ({"apiVersion": "../v1", "kind": "A", "metadata": {}}, r"invalid API group '\.\.'"),
        ({}, r"an object without identity: apiVersion is missing"),
    ],
)
@pytest.mark.parametrize("verb", ["create", "replace", "apply"])
async def test_an_object_that_names_no_resource(
    server: APIServer, client: Client, verb: str, obj: dict[str, Any], message: str
) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    write: Callable[..., Awaitable[object]] = getattr(client, verb)
    with pytest.raises(ConfigError, match=message):
        await write(obj, **({"field_manager": "me"} if verb == "apply" else {}))
    assert {request.method for request in server.requests} <= {"GET"}


async def test_what_a_write_needs(server: APIServer, client: Client) -> None:
    read = await client.create(config_map("a"))
    with pytest.raises(ConfigError, match=r"replace v1 ConfigMap default/a: metadata\.resourceVersion is missing"):
        await client.replace(config_map("a"))
    with pytest.raises(ConfigError, match=r"replace .*: metadata\.name is missing"):
        await client.replace(without("name"))
    with pytest.raises(ConfigError, match=r"apply .*: metadata\.name is missing"):
        await client.apply(without("name"), field_manager="me")
    assert read["metadata"]["managedFields"]
    with pytest.raises(ConfigError, match=r"apply v1 ConfigMap default/a: metadata\.managedFields must not be set"):
        await client.apply(read, field_manager="me")
    with pytest.raises(ConfigError, match="invalid field_manager=''"):
        await client.apply(config_map("a"), field_manager="")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "b"}}
    with pytest.raises(ConfigError, match=r"a Scale does not say of which resource: use patch"):
        await client.replace(scale, subresource="scale")


@pytest.mark.parametrize("key", ["", "a/b/c", "/a", "default/", None])
async def test_a_key_that_is_none(client: Client, key: Any) -> None:
    for call in (client.get, client.delete):
        with pytest.raises(ConfigError, match=r"v1/pods.*key"):
            await call("v1/pods", key)


async def test_a_key_for_another_scope(server: APIServer, client: Client) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    server.register("example.com/v1", "Zone", "zones", namespaced=False)
    for resource in ("v1/pods", "example.com/v1/widgets"):
        with pytest.raises(ConfigError, match=f"'a' has no namespace, but {resource} is namespaced"):
            await client.get(resource, "a")
    for resource in ("v1/nodes", "example.com/v1/zones"):
        with pytest.raises(ConfigError, match=f"'b/a' has a namespace, but {resource} is cluster-scoped"):
            await client.patch(resource, "b/a", {})
        with pytest.raises(ConfigError, match=f"namespace='b' is given, but {resource} is cluster-scoped"):
            await anext(client.list(resource, namespace="b"))
    with pytest.raises(ConfigError, match=r"expected the form 'v1/pods'"):
        await client.get("pods", "default/a")


async def test_a_resource_that_the_server_lacks(client: Client) -> None:
    with pytest.raises(NotFoundError, match="the server has no v1/deployments; the nearest is apps/v1/deployments"):
        await client.get("v1/deployments", "default/a")
    with pytest.raises(NotFoundError, match="the server has no apps/v2/deployments; the nearest is apps/v1/deploy"):
        await client.create({"apiVersion": "apps/v2", "kind": "Deployment", "metadata": {"namespace": "default"}})
    with pytest.raises(NotFoundError, match="the server has no v1/podz; the nearest is v1/pods"):
        await anext(client.list("v1/podz"))


async def test_a_namespace_that_is_absent(client: Client) -> None:
    with pytest.raises(NotFoundError, match='namespaces "nowhere" not found'):
        await client.create(config_map("a", namespace="nowhere"))
    with pytest.raises(NotFoundError, match='get v1/configmaps nowhere/a: configmaps "a" not found'):
        await client.get("v1/configmaps", "nowhere/a")
    with pytest.raises(NotFoundError, match='logs of nowhere/a: pods "a" not found'):
        await anext(client.logs("nowhere/a"))


async def test_a_patch_of_another_form(server: APIServer, client: Client) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    await client.create(widget("a"))
    with pytest.raises(ConfigError, match="type='strategic' is not supported by custom resources"):
        await client.patch("example.com/v1/widgets", "default/a", {"spec": {}}, type="strategic")
    unknown: Any = "apply"
    with pytest.raises(ConfigError, match="invalid type='apply': expected 'merge', 'json' or 'strategic'"):
        await client.patch("v1/pods", "default/a", {}, type=unknown)
    with pytest.raises(ConfigError, match="expected a list of operations for type='json', got a dict"):
        await client.patch("v1/pods", "default/a", {}, type="json")
    with pytest.raises(ConfigError, match="expected a dict for type='merge', got a list"):
        await client.patch("v1/pods", "default/a", [])


async def test_options_of_a_delete(client: Client) -> None:
    unknown: Any = "cascade"
    with pytest.raises(ConfigError, match="invalid propagation='cascade': expected 'background', 'foreground'"):
        await client.delete("v1/pods", "default/a", propagation=unknown)
    with pytest.raises(ConfigError, match="invalid uid=''"):
        await client.delete("v1/pods", "default/a", uid="")
    number: Any = 7
    with pytest.raises(ConfigError, match="invalid resource_version=7"):
        await client.delete("v1/pods", "default/a", resource_version=number)


@pytest.mark.parametrize("obj", ["a: b", b"{}", 7, dict, object(), {"a": object()}])
async def test_what_is_no_object(client: Client, obj: Any) -> None:
    with pytest.raises((TypeError, ConfigError), match="create: "):
        await client.create(obj)


async def test_no_message_quotes_the_data_of_an_object(client: Client) -> None:
    secret = {"apiVersion": "v1", "kind": 7, "metadata": {"name": "a"}, "data": {"password": "hunter2"}}
    for wrong in (secret, {**secret, "kind": "Secret", "data": {"password": "hunter2", "odd": object()}}):
        with pytest.raises((TypeError, ConfigError)) as caught:
            await client.create(wrong)
        assert "hunter2" not in str(caught.value)


def test_arguments_of_a_list_are_refused_at_the_call() -> None:
    client = Client.from_url("http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="invalid resource 'pods'"):
        client.list("pods")
    with pytest.raises(SelectorError):
        client.list("v1/pods", label_selector="a in (")
    with pytest.raises(ConfigError, match="model=7"):
        client.list("v1/pods", model=7)  # type: ignore[call-overload]


async def test_an_informers_object_can_be_applied(server: APIServer, client: Client) -> None:
    server.create(config_map("a", data={"x": "1"}))
    (read,) = [obj async for obj in client.list("v1/configmaps", namespace="default")]
    wanted = KubeObject.from_dict({**config_map("a"), "data": read["data"] | {"y": "2"}})
    assert (await client.apply(wanted, field_manager="me", force=True))["data"] == {"x": "1", "y": "2"}


async def test_refused_discovery_prevents_no_request_that_needs_none() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/apis/example.com/v1/namespaces/default/widgets/a":
            return json_answer(widget("a"))
        return status_answer(403, "Forbidden")

    async with HttpServer(handler) as server, Client.from_url(server.url) as client:
        assert (await client.get("example.com/v1/widgets", "default/a")).key == "default/a"
        with pytest.raises(ForbiddenError):
            await client.create(widget("a"))
