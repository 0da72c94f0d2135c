"""The decoder of objects and events.

Internals: the decoder itself, for any bytes.
"""

from __future__ import annotations

import gc
import json
import re
import timeit
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer.exceptions import (
    APIError,
    DecodeError,
    ExpiredError,
    ResourceVersionTooLargeError,
    ServerError,
    WatchError,
)
from kinformer.list_watcher import WatchEvent
from kinformer.wire.decoder import EntryDecoder, PoisonObjectError
from kinformer.wire.lines import LineFramer
from kinformer.wire.list_parser import ListSplitter
from tests.support.held import label_set
from tests.wire.list_items import kept_by

MANAGED = [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}}}]
META: dict[str, Any] = {
    "name": "web-1",
    "namespace": "default",
    "uid": "u-1",
    "resourceVersion": "123",
    "labels": {"app": "web"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-0"}],
    "managedFields": MANAGED,
}
POD = {"kind": "Pod", "apiVersion": "v1", "metadata": META, "spec": {"nodeName": "n1"}}
BARE = {**POD, "metadata": {key: value for key, value in META.items() if key != "managedFields"}}


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def line(kind: str, obj: Any) -> bytes:
    return dump({"type": kind, "object": obj})


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_line_becomes_an_event_with_an_object(kind: str) -> None:
    event = EntryDecoder().event(line(kind, POD))
    obj = event.object
    assert event.type == kind
    assert (obj.key, obj.uid, obj.resource_version) == ("default/web-1", "u-1", "123")
    assert (obj.api_version, obj.kind, obj.namespace) == ("v1", "Pod", "default")
    assert obj.labels == {"app": "web"}
    assert obj.owner_references[0].name == "web"
    assert obj.raw == dump(BARE)


def test_the_order_and_spacing_of_a_line_do_not_matter() -> None:
    for text in (
        dump({"object": POD, "type": "ADDED"}),
        json.dumps({"type": "ADDED", "object": POD}).encode(),
        line("ADDED", POD)[:-1] + b',"more":{"object":{}}}',
        line("ADDED", POD) + b"  ",
        b" " + line("ADDED", POD)[:-1] + b" }",
    ):
        for given_as in (text, bytearray(text), memoryview(text)):
            event = EntryDecoder().event(given_as)
            assert event.type == "ADDED"
            assert event.object.to_dict() == BARE


def test_managed_fields_stay_if_they_are_asked_for() -> None:
    assert EntryDecoder(keep_managed_fields=True).event(line("ADDED", POD)).object.raw == dump(POD)


# Where and how managedFields may stand, and what may look like them.
NOT_THEM = {"annotations": {"last": dump(POD).decode(), "managedFields": "x"}, "finalizers": ['"managedFields":[']}


@given(st.permutations([*META, *NOT_THEM]), st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans())
def test_managed_fields_are_cut_out_wherever_they_stand(
    order: list[str], data_first: bool, separators: tuple[str, str], empty: bool
) -> None:
    metadata = {key: {**META, **NOT_THEM}[key] for key in order}
    if empty:
        metadata["managedFields"] = []
    copy = {"data": {"metadata": {"managedFields": MANAGED}}}  # a nested one that is to stay
    document = {**copy, "kind": "X", "metadata": metadata} if data_first else {"metadata": metadata, **copy}
    raw = json.dumps(document, separators=separators).encode()
    found = EntryDecoder().item(raw, "v1", "X")
    del metadata["managedFields"]
    kept = found.to_dict()
    assert {**kept, "kind": "X"} == {**document, "kind": "X", "apiVersion": "v1"}
    assert list(kept["metadata"]) == [key for key in order if key != "managedFields"]


def test_items_of_built_in_lists_get_their_kind_also_in_their_bytes() -> None:
    decoder = EntryDecoder()
    item = {"metadata": META, "spec": {"nodeName": "n1"}}
    listed = decoder.item(dump(item), "v1", "Pod")
    assert (listed.api_version, listed.kind) == ("v1", "Pod")
    assert listed.raw == decoder.event(line("ADDED", POD)).object.raw
    half = decoder.item(dump({"kind": "Own", **item}), "v1", "Pod")
    assert (half.api_version, half.kind, half["apiVersion"], half["kind"]) == ("v1", "Own", "v1", "Own")
    own = decoder.item(dump(POD), "x/v2", "Other")
    assert (own.api_version, own.kind, own.to_dict()) == ("v1", "Pod", BARE)
    assert decoder.item(dump(item)).to_dict() == {"metadata": BARE["metadata"], "spec": {"nodeName": "n1"}}


def test_equal_labels_and_owners_are_one_and_the_same() -> None:
    decoder = EntryDecoder()
    one, two = (decoder.item(dump({"metadata": {**META, "name": name}}), "v1", "Pod") for name in ("a", "b"))
    assert label_set(one) is label_set(two)
    assert one.owner_references is two.owner_references
    assert one.namespace is two.namespace
    assert one.kind is two.kind
    assert not gc.is_tracked(one)


def test_what_is_shared_is_bounded_and_what_is_in_use_stays_shared() -> None:
    decoder = EntryDecoder()

    def labelled(value: str) -> Any:
        return decoder.item(b'{"metadata":{"name":"a","labels":{"n":"%s"}}}' % value.encode())

    used, once = labelled("used"), labelled("once")
    assert label_set(labelled("once")) is label_set(once)
    for number in range(40_000):
        labelled(str(number))
        if number % 1000 == 0:
            assert label_set(labelled("used")) is label_set(used)
    # Had it been kept, so would have been the 40,000 others.
    assert label_set(labelled("once")) is not label_set(once)
    assert labelled("once") == once


def test_null_is_as_good_as_absent() -> None:
    nothing = dict.fromkeys(("namespace", "uid", "labels", "ownerReferences", "managedFields"))
    obj = EntryDecoder().item(dump({"metadata": {"name": "a", **nothing}}), "v1", "Node")
    assert (obj.key, obj.uid, obj.labels, obj.owner_references) == ("a", "", {}, ())


def test_only_declared_fields_are_kept() -> None:
    obj = EntryDecoder(fields=["spec.nodeName"]).event(line("ADDED", {**POD, "status": {"phase": "Running"}})).object
    assert obj.path("spec.nodeName") == "n1"
    assert "status" not in obj
    assert obj.labels == {"app": "web"}
    assert b"managedFields" not in obj.raw


def test_a_bookmark_may_be_a_skeleton() -> None:
    skeleton = {
        "kind": "X",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "21"},
        "spec": {"versions": None, "n": ""},
    }
    event = EntryDecoder().event(line("BOOKMARK", skeleton))
    assert (event.type, event.object.resource_version, event.object.annotations) == ("BOOKMARK", "21", {})
    skeleton["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}  # type: ignore[index]
    assert EntryDecoder().event(line("BOOKMARK", skeleton)).object.annotations == {"k8s.io/initial-events-end": "true"}


def status(**fields: Any) -> bytes:
    return line("ERROR", {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", **fields})


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"code": 410, "reason": "Expired", "message": "too old resource version: 1 (5)"}, ExpiredError),
        ({"code": 410, "reason": "Gone"}, ExpiredError),
        ({"code": 410}, ExpiredError),
        ({"reason": "Expired"}, ExpiredError),
        ({"code": 500, "reason": "InternalError", "message": "x"}, ServerError),
        ({}, ServerError),
        ({"code": 504, "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}, ResourceVersionTooLargeError),
    ],
)
def test_an_error_event_raises_what_its_status_says(fields: dict[str, Any], error: type[APIError]) -> None:
    with pytest.raises(error) as caught:
        EntryDecoder().event(status(**fields))
    assert type(caught.value) is error
    assert caught.value.message == fields.get("message", "")


def test_an_error_event_says_when_to_come_back() -> None:
    with pytest.raises(APIError) as caught:
        EntryDecoder().event(status(code=429, details={"retryAfterSeconds": 3, "kind": "pods"}))
    assert caught.value.retry_after == 3.0
    assert caught.value.details["kind"] == "pods"


def test_an_error_event_that_asks_for_an_eternity_is_an_error_like_others() -> None:
    with pytest.raises(APIError) as caught:
        EntryDecoder().event(status(code=429, details={"retryAfterSeconds": 10**400}))
    assert caught.value.retry_after == 1e9


@pytest.mark.parametrize(
    "text",
    [
        line("FOO", POD),
        line("", POD),
        line("ERROR", {"code": "x"}),
        line("ERROR", 7),
        line(
            "ADDED", {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "5"}, "rows": []}
        ),
        line("MODIFIED", {"kind": "Status", "apiVersion": "v1", "metadata": {}}),
        line(
            "ADDED", {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": []}
        ),
    ],
)
def test_what_is_no_watch_breaks_the_protocol(text: bytes) -> None:
    decoder = EntryDecoder()
    with pytest.raises(WatchError):
        decoder.event(text)
    assert decoder.errors == 1


def test_a_custom_resource_may_be_called_table() -> None:
    table = {"kind": "Table", "apiVersion": "furniture.io/v1", "metadata": {"name": "oak"}}
    assert EntryDecoder().event(line("ADDED", table)).object.kind == "Table"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"garbage",
        b"{}",
        b"[]",
        b'{"type":"ADDED"}',
        b'{"type":7,"object":{}}',
        line("ADDED", POD)[:-1],
        line("ADDED", POD)[:-9] + b"}}",
        line("ADDED", POD) + line("ADDED", POD),
        line("ADDED", POD).replace(b'"n1"', b'"\xff"'),
        line("ADDED", POD).replace(b'"n1"', b"n1"),
        line("ADDED", POD).replace(b'"n1"', b'"\x01"'),
        line("ADDED", POD).replace(b'"web-1"', b'"\xff"'),
        line("ADDED", {**POD, "metadata": {"name": 7}}).replace(b'"n1"', b"n1"),
        line("BOOKMARK", {"metadata": {"resourceVersion": 7}}),
    ],
)
def test_a_malformed_line_is_described_and_quoted_if_it_is_no_part_of_an_object(text: bytes) -> None:
    decoder = EntryDecoder()
    with pytest.raises(DecodeError) as caught:
        decoder.event(text)
    assert not isinstance(caught.value, PoisonObjectError)
    assert "malformed" in str(caught.value)
    if b'"' in text:
        assert re.search(r"\d bytes", str(caught.value))
        assert repr(text[30:40]) not in str(caught.value)
    else:
        assert repr(text[30:40])[2:-1] in str(caught.value)
    assert decoder.errors == 1


