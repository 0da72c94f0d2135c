"""The items of a list, cut out of chunks.

Internals: the parser itself, since a server cannot be made to cut a chunk at every byte.
"""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kinformer import KubeObject
from kinformer.exceptions import DecodeError
from kinformer.wire.decoder import EntryDecoder
from kinformer.wire.list_header import ListHeader
from kinformer.wire.list_parser import ListSplitter
from tests.wire.list_items import kept_by

META = {"resourceVersion": "42", "continue": "tok", "remainingItemCount": 7, "shardInfo": {"selector": "s"}}
COMPACT = (",", ":")


def dump(value: Any, *, style: int = 0) -> bytes:
    if style == 0:
        return json.dumps(value, separators=COMPACT).encode()
    return json.dumps(value, indent=2 if style == 2 else None).encode()


def built_in(items: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": META, "items": items, **more}


def custom(items: Any) -> dict[str, Any]:
    return {"apiVersion": "x.io/v1", "items": items, "kind": "WidgetList", "metadata": META}


def split(body: bytes, places: list[int] | None = None, **options: Any) -> tuple[list[Any], ListHeader]:
    splitter: ListSplitter[bytes] = ListSplitter(**options)
    bounds = sorted({0, len(body), *(place % (len(body) + 1) for place in places or [])})
    items = [item for a, b in pairwise(bounds) for item in splitter.feed(body[a:b])]
    return [json.loads(item) for item in items], splitter.close()


# Text and keys that look like what the splitter looks for.
TRAPS = ['},{"metadata":', "items", '"items":[', "]}", "}", '\\"', "\\", "é\u2028", '}]},"kind":"PodList"']
TEXT = st.one_of(st.sampled_from(TRAPS), st.text(max_size=5))
VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(st.fixed_dictionaries({"metadata": inner}), max_size=4),  # },{"metadata": one level below
        st.dictionaries(st.sampled_from(["metadata", "items", "a", "kind", *TRAPS]), inner, max_size=4),
    ),
    max_leaves=12,
)
ITEM = st.one_of(
    st.fixed_dictionaries({"metadata": VALUE, "spec": VALUE}),
    st.dictionaries(st.sampled_from(["metadata", "spec", *TRAPS]), VALUE, max_size=3),
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.lists(ITEM, max_size=6),
    st.sampled_from([built_in, custom]),
    st.sampled_from([0, 1, 2]),
    st.one_of(st.lists(st.integers(0, 5000), max_size=20), st.just(list(range(5000)))),
)
@example([{"metadata": [{"metadata": 1}] * 40}] * 20, built_in, 0, [])
@example([{"metadata": [{"metadata": 1}] * 40}] * 20, built_in, 0, list(range(20_000)))
def test_any_items_come_out_whole_and_in_order_from_any_chunks(
    items: list[dict[str, Any]], shape: Any, style: int, places: list[int]
) -> None:
    found, header = split(dump(shape(items), style=style), places)
    assert found == items
    assert (header.resource_version, header.continue_token) == ("42", "tok")
    assert (header.remaining_item_count, header.shard_info) == (7, "s")
    assert header.kind in ("PodList", "WidgetList")


@pytest.mark.parametrize("places", [[], list(range(400))])
@pytest.mark.parametrize("items", [None, []])
@pytest.mark.parametrize("shape", [built_in, custom])
def test_a_list_may_be_empty_or_null(shape: Any, items: Any, places: list[int]) -> None:
    for style in (0, 1, 2):
        found, header = split(dump(shape(items), style=style) + b"\n", places)
        assert found == []
        assert header.resource_version == "42"


def test_a_list_may_say_little_of_itself() -> None:
    found, header = split(b'{"items":[{"a":1}]}')
    assert found == [{"a": 1}]
    assert header == ListHeader("", "", "", "", None, None)


def test_keys_named_items_elsewhere_do_not_confuse() -> None:
    body = b'{"kind":"items","metadata":{"x":{"items":[{"no":1}]}},"items" : [{"a":1}],"y":{"items":[1]}}'
    assert split(body.replace(b'"kind":"items"', b'"kind":"XList"'))[0] == [{"a": 1}]
    with pytest.raises(DecodeError, match="got a items"):
        split(body)


