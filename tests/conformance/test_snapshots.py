"""Snapshots against a server that goes on, one that has forgotten, and one that was restored and has grown since."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.testing import ClusterServer, ControlPlane

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


async def create(client: Client, *names: str) -> None:
    for name in names:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": name}}
        await client.request("POST", CONFIGMAPS, body=body)


async def delete(client: Client, *names: str) -> None:
    for name in names:
        await client.request("DELETE", f"{CONFIGMAPS}/{name}")


async def one_life(server: ClusterServer, snapshot: Path) -> dict[str, int]:
    """Start, catch up with the server, compare with it, and leave; what became of the snapshot at the start."""
    async with server.client() as client, SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/configmaps", namespace="default", snapshot=snapshot)
        await factory.wait_for_cache_sync(timeout=60)
        listed: Any = await client.request("GET", CONFIGMAPS)
        await informer.wait_for_resource_version(listed["metadata"]["resourceVersion"], timeout=30)
        truth = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
        assert {obj.name: obj.resource_version for obj in informer.lister} == truth
        return dict(informer.statistics().snapshots)


async def test_a_restart_of_the_program_goes_on(own_server: ClusterServer, tmp_path: Path) -> None:
    snapshot = tmp_path / "s"
    async with own_server.client() as client:
        await create(client, *(f"c{number}" for number in range(40)))
        assert await one_life(own_server, snapshot) == {"missing": 1}
        assert await one_life(own_server, snapshot) == {"loaded": 1}
        await delete(client, "c39", "c38", "c1")
        await create(client, "c38", "d")
    assert await one_life(own_server, snapshot) == {"loaded": 1}


async def test_a_server_that_has_forgotten_the_version_is_listed(own_server: ClusterServer, tmp_path: Path) -> None:
    snapshot = tmp_path / "s"
    async with own_server.client() as client:
        await create(client, "a", "b")
        await one_life(own_server, snapshot)
        await delete(client, "a")
        await create(client, "c")
    await own_server.compact()
    await own_server.restart()  # a real one remembers in its watch cache what etcd has forgotten
    assert await one_life(own_server, snapshot) == {"expired": 1}


@pytest.mark.parametrize("grown", [False, True], ids=["and stands before the snapshot", "and has grown past it since"])
async def test_a_server_that_was_restored_from_a_backup_is_listed(assets: Path, tmp_path: Path, grown: bool) -> None:
    data, backup, snapshot = tmp_path / "data", tmp_path / "backup", tmp_path / "s"
    async with ControlPlane(assets, data_dir=data) as first, first.client() as client:
        await create(client, "kept")
    shutil.copytree(data, backup)
    async with ControlPlane(assets, data_dir=data) as first, first.client() as client:
        await create(client, "lost-1", "lost-2")
        for _ in range(0 if grown else 300):  # what the server itself writes as it starts is to be less than this
            await client.request("PATCH", f"{CONFIGMAPS}/lost-1", body={"data": {"n": "x"}})
            await client.request("PATCH", f"{CONFIGMAPS}/lost-1", body={"data": {"n": "y"}})
        assert await one_life(first, snapshot) == {"missing": 1}
    async with ControlPlane(assets, data_dir=backup) as restored, restored.client() as client:
        for number in range(100 if grown else 0):
            await create(client, f"new-{number}")
        assert await one_life(restored, snapshot) == {"changed" if grown else "rewind": 1}
