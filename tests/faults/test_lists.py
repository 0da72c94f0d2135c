"""Faults of lists: answers of 200 that are no list of the resource, or not all of it. They never replace the cache."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kinformer.exceptions import DecodeError, WatchError
from kinformer.testing import APIServer, faults
from tests.support.fault_scene import HANG, Reply, Wire, event, listed, mark, scene, wire
from tests.support.http_server import line
from tests.support.kube import config_map, widget, widget_definition

pytestmark = pytest.mark.virtual_time

A, B, C = (config_map(name, rv=rv) for name, rv in (("a", 3), ("b", 4), ("c", 9)))
EXPIRED = line("ERROR", {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410})
WIDGETS = "example.com/v1/widgets"


def document(*items: Any, kind: str = "ConfigMapList", version: str = "v1", **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "apiVersion": version,
        "metadata": {"resourceVersion": "9"},
        "items": list(items),
        **more,
    }


def bare(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object as it is in a list of a built-in type, without kind and apiVersion."""
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


TABLE = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "9"}, "rows": []}
STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "etcd", "code": 500}
ELSEWHERE = config_map("a", namespace="other", rv=9)
NOWHERE: dict[str, Any] = {**A, "metadata": {**A["metadata"], "namespace": ""}}

FOREIGN: dict[str, Any] = {
    "a table": TABLE,
    "a table with no items": {**TABLE, "items": []},
    "an empty list of nodes": document(kind="NodeList"),
    "an empty list of secrets": document(kind="SecretList"),
    "secrets": document(bare(A), bare(C), kind="SecretList"),
    "secrets with their kind": document({**A, "kind": "Secret"}),
    "a secret among others": document(bare(A), {**C, "kind": "Secret"}),
    "an empty list of metadata": document(kind="PartialObjectMetadataList", version="meta.k8s.io/v1"),
    "an empty list of another version": document(version="v2"),
    "objects of another version": document({**A, "apiVersion": "v2"}),
    "an object of another namespace": document(bare(A), bare(ELSEWHERE)),
    "an object without a namespace": document(bare(NOWHERE)),
    "an unreadable object of another namespace": document(
        {**ELSEWHERE, "metadata": {**ELSEWHERE["metadata"], "labels": 7}}
    ),
    "a status among the items": document(bare(A), STATUS),
    "any list": document(kind="List"),
    "an item that is no object": document(bare(A), None, bare(C)),
    "items that are no array": document(items={"a": bare(A)}),
}


async def refused(w: Wire, *, by: str = "DecodeError") -> None:
    """Wait until the relist has failed, and check that the cache is as before, and the next list is believed."""
    await w.until(lambda: by in w.kinds)
    assert w.cached.keys() == {"default/a", "default/b"}
    assert not w.health.live
    assert w.mirror.of("delete") == []
    await w.until(lambda: w.health.live)
    await w.check_mirror()
    assert w.cached.keys() == {"default/a", "default/c"}
    assert w.mirror.of("delete") == ["b"]


@pytest.mark.parametrize("answer", FOREIGN.values(), ids=FOREIGN)
async def test_fault_47_a_list_is_of_something_else(answer: dict[str, Any]) -> None:
    """A list is answered by a Table, or by objects of another kind, version or namespace.

    The list fails, and the cache stays. It is requested again after a backoff. The error has both kinds.
    """
    lists = [listed(A, B, rv=7), Reply([json.dumps(answer).encode()]), listed(A, C, rv=10)]
    async with wire(lists, [Reply([EXPIRED])]) as w:
        await refused(w)


@pytest.mark.parametrize("answer", [document(kind="NodeList"), document(A, version="v1beta1")])
async def test_even_the_first_list_is_held_against_the_kind_of_a_built_in_resource(answer: dict[str, Any]) -> None:
    answers = [Reply([json.dumps(answer).encode()]), listed(A, rv=7)]
    async with wire(answers, synced=False) as w:
        await w.informer.wait_synced(timeout=30)
        assert w.cached.keys() == {"default/a"}
        assert "expected ConfigMap of v1" in str(w.errors[0])