@pytest.mark.parametrize(
    ("metadata", "key", "version"),
    [
        ({"namespace": "a", "resourceVersion": "7"}, "", "7"),
        ({"name": "", "resourceVersion": "7"}, "", "7"),
        ({"name": 3, "resourceVersion": "7"}, "", "7"),
        ({"name": "x", "namespace": "a", "resourceVersion": 7}, "a/x", ""),
        ({"name": "x", "namespace": "a", "resourceVersion": "7", "labels": {"n": 1}}, "a/x", "7"),
        ({"name": "x", "namespace": "a", "resourceVersion": "7", "labels": ["n"]}, "a/x", "7"),
        ({"name": "x", "resourceVersion": "7", "ownerReferences": [{"uid": 1}]}, "x", "7"),
        ({"name": "x", "namespace": 3, "resourceVersion": "7"}, "x", "7"),
        ("text", "", ""),
    ],
)
def test_an_object_that_cannot_be_kept_can_be_skipped(metadata: Any, key: str, version: str) -> None:
    for kind in ("ADDED", "DELETED"):
        decoder = EntryDecoder()
        with pytest.raises(PoisonObjectError) as caught:
            decoder.event(line(kind, {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}))
        assert (caught.value.key, caught.value.resource_version, caught.value.type) == (key, version, kind)
        assert decoder.errors == 1


