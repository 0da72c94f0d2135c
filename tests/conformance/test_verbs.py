"""The verbs of a client on both servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kinformer import AlreadyExistsError, ConfigError, ConflictError, NotFoundError
from kinformer.exceptions import BadRequestError, ServerError
from kinformer.testing import ClusterServer
from tests.support.kube import config_map, pod, widget, widget_definition

GROUP = "verbs.example.com"
WIDGETS = f"{GROUP}/v1/widgets"


async def test_every_verb_of_an_object(server: ClusterServer, namespace: str) -> None:
    key = f"{namespace}/a"
    async with server.client() as client:
        made = await client.create(config_map("a", namespace=namespace, data={"x": "1"}))
        with pytest.raises(AlreadyExistsError):
            await client.create(config_map("a", namespace=namespace))
        assert await client.get("v1/configmaps", key) == made
        assert (await client.patch("v1/configmaps", key, {"data": {"x": "2"}}, dry_run=True))["data"] == {"x": "2"}
        operations = [{"op": "add", "path": "/data/y", "value": "1"}]
        patched = await client.patch("v1/configmaps", key, operations, type="json")
        assert patched["data"] == {"x": "1", "y": "1"}
        replaced = await client.replace(patched.to_dict() | {"data": {"z": "1"}})
        with pytest.raises(ConflictError):
            await client.replace(patched)
        wanted = config_map("a", namespace=namespace, data={"z": "2"})
        with pytest.raises(ConflictError, match="conflict with"):
            await client.apply(wanted, field_manager="me")
        assert (await client.apply(wanted, field_manager="me", force=True))["data"] == {"z": "2"}
        (listed,) = [obj async for obj in client.list("v1/configmaps", namespace=namespace) if obj.name == "a"]
        assert listed["data"] == {"z": "2"}
        with pytest.raises(ConflictError):
            await client.delete("v1/configmaps", key, resource_version=replaced.resource_version)
        with pytest.raises(ConflictError):
            await client.delete("v1/configmaps", key, uid="another")
        await client.delete("v1/configmaps", key, uid=made.uid, propagation="background", dry_run=True)
        await client.delete("v1/configmaps", key, uid=made.uid, propagation="background")
        with pytest.raises(NotFoundError):
            await client.get("v1/configmaps", key)


def own_widget(namespace: str, **spec: Any) -> dict[str, Any]:
    return {**widget("a", namespace=namespace, **spec), "apiVersion": f"{GROUP}/v1"}


async def test_custom_resources(server: ClusterServer, namespace: str) -> None:
    await server.install_crds(json.loads(json.dumps(widget_definition()).replace("example.com", GROUP)))
    async with server.client() as client:
        made = await client.create(own_widget(namespace, size=1))
        key = made.key
        assert (await client.patch(WIDGETS, key, {"spec": {"size": 2}}))["spec"]["size"] == 2
        with pytest.raises(ConfigError, match="type='strategic' is not supported by custom resources"):
            await client.patch(WIDGETS, key, {"spec": {"size": 2}}, type="strategic")
        wanted = own_widget(namespace, size=3)
        assert (await client.apply(wanted, field_manager="me", force=True))["spec"]["size"] == 3
        with pytest.raises(ConfigError, match=r"no kind 'Widgit' in apiVersion '.*'; the nearest is .* Widget"):
            await client.create({**wanted, "kind": "Widgit"})
        with pytest.raises(NotFoundError, match=r"the server has no apps/v2/deployments; the nearest is apps/v1"):
            await client.get("apps/v2/deployments", key)
        await client.delete(WIDGETS, key)


async def test_subresources_and_reviews(server: ClusterServer, namespace: str) -> None:
    async with server.client() as client:
        await client.create(pod("a", namespace=namespace, phase=None))
        status = await client.patch("v1/pods", f"{namespace}/a", {"status": {"phase": "Running"}}, subresource="status")
        assert status.path("status.phase") == "Running"
        metadata = {"name": "a", "namespace": namespace}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        assert (await client.create(eviction, subresource="eviction")).path("status") == "Success"
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}},
        }
        assert (await client.create(review)).path("status.allowed") is True


async def test_logs_without_a_kubelet(server: ClusterServer, namespace: str) -> None:
    async with server.client() as client:
        await client.create(pod("a", namespace=namespace, phase=None))
        assert [line async for line in client.logs(f"{namespace}/a", tail=3)] == []
        with pytest.raises(NotFoundError, match='pods "b" not found'):
            await anext(client.logs(f"{namespace}/b"))
        with pytest.raises(BadRequestError, match="container side is not valid for pod a"):
            await anext(client.logs(f"{namespace}/a", container="side"))
        await client.create(pod("c", namespace=namespace, phase=None, node="nowhere"))
        with pytest.raises((NotFoundError, ServerError)):
            await anext(client.logs(f"{namespace}/c", follow=True))
