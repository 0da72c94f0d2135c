"""A definition that is made again, with another scope or name, is seen by the verbs at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kinformer import Client, ConfigError, KubeObject, NotFoundError
from kinformer.testing import APIServer
from tests.informer.test_scopes import GADGETS, definition, gadget

PATCH = {"metadata": {"labels": {"x": "y"}}}

Call = Callable[[Client], Awaitable[object]]


async def redefined(server: APIServer, client: Client, before: str, after: str) -> None:
    """Make the definition, use it, and make it again with another scope."""
    server.create(definition(before))
    await client.create(gadget("a", **({"namespace": "default"} if before == "Namespaced" else {})))
    server.delete(GADGETS, "default" if before == "Namespaced" else None, "a")
    server.delete("apiextensions.k8s.io/v1/customresourcedefinitions", None, "gadgets.example.com")
    server.create(definition(after))


TO_CLUSTER: dict[str, Call] = {
    "create": lambda client: client.create(gadget("b")),
    "get": lambda client: client.get(GADGETS, "seen"),
    "patch": lambda client: client.patch(GADGETS, "seen", PATCH),
    "apply": lambda client: client.apply(gadget("seen"), field_manager="me"),
    "delete": lambda client: client.delete(GADGETS, "seen"),
    "wait_for": lambda client: client.wait_for(GADGETS, "seen", lambda obj: obj is not None, timeout=5),
}


@pytest.mark.parametrize("verb", TO_CLUSTER)
async def test_one_without_namespaces_now(server: APIServer, client: Client, verb: str) -> None:
    await redefined(server, client, "Namespaced", "Cluster")
    server.create(gadget("seen"))
    await TO_CLUSTER[verb](client)
    with pytest.raises(ConfigError, match="cluster-scoped"):
        await client.create(gadget("c", namespace="default"))


async def test_one_with_namespaces_now(server: APIServer, client: Client) -> None:
    await redefined(server, client, "Cluster", "Namespaced")
    made = await client.create(gadget("b", namespace="default"))
    assert made.key == "default/b"
    assert [obj.key async for obj in client.list(GADGETS, namespace="default")] == ["default/b"]
    with pytest.raises(ConfigError, match="is namespaced"):
        await client.get(GADGETS, "b")


async def test_one_with_another_plural_now(server: APIServer, client: Client) -> None:
    server.create(definition("Namespaced"))
    await client.create(gadget("a", namespace="default"))
    server.delete(GADGETS, "default", "a")
    server.delete("apiextensions.k8s.io/v1/customresourcedefinitions", None, "gadgets.example.com")
    other = definition("Namespaced")
    other["metadata"]["name"] = "gizmos.example.com"
    other["spec"]["names"].update(plural="gizmos", singular="gizmo")
    server.create(other)
    made = await client.create(gadget("b", namespace="default"))
    assert isinstance(made, KubeObject)
    assert (await client.apply(gadget("c", namespace="default"), field_manager="me")).name == "c"


async def test_an_object_that_is_missing_costs_one_request(server: APIServer, client: Client) -> None:
    server.create(definition("Namespaced"))
    made = await client.create(gadget("a", namespace="default"))
    server.delete(GADGETS, "default", "a")
    before = len(server.requests)
    with pytest.raises(NotFoundError):
        await client.replace(made)
    assert len(server.requests) - before == 1
