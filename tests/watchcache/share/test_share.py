"""Processes that share one cache, and those that read by themselves."""

# ruff: noqa: ASYNC240 - the socket is on a local file system

from __future__ import annotations

import asyncio
import os
import socket
from functools import partial
from pathlib import Path

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.exceptions import ConfigError
from kinformer.testing import APIServer
from kinformer.watchcache import Share
from tests.support.kube import config_map
from tests.support.waiting import until
from tests.watchcache.share.workers import MAPS, Worker, lists_and_watches, workers


def has(worker: Worker, keys: list[str]) -> bool:
    """Return True once the handler was told of exactly these objects."""
    return set(worker.mirror.known) == set(keys)


def have_all(workers: list[Worker], count: int) -> bool:
    """Return True once all caches have so many objects."""
    return all(len(one.versions) == count for one in workers)


async def test_the_first_is_the_holder_and_the_others_follow_it(server: APIServer, path: Path) -> None:
    server.create(config_map("a"))
    async with workers(server, path, 3) as (first, second, third):
        assert [one.share.role for one in (first, second, third)] == ["holder", "follower", "follower"]
        assert {one.share.holder for one in (first, second, third)} == {os.getpid()}
        server.create(config_map("b"))
        await until(lambda: all(len(one.versions) == 2 for one in (first, second, third)))
        assert not [wrong for one in (first, second, third) for wrong in one.mirror.wrong]


async def test_another_takes_over_without_a_list(server: APIServer, path: Path) -> None:
    for name in "abc":
        server.create(config_map(name))
    async with workers(server, path, 3) as (first, second, third):
        before = lists_and_watches(server)
        await first.stop()
        await until(lambda: sorted((second.share.role, third.share.role)) == ["follower", "holder"])
        server.create(config_map("d"))
        server.delete(MAPS, "default", "a")
        await until(lambda: set(second.versions) == set(third.versions) == {f"default/{name}" for name in "bcd"})
        assert lists_and_watches(server)[0] == before[0]
        for one in (second, third):
            await until(partial(has, one, [f"default/{name}" for name in "bcd"]))
            assert not one.mirror.wrong
            assert one.mirror.of("add") == ["a", "b", "c", "d"]
            assert one.mirror.of("delete") == ["a"]
            assert one.maps.health().relists == 0


async def test_selected_resources_are_caches_of_their_own(server: APIServer, path: Path) -> None:
    server.create(config_map("a", labels={"app": "x"}))
    server.create(config_map("b"))
    async with workers(server, path, 2, label_selector="app=x", metadata_only=True) as two:
        assert [list(one.versions) for one in two] == [["default/a"]] * 2
        server.create(config_map("c", labels={"app": "x"}))
        await until(lambda: all(set(one.versions) == {"default/a", "default/c"} for one in two))


async def test_another_limit_of_an_events_size_is_a_cache_of_its_own(server: APIServer, path: Path) -> None:
    async with (
        workers(server, path, 2) as usual,
        workers(server, path, 1, max_event_bytes=1_000_000, fields=["data"]) as others,
        workers(server, path, 1, max_event_bytes=2_000_000, fields=["data"]) as third,
    ):
        server.create(config_map("a"))
        await until(lambda: all(list(one.versions) == ["default/a"] for one in [*usual, *others, *third]))
        assert lists_and_watches(server)[1] == 3


async def test_health_tells_who_the_holder_is(server: APIServer, path: Path) -> None:
    async with workers(server, path, 2) as (_, follower):
        health = follower.maps.health()
        assert (health.live, health.holder) == (True, os.getpid())


@pytest.mark.virtual_time
async def test_a_follower_is_not_live_while_its_holder_has_no_server(server: APIServer, path: Path) -> None:
    async with workers(server, path, 2) as (_, follower):
        restarting = asyncio.ensure_future(server.restart(downtime=2.5))
        await until(lambda: not follower.maps.health().live)
        assert not restarting.done()
        await restarting
        await until(lambda: follower.maps.health().live)
        server.create(config_map("a"))
        await until(lambda: list(follower.versions) == ["default/a"])
        assert not follower.mirror.wrong