def test_an_object_that_is_none_is_poison() -> None:
    with pytest.raises(PoisonObjectError):
        EntryDecoder().event(b'{"type":"ADDED","object":[]}')


@pytest.mark.parametrize(
    "data", [b'{"metadata":{"name":"a"}', b'{"metadata":{"name":"a"}}x', b'{"metadata":{"name":1}}x']
)
def test_an_item_is_exactly_one_object(data: bytes) -> None:
    decoder = EntryDecoder()
    with pytest.raises(DecodeError) as caught:
        decoder.item(data)
    assert not isinstance(caught.value, PoisonObjectError)
    assert decoder.errors == 0


# --- the hot path --------------------------------------------------------------------------------------------------


def told(event: WatchEvent) -> tuple[Any, ...]:
    obj = event.object
    head = (obj.key, obj.namespace, obj.uid, obj.resource_version, obj.api_version, obj.kind)
    return event.type, *head, dict(obj.labels), obj.owner_references, obj.raw


def plainly(decoder: EntryDecoder, text: bytes) -> Any:
    try:
        return told(decoder.event(text))
    except (DecodeError, WatchError, APIError) as error:
        return type(error), str(error)


def by_the_hot_path(decoder: EntryDecoder, texts: list[bytes], most: int) -> tuple[list[Any], int]:
    """What comes of the lines, and how many of them the hot path took."""
    found: list[Any] = []
    hot = 0
    for lines in LineFramer().feed(b"".join(text + b"\n" for text in texts)):
        while lines:
            events: list[WatchEvent] = []
            alone = decoder.fast.line(lines.data[lines.start : lines.ends[lines.read] + 1])
            decoder.fast.read(lines, most, events)
            assert (alone and told(alone)) == (told(events[0]) if events else None)
            assert len(events) <= most
            found += map(told, events)
            hot += len(events)
            if lines and len(events) < most:
                found.append(plainly(decoder, lines.take()))
    return found, hot


