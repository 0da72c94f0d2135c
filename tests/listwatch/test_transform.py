"""A transform of all objects of a source.

Internals: the wrapper itself, around any source.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import KubeObject
from kinformer.exceptions import ExpiredError
from kinformer.list_watcher import ListerWatcher, ListOptions, ListPage, ServerTip, WatchEvent, source_of
from kinformer.listwatch.transform import TransformError, TransformingListerWatcher
from tests.support.log_records import Said, message_of, said

OPTIONS = ListOptions()


def document(name: str = "a", version: str = "1", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "resourceVersion": version, "labels": {"l": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"secret": "s"}, **more}


def entry(name: str = "a", version: str = "1", **more: Any) -> KubeObject:
    return KubeObject.from_dict(document(name, version, **more))


class Source:
    """A source whose items and events are given; it says its resourceVersion with its last item."""

    def __init__(self, items: Iterable[Any] = (), events: list[list[WatchEvent]] | None = None) -> None:
        self.items = items
        self.events = events or []
        self.closed = 0

    async def list(self, options: ListOptions) -> ListPage:
        return ListPage(self.items, "7", "token")

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        async def stream() -> AsyncIterator[list[WatchEvent]]:
            for batch in self.events:
                yield batch
            raise ExpiredError(410)

        try:
            yield stream()
        finally:
            self.closed += 1

    async def tip(self) -> ServerTip:
        return ServerTip("9")

    async def presence(self) -> bool | None:
        return True


class StreamingSource(Source):
    async def list(self, options: ListOptions) -> ListPage:
        page = ListPage(())
        page.items = self._lists(page)
        return page

    async def _lists(self, page: ListPage) -> AsyncIterator[list[Any]]:
        try:
            for item in self.items:
                yield []
                yield [item]
            page.resource_version, page.continue_token = "7", "token"
        finally:
            self.closed += 1


def strip(doc: dict[str, Any]) -> dict[str, Any] | None:
    """Leaves out `none`, fails on `bad`, keeps the name of all others."""
    match doc["metadata"]["name"]:
        case "none":
            return None
        case "bad":
            raise RuntimeError("bad luck")
    doc["spec"] = {"kept": True}
    return doc


async def listed(source: TransformingListerWatcher) -> list[KubeObject]:
    page = await source.list(OPTIONS)
    assert not isinstance(page.items, list)
    items = [item async for piece in page.items for item in piece]  # type: ignore[union-attr]
    assert (page.resource_version, page.continue_token) == ("7", "token")
    return items


async def watched(source: TransformingListerWatcher) -> list[list[WatchEvent]]:
    batches: list[list[WatchEvent]] = []
    async with source.watch(OPTIONS) as stream:
        while True:
            try:
                batches.append(await anext(stream))
            except ExpiredError:
                return batches


@pytest.mark.parametrize("kind", [Source, StreamingSource])
async def test_every_listed_object_is_transformed_and_some_are_left_out(kind: type[Source]) -> None:
    source = TransformingListerWatcher(kind([entry("a"), entry("none"), entry("bad"), document("b")]), strip)
    items = await listed(source)
    assert [item.key for item in items] == ["ns/a", "ns/b"]
    assert all(type(item) is KubeObject for item in items)
    assert all(item["spec"] == {"kept": True} for item in items)
    assert items[0].labels == {"l": "a"}
    assert source.transform_errors == 1


async def test_every_event_is_transformed_and_what_is_left_out_is_a_delete() -> None:
    bookmark = WatchEvent("BOOKMARK", KubeObject.from_dict(document("bad", "6")))
    events = [
        [
            WatchEvent("ADDED", entry("a")),
            WatchEvent("MODIFIED", entry("a", "2")),
            WatchEvent("DELETED", entry("a", "3")),
        ],
        [],
        [WatchEvent("ADDED", entry("none", "4")), WatchEvent("MODIFIED", entry("bad", "5")), bookmark],
    ]
    inner = Source(events=events)
    source = TransformingListerWatcher(inner, strip)
    first, empty, last = await watched(source)
    assert [event.type for event in first] == ["ADDED", "MODIFIED", "DELETED"]
    assert all(event.object["spec"] == {"kept": True} for event in first)
    assert empty == []
    assert [(event.type, event.object.key, event.object.resource_version) for event in last[:2]] == [
        ("DELETED", "ns/none", "4"),
        ("DELETED", "ns/bad", "5"),
    ]
    assert last[2] is bookmark
    assert source.transform_errors == 1
    assert inner.closed == 1


async def test_what_the_transform_did_not_take_never_shows_what_it_might_have_removed() -> None:
    cached = entry("bad", "1", spec={"kept": True})
    for known, spec in ((None, None), (lambda key: cached if key == "ns/bad" else None, {"kept": True})):
        events = [[WatchEvent(kind, entry("bad", "2")) for kind in ("MODIFIED", "DELETED")]]
        source = TransformingListerWatcher(Source(events=events), strip, known=known)
        for event in (await watched(source))[0]:
            assert event.type == "DELETED"
            assert event.object.get("spec") == spec
            assert event.object.resource_version == event.object["metadata"]["resourceVersion"] == "2"
            assert (event.object.uid, event.object.labels) == ("u-bad", {"l": "bad"})


def changed(field: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def transform(doc: dict[str, Any]) -> dict[str, Any]:
        doc["metadata"][field] = "other"
        return doc

    return transform


async def forgot(doc: dict[str, Any]) -> dict[str, Any]:
    return doc


@pytest.mark.parametrize(
    ("transform", "problem"),
    [
        (lambda doc: 1 / 0, "raised on <Pod ns/a rv=1>: ZeroDivisionError"),
        (lambda doc: "text", "returned str instead of a dict"),
        (lambda doc: [doc], "returned list instead of a dict"),
        (lambda doc: forgot(doc), "returned coroutine instead of a dict"),
        (lambda doc: {}, "returned an invalid object"),
        (lambda doc: {**doc, "spec": object()}, "returned an invalid object"),
        (lambda doc: {**doc, "metadata": {**doc["metadata"], "labels": {"n": 1}}}, "returned an invalid object"),
        (changed("name"), "changed name"),
        (changed("namespace"), "changed name"),
        (changed("uid"), "changed name"),
        (changed("resourceVersion"), "changed name"),
    ],
)
async def test_a_failing_transform_is_counted_reported_and_logged_once(
    transform: Any, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    reported: list[tuple[str, TransformError]] = []
    source = TransformingListerWatcher(
        Source([entry("a")]), transform, on_error=lambda key, error: reported.append((key, error))
    )
    assert await listed(source) == []
    assert await listed(source) == []
    assert source.transform_errors == 2
    assert [key for key, _ in reported] == ["ns/a", "ns/a"]
    assert problem in str(reported[0][1])
    assert said(caplog, "transform_failed") == [Said("ERROR", "kinformer.transform", "Source", "ns/a")]
    assert problem in message_of(caplog, "transform_failed")


async def test_a_transform_that_fails_on_everything_is_counted_and_ten_lines_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = TransformingListerWatcher(Source(), lambda doc: 1 / 0)  # type: ignore[arg-type, return-value]
    for number in range(2500):
        source.apply(entry(str(number)))
    assert source.transform_errors == 2500
    assert len(caplog.records) == 10


async def test_what_on_error_raises_comes_out() -> None:
    def refuse(key: str, error: TransformError) -> None:
        raise error

    inner = StreamingSource([entry("bad")])
    source = TransformingListerWatcher(inner, strip, on_error=refuse)
    with pytest.raises(TransformError):
        await listed(source)
    assert inner.closed == 1


async def test_a_known_object_of_the_same_version_is_not_transformed_again() -> None:
    calls: list[str] = []

    def transform(doc: dict[str, Any]) -> dict[str, Any]:
        calls.append(doc["metadata"]["name"])
        return doc

    cache = {obj.key: obj for obj in (entry("a", "1"), entry("b", "1"), entry("c", "1"))}
    cache["ns/c"] = KubeObject.from_dict({**document("c"), "metadata": {**document("c")["metadata"], "uid": "another"}})
    items = [entry("a", "1"), entry("b", "2"), entry("c", "1"), entry("d", "1")]
    source = TransformingListerWatcher(Source(items), transform, known=cache.get)
    found = await listed(source)
    assert found[0] is cache["ns/a"]
    assert calls == ["b", "c", "d"]


async def test_the_transform_has_a_dict_of_its_own() -> None:
    original = entry("a")
    kept: list[dict[str, Any]] = []

    def transform(doc: dict[str, Any]) -> dict[str, Any]:
        doc["spec"]["more"] = 1
        kept.append(doc)
        return doc

    (item,) = await listed(TransformingListerWatcher(Source([original]), transform))
    kept[0]["spec"]["more"] = 2
    assert original["spec"] == {"secret": "s"}
    assert item["spec"] == {"secret": "s", "more": 1}


async def test_a_missing_kind_is_put_back() -> None:
    (item,) = await listed(TransformingListerWatcher(Source([entry("a")]), lambda doc: {"metadata": doc["metadata"]}))
    assert item.to_dict() == {"kind": "Pod", "apiVersion": "v1", "metadata": document("a")["metadata"]}


def test_only_a_plain_function_can_transform() -> None:
    for bad in (forgot, None, {}):
        with pytest.raises(TypeError, match="transform="):
            TransformingListerWatcher(Source(), bad)  # type: ignore[arg-type]


async def test_what_the_inner_source_can_do_beside_list_and_watch_is_asked_of_it() -> None:
    inner = Source()
    source = TransformingListerWatcher(inner, strip)
    assert isinstance(source, ListerWatcher)
    assert source_of(source) is source
    assert source.name == "Source"
    assert await source.tip() == ServerTip("9")
    assert await source.cluster() is None
    assert source.contents is source.client is source.stats is None
    assert source.decodes is source.selects_all is source.sends_bookmarks is False


async def test_a_list_that_is_not_read_to_its_end_can_be_closed() -> None:
    inner = StreamingSource([entry("a"), entry("b")])
    page = await TransformingListerWatcher(inner, strip).list(OPTIONS)
    items: Any = page.items
    assert await anext(items) == []
    await items.aclose()
    assert inner.closed == 1


async def test_a_long_list_does_not_hold_up_the_loop() -> None:
    def slow(doc: dict[str, Any]) -> dict[str, Any]:
        until = time.perf_counter() + 0.0005
        while time.perf_counter() < until:
            pass
        return doc

    source = TransformingListerWatcher(Source([entry(str(number)) for number in range(100)]), slow)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count())
    assert len(await listed(source)) == 100
    counter.cancel()
    assert turns > 8
