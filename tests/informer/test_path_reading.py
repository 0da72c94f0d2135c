"""An informer whose cache is indexed by paths has its source read them while it decodes."""

from __future__ import annotations

from typing import Any

import pytest

from kinformer import Client, SharedInformer, SharedInformerFactory
from kinformer.testing import APIServer
from tests.support.held import read_values
from tests.support.kube import config_map
from tests.support.waiting import until

BY_VALUE = {"value": "data.v"}
SEGMENTS = ("data", "v")


def read_with(informer: SharedInformer, name: str) -> Any:
    """The value that was read when the object was decoded, or "unread"."""
    obj = informer.indexer.get_by_key(f"default/{name}")
    assert obj is not None
    return (read_values(obj) or {}).get(SEGMENTS, "unread")


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map("a", data={"v": "1"})]


async def test_the_paths_of_indexes_are_read_in_lists_and_watches(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/configmaps", indexers=BY_VALUE)
        await informer.wait_synced(30)
        server.create(config_map("b", data={"v": "2"}))
        await until(lambda: informer.indexer.get_by_key("default/b") is not None, 30)
        assert (read_with(informer, "a"), read_with(informer, "b")) == ("1", "2")
        assert sorted(informer.indexer.index_values("value")) == ["1", "2"]


@pytest.mark.parametrize("build", [False, True])
async def test_the_path_of_an_index_that_is_added_later_is_read_from_then_on(
    server: APIServer, client: Client, *, build: bool
) -> None:
    async with SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/configmaps")
        await informer.wait_synced(30)
        if build:
            await informer.build_indexers(BY_VALUE)
        else:
            informer.add_indexers(BY_VALUE)
        server.create(config_map("b", data={"v": "2"}))
        await until(lambda: informer.indexer.get_by_key("default/b") is not None, 30)
        assert (read_with(informer, "a"), read_with(informer, "b")) == ("unread", "2")
        assert sorted(informer.indexer.index_values("value")) == ["1", "2"]


async def test_the_paths_are_read_of_what_a_transform_returns(client: Client) -> None:
    def transform(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "data": {"v": "changed"}}

    async with SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/configmaps", transform=transform, indexers=BY_VALUE)
        await informer.wait_synced(30)
        assert read_with(informer, "a") == "changed"
        assert informer.indexer.index_values("value") == ["changed"]


async def test_the_paths_are_read_of_objects_that_are_reduced_to_fields(client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/configmaps", fields=["data.v"], indexers=BY_VALUE)
        await informer.wait_synced(30)
        assert read_with(informer, "a") == "1"
        assert informer.indexer.index_values("value") == ["1"]
