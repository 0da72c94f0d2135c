"""Confirmed reads on both servers: the bookmark of a short watch proves that a quiet cache is current."""

from __future__ import annotations

import pytest

from kinformer import ListOptions, ListWatch, SharedInformerFactory
from kinformer.testing import ClusterServer
from tests.support.kube import config_map

SHORT = 3  # seconds. With 2, no bookmark comes


@pytest.mark.slow
async def test_a_watch_of_three_seconds_gets_a_bookmark_at_the_newest_version(
    server: ClusterServer, namespace: str
) -> None:
    async with server.client() as client:
        quiet = ListWatch(client, "v1/secrets", namespace=namespace)
        before = (await quiet.tip()).resource_version
        for number in range(5):  # of another resource
            await client.create(config_map(f"c{number}", namespace=namespace))
        tip = int((await quiet.tip()).resource_version)
        assert tip > int(before)
        options = ListOptions(resource_version=before, allow_watch_bookmarks=True, timeout_seconds=SHORT)
        async with quiet.watch(options) as stream:
            seen = [(event.type, int(event.object.resource_version)) async for events in stream for event in events]
        assert {kind for kind, _ in seen} == {"BOOKMARK"}
        assert seen[0][1] >= tip


async def test_a_quiet_cache_is_proved_current_and_a_write_is_in_what_is_confirmed(
    server: ClusterServer, namespace: str
) -> None:
    async with server.client() as client, SharedInformerFactory(client, namespace=namespace) as factory:
        maps = factory.for_resource("v1/configmaps")
        secrets = factory.for_resource("v1/secrets")
        await factory.wait_for_cache_sync(timeout=30)
        made = await client.create(config_map("a", namespace=namespace, labels={"app": "web"}))
        assert await secrets.confirm(timeout=20) == secrets.lister.list()
        assert secrets.statistics().relists == {}
        assert made in await maps.confirm(timeout=20)
        assert await maps.confirm(label_selector="app=web", timeout=20) == [made]
        await client.delete("v1/configmaps", made.key)
        assert await maps.confirm(name="a", namespace=namespace, timeout=20) == []
        staleness = secrets.health().staleness
        assert staleness is not None
        assert staleness < 30
