"""A resource that a page has opened is followed for as long as pages ask for it, and five minutes more.

Internals: the board, since a page in a browser would need real minutes.
"""

from __future__ import annotations

import asyncio

import pytest

from kinformer import SharedInformerFactory
from kinformer.cli.dashboard.board import board_of
from kinformer.cli.dashboard.catalogue import Catalogue
from kinformer.testing import APIServer
from tests.support.kube import config_map

pytestmark = pytest.mark.virtual_time


@pytest.mark.slow
async def test_a_resource_that_was_opened_is_released_when_no_page_asks_for_it_any_more() -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        server.create(config_map("a"))
        factory.for_resource("v1/pods")
        board = await board_of(factory, Catalogue(client, factory))
        await board.follow("configmaps")
        opened = board.informers["v1/configmaps"]
        await opened.wait_synced(timeout=10)
        for _ in range(10):
            await asyncio.sleep(60)
            await board.follow("v1/configmaps")
        assert set(board.informers) == {"v1/pods", "v1/configmaps"}, "a page looks at it"
        await asyncio.sleep(299)
        assert opened in factory.informers
        await asyncio.sleep(2)
        assert set(board.informers) == {"v1/pods"}
        assert opened not in factory.informers
        assert opened.health().state == "stopped"
        assert [one["name"] for one in board.report()["resources"]] == ["v1/pods"]

        await board.follow("v1/configmaps")
        again = board.informers["v1/configmaps"]
        await again.wait_synced(timeout=10)
        assert again is not opened
        assert again.health().live


async def test_pages_are_told_that_the_objects_of_a_released_resource_are_gone() -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        server.create(config_map("a"))
        factory.for_resource("v1/pods")
        board = await board_of(factory, Catalogue(client, factory))
        await board.follow("v1/configmaps")
        await board.informers["v1/configmaps"].wait_synced(timeout=10)
        await board.log.wait_synced()
        await asyncio.sleep(1)
        last = board.log.last
        await asyncio.sleep(301)
        gone = board.log.since(last) or ()
        assert {(change.source, change.deleted) for change in gone} == {("v1/configmaps", True)}
        assert "default/a" in {change.key for change in gone}
        assert not board.log.ended


@pytest.mark.slow
async def test_what_the_service_follows_itself_is_never_released() -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        board = await board_of(factory, Catalogue(client, factory))
        await board.follow("v1/pods")
        await asyncio.sleep(3600)
        assert factory.informers == (pods,)
        assert pods.health().live