STREAMS: dict[str, list[bytes]] = {
    "a secret": [event("ADDED", "a", 3), line("ADDED", {**B, "kind": "Secret"}), mark(9, end=True)],
    "another version": [line("ADDED", {**A, "apiVersion": "v2"}), mark(9, end=True)],
    "another namespace": [event("ADDED", "a", 3), line("ADDED", ELSEWHERE), mark(9, end=True)],
    "the bookmark of nodes": [mark(9, end=True).replace(b"ConfigMap", b"Node")],
    "a bookmark of another version": [mark(9, end=True).replace(b'"v1"', b'"v2"')],
    "a bookmark without a kind": [mark(9, end=True).replace(b'"kind":"ConfigMap",', b"")],
    "an object without a kind": [line("ADDED", bare(A)), mark(9, end=True)],
}


@pytest.mark.parametrize("pieces", STREAMS.values(), ids=STREAMS)
async def test_fault_47_an_initial_stream_is_of_something_else(pieces: list[bytes]) -> None:
    """See above."""
    first = Reply([event("ADDED", "a", 3), event("ADDED", "b", 4), mark(7, end=True), EXPIRED])
    last = Reply([event("ADDED", "a", 3), event("ADDED", "c", 9), mark(10, end=True), HANG])
    async with wire([listed(rv=1)], [first, Reply([*pieces, HANG]), last], watch_list=True) as w:
        await refused(w, by="WatchError")


async def test_an_object_of_another_kind_is_refused_again_when_it_comes_again() -> None:
    secret = Reply([line("ADDED", {**B, "kind": "Secret"}), HANG])
    async with wire([listed(rv=7)], [secret, secret, Reply([event("ADDED", "c", 9), HANG])]) as w:
        await w.until(lambda: "default/c" in w.cached)
        assert w.cached.keys() == {"default/c"}
        assert w.relists == {"watch_error": 2}


async def test_events_of_another_namespace_or_version_are_refused_too() -> None:
    wrong = [
        Reply([event("ADDED", "b", 8), line("ADDED", obj), HANG]) for obj in (ELSEWHERE, {**A, "apiVersion": "v2"})
    ]
    lists = [listed(rv=7), listed(rv=8)]
    async with wire(lists, [*wrong, Reply([event("ADDED", "c", 9), HANG])]) as w:
        await w.until(lambda: "default/c" in w.cached)
        assert w.cached.keys() == {"default/c"}
        assert w.relists == {"watch_error": 2}


async def test_fault_48_a_list_says_nothing() -> None:
    """A list has no kind, no apiVersion or no resourceVersion, like `{"items":[]}`.

    The list fails, and the cache stays, if this server has sent one before. Otherwise the list is taken as it is.
    """
    nothing = Reply([b'{"items":[]}'])
    versionless = Reply([json.dumps(document(A, metadata={})).encode()])
    async with wire([listed(A, B, rv=7), nothing, versionless, listed(A, C, rv=10)], [Reply([EXPIRED])]) as w:
        await refused(w)
        texts = [str(error) for error in w.errors]
        assert any("the list has no kind, which the server has sent before" in text for text in texts)
        assert any("the list has no resourceVersion" in text for text in texts)
    untyped = {"metadata": {"resourceVersion": "7"}, "items": [bare(A)]}
    async with wire([Reply([json.dumps(untyped).encode()])], [Reply([EXPIRED])]) as w:
        await w.until(lambda: w.relists == {"expired": 1})
        assert w.cached.keys() == {"default/a"}
        assert w.kinds == ["ExpiredError"]


async def test_fault_49_a_definition_has_another_kind() -> None:
    """A CustomResourceDefinition is created again with another kind.

    One list fails, and the next is taken, because discovery has this kind now. Without that, the cache stays.
    """
    definition = widget_definition()
    gadget = {**widget("a"), "kind": "Gadget"}
    async with APIServer() as server:
        server.register_crd(definition)
        server.create(widget("a"))
        async with scene(server=server, resource=WIDGETS) as s:
            server.delete("apiextensions.k8s.io/v1/customresourcedefinitions", None, "widgets.example.com")
            await s.until(lambda: s.health.state == "absent")
            server.register_crd(widget_definition(names={"plural": "widgets", "kind": "Gadget"}))
            server.create(gadget)
            await s.in_step(120)
            assert [obj.kind for obj in s.informer.lister] == ["Gadget"]
            refusals = [error for error in s.errors if isinstance(error, DecodeError)]
            assert len(refusals) <= 1


