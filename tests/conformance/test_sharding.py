"""Replicas as real processes on a real server, with shards filtered by the server and by the replicas alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinformer import ListWatch
from kinformer.list_watcher import ListOptions
from kinformer.sharding import Shard
from tests.conformance.api import Api
from tests.conformance.conftest import OpenApi, StartControlPlane
from tests.support.replicas import OBJECTS, Replicas, come_and_go, sharded_config_map

PATH, MAPS = "/api/v1/namespaces/default/configmaps", "v1/configmaps"
GATE = "--feature-gates=ShardedListAndWatch=true"
HAS_GATE = pytest.mark.kubernetes("1.36", "it has no feature gate ShardedListAndWatch")


class Remote:
    """The objects, changed by requests."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def change(self, number: int, value: str) -> None:
        status, answer = await self._api.call("PUT", f"{PATH}/shared-{number}", sharded_config_map(number, value))
        if status == 404:
            await self._api.create(PATH, sharded_config_map(number, value))
        else:
            assert status == 200, answer

    async def make_again(self, number: int) -> None:
        await self._api.remove(f"{PATH}/shared-{number}")
        await self._api.create(PATH, sharded_config_map(number))

    async def versions(self) -> dict[str, str]:
        found = [item["metadata"] for item in await self.items()]
        return {f"default/{metadata['name']}": metadata["resourceVersion"] for metadata in found}

    async def items(self, query: str = "labelSelector=app%3Dsharded") -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self._api.list(f"{PATH}?{query}"))["items"]
        return items


@pytest.mark.timeout(300)
@pytest.mark.parametrize("gate", [pytest.param(True, id="gate on", marks=HAS_GATE), pytest.param(False, id="gate off")])
async def test_replicas_come_and_go_and_no_uid_has_two_owners(
    start_control_plane: StartControlPlane, open_api: OpenApi, tmp_path: Path, gate: bool
) -> None:
    control_plane = await start_control_plane(api_server_flags=[GATE] if gate else [])
    remote = Remote(await open_api(control_plane))
    for number in range(OBJECTS):
        await remote.change(number, "first")
    replicas = Replicas(str(control_plane.kubeconfig(tmp_path / "kubeconfig")))
    try:
        await come_and_go(replicas, remote)
    finally:
        await replicas.end()


@HAS_GATE
@pytest.mark.timeout(120)
async def test_a_server_with_the_gate_selects_exactly_the_objects_of_a_shard(
    start_control_plane: StartControlPlane, open_api: OpenApi
) -> None:
    control_plane = await start_control_plane(api_server_flags=[GATE])
    remote = Remote(await open_api(control_plane))
    for number in range(OBJECTS):
        await remote.change(number, "first")
    async with control_plane.client() as client:
        for count in (2, 3, 7, 16):
            found = []
            for shard in (Shard(index, count) for index in range(count)):
                source = ListWatch(client, MAPS, namespace="default", label_selector="app=sharded", part=shard)
                page = await source.list(ListOptions())
                listed = {obj.uid async for items in page.items for obj in items}  # type: ignore[union-attr]
                selected = await remote.items(f"labelSelector=app%3Dsharded&shardSelector={shard.selector}")
                assert {item["metadata"]["uid"] for item in selected} == listed
                found += sorted(listed)
            assert len(found) == len(set(found)) == OBJECTS