ODD_ANNOTATIONS = {"last": json.dumps([POD]), "text": ',"managedFields":[', "list": "[[[[[[[[[["}
OTHERS = [
    line("BOOKMARK", {**POD, "metadata": {"resourceVersion": "9"}}),
    line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}),
    line("RENAMED", POD),
    line("ADDED", {**POD, "metadata": {"name": 1}}),
    line("ADDED", {**POD, "metadata": {"uid": "u"}}),
    line("ADDED", {**POD, "metadata": {**META, "labels": {"n": 1}}}),
    line("ADDED", {**POD, "metadata": {**META, "labels": None, "ownerReferences": None, "namespace": None}}),
    line("ADDED", {**POD, "metadata": {"managedFields": MANAGED, "name": "first"}}),
    line("ADDED", {**POD, "metadata": {"x": 1, "managedFields": MANAGED, "name": "a"}}),
    line("ADDED", {**POD, "metadata": {"name": "a", "managedFields": []}}),
    line("ADDED", {**POD, "metadata": {"name": "a", "managedFields": None}}),
    line("ADDED", {**POD, "metadata": {**META, "annotations": ODD_ANNOTATIONS}}),
    line("ADDED", {**POD, "metadata": {"name": "a", "deep": {"x": 1, "managedFields": [1]}, "managedFields": MANAGED}}),
    line("MODIFIED", {**POD, "spec": "grün"}),
    line("MODIFIED", {**POD, "spec": "grün"}).replace("ü".encode(), b"\xff"),
    line("MODIFIED", {"metadata": META, "kind": "Pod", "apiVersion": "v1"}),
    line("MODIFIED", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}),
    line("MODIFIED", POD)[:-1] + b',"object":{"kind":"Pod"}}',
    line("MODIFIED", POD)[:-1] + b',"x":1}',
    line("MODIFIED", POD) + b" ",
    line("MODIFIED", POD)[:-2],
    line("MODIFIED", POD) + b"}",
    json.dumps({"type": "ADDED", "object": POD}).encode(),
    line("ADDED", {**POD, "metadata": {**META, "managedFields": [{"manager": "a]b"}, {"manager": "}],"}]}}),
    line("ADDED", {**POD, "metadata": {**META, "managedFields": [{"fieldsV1": {'k:{"x":"]}"}': {}, "v:[1]": {}}}]}}),
    line("ADDED", {**POD, "metadata": {**META, "managedFields": [[1], [{"a": [2]}]]}}),
    line("ADDED", {**POD, "metadata": {**META, "managedFields": [["]"]], "labels": {"a": "["}}}),
    line("ADDED", {**POD, "metadata": {**META, "managedFields": "[]", "more": "]"}}),
    line("ADDED", {**POD, "metadata": {"annotations": {"a": "[" * 9}, **META}}),
    line("ADDED", {**BARE, "metadata": {**BARE["metadata"], "annotations": ODD_ANNOTATIONS}}),
    b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":' + b"[" * 3000 + b"]" * 3000 + b"}}",
    b"{}",
    b"x",
    b"",
    b"\xff",
    b"\xff" * 30 + b"}",
]
USUAL = st.builds(
    lambda kind, name, labels: line(kind, {**POD, "metadata": {**META, "name": name, "labels": labels}}),
    st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
    st.text("abc-", min_size=1, max_size=5),
    st.dictionaries(st.text('ab["', max_size=3), st.text("ab,[\\", max_size=3), max_size=2),
)


