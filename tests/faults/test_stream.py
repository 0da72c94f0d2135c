"""Faults of what a watch brings: garbage, events that are doubled, unordered or of another kind."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from kinformer.testing import faults
from tests.support.fault_scene import HANG, Reply, event, listed, mark, scene, wire
from tests.support.http_server import line, needs_gzip_members
from tests.support.kube import config_map
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("arrival")]


async def test_fault_07_a_line_is_no_json() -> None:
    """A complete line of a watch is not JSON.

    One relist with the cause `decode_error`, after a backoff. `live` is False meanwhile.
    """
    async with scene("a") as s:
        s.server.faults.add(faults.garble(), verb="watch", times=1)
        s.put("b")
        await s.until(lambda: not s.health.live)
        assert "malformed" in str(s.health.last_error)
        s.put("c")
        await s.in_step()
        assert s.relists == {"decode_error": 1}
        assert sorted(s.mirror.of("add")) == ["a", "b", "c"]
        assert s.kinds == ["DecodeError"]


async def test_fault_09_an_event_is_large() -> None:
    """An event of 3 MB, and one above `max_event_bytes` (16 MiB by default).

    Nothing for the first. The second makes `live` False and names the limit, until the object is smaller or gone.
    """
    async with scene("a", source={"max_event_bytes": 4 * 1024 * 1024}) as s:
        s.put("large", "x" * 3_000_000)
        await s.in_step()
        assert (s.relists, s.errors) == ({}, [])
    async with scene("a", source={"max_event_bytes": 20_000}) as s:
        s.put("large", "x" * 30_000)
        s.put("b")
        await s.until(lambda: not s.health.live)
        await asyncio.sleep(10)
        assert "20000" in str(s.health.last_error)
        assert s.cached.keys() == {"default/a"}
        s.drop("large")
        await s.in_step(60)
        assert s.cached.keys() == {"default/a", "default/b"}


async def test_fault_10_many_events_come_at_once() -> None:
    """A thousand events in one chunk, and one event in many.

    Nothing: events are cut at line ends.
    """
    names = [f"m{number}" for number in range(1000)]
    at_once = b"".join(event("ADDED", name, 8 + number) for number, name in enumerate(names))
    last = event("ADDED", "last", 2000, data={"v": "x" * 5000})
    pieces = [last[at : at + 100] for at in range(0, len(last), 100)]
    async with wire([listed(rv=7)], [Reply([at_once, *pieces, HANG])]) as w:
        await w.until(lambda: len(w.cached) == 1001)
        await asyncio.sleep(0.1)
        await w.check_mirror()
        assert w.mirror.of("add") == [*names, "last"]
        assert (w.informer.last_sync_resource_version, w.errors) == ("2000", [])


async def test_fault_11_an_event_is_of_an_unknown_type() -> None:
    """An event of an unknown type.

    One relist with the cause `watch_error`. Earlier events are kept.
    """
    watch = Reply([event("ADDED", "b", 8) + event("FOO", "c", 9), HANG])
    async with wire([listed(rv=7), listed(config_map("b", rv=8), config_map("d", rv=9), rv=10)], [watch]) as w:
        await w.until(lambda: len(w.cached) == 2)
        assert w.cached.keys() == {"default/b", "default/d"}
        assert w.relists == {"watch_error": 1}
        assert "unknown type 'FOO'" in str(w.errors[0])
        assert w.mirror.calls == [("add", "b", "8"), ("add", "d", "9")]


async def test_fault_20_events_come_twice() -> None:
    """The same event twice, an ADDED of a known object, an old state again.

    Nothing: an event without news causes no call.
    """
    async with scene("a") as s:
        s.server.faults.add(faults.duplicate_event(), verb="watch")
        versions = [s.put("b"), s.put("b", "2")]
        s.drop("a")
        await s.in_step()
        assert s.mirror.calls[1:] == [("add", "b", versions[0]), ("update", "b", versions[1]), ("delete", "a", False)]
    again = event("ADDED", "b", 8) + event("MODIFIED", "b", 9) + event("ADDED", "b", 9) + event("MODIFIED", "b", 8)
    async with wire([listed(rv=7)], [Reply([again + event("ADDED", "end", 10), HANG])]) as w:
        await w.until(lambda: "end" in w.mirror.of("add"))
        assert w.mirror.calls == [("add", "b", "8"), ("update", "b", "9"), ("add", "end", "10")]
        await w.check_mirror()


async def test_fault_21_the_initial_events_are_in_no_order() -> None:
    """Initial events come ordered by key, so their versions jump.

    Nothing: they count as one list, whose version is the end bookmark's.
    """
    first = [event("ADDED", "a", 90), event("ADDED", "b", 20), event("ADDED", "c", 50), 1.0, mark(95, end=True), 2.0]
    async with wire([listed(rv=1)], [Reply(first), Reply([event("MODIFIED", "b", 96), HANG])], watch_list=None) as w:
        await w.until(lambda: ("update", "b", "96") in w.mirror.calls)
        assert [query.get("resourceVersion") for query in w.asked("watch")] == [None, "95"]
        assert (w.asked("list"), w.errors) == ([], [])
        await w.check_mirror()
    # The same of a server that sends them without being asked to, and breaks off among them.
    broken = [event("ADDED", "a", 90), event("ADDED", "b", 20)]
    async with wire([listed(rv="0")], [Reply(broken), Reply([mark(95), HANG])]) as w:
        await w.until(lambda: len(w.asked("watch")) == 2)
        assert [query.get("resourceVersion") for query in w.asked("watch")] == ["0", "0"]


async def test_fault_24_an_object_is_deleted_and_made_again_at_once() -> None:
    """DELETED and ADDED of one name, close together, with another uid.

    A delete and an add, in this order, also for a slow handler.
    """

    class Behind(Mirror):
        async def on_add(self, obj: Any, *, is_in_initial_list: bool) -> None:  # type: ignore[override]
            await asyncio.sleep(0.5)
            super().on_add(obj, is_in_initial_list=is_in_initial_list)

    async with scene("a") as s:
        behind = Behind()
        s.informer.add_event_handler(behind, queue_size=4, name="behind")
        for _ in range(20):
            s.drop("a")
            s.put("a")
            await asyncio.sleep(0.1)
        await s.in_step()
        await s.until(lambda: not s.informer.statistics().pending["behind"])
        await asyncio.sleep(1)
        assert behind.objects == s.mirror.objects
        assert s.informer.statistics().coalesced > 0
        calls = [call[0] for call in s.mirror.calls]
        assert calls == ["add"] + ["delete", "add"] * 20
        assert s.informer.statistics().events == {"ADDED": 21, "DELETED": 20}


async def test_fault_38_a_selector_matches_nothing() -> None:
    """Only bookmarks come, because the selector matches nothing.

    No call. The version advances, so the next watch gets no 410.
    """
    async with scene("a", source={"label_selector": "no=one"}, watch_timeout=200) as s:
        before = s.informer.last_sync_resource_version
        version = s.put("b")
        await asyncio.sleep(100)
        assert int(s.informer.last_sync_resource_version) >= int(version) > int(before)
        await s.server.compact()
        await asyncio.sleep(1000)
        assert s.health.live
        assert s.health.watches > 2
        assert (s.cached, s.mirror.calls, s.relists, s.errors) == ({}, [], {}, [])


async def test_fault_39_a_bookmark_is_a_skeleton() -> None:
    """The object of a bookmark has zero values that fit no type.

    Nothing: only version and annotations are read.
    """
    skeleton: dict[str, Any] = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "21", "creationTimestamp": None, "labels": 7},
        "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": None},
        "status": {"conditions": None, "storedVersions": None},
    }
    async with wire([listed(rv=7)], [Reply([line("BOOKMARK", skeleton), HANG])]) as w:
        await w.until(lambda: w.informer.last_sync_resource_version == "21")
        assert (w.mirror.calls, w.errors, w.informer.statistics().decode_errors) == ([], [], 0)


@needs_gzip_members
async def test_fault_40_a_watch_is_compressed() -> None:
    """Kubernetes 1.37 compresses a watch, as one gzip member per flush.

    Nothing: a watch requests no compression. If it comes anyway, every member is read.
    """
    lines = [event("ADDED", f"m{number}", 8 + number) for number in range(5)]
    members = Reply([gzip.compress(text) for text in lines] + [HANG], headers={"Content-Encoding": "gzip"})
    async with wire([listed(rv=7)], [members]) as w:
        await w.until(lambda: len(w.cached) == 5)
        assert w.mirror.of("add") == [f"m{number}" for number in range(5)]
        assert w.errors == []
        assert {request.headers["Accept-Encoding"] for request in w.server.requests} == {"identity"}


_NO_OBJECTS: list[dict[str, Any]] = [
    {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "9"}, "rows": []},
    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "etcd", "code": 500},
    {**config_map("x", rv=9), "kind": "Secret"},
]


@pytest.mark.parametrize("obj", _NO_OBJECTS, ids=["a table", "a status", "another kind"])
async def test_fault_41_something_else_comes_in_the_place_of_an_object(obj: dict[str, Any]) -> None:
    """A Table, a Status or another kind comes in an ADDED event.

    One relist with the cause `watch_error`. It never reaches the cache.
    """
    watch = Reply([event("ADDED", "b", 8) + line("ADDED", obj), HANG])
    async with wire([listed(rv=7), listed(config_map("b", rv=8), config_map("c", rv=9), rv=10)], [watch]) as w:
        await w.until(lambda: len(w.cached) == 2 and w.health.live)
        assert w.cached.keys() == {"default/b", "default/c"}
        assert w.relists == {"watch_error": 1}
        assert w.kinds == ["WatchError"]
        assert obj["kind"] in str(w.errors[0])
        await w.check_mirror()


async def test_fault_53_the_delete_of_an_earlier_object_comes_late() -> None:
    """A DELETED comes twice or late, when another object has the name. So does an old state.

    Nothing: it has another uid and an older version. A newer version means that the present object is gone too.
    """
    first, second = config_map("a", rv=3, uid="one"), config_map("a", rv=9, uid="two")
    deleted = line("DELETED", {**first, "metadata": {**first["metadata"], "resourceVersion": "8"}})
    late = deleted + line("MODIFIED", first) + deleted
    third = line("DELETED", config_map("a", rv=12, uid="three"))
    pieces = [deleted + line("ADDED", second) + late, event("ADDED", "b", 10), 1.0, third, HANG]
    async with wire([listed(first, rv=7)], [Reply(pieces)]) as w:
        await w.until(lambda: "b" in w.mirror.of("add"))
        assert w.cached["default/a"] == ("two", "9")
        await w.until(lambda: "default/a" not in w.cached)
        assert w.mirror.calls == [
            ("add", "a", "3"),
            ("delete", "a", False),
            ("add", "a", "9"),
            ("add", "b", "10"),
            ("delete", "a", True),
        ]
        await w.check_mirror()
