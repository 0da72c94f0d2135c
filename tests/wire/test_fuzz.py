"""Whatever bytes arrive, what is wrong with them is a KinformerError, and no wrong cut is taken for a right one.

The oracle is a strict decoder over the whole text. Texts begin as good ones, for noise alone fails at its first byte.

Internals: the parsers themselves, for any bytes.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from kinformer import (
    ConfigError,
    FieldSelector,
    GroupVersionResource,
    KinformerError,
    KubeObject,
    LabelSelector,
    SelectorError,
)
from kinformer.connection.kubeconfig import load_kubeconfig
from kinformer.connection.responses import decode_answer, failure
from kinformer.exceptions import APIError, DecodeError, WatchError
from kinformer.objects.paths.json_path import parse_path
from kinformer.objects.paths.projection import Projection
from kinformer.wire.decoder import EntryDecoder, PoisonObjectError
from kinformer.wire.json_scan import identity_of, members
from kinformer.wire.lines import LineFramer
from kinformer.wire.list_parser import ListSplitter
from tests.wire.list_items import kept_by

pytestmark = pytest.mark.slow

# Raise it for a long run by hand.
EXAMPLES = int(os.environ.get("KINFORMER_FUZZ_EXAMPLES", "150"))
settings.register_profile("fuzz", deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
fuzz = settings(settings.get_profile("fuzz"))

# What parsers look for stands out in these.
texts = st.text(st.sampled_from('ab"\\{}[],: \n\u2028é🚀'), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["a", "b", "web-1", "é", "", 'quo"te'])
metadata = st.fixed_dictionaries(
    {"name": names, "resourceVersion": st.sampled_from(["1", "99", ""])},
    optional={
        "namespace": names,
        "uid": texts,
        "labels": st.dictionaries(texts, texts, max_size=2),
        "annotations": st.dictionaries(texts, texts, max_size=2),
        "managedFields": st.lists(st.dictionaries(texts, values, max_size=2), max_size=2),
        "ownerReferences": st.just([{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}]),
    },
)
objects = st.builds(
    lambda head, meta, rest: {**head, "metadata": meta, **rest},
    st.sampled_from([{}, {"kind": "Pod", "apiVersion": "v1"}, {"apiVersion": "v1", "kind": "Pod"}]),
    metadata,
    st.dictionaries(st.sampled_from(["spec", "status", "data", "metadata2", "items"]), values, max_size=3),
)
styles = st.sampled_from(
    [
        lambda document: msgspec.json.encode(document),
        lambda document: json.dumps(document).encode(),
        lambda document: json.dumps(document, indent=1, ensure_ascii=False).encode(),
    ]
)
Mutation = tuple[int, str, bytes]
mutations = st.lists(
    st.tuples(
        st.integers(0, 2**16),
        st.sampled_from(["replace", "insert", "delete", "repeat"]),
        st.sampled_from(
            [b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b" ", b"\n", b"\xff", b"\x0b", b"7", b'},{"']
        ),
    ),
    max_size=3,
)
cuts = st.lists(st.integers(0, 4000), max_size=6)


def mutated(data: bytes, changes: Sequence[Mutation]) -> bytes:
    for place, how, piece in changes:
        at = place % (len(data) + 1)
        if how == "replace":
            data = data[:at] + piece + data[at + len(piece) :]
        elif how == "insert":
            data = data[:at] + piece + data[at:]
        elif how == "delete":
            data = data[:at] + data[at + len(piece) :]
        else:
            data = data[:at] + data[max(0, at - 20) : at] + data[at:]
    return data


def split(splitter: ListSplitter[Any], chunks: Sequence[bytes]) -> list[Any]:
    found = [item for chunk in chunks for item in splitter.feed(chunk)]
    splitter.close()
    return found


def pieces(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def strictly(data: bytes) -> Any:
    """What a strict decoder reads, or None."""
    try:
        data.decode()
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


# --- frames ----------------------------------------------------------------------------------------------------------


@fuzz
@given(st.lists(st.binary(max_size=60) | st.sampled_from([b"\n", b"\r\n", b"x" * 70]), max_size=20))
def test_lines_are_those_of_the_whole_and_never_longer_than_the_cap(chunks: list[bytes]) -> None:
    framer, lines, refused = LineFramer(64), [], ""
    body = b"".join(chunks)
    wanted = [line.removesuffix(b"\r") for line in body.split(b"\n")[:-1]]
    try:
        for chunk in chunks:
            lines += [line for found in framer.feed(chunk) for line in found]
            assert framer.pending <= 64 + 1
        framer.feed(b"")
    except DecodeError as error:
        refused = str(error)
    assert ("max_event_bytes=64" in refused) == any(len(line.removesuffix(b"\r")) > 64 for line in body.split(b"\n"))
    assert lines == [line for line in wanted if line][: len(lines)]


# --- lists -----------------------------------------------------------------------------------------------------------


@fuzz
@given(st.lists(objects, max_size=5), styles, mutations, cuts, st.booleans())
def test_a_list_is_split_as_a_strict_decoder_reads_it_or_not_at_all(
    items: list[Any], style: Callable[[Any], bytes], changes: list[Mutation], places: list[int], custom: bool
) -> None:
    head = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": ""}}
    body = mutated(style({"items": items, **head} if custom else {**head, "items": items}), changes)
    splitter: ListSplitter[bytes] = ListSplitter()
    found: list[bytes] = []
    try:
        for piece in pieces(body, places):
            found += splitter.feed(piece)
        header = splitter.close()
    except DecodeError:
        return
    whole = strictly(body)
    assert whole is not None, "it was accepted, and is no JSON"
    assume(len({key for key, _ in members(body)}) == len(list(members(body))))  # of a key twice JSON says nothing
    assert [msgspec.json.decode(item) for item in found] == (whole["items"] or [])
    meta = whole.get("metadata") or {}
    assert (header.resource_version, header.kind) == (meta.get("resourceVersion") or "", whole.get("kind") or "")


@fuzz
@given(st.lists(objects, max_size=4), styles, mutations, cuts)
def test_no_list_makes_the_decoder_raise_anything_else(
    items: list[Any], style: Callable[[Any], bytes], changes: list[Mutation], places: list[int]
) -> None:
    body = mutated(style({"kind": "PodList", "apiVersion": "v1", "items": items}), changes)
    splitter = ListSplitter(kept_by(EntryDecoder()))
    try:
        for piece in pieces(body, places):
            for obj in splitter.feed(piece):
                assert strictly(obj.raw)["metadata"]["name"] == obj.name
        splitter.close()
    except (DecodeError, WatchError):
        return


@fuzz
@given(st.binary(max_size=200), cuts)
def test_noise_is_no_list(body: bytes, places: list[int]) -> None:
    splitter: ListSplitter[bytes] = ListSplitter()
    with pytest.raises(DecodeError):
        split(splitter, pieces(body, places))


# --- events ----------------------------------------------------------------------------------------------------------

kinds = st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "FOO", ""])


@fuzz
@given(
    st.lists(st.tuples(kinds, objects, styles, mutations), min_size=1, max_size=4), st.sampled_from([None, ["spec"]])
)
def test_an_event_says_what_a_strict_decoder_reads_or_is_refused(lines: list[Any], fields: list[str] | None) -> None:
    decoder = EntryDecoder(fields=fields)
    for kind, document, style, changes in lines:
        line = mutated(style({"type": kind, "object": document}).replace(b"\n", b""), changes)
        try:
            event = decoder.event(line)
        except PoisonObjectError as error:
            poison = error
            assert strictly(line) is not None, "poison is JSON"
            assert poison.type in ("ADDED", "MODIFIED", "DELETED")
            continue
        except (DecodeError, WatchError, APIError):
            continue
        if event.type == "BOOKMARK":
            continue  # of which nothing but the version is read
        whole = strictly(line)
        assert whole is not None, "it was accepted, and is no JSON"
        if not _unambiguous(line):
            continue
        meta = whole["object"]["metadata"]
        obj: KubeObject = event.object
        assert (event.type, obj.name, obj.namespace) == (whole["type"], meta["name"], meta.get("namespace") or "")
        assert obj.resource_version == (meta.get("resourceVersion") or "")
        assert dict(obj.labels) == (meta.get("labels") or {})
        kept = {**whole["object"], "metadata": {key: meta[key] for key in meta if key != "managedFields"}}
        if fields is None:
            assert obj.to_dict() == kept
        else:
            assert obj.to_dict().get("spec") == kept.get("spec")


def _unambiguous(line: bytes) -> bool:
    """No key stands twice where it is looked for; of those JSON does not say which counts."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if len(keys) != len(set(keys)):
            raise KeyError
        return dict(pairs)

    try:
        json.loads(line, object_pairs_hook=unique)
    except KeyError:
        return False
    return True


