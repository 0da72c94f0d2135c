from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.watchcache import Proxy
from tests.support.kube import pod


@asynccontextmanager
async def proxying(client: Client, *resources: str, synced: bool = True, **options: Any) -> AsyncIterator[Proxy]:
    """Run a proxy whose caches are complete."""
    if "socket" not in options:
        options.setdefault("listen", "127.0.0.1:0")
    async with (
        SharedInformerFactory(client) as factory,
        Proxy(client, factory, resources, **options) as proxy,
    ):
        if synced:
            await factory.wait_for_cache_sync()
        yield proxy


@pytest.fixture
def initial_objects() -> list[Mapping[str, Any]]:
    return [pod("web-1"), pod("web-2"), pod("web-3")]


@pytest.fixture
async def proxy(client: Client) -> AsyncIterator[Proxy]:
    async with proxying(client, "v1/pods") as running:
        yield running
