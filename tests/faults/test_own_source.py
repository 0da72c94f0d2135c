"""A source of the program's own gives dicts; one that cannot be kept hides no other, whichever way it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import Backoff, KubeObject, ListOptions, ListPage, SharedInformer, WatchEvent
from tests.support.kube import config_map
from tests.support.log_records import Said, message_of, said
from tests.support.mirror import Mirror
from tests.support.scripted_source import HANG, Asked, ScriptedSource, bookmark, end, page
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

A, B, C = config_map("a", rv=3), config_map("b", rv=4), config_map("c", rv=9)
THEN_C = [WatchEvent("ADDED", C)]


def bad(name: Any = "b", rv: Any = "8", **metadata: Any) -> dict[str, Any]:
    """Return a document with labels that are not text."""
    document = config_map("b", rv=rv)
    document["metadata"] |= {"name": name, "resourceVersion": rv, "labels": {"a": 7}} | metadata
    return document


class Stage:
    """An informer of a scripted source, with the handler that mirrors it."""

    def __init__(self, source: Any, **options: Any) -> None:
        self.source = source
        self.errors: list[BaseException] = []
        options = {"watch_list": False, "backoff": Backoff(jitter=0), "on_error": self._failed} | options
        self.informer = SharedInformer(source, **options)
        self.mirror = Mirror()
        self.informer.add_event_handler(self.mirror)

    def _failed(self, informer: Any, error: BaseException) -> None:
        self.errors.append(error)

    @property
    def cached(self) -> set[str]:
        return set(self.informer.lister.keys())

    @property
    def decode_errors(self) -> int:
        return self.informer.statistics().decode_errors

    async def until_c(self) -> None:
        await until(lambda: "default/c" in self.cached, 90, what=lambda: f"{self.informer.health()}, {self.errors}")


@asynccontextmanager
async def staged(lists: list[Any], watches: list[Any], **options: Any) -> AsyncIterator[Stage]:
    stage = Stage(ScriptedSource(lists, watches, name="my-things in default"), **options)
    async with stage.informer:
        yield stage


Way = tuple[list[Any], list[Any], bool]


def ways(wrong: Any) -> dict[str, Way]:
    """The ways by which an object may come; the last is true if an older state of it is cached then."""
    initial = [WatchEvent("ADDED", A), WatchEvent("ADDED", wrong), end(8)]
    return {
        "list": ([page(A, wrong, rv=8)], [[THEN_C, HANG]], False),
        "watch list": ([], [[initial, THEN_C, HANG]], False),
        "watch, new": ([page(A, rv=7)], [[[WatchEvent("ADDED", wrong)], THEN_C, HANG]], False),
        "watch, cached": ([page(A, B, rv=7)], [[[WatchEvent("MODIFIED", wrong)], THEN_C, HANG]], True),
        "watch, deleted": ([page(A, B, rv=7)], [[[WatchEvent("DELETED", wrong)], THEN_C, HANG]], True),
        "relist": ([page(A, B, rv=7), page(A, wrong, rv=8)], [[[WatchEvent("??", A)]], [THEN_C, HANG]], True),
    }


def options_of(way: str, form: str) -> dict[str, Any]:
    options: dict[str, Any] = {"watch_list": way == "watch list"}
    if form == "transformed":
        options["transform"] = lambda document: document
    return options | ({"compact": True} if form == "compact" else {})


@pytest.mark.parametrize("way", ways(None))
@pytest.mark.parametrize("form", ["plain", "transformed", "compact"])
async def test_a_dict_that_cannot_be_kept_is_left_out_and_a_cached_state_of_it_goes(
    way: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    lists, watches, cached = ways(bad())[way]
    async with staged(lists, watches, **options_of(way, form)) as s:
        await s.until_c()
        assert s.cached == {"default/a", "default/c"}
        await until(lambda: s.mirror.of("add")[-1:] == ["c"], 10)
        deleted = [call for call in s.mirror.calls if call[0] == "delete"]
        assert (deleted, s.mirror.wrong) == ([("delete", "b", True)] if cached else [], [])
        assert s.decode_errors == 1
        assert s.informer.last_sync_resource_version == "9"
        assert s.informer.health().live
    assert said(caplog, "decode_error") == [Said("ERROR", "kinformer.list_watch", "my-things", "default/b")]
    assert "Expected `str`, got `int`" in message_of(caplog, "decode_error")


def circular() -> dict[str, Any]:
    document = config_map("b", rv="8")
    document["data"] = document
    return document


WRONG: dict[str, Any] = {
    "none": None,
    "a number": 7,
    "no metadata": {"kind": "ConfigMap"},
    "metadata that is not an object": {"metadata": 5},
    "no name": {"metadata": {"namespace": "default", "uid": "u", "resourceVersion": "8"}},
    "a name that is not text": bad(7),
    "a namespace that is not text": bad(namespace=7),
    "a version that is not text": bad(rv=8),
    "a value that JSON does not have": {**config_map("b", rv="8"), "data": object()},
    "a circle": circular(),
    "a surrogate": {**config_map("b", rv="8"), "data": {"a": "\ud800"}},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("form", ["plain", "transformed", "compact"])
async def test_whatever_comes_instead_of_an_object_ends_no_list(wrong: str, form: str) -> None:
    async with staged([page(A, WRONG[wrong], rv=8)], [[THEN_C, HANG]], **options_of("list", form)) as s:
        await s.until_c()
        assert (s.cached, s.decode_errors, s.errors) == ({"default/a", "default/c"}, 1, [])


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("form", ["plain", "transformed", "compact"])
async def test_whatever_comes_instead_of_an_object_ends_no_watch(wrong: str, form: str) -> None:
    """Without a name and a version it is a relist, since the change that was lost is unknown."""
    events = [WatchEvent("ADDED", A), WatchEvent("MODIFIED", WRONG[wrong])]
    source = [page(rv=2), page(A, rv=8)], [[events, THEN_C, HANG], [THEN_C, HANG]]
    async with staged(*source, **options_of("watch", form)) as s:
        await s.until_c()
        unknown = wrong in ("none", "a number", "no metadata", "metadata that is not an object")
        relists = {"watch_error": 1} if unknown else {}
        assert dict(s.informer.statistics().relists) == relists
        assert (s.cached, s.decode_errors) == ({"default/a", "default/c"}, 1)
        assert [type(error).__name__ for error in s.errors] == ["WatchError"] * len(relists)


async def test_a_bad_object_without_a_name_ends_no_initial_stream() -> None:
    initial = [WatchEvent("ADDED", A), WatchEvent("ADDED", bad(7))]
    steps = [initial, 29.0, [WatchEvent("ADDED", B)], 29.0, [end(8)], THEN_C, HANG]
    async with staged([], [steps], watch_list=True) as s:
        await s.until_c()
        assert (s.cached, s.decode_errors, s.errors) == ({"default/a", "default/b", "default/c"}, 1, [])


async def test_an_object_that_is_right_again_comes_back_and_the_watch_goes_on_behind_a_bad_one() -> None:
    steps = [[WatchEvent("MODIFIED", bad())], [WatchEvent("MODIFIED", config_map("b", rv=9))], [bookmark(10)]]
    async with staged([page(A, B, rv=7)], [steps]) as s:
        await until(lambda: len([a for a in s.source.asked if a.verb == "watch"]) == 2, 30)
        assert s.mirror.calls[2:] == [("delete", "b", True), ("add", "b", "9")]
        assert [(asked.verb, asked.rv) for asked in s.source.asked[1:]] == [("watch", "7"), ("watch", "10")]
        assert (s.decode_errors, s.errors) == (1, [])


async def test_one_key_is_logged_once_and_each_time_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    events = [WatchEvent("MODIFIED", bad(name, str(8 + number))) for number, name in enumerate("bdbdbd")]
    async with staged([page(A, rv=7)], [[events, HANG]]) as s:
        await until(lambda: s.decode_errors == 6, 10)
        assert s.informer.last_sync_resource_version == "13"
    assert [one.key for one in said(caplog, "decode_error")] == ["default/b", "default/d"]


async def test_the_lists_of_a_page_that_comes_piece_by_piece_are_closed() -> None:
    class Pieces:
        closed = False

        async def parts(self) -> AsyncIterator[list[Any]]:
            try:
                yield [A, bad()]
                yield [config_map(f"m{number}", rv=20 + number) for number in range(3000)]
            finally:
                self.closed = True

    class Source(ScriptedSource):
        async def list(self, options: ListOptions) -> ListPage:
            self.asked.append(Asked("list", 0.0, options))
            return ListPage(pieces.parts(), "8")

    pieces = Pieces()
    stage = Stage(Source([], [[THEN_C, HANG]]))
    async with stage.informer:
        await stage.until_c()
        assert (len(stage.cached), stage.decode_errors, pieces.closed) == (3002, 1, True)


async def test_an_object_of_the_source_is_kept_as_it_is() -> None:
    first, second = KubeObject.from_dict(A), KubeObject.from_dict(C)
    async with staged([page(first, rv=7)], [[[WatchEvent("ADDED", second)], HANG]]) as s:
        await s.until_c()
        assert s.informer.indexer.get_by_key("default/a") is first
        assert s.informer.indexer.get_by_key("default/c") is second


class Growing(ScriptedSource):
    """A source that changes its objects between two turns of the loop, and lists what `listed` makes of them."""

    def __init__(self, listed: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__([], [], name="my-things")
        self.objects = {name: config_map(name, rv=3) for name in (f"m{number}" for number in range(2000))}
        self.listed = listed

    async def list(self, options: ListOptions) -> ListPage:
        asyncio.get_running_loop().call_soon(self._change)
        return ListPage(self.listed(self.objects), "7")

    def _change(self) -> None:
        del self.objects["m0"]
        self.objects |= {f"n{number}": config_map(f"n{number}", rv=8) for number in range(10)}


@pytest.mark.parametrize("transform", [None, lambda document: document], ids=["plain", "transformed"])
async def test_objects_that_change_while_they_are_listed_are_copied(transform: Any) -> None:
    async with SharedInformer(Growing(dict.values), watch_list=False, transform=transform) as informer:
        await informer.wait_synced(60)
        assert {obj.name for obj in informer.lister} == {f"m{number}" for number in range(2000)}


async def test_an_iterator_over_objects_that_change_is_refused_with_the_name_of_the_source() -> None:
    informer = SharedInformer(Growing(lambda objects: iter(objects.values())), watch_list=False)
    with pytest.raises(RuntimeError, match=r"my-things: a list changed while it was read .* return a copy"):
        async with informer:
            await informer.wait_synced(60)
