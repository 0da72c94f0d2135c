"""One object that cannot be handled hides no other, whichever way it comes.

The transform and the index function have their tests in tests/faults/test_traps.py (5 and 8).
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kinformer.exceptions import DecodeError
from kinformer.testing import faults
from tests.support.fault_scene import HANG, Reply, Scene, event, listed, mark, scene, wire
from tests.support.http_server import line
from tests.support.kube import config_map
from tests.support.log_records import Said, message_of, records, said
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("arrival")]

PATHS = ["list", "watch list", "watch", "relist", "late"]


def poison(name: str = "b", rv: int = 8, **metadata: Any) -> dict[str, Any]:
    document = config_map(name, rv=rv)
    document["metadata"] |= {"labels": {"a": 7}} | metadata
    return document


# --- the decoder -----------------------------------------------------------------------------------------------------

A, B, C = config_map("a", rv=3), config_map("b", rv=4), config_map("c", rv=9)
THEN_C = line("ADDED", C)
CASES: dict[str, tuple[list[Reply], list[Reply], bool]] = {
    "list": ([listed(A, poison(), rv=8)], [Reply([THEN_C, HANG])], False),
    "watch list": ([], [Reply([line("ADDED", A), line("ADDED", poison()), mark(8, end=True), THEN_C, HANG])], False),
    "watch, new": ([listed(A, rv=7)], [Reply([line("ADDED", poison()), THEN_C, HANG])], False),
    "watch, cached": ([listed(A, B, rv=7)], [Reply([line("MODIFIED", poison()), THEN_C, HANG])], True),
    "watch, deleted": ([listed(A, B, rv=7)], [Reply([line("DELETED", poison()), THEN_C, HANG])], True),
    "relist": ([listed(A, B, rv=7), listed(A, poison(), rv=8)], [Reply([b"{}\n"]), Reply([THEN_C, HANG])], True),
}


@pytest.mark.parametrize("path", CASES)
@pytest.mark.parametrize("transform", [None, lambda document: document], ids=["plain", "transformed"])
async def test_an_object_that_cannot_be_read_is_left_out_and_a_cached_state_of_it_goes(
    path: str, transform: Any, caplog: pytest.LogCaptureFixture
) -> None:
    lists, watches, cached = CASES[path]
    options: dict[str, Any] = {"watch_list": None if path == "watch list" else False, "transform": transform}
    async with wire(lists, watches, **options) as w:
        await w.until(lambda: "default/c" in w.cached)
        assert w.cached.keys() == {"default/a", "default/c"}
        deleted = [call for call in w.mirror.calls if call[0] == "delete"]
        assert deleted == ([("delete", "b", True)] if cached else [])
        assert w.informer.statistics().decode_errors == 1
        assert w.informer.last_sync_resource_version == "9"
        assert said(caplog, "decode_error") == [Said("ERROR", "kinformer.list_watch", "v1/configmaps", "default/b")]
        assert "Expected `str`, got `int`" in message_of(caplog, "decode_error")
        assert w.health.live
        await w.check_mirror()


@pytest.mark.parametrize("path", ["list", "watch list", "watch", "relist"])
async def test_an_object_that_is_nested_too_deeply_does_not_end_the_informer(path: str) -> None:
    """Whoever may write one custom resource could stop all who watch it."""
    text = json.dumps({**config_map("b", rv=8), "data": "HERE"})
    deep = text.replace('"HERE"', "[" * 200_000 + "]" * 200_000).encode()
    bad_list = Reply([listed(A, {"x": 1}, rv=8).pieces[0].replace(b'{"x": 1}', deep)])  # type: ignore[union-attr]
    bad_line = b'{"type":"ADDED","object":%s}\n' % deep
    then_c = Reply([THEN_C, HANG])
    lists, watches = {
        "list": ([bad_list], [then_c]),
        "watch list": ([], [Reply([line("ADDED", A), bad_line, mark(8, end=True), THEN_C, HANG])]),
        "watch": ([listed(A, B, rv=7)], [Reply([bad_line, THEN_C, HANG])]),
        "relist": ([listed(A, B, rv=7), bad_list], [Reply([b"{}\n"]), then_c]),
    }[path]
    async with wire(lists, watches, watch_list=None if path == "watch list" else False) as w:
        await w.until(lambda: "default/c" in w.cached)
        assert w.cached.keys() == {"default/a", "default/c"}
        assert w.informer.statistics().decode_errors == 1
        assert w.health.live
        await w.check_mirror()


async def test_the_delete_that_stands_for_an_unreadable_state_has_the_last_state_that_was_known() -> None:
    class Last(Mirror):
        def on_delete(self, obj: Any, *, final_state_unknown: bool) -> None:
            super().on_delete(obj, final_state_unknown=final_state_unknown)
            self.last = obj.to_dict()

    async with wire([listed(A, B, rv=7)], [Reply([2.0, line("MODIFIED", poison()), HANG])]) as w:
        handler = Last()
        w.informer.add_event_handler(handler)
        await w.until(lambda: w.mirror.of("delete") == ["b"])
        assert handler.last == B


async def test_an_object_that_can_be_read_again_comes_back() -> None:
    watch = [line("MODIFIED", poison()), line("MODIFIED", poison(rv=9)), event("MODIFIED", "b", 10), HANG]
    async with wire([listed(A, B, rv=7)], [Reply(watch)]) as w:
        await w.until(lambda: w.informer.last_sync_resource_version == "10")
        assert w.mirror.calls[2:] == [("delete", "b", True), ("add", "b", "10")]
        assert w.informer.statistics().decode_errors == 2
        assert (w.relists, w.errors) == ({}, [])


async def test_a_poisoned_object_is_logged_once_a_key_however_often_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    lines = [line("MODIFIED", poison(name, rv=8 + number)) for number, name in enumerate("bcbcbc")]
    async with wire([listed(A, rv=7)], [Reply([*lines, HANG])]) as w:
        await w.until(lambda: w.informer.last_sync_resource_version == "13")
        assert w.informer.statistics().decode_errors == 6
        assert [one.key for one in said(caplog, "decode_error")] == ["default/b", "default/c"]


@pytest.mark.parametrize(
    ("metadata", "relists"),
    [({"name": 7}, {}), ({"name": None}, {}), ({"resourceVersion": 8}, {"watch_error": 1})],
    ids=["name", "no name", "version"],
)
async def test_an_object_without_a_readable_identity_does_not_stop_the_watch(
    metadata: dict[str, Any], relists: dict[str, int]
) -> None:
    watches = [Reply([line("MODIFIED", poison(**metadata)), THEN_C, HANG]), Reply([THEN_C, HANG])]
    async with wire([listed(A, rv=7)], watches) as w:
        await w.until(lambda: "default/c" in w.cached)
        assert (w.relists, w.informer.last_sync_resource_version) == (relists, "9")
        assert w.informer.statistics().decode_errors == 1


async def test_an_object_without_a_readable_name_does_not_deafen_an_initial_stream() -> None:
    a_and_poison = [line("ADDED", A), line("ADDED", poison(name=7))]
    watches = [Reply([*a_and_poison, 29.0, line("ADDED", B), 29.0, mark(8, end=True), THEN_C, HANG])]
    async with wire([], watches, watch_list=True) as w:
        await w.until(lambda: "default/c" in w.cached)
        assert w.cached.keys() == {"default/a", "default/b", "default/c"}
        assert w.informer.statistics().decode_errors == 1
        assert w.errors == []


# --- whoever reads what is cached ------------------------------------------------------------------------------------


async def bring(s: Scene, path: str) -> None:
    """Has `bad` come by this path, between others."""
    if path in ("list", "watch list"):
        s.put("bad")
        await s.informer.wait_synced(timeout=10)
    else:
        await s.informer.wait_synced(timeout=10)
        if path == "relist":
            s.server.faults.add(faults.expired(), verb="watch", times=1)
        s.put("bad")
    s.put("z")
    await s.until(lambda: "default/z" in s.cached and s.health.live)


class Model(msgspec.Struct):
    data: dict[str, int]


class Failing(Mirror):
    """A handler that cannot take one object."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self._how = how

    def _look(self, obj: Any) -> None:
        if obj.name != "bad":
            return
        if self._how == "model":
            obj.decode(Model)
        raise ValueError("cannot take it")

    def on_add(self, obj: Any, *, is_in_initial_list: bool) -> None:
        self._look(obj)
        super().on_add(obj, is_in_initial_list=is_in_initial_list)

    async def on_update(self, old: Any, new: Any) -> None:  # type: ignore[override]
        self._look(new)
        super().on_update(old, new)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("how", ["raises", "model"])
