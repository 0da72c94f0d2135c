"""Poison on a start from a file. In real time: files are read in threads, which virtual time does not wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kinformer.testing import APIServer
from tests.faults.test_poison import Failing
from tests.support.fault_scene import scene
from tests.support.mirror import Mirror


async def test_what_a_snapshot_brings_back_is_looked_at_as_one_object_at_a_time(
    server: APIServer, tmp_path: Path
) -> None:
    """An index function, a filter and a handler that cannot take one object, on a start from a file."""

    def by_value(obj: Any) -> list[str]:
        if obj.name == "bad":
            raise ValueError("cannot take it")
        return [obj["data"]["v"]]

    def choose(obj: Any) -> bool:
        return by_value(obj) is not None

    async with scene("a", "bad", "z", server=server, snapshot=tmp_path / "maps") as s:
        await s.in_step()
    options: dict[str, Any] = {"snapshot": tmp_path / "maps", "indexers": {"v": by_value}}
    async with scene(server=server, synced=False, **options) as s:
        failing, filtered = Failing("raises"), Mirror()
        s.informer.add_event_handler(failing, name="failing")
        s.informer.add_event_handler(filtered, filter=choose, name="filtered")
        await s.informer.wait_synced(timeout=10)
        await s.until(lambda: s.cached == s.truth and not any(s.informer.statistics().pending.values()))
        statistics = s.informer.statistics()
        assert dict(statistics.snapshots) == {"loaded": 1}
        assert s.cached.keys() == {"default/a", "default/bad", "default/z"}
        assert failing.objects.keys() == filtered.objects.keys() == {"default/a", "default/z"}
        assert sorted(s.informer.indexer.index_keys("v", "0")) == ["default/a", "default/z"]
        assert (statistics.index_errors, statistics.handler_errors) == (1, 2)
