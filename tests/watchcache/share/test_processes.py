"""Holders that are killed, stopped and replaced, as real processes under load."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.line_process import boot_time
from tests.support.waiting import until
from tests.watchcache.share.worker_process import WorkerProcess
from tests.watchcache.share.workers import lists_and_watches, workers

pytestmark = [pytest.mark.process, pytest.mark.slow]

OBJECTS = 50
SOON = 30.0  # seconds within which a busy machine does what takes a moment


@asynccontextmanager
async def processes(server: APIServer, path: Path, count: int) -> AsyncIterator[list[WorkerProcess]]:
    started: list[WorkerProcess] = []
    try:
        for _ in range(count):
            started.append(await WorkerProcess.begin(server.url, path))
        await until(
            lambda: sorted(one.role for one in started) == ["follower"] * (count - 1) + ["holder"],
            30,
            what=lambda: f"one holder among {[one.role for one in started]}",
        )
        yield started
    finally:
        for one in started:
            await one.end()


@asynccontextmanager
async def load(server: APIServer) -> AsyncIterator[dict[str, float]]:
    """Change objects 100 times a second. Gives the time of each change, by name and version."""
    made: dict[str, float] = {}

    async def change() -> None:
        number = 0
        while True:
            document = config_map(f"m{number % OBJECTS}", data={"n": str(number)})
            written = server.update(document) if number >= OBJECTS else server.create(document)
            made[f"m{number % OBJECTS} {written['metadata']['resourceVersion']}"] = boot_time()
            number += 1
            await asyncio.sleep(0.01)

    changing = asyncio.create_task(change())
    try:
        yield made
    finally:
        changing.cancel()


async def all_have_seen(workers: list[WorkerProcess], made: dict[str, float]) -> None:
    last = next(reversed(made))
    await until(lambda: all(last in one.seen for one in workers), SOON, what=f"all to see {last}")


def has_holder(workers: list[WorkerProcess]) -> bool:
    """Return True if one of them is the holder."""
    return [one.role for one in workers].count("holder") == 1


def has_said(one: WorkerProcess, role: str, *, is_live: bool) -> bool:
    """Return True if a process has ever said that it had this role, and was live or not."""
    return any(line[:3] == ["role", role, str(is_live)] for line in one.lines)


def first_after(one: WorkerProcess, made: dict[str, float], moment: float) -> float:
    """Return when a process saw the first change that was made after a moment, or 0."""
    return min((seen for event, seen in one.seen.items() if made.get(event, 0.0) > moment), default=0.0)


async def test_a_killed_holder_is_followed_and_nothing_is_lost(server: APIServer, path: Path) -> None:
    async with processes(server, path, 4) as workers:
        before = lists_and_watches(server)[0]
        async with load(server) as made:
            await until(lambda: all(one.count("event") > 20 for one in workers), SOON)
            left = list(workers)
            for _ in range(2):
                holder = next(one for one in left if one.role == "holder")
                left.remove(holder)
                killed = boot_time()
                holder.process.kill()
                await until(partial(has_holder, left), SOON)
                for one in left:
                    await until(partial(first_after, one, made, killed), SOON)
        await all_have_seen(left, made)
        for one in left:
            assert not one.count("wrong")
            assert one.last("role")[3] != "0" or len(one.seen) == len(made)
        assert lists_and_watches(server)[0] == before


async def test_a_holder_that_hangs_is_left_after_five_seconds_and_returned_to(server: APIServer, path: Path) -> None:
    async with processes(server, path, 3) as workers:
        holder = next(one for one in workers if one.role == "holder")
        followers = [one for one in workers if one is not holder]
        before = lists_and_watches(server)[0]
        async with load(server) as made:
            holder.stop()
            for one in followers:
                await until(partial(has_said, one, "follower", is_live=False), SOON)
            await until(lambda: all(one.role == "alone" and one.live for one in followers), SOON)
            since = boot_time()
            await until(lambda: all(max(one.seen.values(), default=0.0) > since for one in followers), SOON)
            holder.go_on()
            resumed = boot_time()
            await until(lambda: any(one.role == "follower" for one in followers), SOON)
            assert boot_time() - resumed > 9, "they wait for ten seconds of heartbeats"
            await until(lambda: all(one.role == "follower" for one in followers), SOON)
        await all_have_seen(workers, made)
        assert not any(one.count("wrong") for one in workers)
        assert lists_and_watches(server)[0] == before


async def test_a_holder_that_is_stopped_and_killed_is_replaced(server: APIServer, path: Path) -> None:
    async with processes(server, path, 2) as workers:
        holder = next(one for one in workers if one.role == "holder")
        other = next(one for one in workers if one is not holder)
        holder.stop()
        await asyncio.sleep(1.0)
        holder.process.kill()
        await until(lambda: other.role == "holder", SOON)


async def test_a_holder_that_ends_in_order_is_replaced_at_once(server: APIServer, path: Path) -> None:
    async with processes(server, path, 3) as workers, load(server) as made:
        holder = next(one for one in workers if one.role == "holder")
        left = [one for one in workers if one is not holder]
        holder.process.terminate()
        await until(lambda: sorted(one.role for one in left) == ["follower", "holder"], SOON)
        assert await holder.process.wait() == 0
        before = dict(made)
        await all_have_seen(left, before)
        assert not any(one.count("wrong") for one in left)


async def test_a_request_to_a_holder_that_hangs_is_answered_by_the_server(server: APIServer, path: Path) -> None:
    server.create(config_map("web"))
    async with processes(server, path, 1) as (holder,), workers(server, path, 1) as (follower,):
        await until(lambda: follower.share.role == "follower", SOON)
        holder.stop()
        assert [found.name for found in await follower.maps.confirm(timeout=SOON)] == ["web"]
        assert follower.maps.health().state != "stopped"