@given(st.lists(USUAL | st.sampled_from(OTHERS), max_size=12), st.integers(1, 5), st.booleans())
def test_the_hot_path_gives_what_the_plain_one_gives(texts: list[bytes], most: int, keep: bool) -> None:
    plain = EntryDecoder(keep_managed_fields=keep)
    found, _ = by_the_hot_path(EntryDecoder(keep_managed_fields=keep), texts, most)
    assert found == [plainly(plain, text) for text in texts]


# What may look like managedFields of the object itself, and where those may stand too.
COPY: dict[str, Any] = {"metadata": {"name": "e", "labels": {"a": "]"}, "managedFields": MANAGED}, "spec": {"x": 1}}
PLACES: list[dict[str, Any]] = [
    {},
    {"annotations": {"last": dump(COPY).decode(), "list": "]},["}},
    {"labels": {"a": "b"}},
    {"deep": {"x": 1, "managedFields": MANAGED}},
    {"managedFields": MANAGED},
    {"managedFields": []},
    {"managedFields": [{"fieldsV1": {"v:[1]": {}}}]},
    {"ownerReferences": META["ownerReferences"]},
]
RESTS: list[dict[str, Any]] = [
    {"spec": {"nodeName": "n1"}},
    {"managedFields": MANAGED},
    {"spec": {"x": 1, "managedFields": ["keep"]}},
    {"spec": {"manifest": COPY}},
    {"spec": {"x": [COPY, COPY]}, "status": {"last": {"x": 1, "managedFields": []}}},
]


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(PLACES), max_size=3),
            st.booleans(),
            st.sampled_from(RESTS),
            st.sampled_from([b'"managedFields"', b'"managed\\u0046ields"']),
        ),
        max_size=6,
    )
)
def test_nothing_goes_but_managed_fields_of_the_object_itself(objects: list[Any]) -> None:
    texts, wanted = [line("ADDED", POD)], [BARE]
    for places, name_last, rest, escaped in objects:
        known = {key: value for place in places for key, value in place.items()}
        metadata = {**known, "name": "a"} if name_last else {"name": "a", **known}
        document = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **rest}
        texts.append(line("MODIFIED", document).replace(b'"managedFields"', escaped, 1))
        kept = {key: value for key, value in metadata.items() if key != "managedFields"}
        wanted.append({**document, "metadata": kept})
    found, _ = by_the_hot_path(EntryDecoder(), texts, 16)
    assert [json.loads(event[-1]) for event in found] == wanted
    decoder = EntryDecoder()
    assert [decoder.event(text).object.to_dict() for text in texts] == wanted
    items = [dump(json.loads(text)["object"]) for text in texts]
    assert [decoder.item(item).to_dict() for item in items] == wanted


def test_an_object_without_managed_fields_loses_nothing_behind_one_that_has_them() -> None:
    other = {**BARE, "spec": {"manifest": COPY}}
    found, hot = by_the_hot_path(EntryDecoder(), [line("ADDED", POD), line("ADDED", POD), line("ADDED", other)], 16)
    assert json.loads(found[-1][-1]) == other
    assert hot == 1


