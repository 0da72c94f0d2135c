"""The moments of a takeover: a state that is being applied, and a holder that is lost after a long time.

All processes have one event loop here.

Internals: the state that a takeover goes on from, a broken session, and a stream that is not read.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kinformer import SharedInformer
from kinformer.exceptions import ConnectError
from kinformer.informer.collection import core_of
from kinformer.list_watcher import ListOptions, ListPage, WatchEvent
from kinformer.testing import APIServer
from kinformer.watchcache.share.session import Session
from kinformer.watchcache.share.source import _Stream
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.waiting import until
from tests.watchcache.share.workers import MAPS, workers


class SlowSource(MemorySource):
    """A source whose first list takes 3 s."""

    async def list(self, options: ListOptions) -> ListPage:
        await asyncio.sleep(3)
        return await super().list(options)


@pytest.mark.virtual_time
async def test_a_takeover_waits_for_a_state_that_is_still_to_come() -> None:
    source = SlowSource()
    source.set("a")
    async with SharedInformer(source, watch_list=False) as informer:
        core = core_of(informer)
        assert await core.state_of(None, 0) is None
        state = await core.state_of(None, 5)
        assert state is not None
        assert [obj.name for obj in state[0]] == ["a"]
        assert state[1] == informer.last_sync_resource_version


@pytest.mark.virtual_time
async def test_a_takeover_waits_no_longer_than_it_may() -> None:
    async with SharedInformer(SlowSource(), watch_list=False) as informer:
        began = asyncio.get_running_loop().time()
        assert await core_of(informer).state_of(None, 2) is None
        assert asyncio.get_running_loop().time() - began == pytest.approx(2, abs=0.1)


async def test_a_state_is_not_taken_while_a_list_is_being_applied() -> None:
    source = MemorySource()
    for number in range(5000):
        source.set(f"map-{number}")
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        core, turns = core_of(informer), 0
        objects = [obj for obj in informer.lister.list() if obj.name != "map-0"]
        core.parts.queue.writer().replace(
            [*objects], str(source.version)
        )  # as after a restore, the version is the same
        while not core.parts.lists_applied:
            assert await core.state_of(None, 0) is None
            await asyncio.sleep(0)
            turns += 1
        assert turns > 1
        state = await core.state_of(None, 5)
        assert state is not None
        assert len(state[0]) == 4999


@pytest.mark.virtual_time
async def test_a_holder_that_is_lost_after_a_long_time_is_waited_for(
    server: APIServer, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hear, has_broken = Session.heard, asyncio.Event()

    async def heard(self: Session, within: float) -> bool | None:
        result = await hear(self, within)
        if is_broken and not has_broken.is_set():
            has_broken.set()
            raise ConnectError("the connection is broken")
        return result

    is_broken = False
    monkeypatch.setattr(Session, "heard", heard)
    async with workers(server, path, 2) as (_, follower):
        await asyncio.sleep(30)
        is_broken = True
        await has_broken.wait()
        await until(lambda: follower.share.role == "follower")
        server.create(config_map("a"))
        await until(lambda: list(follower.versions) == ["default/a"])
    assert not [one for one in caplog.records if "reads from the server by itself" in one.getMessage()]


@pytest.mark.virtual_time
async def test_a_holder_that_dies_is_followed_within_a_second(server: APIServer, path: Path) -> None:
    async with workers(server, path, 4) as left:
        now = asyncio.get_running_loop().time
        for number in range(3):
            began = now()
            await left.pop(0).kill()
            server.create(config_map(f"m{number}"))
            await until(lambda: all(len(one.versions) == number + 1 for one in left))  # noqa: B023 - used at once
            assert now() - began < 1


@pytest.mark.virtual_time
async def test_a_follower_that_is_behind_a_new_holder_gets_only_the_difference(
    server: APIServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        server.create(config_map(name))
    reading, go_on = _Stream._next, asyncio.Event()

    async def read(self: _Stream) -> list[WatchEvent]:
        if self._routes is third.share:
            await go_on.wait()
        return await reading(self)

    async with workers(server, path, 3) as (first, second, third):
        monkeypatch.setattr(_Stream, "_next", read)
        monkeypatch.setattr(third.share._lock, "acquire", lambda: False)  # the other one takes over
        server.create(config_map("wake"))  # the stream that is being read
        await until(lambda: "default/wake" in third.versions)
        told = len(third.mirror.calls)
        server.update(config_map("b", data={"n": "1"}))
        server.create(config_map("d"))
        server.delete(MAPS, "default", "c")
        await until(lambda: set(second.versions) == {f"default/{name}" for name in ("a", "b", "d", "wake")})
        await first.kill()
        await until(lambda: second.share.role == "holder" and third.share.role == "follower")
        assert len(third.mirror.calls) == told
        go_on.set()
        await until(lambda: third.versions == second.versions)
        await until(lambda: len(third.mirror.calls) == told + 3)
        calls = sorted((what, name) for what, name, _ in third.mirror.calls[told:])
        assert calls == [("add", "d"), ("delete", "c"), ("update", "b")]
        assert not third.mirror.wrong
        assert third.maps.health().relists == 1
