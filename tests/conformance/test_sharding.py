"""Four replicas as real processes on a real server, with shards filtered by the server and by the replicas alone.

Internals: the slots themselves, which must be those of a real server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinformer.sharding.slots import SLOTS, shard_selector, slot_of
from tests.conformance.api import Api
from tests.conformance.conftest import OpenApi, StartControlPlane
from tests.support.replicas import OBJECTS, Replicas, come_and_go, sharded_config_map

PATH = "/api/v1/namespaces/default/configmaps"
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
async def test_replicas_come_and_go_and_no_key_has_two_owners(
    start_control_plane: StartControlPlane, open_api: OpenApi, tmp_path: Path, gate: bool
) -> None:
    control_plane = await start_control_plane(api_server_flags=[GATE] if gate else [])
    api = await open_api(control_plane)
    remote = Remote(api)
    for number in range(OBJECTS):
        await remote.change(number, "first")
    replicas = Replicas(str(control_plane.kubeconfig(tmp_path / "kubeconfig")))
    try:
        await come_and_go(replicas, remote)
        dropped = [replica.share[1] for replica in replicas.all if replica.lives]
    finally:
        await replicas.end()
    # Without slots one object is asked for, and dropped; with the gate nothing else of others comes.
    assert max(dropped) < 10 if gate else min(dropped) > 10, dropped


@HAS_GATE
@pytest.mark.timeout(120)
async def test_a_server_with_the_gate_has_the_same_slots(
    start_control_plane: StartControlPlane, open_api: OpenApi
) -> None:
    remote = Remote(await open_api(await start_control_plane(api_server_flags=[GATE])))
    for number in range(OBJECTS):
        await remote.change(number, "first")
    everything = {item["metadata"]["uid"] for item in await remote.items()}
    for chosen in (set(range(0, SLOTS, 2)), {0}, {SLOTS - 1}, set(range(1, SLOTS))):
        selector = shard_selector(chosen)
        assert selector is not None
        query = f"labelSelector=app%3Dsharded&shardSelector={selector}".replace("|", "%7C")
        found = {item["metadata"]["uid"] for item in await remote.items(query)}
        assert found == {uid for uid in everything if slot_of(uid) in chosen}