@fuzz
@given(st.binary(max_size=200))
@example(b'{"type":"ADDED","object":}')
@example(b'{"type":"ERROR","object":{"code":"x"}}')
@example(b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}}')
def test_noise_is_no_event(line: bytes) -> None:
    try:
        EntryDecoder().event(line)
    except KinformerError:
        return
    assert strictly(line) is not None


# --- nesting ---------------------------------------------------------------------------------------------------------

DEEP = b"[" * 10_000 + b"]" * 10_000


def deep(place: str) -> bytes:
    meta = b'"name":"a","namespace":"n","resourceVersion":"8"'
    spec = b""
    if place == "spec":
        spec = b',"spec":%s' % DEEP
    else:
        meta += b',"%s":%s' % (place.encode(), DEEP)
    return b'{"apiVersion":"v1","kind":"Pod","metadata":{%s}%s}' % (meta, spec)


@pytest.mark.parametrize("place", ["spec", "labels", "annotations", "managedFields"])
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_object_that_is_nested_too_deeply_is_poison_that_can_be_named(place: str, kind: str) -> None:
    with pytest.raises(PoisonObjectError, match="nested too deeply") as caught:
        EntryDecoder().event(b'{"type":"%s","object":%s}' % (kind.encode(), deep(place)))
    assert (caught.value.key, caught.value.resource_version, caught.value.type) == ("n/a", "8", kind)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("size", [100, 4096, 1_000_000])