TWICE: dict[str, bytes] = {
    "kind": b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[],"kind":"Status"}',
    "items": b'{"apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[%s],"kind":"ConfigMapList","items":[]}'
    % json.dumps(A).encode(),
    "metadata": b'{"kind":"ConfigMapList","metadata":{"resourceVersion":"9"},"items":[],"metadata":{}}',
    "metadata.resourceVersion": b'{"metadata":{"resourceVersion":"9","resourceVersion":"8"},"items":[]}',
    "spec": b'{"metadata":{"resourceVersion":"9"},"items":[],"spec":1,"spec":2}',
    "metadata.continue": b'{"metadata":{"continue":"a","resourceVersion":"9","\\u0063ontinue":""},"items":[]}',
}


@pytest.mark.parametrize(("key", "body"), TWICE.items(), ids=TWICE)
async def test_fault_50_a_list_has_a_key_twice(key: str, body: bytes) -> None:
    """A list has a key twice, outside its items.

    The list fails, and the cache stays: readers would take the last value, and so lose the first items.
    """
    async with wire([listed(A, B, rv=7), Reply([body]), listed(A, C, rv=10)], [Reply([EXPIRED])]) as w:
        await refused(w)
        assert any(f"the list has the key {key!r} twice" in str(error) for error in w.errors)


@pytest.mark.parametrize("cut", [b"", b" "], ids=["at once", "later"])
async def test_fault_51_something_follows_a_list(cut: bytes) -> None:
    """A Status, or anything else, follows a complete list, as after a failure while the list is written.

    The list fails, and the cache stays.
    """
    whole, status = json.dumps(document(bare(A))).encode(), json.dumps(STATUS).encode()
    wrong = Reply([whole, 0.1, status]) if cut else Reply([whole + status])
    async with wire([listed(A, B, rv=7), wrong, listed(A, C, rv=10)], [Reply([EXPIRED])]) as w:
        await refused(w)


@pytest.mark.parametrize("status", [201, 203, 206])
async def test_fault_52_a_success_is_not_a_200(status: int) -> None:
    """A list or a watch is answered 206 (a part), or another success than 200.

    The request fails, and the cache stays. No API server answers so, and kinformer requests no parts.
    """
    wrong = Reply(listed(rv=9).pieces, status=status)
    opened = Reply([event("ADDED", "x", 8), HANG], status=status)
    async with wire([listed(A, B, rv=7), wrong, listed(A, C, rv=10)], [opened, Reply([EXPIRED])]) as w:
        await refused(w)
        assert any(f"got {status}" in str(error) for error in w.errors if isinstance(error, WatchError))
        assert any(f"got {status}" in str(error) for error in w.errors if isinstance(error, DecodeError))


async def test_fault_55_a_server_needs_longer_than_30_seconds_for_a_list() -> None:
    """A server needs longer than 30 s for the head of a list, because it has many objects, or is distant.

    `live` is False after 30 s, with a TimeoutError. It is listed again, the first answer of the two is taken, and lists
    have 65 s from then on, until one is answered within 15 s.
    """
    async with scene("a", synced=False, watch_list=False, idle_timeout=600) as s:
        s.server.faults.add(faults.delay(45), verb="list")
        await s.until(lambda: s.health.live, 60)
        assert len(s.asked("list")) == 2
        assert s.kinds == ["TimeoutError"]
        s.errors.clear()
        s.server.faults.add(faults.garble(), verb="watch", times=1)
        s.put("b")
        await s.in_step(300)
        assert s.kinds == ["DecodeError"]
        assert s.relists == {"decode_error": 1}


async def test_fault_55_a_list_that_was_lost(server: APIServer) -> None:
    """See above: the first list is never answered."""
    server.faults.add(faults.stall(), verb="list", times=1)
    async with scene("a", server=server, synced=False, watch_list=False) as s:
        await s.until(lambda: s.health.live, 40)
        assert len(s.asked("list")) == 2
