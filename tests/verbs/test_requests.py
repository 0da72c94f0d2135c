"""The verbs for single objects: what they send, and what they return."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest
from aiohttp import web
from kubernetes_asyncio.client import V1ConfigMap, V1ObjectMeta

from kinformer import (
    AlreadyExistsError,
    Client,
    ConflictError,
    ConnectError,
    KubeObject,
    LeaderElector,
    NotFoundError,
)
from kinformer.exceptions import DecodeError, LeadershipLostError
from kinformer.testing import APIServer, faults
from tests.support.http_server import HttpServer, json_answer
from tests.support.kube import config_map, pod, widget
from tests.support.machine_clock import NOON, MachineClock


async def test_an_object_is_created_read_changed_and_deleted(server: APIServer, client: Client) -> None:
    created = await client.create(config_map("a", data={"level": "debug"}))
    assert (created.key, created.kind, bool(created.uid)) == ("default/a", "ConfigMap", True)
    found = await client.get("v1/configmaps", "default/a")
    assert found == created
    patched = await client.patch("v1/configmaps", "default/a", {"data": {"level": "info", "more": "1"}})
    assert patched["data"] == {"level": "info", "more": "1"}
    changed = patched.to_dict()
    del changed["data"]["more"]
    replaced = await client.replace(changed)
    assert replaced["data"] == {"level": "info"}
    with pytest.raises(ConflictError):
        await client.replace(changed)
    assert await client.delete("v1/configmaps", "default/a") is None
    with pytest.raises(NotFoundError, match='configmaps "a" not found'):
        await client.get("v1/configmaps", "default/a")
    with pytest.raises(NotFoundError):
        await client.delete("v1/configmaps", "default/a")


async def test_a_built_in_kind_needs_no_discovery(server: APIServer, client: Client) -> None:
    await client.create(config_map("a"))
    assert [(request.method, request.path) for request in server.requests] == [
        ("POST", "/api/v1/namespaces/default/configmaps")
    ]


async def test_a_custom_kind_is_found_by_discovery_which_is_remembered(server: APIServer, client: Client) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    await client.create(widget("a"))
    await client.create(widget("b"))
    assert (await client.get("example.com/v1/widgets", "default/b")).key == "default/b"
    paths = [request.path for request in server.requests]
    assert paths.count("/apis/example.com/v1") == 1
    server.register("example.com/v1", "Gadget", "gadgets")  # after the group version was read
    assert (await client.create({**widget("a"), "kind": "Gadget"})).kind == "Gadget"


# --- the forms of objects ---------------------------------------------------------------------------------------------


@dataclass
class Meta:
    name: str
    namespace: str | None = None
    labels: dict[str, str] | None = None


@dataclass
class Settings:
    metadata: Meta
    data: dict[str, str] | None = None
    apiVersion: str = "v1"  # noqa: N815 - the field of the API
    kind: str = "ConfigMap"


class StructSettings(msgspec.Struct, rename="camel"):
    metadata: Meta
    data: dict[str, str] | None = None
    api_version: str = "v1"
    kind: str = "ConfigMap"


class ModelMeta(pydantic.BaseModel):
    name: str
    namespace: str | None = None


class ModelSettings(pydantic.BaseModel):
    api_version: str = pydantic.Field("v1", alias="apiVersion")
    kind: str = "ConfigMap"
    metadata: ModelMeta
    data: dict[str, str] | None = None


DATA = {"level": "info"}


@pytest.mark.parametrize(
    "obj",
    [
        config_map("a", data=DATA),
        KubeObject.from_dict(config_map("a", data=DATA)),
        Settings(Meta("a", "default"), DATA),
        StructSettings(Meta("a", "default"), DATA),
        ModelSettings(metadata=ModelMeta(name="a", namespace="default"), data=DATA),  # pyright: ignore
        V1ConfigMap(
            api_version="v1", kind="ConfigMap", metadata=V1ObjectMeta(name="a", namespace="default"), data=DATA
        ),
    ],
    ids=["dict", "KubeObject", "dataclass", "Struct", "pydantic", "kubernetes_asyncio"],
)
async def test_objects_may_have_any_form(server: APIServer, client: Client, obj: object) -> None:
    assert (await client.create(obj))["data"] == DATA
    stored = server.get("v1/configmaps", "default", "a")
    assert stored is not None
    assert "labels" not in stored["metadata"]
    applied = await client.apply(obj, field_manager="me")
    assert applied["data"] == DATA


async def test_a_read_object_has_its_model(server: APIServer, client: Client) -> None:
    server.create(config_map("a", data=DATA))
    found = await client.get("v1/configmaps", "default/a", model=Settings)
    assert found.model == Settings(Meta("a", "default"), DATA)
    assert [obj.model.data async for obj in client.list("v1/configmaps", model=Settings)] == [DATA]


# --- writes -----------------------------------------------------------------------------------------------------------


async def test_the_forms_of_a_patch(server: APIServer, client: Client) -> None:
    server.create(pod("a"))
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"one": "1"}}]
    assert (await client.patch("v1/pods", "default/a", operations, type="json")).labels == {"one": "1"}
    image = {"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}}
    changed = await client.patch("v1/pods", "default/a", image, type="strategic")
    assert changed.path("spec.containers[0].image") == "registry.example/app:2"
    cleared = await client.patch("v1/pods", "default/a", {"metadata": {"labels": None}})
    assert cleared.labels == {}


async def test_apply_owns_its_fields(server: APIServer, client: Client) -> None:
    await client.apply(config_map("a", data={"x": "1", "y": "1"}), field_manager="one")
    given_up = await client.apply(config_map("a", data={"x": "1"}), field_manager="one")
    assert given_up["data"] == {"x": "1"}
    with pytest.raises(ConflictError, match='conflict with "one"'):
        await client.apply(config_map("a", data={"x": "2"}), field_manager="two")
    taken = await client.apply(config_map("a", data={"x": "2"}), field_manager="two", force=True)
    assert taken["data"] == {"x": "2"}


async def test_a_delete_has_preconditions_and_a_policy(server: APIServer, client: Client) -> None:
    made = await client.create(config_map("a"))
    with pytest.raises(ConflictError, match="the UID in the precondition"):
        await client.delete("v1/configmaps", "default/a", uid="another")
    with pytest.raises(ConflictError, match="the ResourceVersion in the precondition"):
        await client.delete("v1/configmaps", "default/a", resource_version="1")
    left = await client.delete("v1/configmaps", "default/a", uid=made.uid, propagation="foreground")
    assert left is not None
    assert left["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_a_dry_run_changes_nothing(server: APIServer, client: Client) -> None:
    made = await client.create(config_map("b", data={"x": "1"}))
    assert (await client.create(config_map("a"), dry_run=True)).key == "default/a"
    assert (await client.patch("v1/configmaps", "default/b", {"data": {"x": "2"}}, dry_run=True))["data"] == {"x": "2"}
    await client.apply(config_map("b", data={"y": "1"}), field_manager="me", dry_run=True)
    await client.replace(made.to_dict() | {"data": {}}, dry_run=True)
    await client.delete("v1/configmaps", "default/b", dry_run=True)
    assert [obj["metadata"]["name"] for obj in server.list("v1/configmaps", "default")] == ["b"]
    assert await client.get("v1/configmaps", "default/b") == made


async def test_subresources(server: APIServer, client: Client, make_deployment: Any) -> None:
    deployment = await make_deployment("web", replicas=1)
    scale = await client.get("apps/v1/deployments", deployment.key, subresource="scale")
    assert (scale.kind, scale.path("spec.replicas")) == ("Scale", 1)
    scaled = await client.patch("apps/v1/deployments", deployment.key, {"spec": {"replicas": 3}}, subresource="scale")
    assert scaled.path("spec.replicas") == 3
    now = (await client.get("apps/v1/deployments", deployment.key)).to_dict()
    status = await client.replace(now | {"status": {"replicas": 3}}, subresource="status")
    assert status.path("status.replicas") == 3


async def test_objects_that_are_only_sent_to_subresources(server: APIServer, client: Client) -> None:
    server.create(pod("a"))
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "a", "namespace": "default"},
    }
    done = await client.create(eviction, subresource="eviction")
    assert (done.kind, done.path("status")) == ("Status", "Success")
    assert server.get("v1/pods", "default", "a") is None


async def test_a_review_has_no_name(client: Client) -> None:
    attributes = {"verb": "list", "resource": "pods"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(review)
    assert answer.kind == "SelfSubjectAccessReview"
    assert answer.path("status.allowed") is True


async def test_a_generated_name(client: Client) -> None:
    document = config_map("a")
    document["metadata"] = {"namespace": "default", "generateName": "web-"}
    assert (await client.create(document)).name.startswith("web-")


async def test_a_create_is_not_sent_again_after_its_connection_was_lost() -> None:
    async def lose(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with HttpServer(lose) as server, Client.from_url(server.url) as client:
        with pytest.raises(ConnectError, match="POST"):
            await client.create(config_map("a"))
        assert [request.method for request in server.requests] == ["POST"]
        with pytest.raises(ConnectError, match="PATCH"):
            await client.patch("v1/configmaps", "default/a", {})
        with pytest.raises(ConnectError, match="DELETE"):
            await client.delete("v1/configmaps", "default/a")
        assert len(server.requests) == 3


async def test_a_create_is_sent_again_if_the_server_had_not_begun_it(server: APIServer, client: Client) -> None:
    server.faults.add(faults.status(429, retry_after=0), verb="create", times=1)
    await client.create(config_map("a"))
    assert [request.status for request in server.requests] == [429, 201]
    with pytest.raises(AlreadyExistsError):
        await client.create(config_map("a"))


@pytest.mark.virtual_time
async def test_nothing_is_written_after_the_lead_is_lost(server: APIServer, client: Client) -> None:
    one = LeaderElector(client, namespace="default", name="lock", clock=MachineClock(NOON).clock)
    late: list[str] = []

    async def body() -> None:
        async with one.leading():
            await client.create(config_map("led"))
            server.faults.add(faults.status(500), verb="update", resource="coordination.k8s.io/v1/leases")
            try:
                await asyncio.Event().wait()
            finally:
                try:
                    await client.create(config_map("late"))
                except LeadershipLostError as error:
                    late.append(str(error))

    with pytest.raises(LeadershipLostError):
        await body()
    assert len(late) == 1
    assert [obj["metadata"]["name"] for obj in server.list("v1/configmaps", "default")] == ["led"]


async def test_a_response_that_is_no_object_is_an_error() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return json_answer(
            {"kind": "ConfigMapList", "apiVersion": "v1", "items": []} if "b" in request.path[-1] else {}
        )

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        with pytest.raises(DecodeError, match="get v1/configmaps default/a: expected an object in the response"):
            await client.get("v1/configmaps", "default/a")
        with pytest.raises(DecodeError, match="get v1/configmaps default/b: expected an object with a name"):
            await client.get("v1/configmaps", "default/b")