def test_an_item_that_is_nested_too_deeply_hides_no_other(position: int, size: int) -> None:
    items = [b'{"metadata":{"name":"p%d"},"spec":{}}' % number for number in range(2)]
    items.insert(position, b'{"metadata":{"name":"deep"},"spec":%s}' % DEEP)
    body = b'{"kind":"PodList","apiVersion":"v1","items":[%s]}' % b",".join(items)
    splitter = ListSplitter(kept_by(EntryDecoder()))
    found = [obj for start in range(0, len(body), size) for obj in splitter.feed(body[start : start + size])]
    splitter.close()
    assert [obj.name for obj in found] == ["p0", "p1"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"items":[{"metadata":{"name":"a"},"x":%s}' % DEEP[:-1],
        b'{"kind":"PodList","x":%s,"items":[]}' % DEEP,
        b'{"kind":"PodList","items":[],"x":%s}' % DEEP,
        b'{"items":%s}' % DEEP,
        DEEP,
    ],
)
def test_a_list_that_is_nested_too_deeply_is_an_error(body: bytes) -> None:
    splitter = ListSplitter(kept_by(EntryDecoder()))
    with pytest.raises(DecodeError):
        split(splitter, [body])


def test_nothing_else_goes_down_for_ever() -> None:
    calls: list[Callable[[], Any]] = [
        lambda: EntryDecoder().event(b'{"type":"ERROR","object":{"details":{"a":%s}}}' % DEEP),
        lambda: EntryDecoder().event(b'{"type":"BOOKMARK","object":{"spec":%s}}' % DEEP),
        lambda: EntryDecoder(fields=["spec.a"]).item(deep("spec")),
        lambda: decode_answer(b'{"a":%s}' % DEEP),
        lambda: KubeObject.from_json(deep("spec")),
    ]
    for call in calls:
        with pytest.raises(DecodeError):
            call()
    assert failure(500, {}, b'{"kind":"Status","a":%s}' % DEEP).status == 500


