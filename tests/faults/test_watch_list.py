"""Faults of the initial stream of a WatchList."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kinformer.testing import faults
from tests.support.fault_scene import HANG, Reply, event, listed, mark, scene, wire
from tests.support.log_records import Said, said

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("arrival")]

REFUSED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
    "reason": "Invalid",
    "code": 422,
}


def asked_for_initial_events(s: object) -> int:
    return sum(1 for query in s.asked("watch") if "sendInitialEvents" in query)  # type: ignore[attr-defined]


async def test_fault_35_the_server_does_not_know_watch_list(caplog: pytest.LogCaptureFixture) -> None:
    """The server refuses `sendInitialEvents` with 422.

    One log line: lists are used at once, for an hour.
    """
    caplog.set_level(logging.INFO, "kinformer")
    async with scene("a", synced=False) as s:
        s.server.faults.add(faults.status(422, REFUSED), verb="watch", times=1)
        await s.in_step(1)
        s.server.faults.add(faults.expired(), verb="watch", times=1)
        s.put("b")
        await s.in_step()
        assert (asked_for_initial_events(s), len(s.asked("list"))) == (1, 2)
        assert s.relists == {"expired": 1}
        assert said(caplog, "invalid") == [Said("INFO", "kinformer.reflector", "v1/configmaps")]
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_fault_35_the_server_ignores_watch_list() -> None:
    """See above: the parameter is ignored, and an ordinary watch goes on for ever. Listed after 30 s."""
    busy = [piece for number in range(200) for piece in (event("MODIFIED", "a", 10 + number), 1.0)]
    async with wire([listed(rv=300)], [Reply([event("ADDED", "a", 3), *busy])], watch_list=None) as w:
        assert len(w.asked("list")) == 1
        assert asked_for_initial_events(w) == 1
        assert w.kinds == ["InitialStreamError"]


async def test_fault_36_the_end_bookmark_never_comes() -> None:
    """Initial events come, then silence: the end bookmark is lost.

    Synced by a list after 30 s. `on_error` gets an InitialStreamError. With `watch_list=True` it tries again.
    """
    async with scene("a", "b", synced=False) as s:
        s.server.faults.add(faults.no_initial_events_end(), verb="watch")
        started = asyncio.get_running_loop().time()
        await s.informer.wait_synced(timeout=60)
        assert 30 <= asyncio.get_running_loop().time() - started < 32
        await s.in_step()
        assert s.kinds == ["InitialStreamError"]
    async with scene("a", synced=False, watch_list=True) as s:
        s.server.faults.add(faults.no_initial_events_end(), verb="watch", times=2)
        await asyncio.sleep(50)
        assert (s.health.synced, s.health.live, s.asked("list")) == (False, False, [])
        assert "no initial event for 30 s" in str(s.errors[0])
        await s.in_step(90)


async def test_fault_37_the_initial_stream_ends_too_soon() -> None:
    """The stream ends among the initial events.

    These events are dropped, and it lists at once, after three failures too.
    """
    async with scene("a", "b", "c", synced=False) as s:
        s.server.faults.add(faults.silent_close(), verb="watch", after_events=2, times=1)
        await s.in_step()
        assert (asked_for_initial_events(s), len(s.asked("list"))) == (1, 1)
        assert sorted(s.mirror.of("add")) == ["a", "b", "c"]
    cut = Reply([event("ADDED", "a", 3) + b'{"type":"ADDED","object":{nonsense}}\n'])
    good = Reply([event("ADDED", "b", 4) + mark(9, end=True), HANG])
    async with wire([listed(rv=9)], [cut, cut, good], watch_list=None, synced=False) as w:
        await w.informer.wait_synced(timeout=60)
        assert (w.asked("list"), w.cached.keys()) == ([], {"default/b"})
        assert [call[:2] for call in w.mirror.calls] == [("add", "b")]
    async with wire([listed(rv=9)], [cut, cut, cut], watch_list=None, synced=False) as w:
        await w.informer.wait_synced(timeout=60)
        assert (len(w.asked("list")), w.cached) == (1, {})
