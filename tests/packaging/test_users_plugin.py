"""A user's tests with the shipped plugin, which need only the extra `testing`."""

from __future__ import annotations

from typing import Any

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.testing import APIServer


@pytest.mark.asyncio
async def test_an_informer_follows_what_the_fixtures_make(
    kube_apiserver: APIServer, kube_client: Client, kube_namespace: str, make_pod: Any
) -> None:
    async with SharedInformerFactory(kube_client) as factory:
        pods = factory.for_resource("v1/pods", namespace=kube_namespace)
        await factory.wait_for_cache_sync(timeout=30)
        made = await make_pod("web-1")
        await pods.wait_for_resource_version(made.resource_version, timeout=30)
        assert pods.indexer.list_keys() == [f"{kube_namespace}/web-1"]