@fuzz
@given(st.dictionaries(texts, values, max_size=5), styles, mutations)
def test_members_are_found_as_a_strict_decoder_finds_them(
    document: dict[str, Any], style: Callable[[Any], bytes], changes: list[Mutation]
) -> None:
    text = mutated(style(document), changes)
    whole = strictly(text)
    try:
        found = [(json.loads(b'"' + key + b'"', strict=False), value) for key, value in members(text)]
    except (DecodeError, ValueError):
        assert not isinstance(whole, dict)
        return
    if isinstance(whole, dict):
        assert {key: msgspec.json.decode(value) for key, value in found} == whole


@fuzz
@given(st.binary(max_size=100))
def test_noise_has_no_identity_but_that_of_an_object(data: bytes) -> None:
    try:
        identity = identity_of(data)
    except DecodeError:
        return
    assert all(isinstance(part, str) for part in identity)


# --- what people write -----------------------------------------------------------------------------------------------


@fuzz
@given(st.text(st.sampled_from("ab=!,() \tin notexists.-_/'\"\\<>é[]*$"), max_size=40))
def test_any_text_is_a_selector_a_path_or_a_resource_or_an_error_of_ours(text: str) -> None:
    for parse in (LabelSelector.parse, FieldSelector.parse):
        try:
            parse(text)
        except SelectorError as error:
            refused = error
            assert 0 <= refused.position <= len(text)
    for parse in (parse_path, GroupVersionResource.parse, lambda path: Projection([path])):
        try:
            parse(text)
        except ConfigError:
            continue


