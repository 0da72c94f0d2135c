"""Helpers of the hidden checks on docs/porting.md: schemas of custom resources, and the world of an operator."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from kinformer import Client, KubeObject
from kinformer.exceptions import BadRequestError, InvalidError

_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class _Port(BaseModel):
    number: int = Field(gt=0)


class _Optional(BaseModel):
    replicas: int | None = None


class _Reference(BaseModel):
    port: _Port


async def check_definitions(client: Client) -> None:
    """Each of pydantic's schemas is refused, and the schema that the page puts in its place is accepted."""
    for model in (_Port, _Optional, _Reference):
        assert await _refused(client, model.model_json_schema()), model
    port = {"type": "object", "properties": {"number": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}}
    replicas = {"type": "integer", "nullable": True}
    assert not await _refused(client, {"type": "object", "properties": {"port": port, "replicas": replicas}})


async def _refused(client: Client, spec: dict[str, Any]) -> str:
    """Create the resource `example.com/v1/bars` with this schema of its spec; return the error, or ""."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "bars.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "bars", "singular": "bar", "kind": "Bar", "listKind": "BarList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    try:
        await client.request("POST", _PATH, body=definition)
    except (BadRequestError, InvalidError) as error:
        return str(error)
    return ""


class dns:  # noqa: N801 - a module, as the page uses it
    """A service outside of the cluster."""

    @staticmethod
    async def remove(name: str) -> None:
        print("removed", name)


def deployment_for(foo: KubeObject) -> dict[str, Any]:
    """The Deployment of a Foo."""
    labels = {"app": foo.name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "foo:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": foo.name, "namespace": foo.namespace},
        "spec": {"replicas": foo["spec"]["replicas"], "selector": {"matchLabels": labels}, "template": template},
    }