@pytest.mark.parametrize("shape", [built_in, custom])
@pytest.mark.parametrize("style", [0, 1, 2])
def test_a_truncated_list_is_an_error_wherever_it_ends(shape: Any, style: int) -> None:
    body = dump(shape([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}, {"metadata": {}}]), style=style)
    for end in range(len(body)):
        with pytest.raises(DecodeError):
            split(body[:end])
    split(body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>502 Bad Gateway</html>", "<html>502"),
        (b"", "ended after 0 bytes"),
        (b"[1]", "not a JSON list"),
        (b'{"kind":"Status","apiVersion":"v1","message":"no way","code":403}', "got a Status: 403 no way"),
        (b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}', "a Pod without items"),
        (b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}', "a Table without items"),
        (b'{"kind":"Pod","items":[]}', "expected a list, got a Pod"),
        (b'{"kind":"Pod","items":[],"metadata":{"name":"a","resourceVersion":"7"}}', "expected a list, got a Pod"),
        (b'{"kind":"PodList","items":{}}', "not an array"),
        (b'{"kind":"PodList","items":nope}', "truncated or malformed"),
        (b'{"kind":"PodList","items":[1]}', "malformed list"),
        (b'{"kind":"PodList","items":[{"a":1} {"a":2}]}', "malformed list"),
        (b'{"kind":"PodList","items":[{"a":1},]}', "truncated"),
        (b'{"kind":"PodList","items":[{"a":nope},{"a":2}]}', "malformed item"),
        (b'{"kind":"PodList","items":[{"a":1},{"a":nope},{"a":2},{"a":3}]}', "malformed: invalid character"),
        (b'{"kind":"PodList","items":[{"a":1},{"a":2}]}{}', "trailing characters"),
        (b'{"kind":"PodList","items":[{"a":1},{"a":2}],"metadata":7}', "Expected `object"),
    ],
)
def test_what_is_no_list_says_what_it_is(body: bytes, says: str) -> None:
    with pytest.raises(DecodeError, match=says):
        split(body)


def test_a_custom_resource_may_call_its_list_as_it_likes() -> None:
    body = b'{"apiVersion":"x.io/v1","items":[{"a":1}],"kind":"Herd","metadata":{"continue":"","resourceVersion":"4"}}'
    splitter: ListSplitter[bytes] = ListSplitter()
    assert splitter.feed(body) == [b'{"a":1}']
    assert (splitter.close().kind, splitter.close().resource_version) == ("Herd", "4")


def test_nothing_may_follow_a_list_but_white_space() -> None:
    splitter: ListSplitter[bytes] = ListSplitter()
    splitter.feed(dump(built_in([{"a": 1}, {"a": 2}])))
    assert splitter.feed(b"\n  ") == []
    assert splitter.close().kind == "PodList"
    with pytest.raises(DecodeError, match="after the end"):
        splitter.feed(b"{")


@given(
    sizes=st.lists(st.sampled_from((0, 3, 40, 900, 5000)), min_size=1, max_size=60),
    chunk=st.sampled_from((1, 64, 700, 2500, 16384)),
    trap=st.sampled_from(("", '},{"metadata":', "]")),
)
@example(sizes=[900] * 20 + [3] * 20 + [5000, 0, 0, 900], chunk=2500, trap='},{"metadata":')
def test_items_much_shorter_or_longer_than_those_before_them_come_out_too(
    sizes: list[int], chunk: int, trap: str
) -> None:
    items = [{"metadata": {"name": str(number)}, "data": trap + "x" * size} for number, size in enumerate(sizes)]
    body = dump(built_in(items))
    assert split(body, list(range(0, len(body), chunk)))[0] == items
    decoder = EntryDecoder()
    splitter: ListSplitter[KubeObject] = ListSplitter(decoder.item, decode_many=decoder.items)
    objects = [obj for at in range(0, len(body), chunk) for obj in splitter.feed(body[at : at + chunk])]
    assert [obj["data"] for obj in objects] == [item["data"] for item in items]


def test_items_that_become_shorter_are_still_decoded_in_one_loop() -> None:
    sizes = ([900] * 40 + [3] * 300 + [5000] * 10) * 12
    names = [str(number) for number in range(len(sizes))]
    items = [{"metadata": {"name": name}, "data": "x" * size} for name, size in zip(names, sizes, strict=True)]
    body = dump(built_in(items))
    decoder = EntryDecoder()
    singly = 0

    def item(raw: bytes, api_version: str, kind: str) -> KubeObject:
        nonlocal singly
        obj = decoder.item(raw, api_version, kind)
        singly += 1
        return obj

    splitter: ListSplitter[KubeObject] = ListSplitter(item, decode_many=decoder.items)
    chunks = [body[at : at + 16384] for at in range(0, len(body), 16384)]
    assert [obj.name for chunk in chunks for obj in splitter.feed(chunk)] == names
    assert singly <= len(chunks)


def test_items_are_handed_on_as_soon_as_they_are_complete() -> None:
    splitter: ListSplitter[bytes] = ListSplitter()
    items = [{"metadata": {"name": f"p{number}"}} for number in range(5)]
    head, *rest = dump(built_in(items)).split(b'{"metadata":{"name"')
    assert splitter.feed(head) == []
    seen = [len(splitter.feed(b'{"metadata":{"name"' + piece)) for piece in rest]
    assert sum(seen) == 5
    assert max(seen) == 2
    assert splitter.pending == 0