@fuzz
@given(st.integers(100, 599), st.dictionaries(st.sampled_from(["Retry-After", "Date", "Location"]), texts), st.binary())
@example(503, {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, b"")
@example(503, {"Retry-After": "Fri, 31 Dec 99999 23:59:59 GMT", "Date": "x"}, b"")
@example(500, {}, b'{"status":{},"reason":[],"message":7,"details":[]}')
@example(500, {}, b"<" * 5000)
@example(500, {}, b"<script" * 700)
def test_any_answer_that_is_no_success_is_an_api_error(status: int, headers: dict[str, str], body: bytes) -> None:
    error = failure(status, headers, body)
    assert error.status == status
    assert error.retry_after is None or error.retry_after >= 0
    assert len(str(error)) < 2000 + len(body)


@fuzz
@given(st.binary(max_size=200))
def test_any_answer_is_an_object_a_dict_or_a_decode_error(body: bytes) -> None:
    try:
        assert isinstance(decode_answer(body), KubeObject | dict)
    except DecodeError:
        return


# --- kubeconfig ------------------------------------------------------------------------------------------------------

odd = st.one_of(
    values,
    st.text(max_size=8),
    st.sampled_from(
        ["http://h", "https://h:1/p", "http://[", "http://a b", "http://xn--é", "~nobody/x", "a\0b", "a\nb"]
    ),
    st.builds(lambda data: base64.b64encode(data).decode(), st.binary(max_size=6)),
)


def mapping(*keys: str) -> Any:
    return st.dictionaries(st.sampled_from(keys), odd, max_size=4)


clusters = mapping(
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "proxy-url",
    "extensions",
).flatmap(lambda rest: st.sampled_from([{}, {"server": "http://h"}]).map(lambda server: {**rest, **server}))
plugins = mapping("command", "args", "env", "apiVersion", "interactiveMode", "provideClusterInfo", "installHint")
users = st.builds(
    lambda plain, plugin, provider: {**plain, **plugin, **provider},
    mapping(
        "token",
        "tokenFile",
        "username",
        "password",
        "client-certificate",
        "client-certificate-data",
        "client-key-data",
        "as",
        "as-uid",
        "as-groups",
        "as-user-extra",
    ),
    st.just({}) | plugins.map(lambda plugin: {"exec": plugin}),
    st.just({}) | mapping("name", "config").map(lambda provider: {"auth-provider": provider}),
)


def entries(kind: str, inner: Any) -> Any:
    entry = st.fixed_dictionaries({"name": st.just("it"), kind: inner})
    return st.lists(entry | odd, min_size=1, max_size=2) | odd


configs = st.fixed_dictionaries(
    {
        "clusters": entries("cluster", clusters),
        "users": entries("user", users),
        "contexts": entries("context", st.just({"cluster": "it", "user": "it"}) | mapping("cluster", "user")),
        "current-context": st.just("it") | odd,
    }
)


@fuzz
@given(config=configs)
def test_any_kubeconfig_is_a_connection_or_an_error_that_names_the_file(
    tmp_path_factory: pytest.TempPathFactory, config: Any
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed-config"
    file.write_text(json.dumps(config))
    try:
        connection = load_kubeconfig(file, environ={})
    except ConfigError as error:
        refused = str(error)
        assert str(file) in refused
        return
    assert connection.server.startswith("http")
    for name, value in connection.headers:
        assert (name + value).isprintable()


@fuzz
@given(text=st.text(st.sampled_from("abc:-[]{}&*!|>%@`'\"#,? \n\t012\u2028é\0"), max_size=60) | st.binary(max_size=60))
@example(text="current-context: 2001-99-99")
@example(text="a: &a [*a]")
@example(text="[" * 20_000)
@example(text="? {a: b}\n: c")
@example(text="a: !!python/object:os.system x")
def test_any_file_is_a_kubeconfig_or_an_error_that_names_it(
    tmp_path_factory: pytest.TempPathFactory, text: str | bytes
) -> None:
    file: Path = tmp_path_factory.getbasetemp() / "fuzzed-file"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError, match="fuzzed-file"):
        load_kubeconfig(file, environ={})


# --- proportion ------------------------------------------------------------------------------------------------------


class _Work:
    """Counts the bytes that a decoder is given: each item once, but for a bounded number of wrong cuts."""

    def __init__(self) -> None:
        self.bytes = 0

    def __call__(self, item: bytes, api_version: str, kind: str) -> bytes:
        self.bytes += len(item)
        try:
            msgspec.json.decode(item, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise DecodeError(str(error)) from error
        return item


HOSTILE: dict[str, tuple[bytes, bytes, int, bytes]] = {
    "space before items": (b'{"items":[', b" " * 8192, 500, b"]}"),
    "space between items": (b'{"items":[{"metadata":{}},{"metadata":{}}', b" " * 8192, 500, b"]}"),
    "space behind a comma": (b'{"items":[{"metadata":{}},', b" " * 8192, 500, b'{"metadata":{}}]}'),
    "an item of separators": (b'{"items":[{"metadata":{}},{"metadata":[{}', b',{"metadata":{}}' * 600, 900, b"]}]}"),
    "an item of quotes": (b'{"items":[{"metadata":{}},{"metadata":"', b'\\"' * 4096, 500, b'"}]}'),
    "an item of brackets": (b'{"items":[{"metadata":{}},{"metadata":[0', b",[{}]" * 1600, 500, b"]}]}"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_list_is_held_and_decoded_a_bounded_number_of_times(case: str) -> None:
    head, chunk, count, tail = HOSTILE[case]
    work = _Work()
    splitter = ListSplitter(work)
    body = len(head) + len(chunk) * count + len(tail)
    found = splitter.feed(head)
    for _ in range(count):
        found += splitter.feed(chunk)
        assert splitter.pending <= 16 * 1024 * 1024
    found += splitter.feed(tail)
    splitter.close()
    assert len(found) == {"space before items": 0}.get(case, 2)
    assert work.bytes <= 20 * body


def test_a_head_of_keys_named_items_is_refused_before_it_costs() -> None:
    splitter: ListSplitter[bytes] = ListSplitter()
    with pytest.raises(DecodeError, match="nested keys of that name"):
        split(splitter, [b'{"metadata":{', *[b'"items":[],' * 10] * 1000])
    assert splitter.pending < 2000