async def test_the_socket_and_the_lock_are_the_users_own(server: APIServer, path: Path) -> None:
    async with workers(server, path, 1):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.with_name("cache.sock.lock").stat().st_mode & 0o777 == 0o600
    assert not path.exists()


async def test_a_stale_socket_is_replaced(server: APIServer, path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    async with workers(server, path, 1) as (only,):
        assert only.share.role == "holder"


def test_a_path_that_cannot_be_a_socket_is_refused() -> None:
    with pytest.raises(ConfigError, match="absolute"):
        Share("cache.sock")
    with pytest.raises(ConfigError, match="may have"):
        Share("/" + "x" * 200)


async def test_a_missing_directory_is_an_error_that_names_it(client: Client, path: Path) -> None:
    factory = SharedInformerFactory(client, share=Share(path.parent / "missing" / "cache.sock"))
    with pytest.raises(ConfigError, match=r"missing does not exist"):
        async with factory:
            pass


async def test_a_file_that_is_no_socket_is_an_error(client: Client, path: Path) -> None:
    path.write_text("")
    with pytest.raises(ConfigError, match="is not a socket"):
        async with SharedInformerFactory(client, share=Share(path)):
            pass


async def test_a_share_belongs_to_one_factory(client: Client, path: Path) -> None:
    share = Share(path)
    async with SharedInformerFactory(client, share=share):
        with pytest.raises(ConfigError, match="another factory"):
            async with SharedInformerFactory(client, share=share):
                pass


async def test_a_socket_that_a_cleaner_removes_is_made_again(server: APIServer, path: Path) -> None:
    async with workers(server, path, 2) as (holder, follower):
        path.unlink()
        await until(path.exists)
        async with workers(server, path, 1) as (later,):
            assert (later.share.role, later.share.holder) == ("follower", os.getpid())
        assert (holder.share.role, follower.share.role) == ("holder", "follower")
        assert path.stat().st_mode & 0o777 == 0o600
        server.create(config_map("a"))
        await until(lambda: list(follower.versions) == ["default/a"])
        assert follower.maps.health().watches == 1
    assert not path.exists()


async def test_a_lock_that_a_cleaner_removes_leaves_one_holder(server: APIServer, path: Path) -> None:
    async with workers(server, path, 2) as two:
        before = lists_and_watches(server)
        path.unlink()
        path.with_name("cache.sock.lock").unlink()
        async with workers(server, path, 1) as (later,):
            three = [*two, later]
            await until(lambda: sorted(one.share.role for one in three) == ["follower", "follower", "holder"])
            server.create(config_map("a"))
            await until(partial(have_all, three, 1))
            assert not [wrong for one in three for wrong in one.mirror.wrong]
        assert lists_and_watches(server)[0] <= before[0] + 1


async def test_another_cluster_is_refused_and_read_directly(
    server: APIServer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with APIServer() as other, workers(server, path, 1):
        other.create(config_map("other"))
        async with workers(other, path, 1) as (refused,):
            assert (refused.share.role, refused.share.holder) == ("alone", None)
            assert list(refused.versions) == ["default/other"]
            assert any("another cluster" in record.getMessage() for record in caplog.records)


async def test_takeovers_among_writes_lose_nothing_and_deliver_nothing_twice(server: APIServer, path: Path) -> None:
    async with workers(server, path, 4) as all_workers:
        left = list(all_workers)
        for round_ in range(3):
            for number in range(5):
                server.create(config_map(f"m{round_}-{number}"))
            holder = next(one for one in left if one.share.role == "holder")
            left.remove(holder)
            stopping = asyncio.ensure_future(holder.stop())
            for number in range(5, 10):
                server.create(config_map(f"m{round_}-{number}"))
                await asyncio.sleep(0)
            await stopping
            await until(lambda: sum(one.share.role == "holder" for one in left) == 1)
            await until(partial(have_all, left, 10 * (round_ + 1)))
        for one in left:
            await until(partial(has, one, list(one.versions)))
            assert not one.mirror.wrong
            assert len(one.mirror.of("add")) == len(set(one.mirror.of("add"))) == 30
