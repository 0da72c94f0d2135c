"""Plain HTTP to an API server: the tests' own hands and eyes, which owe nothing to kinformer's client."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any, Self

import aiohttp

from kinformer.testing import ClusterServer
from tests.support.kube import widget_definition

WIDGETS = widget_definition()

COLLECTIONS = {
    "v1/pods": "/api/v1/namespaces/default/pods",
    "v1/configmaps": "/api/v1/namespaces/default/configmaps",
    "example.com/v1/widgets": "/apis/example.com/v1/namespaces/default/widgets",
}


def collection(resource: str, namespace: str) -> str:
    """The path of one of the resources above in a namespace."""
    return COLLECTIONS[resource].replace("/default/", f"/{namespace}/")


def manifest(resource: str, name: str, value: str) -> dict[str, Any]:
    """A small object of one of the resources above, with a value that changes."""
    metadata: dict[str, Any] = {"name": name, "labels": {"value": value}}
    if resource == "v1/pods":
        container = {"name": "main", "image": "registry.invalid/main:1"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    if resource == "v1/configmaps":
        data = {"value": value, "text": "ü\u2028\u0085{}\r\n"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"value": value, "n": 1.5}}


def read_configmaps(user: str) -> dict[str, dict[str, Any]]:
    """A Role that may read configmaps, and its binding to a user, by the collections to create them in."""
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": f"{user}-reads"}, "rules": [rule]}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{user}-reads"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": f"{user}-reads"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    return {"roles": role, "rolebindings": binding}


class Api:
    """`async with Api(server) as api`; a request that finds no server is made again until it does."""

    def __init__(self, server: ClusterServer, user: str | None = None) -> None:
        token = server.token(user)
        self.session = aiohttp.ClientSession(
            server.url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=server.ca_file)),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        data = None if body is None else json.dumps(body)
        while True:
            try:
                async with self.session.request(
                    method, path, data=data, headers={"Content-Type": content_type}
                ) as response:
                    if response.status not in (429, 503):  # it is starting: later
                        return response.status, await response.json()
            except aiohttp.ClientError:  # it was killed in the middle, or is away
                pass
            await asyncio.sleep(0.02)

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        status, answer = await self.call("POST", path, body)
        # 409: the answer to an attempt before was lost with the server that gave it
        assert status in (200, 201, 409), answer
        return answer

    async def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        status, answer = await self.call("PATCH", path, body, "application/merge-patch+json")
        assert status == 200, answer
        return answer

    async def remove(self, path: str) -> None:
        status, answer = await self.call("DELETE", f"{path}?gracePeriodSeconds=0")
        assert status in (200, 202, 404), answer

    async def list(self, path: str) -> dict[str, Any]:
        status, answer = await self.call("GET", path)
        assert status == 200, answer
        return answer

    async def text(self, path: str) -> str:
        async with self.session.get(path) as response:
            assert response.status == 200, await response.text()
            return await response.text()

    async def first_event(self, path: str, resource_version: str) -> dict[str, Any]:
        """The first event of a watch, or the answer itself where the server refuses to watch."""
        params = {"watch": "1", "resourceVersion": resource_version, "timeoutSeconds": "10"}
        while True:
            async with self.session.get(path, params=params) as response:
                if response.status == 200:
                    line = await response.content.readline()
                    return json.loads(line) if line else {"type": "EOF"}
                if response.status != 429:  # 429: its watch cache is being filled
                    return {"type": "ERROR", "object": await response.json()}
            await asyncio.sleep(0.02)