async def test_a_handler_that_cannot_take_one_object_hears_of_all_others(
    path: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Failing(how)
    options: dict[str, Any] = {"watch_list": None if path == "watch list" else False}
    async with scene("a", synced=False, **options) as s:
        if path != "late":
            s.informer.add_event_handler(handler, name="failing")
        await bring(s, path)
        if path == "late":
            s.informer.add_event_handler(handler, name="failing")
        await s.until(lambda: "default/z" in handler.objects)
        assert handler.objects.keys() == {"default/a", "default/z"}
        assert s.cached == s.truth
        assert s.mirror.objects.keys() == {"default/a", "default/bad", "default/z"}
        assert s.informer.statistics().handler_errors == 1
        (record,) = [one for one in caplog.records if one.name == "kinformer.handler" and one.levelname == "ERROR"]
        assert records(caplog, "handler_failed") == [record]
        assert said(caplog, "handler_failed")[0][2:] == ("v1/configmaps", "default/bad")
        assert {"failing", "ADDED"} <= set(record.message.split())
        assert isinstance(record.exc_info, tuple)
        assert isinstance(record.exc_info[1], DecodeError if how == "model" else ValueError)
        s.put("bad", "2")
        await s.until(lambda: s.informer.statistics().handler_errors == 2)
        assert s.informer.lister.get("bad") is not None
        assert [record for record in caplog.records if record.name == "kinformer.handler"] == [record], "once is enough"


@pytest.mark.parametrize("path", PATHS)
async def test_a_filter_that_cannot_take_one_object_shows_all_others(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    def choose(obj: Any) -> bool:
        if obj.name == "bad":
            raise ValueError("cannot take it")
        return True

    handler = Mirror()
    options: dict[str, Any] = {"watch_list": None if path == "watch list" else False}
    async with scene("a", synced=False, **options) as s:
        if path != "late":
            registration = s.informer.add_event_handler(handler, filter=choose)
        await bring(s, path)
        if path == "late":
            registration = s.informer.add_event_handler(handler, filter=choose)
        await registration.wait_synced(timeout=10)
        await s.until(lambda: "default/z" in handler.objects)
        assert handler.objects.keys() == {"default/a", "default/z"}
        assert s.informer.statistics().handler_errors >= 1
        s.put("bad", "2")
        s.drop("bad")
        s.put("last")
        await s.until(lambda: "default/last" in handler.objects)
        assert "bad" not in [call[1] for call in handler.calls]
        assert s.cached == s.truth
        assert said(caplog, "filter_failed") == [Said("ERROR", "kinformer.handler", "v1/configmaps", "default/bad")]


async def test_an_event_stream_with_a_filter_that_fails_goes_on() -> None:
    async with scene("a", "bad") as s:

        def choose(obj: Any) -> bool:
            return bool(obj["data"]["v"] != "0" or 1 / (obj.name != "bad"))

        async with s.informer.events(filter=choose) as stream:
            s.put("c")
            assert [(await anext(stream)).object.name for _ in range(2)] == ["a", "c"]
        assert s.informer.statistics().handler_errors == 1
