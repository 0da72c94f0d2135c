"""The moments of a takeover: a state that is being applied, and a holder that is lost after a long time.

Internals: the state that a takeover goes on from, and a session that breaks in a way that no true holder causes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kinformer import SharedInformer
from kinformer.exceptions import ConnectError
from kinformer.informer.collection import core_of
from kinformer.list_watcher import ListOptions, ListPage
from kinformer.testing import APIServer
from kinformer.watchcache.share.session import Session
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.waiting import until
from tests.watchcache.share.workers import workers


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
