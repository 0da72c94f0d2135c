"""Replicas that hold shards as real processes, on a server in this one."""

from __future__ import annotations

import pytest

from kinformer.testing import APIServer
from tests.support.replicas import OBJECTS, Replicas, come_and_go, sharded_config_map

pytestmark = pytest.mark.process


class InMemory:
    """The objects, changed without a request."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        for number in range(OBJECTS):
            server.create(sharded_config_map(number))

    async def change(self, number: int, value: str) -> None:
        self._server.update(sharded_config_map(number, value))

    async def make_again(self, number: int) -> None:
        self._server.delete("v1/configmaps", "default", f"shared-{number}")
        self._server.create(sharded_config_map(number))

    async def versions(self) -> dict[str, str]:
        async with self._server.client() as client:
            listed = await client.request(
                "GET", "/api/v1/namespaces/default/configmaps", params={"labelSelector": "app=sharded"}
            )
        found = [item["metadata"] for item in listed["items"]]
        return {f"default/{metadata['name']}": metadata["resourceVersion"] for metadata in found}


@pytest.mark.timeout(120)
async def test_replicas_come_and_go_and_no_uid_has_two_owners(server: APIServer) -> None:
    replicas = Replicas(server.url)
    try:
        await come_and_go(replicas, InMemory(server))
    finally:
        await replicas.end()
