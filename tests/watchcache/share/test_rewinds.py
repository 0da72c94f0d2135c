"""A server that goes back in time, while processes share a cache of it: all end equal to the server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.waiting import until
from tests.watchcache.share.workers import MAPS, Worker, go_back, workers

pytestmark = pytest.mark.virtual_time


def true(server: APIServer) -> dict[str, str]:
    return {f"default/{obj['metadata']['name']}": obj["metadata"]["resourceVersion"] for obj in server.list(MAPS)}


def agree(server: APIServer, workers: list[Worker]) -> bool:
    """Return True once all caches and handlers have what the server has."""
    told = [{key: version for key, (_, version) in one.mirror.known.items()} for one in workers]
    return all(found == true(server) for found in [*told, *(one.versions for one in workers)])


def make_history(server: APIServer) -> None:
    for name in "abc":
        server.create(config_map(name))
    for number in range(10):
        server.update(config_map("a", data={"n": str(number)}))
    server.create(config_map("d"))
    server.delete(MAPS, "default", "b")


@pytest.mark.parametrize("later", [0, 5], ids=["without writes", "with writes"])
@pytest.mark.parametrize("killed", [False, True], ids=["the holder lives", "the holder dies"])
async def test_a_server_that_goes_back_is_followed(server: APIServer, path: Path, later: int, killed: bool) -> None:
    make_history(server)
    async with workers(server, path, 3) as (first, second, third):
        left = [second, third] if killed else [first, second, third]
        await until(lambda: agree(server, [first, second, third]))
        if killed:
            ending = asyncio.ensure_future(first.kill())
        await go_back(server, 12)
        for number in range(later):
            server.update(config_map("c", data={"n": str(number)}))
        if killed:
            await ending
        await until(lambda: agree(server, left), 60)
        assert not [wrong for one in left for wrong in one.mirror.wrong]
        server.create(config_map("last"))
        await until(lambda: agree(server, left), 60)
        assert all(one.mirror.of("delete").count("d") == 1 for one in left)
