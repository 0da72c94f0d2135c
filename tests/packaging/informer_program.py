"""Follows the embedded API server by one informer and prints the keys: needs only kinformer itself."""

from __future__ import annotations

import asyncio

from kinformer import SharedInformerFactory
from kinformer.testing import APIServer


async def main() -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}})
        maps = factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(timeout=30)
        print(*sorted(maps.indexer.list_keys()))


if __name__ == "__main__":
    asyncio.run(main())