def test_of_a_key_that_stands_twice_the_last_one_counts_on_either_path() -> None:
    twice = line("ADDED", POD)[:-2] + b',"metadata":{"name":"twice"}}}'
    first = EntryDecoder().event(twice)
    [_, second], _ = by_the_hot_path(EntryDecoder(), [line("ADDED", POD), twice], 16)
    assert first.object.name == second[1] == "twice"
    assert first.object.to_dict() == json.loads(second[-1])


def test_the_hot_path_takes_every_line_of_the_usual_form_but_the_first() -> None:
    texts = [line(kind, POD) for kind in ("ADDED", "MODIFIED", "DELETED", "MODIFIED")]
    assert by_the_hot_path(EntryDecoder(), texts, 16)[1] == 3
    assert by_the_hot_path(EntryDecoder(fields=["spec.nodeName"]), texts, 2)[1] == 3


def test_decoding_costs_less_than_half_of_making_dicts() -> None:
    containers = [
        {
            "name": f"c{n}",
            "image": "registry.example.com/app:1",
            "env": [{"name": f"V{k}", "value": "x"} for k in range(20)],
        }
        for n in range(4)
    ]
    text = line("MODIFIED", {**POD, "spec": {"containers": containers}, "status": {"more": containers}})
    decoder = EntryDecoder()
    decoder.event(text)

    def decode() -> None:
        [lines] = LineFramer().feed(text + b"\n")
        decoder.fast.read(lines, 1, [])
        assert not lines

    def cost(work: Any) -> float:
        return min(timeit.repeat(work, number=200, repeat=7))

    assert cost(decode) < 0.6 * cost(lambda: json.loads(text))


ITEM_METADATA: list[Any] = [
    META,
    {"name": "a", "managedFields": MANAGED},
    {"managedFields": MANAGED, "name": "first"},
    {"name": "a", "managedFields": []},
    {"name": "a", "managedFields": None},
    {"name": "a", "managedFields": [{"manager": "a]b"}, {"manager": "}],"}]},
    {"name": "a", "managedFields": [[1], [{"a": [2]}]]},
    {**META, "labels": {"n": 1}},
    {**META, "labels": {"a": '},{"metadata":{'}},
    {**META, "annotations": ODD_ANNOTATIONS},
    {"uid": "without a name"},
    {"name": "grün"},
    {"name": 1},
    "none",
]
ITEMS = st.builds(
    lambda metadata, rest, typed: {**(typed if typed.get("kind") else {}), "metadata": metadata, **rest, **typed},
    st.sampled_from(ITEM_METADATA),
    st.sampled_from([{}, {"data": {"a": "1"}}, {"spec": [{"metadata": {"x": 1}}, {"metadata": {}}]}, *RESTS]),
    st.sampled_from([{}, {}, {}, {"kind": "X", "apiVersion": "x.io/v1"}, {"apiVersion": "v2"}, {"kind": None}]),
)


def fields_of_items(splitter: ListSplitter[Any], body: bytes, cuts: list[int]) -> tuple[list[Any], str]:
    """The objects of a list with all that they hold, and the error that ends it, if any."""
    found: list[Any] = []
    bounds = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    try:
        for start, end in pairwise(bounds):
            found += [msgspec.structs.astuple(obj) for obj in splitter.feed(body[start:end])]
        splitter.close()
    except DecodeError as error:
        return found, str(error)
    return found, ""


@given(
    st.lists(ITEMS, max_size=8),
    st.sampled_from(["ConfigMapList", "List", ""]),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 10_000), max_size=4),
)
def test_the_items_of_a_list_are_the_same_read_one_by_one_and_many_at_once(
    items: list[Any], kind: str, keep: bool, spaced: bool, cuts: list[int]
) -> None:
    document = {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": items}
    body = json.dumps(document, separators=None if spaced else (",", ":")).encode()
    one, many = (EntryDecoder(keep_managed_fields=keep) for _ in range(2))
    for decoder in (one, many):
        decoder.read_paths(["data.a"])
    by_one = fields_of_items(ListSplitter(kept_by(one)), body, cuts)
    by_many = fields_of_items(ListSplitter(kept_by(many), decode_many=many.items), body, cuts)
    assert by_many == by_one
    assert many.errors == one.errors