def test_no_more_is_held_than_an_item_and_a_chunk() -> None:
    splitter: ListSplitter[bytes] = ListSplitter()
    body = dump(built_in([{"metadata": {"name": "x" * 1000}}] * 3000))
    held = 0
    for start in range(0, len(body), 4096):
        splitter.feed(body[start : start + 4096])
        held = max(held, splitter.pending)
    splitter.close()
    assert held < 4096 + 1200


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_item_above_the_cap_is_an_error(position: int) -> None:
    items = [{"metadata": {"name": "a"}}] * 3
    items[position] = {"metadata": {"name": "x" * 5000}}
    body = dump(built_in(items))
    for places in ([], list(range(0, 6000, 100))):
        with pytest.raises(DecodeError, match="max_item_bytes=4000"):
            split(body, places, max_item_bytes=4000)
        assert split(body, places, max_item_bytes=5100)[0] == items


@pytest.mark.parametrize(
    "items",
    [
        [{"metadata": {"x": "}" * 4_000_000}}] * 2,
        [{"metadata": [{"metadata": "}"}] * 100_000}] * 2,
        [{"metadata": [{"metadata": 1}] * 20}] * 4000,
        [{"metadata": 1}, *[{"spec": 1, "metadata": "x" * 1000}] * 3000],
    ],
    ids=["long text", "one item of many wrong cuts", "wrong cuts everywhere", "another first key"],
)
def test_hostile_lists_take_time_in_proportion(items: list[Any]) -> None:
    body = dump(built_in(items))
    began = time.process_time()
    found, _ = split(body, list(range(0, len(body), 4000)))
    assert time.process_time() - began < 3.0
    assert found == items


def test_a_decoder_makes_objects_of_the_items() -> None:
    decoder = EntryDecoder()
    splitter = ListSplitter(kept_by(decoder))
    items = [{"metadata": {"name": f"p{number}", "namespace": "a"}, "spec": {}} for number in range(3)]
    objects = splitter.feed(dump(built_in(items)))
    assert [obj.key for obj in objects] == ["a/p0", "a/p1", "a/p2"]
    assert {(obj.api_version, obj.kind) for obj in objects} == {("v1", "Pod")}
    assert objects[0].to_dict() == {"kind": "Pod", "apiVersion": "v1", **items[0]}


def test_items_that_the_decoder_leaves_out_do_not_stop_the_list() -> None:
    decoder = EntryDecoder()
    items = [{"metadata": {"name": name}} for name in ("a", 3, "b", "", "c", {}, "d")]
    for places in ([], list(range(600))):
        decoder.errors = 0
        body = dump(built_in(items))
        splitter = ListSplitter(kept_by(decoder))
        bounds = sorted({0, len(body), *(place % len(body) for place in places)})
        objects = [obj for a, b in pairwise(bounds) for obj in splitter.feed(body[a:b])]
        assert [obj.name for obj in objects] == ["a", "b", "c", "d"]
        assert splitter.close().resource_version == "42"
        assert decoder.errors == 3


def test_the_splitter_counts_what_it_is_fed() -> None:
    splitter: ListSplitter[bytes] = ListSplitter(max_list_bytes=100)
    splitter.feed(b'{"items":[' + b" " * 90)
    with pytest.raises(DecodeError, match="max_list_bytes=100"):
        splitter.feed(b" ")


@pytest.mark.parametrize("key", [b'"\\ud800"', b'"\\ud800a"', b'"\\u0000"'])
def test_any_key_of_a_header_is_read_or_refused(key: bytes) -> None:
    body = b'{"kind":"PodList",%b:1,"metadata":{"resourceVersion":"1"},"items":[]}' % key
    try:
        assert split(body, [])[0] == []
    except DecodeError as error:
        assert "key" in str(error) or "malformed" in str(error)  # noqa: PT017 - which keys are valid is msgspec's choice


def test_many_keys_of_a_header_take_no_more_than_linear_time() -> None:
    keys = b"".join(b'"k%d":1,' % number for number in range(60_000))
    body = b'{"items":[],%b"k59999":2}' % keys
    with pytest.raises(DecodeError, match="'k59999' twice"):
        split(body, [])


@given(
    first=st.integers(0, 4),
    second=st.integers(0, 4),
    key=st.sampled_from([b'"items"', b'"\\u0069tems"']),
    space=st.sampled_from([b"", b" ", b"\n  "]),
    swapped=st.booleans(),
    places=st.lists(st.integers(0, 300), max_size=5),
)
def test_a_list_with_its_items_twice_is_never_a_list(
    first: int, second: int, key: bytes, space: bytes, swapped: bool, places: list[int]
) -> None:
    def items(count: int) -> bytes:
        between = b"," + space
        return b"[" + space + between.join(b'{"metadata":{"name":"p%d"}}' % one for one in range(count)) + space + b"]"

    keys = [key, b'"items"'] if swapped else [b'"items"', key]
    head = b'{"kind":"PodList","metadata":{"resourceVersion":"1"},'
    body = head + keys[0] + b":" + items(first) + b"," + space + keys[1] + b":" + items(second) + b"}"
    with pytest.raises(DecodeError):
        split(body, places)
