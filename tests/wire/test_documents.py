"""Values of paths that are read while objects are decoded.

Internals: the decoder and the framer, since no source shows which paths were read.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kinformer import Indexer, KubeObject
from kinformer.list_watcher import WatchEvent
from kinformer.wire.decoder import EntryDecoder
from kinformer.wire.lines import LineFramer
from tests.support.held import read_values

PATHS = (
    "spec.nodeName",
    "spec.template.spec.host",
    "status.phase",
    ".status.phase",
    "metadata.annotations['example.com/owner']",
    "metadata.labels.app",
    "metadata.generation",
    "spec",
    "kind",
    "spec.containers[0].name",
    "spec.containers[*].name",
)

LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5) | st.just("node-1")
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["nodeName", "template", "spec", "host", "phase", "containers", "name", "x"]), inner
        )
    ),
    max_leaves=8,
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "kind": st.just("Pod"),
        "apiVersion": st.just("v1"),
        "metadata": st.fixed_dictionaries(
            {"name": st.just("a"), "namespace": st.just("ns"), "uid": st.just("u"), "resourceVersion": st.just("1")},
            optional={
                "labels": st.just({"app": "web"}),
                "annotations": st.dictionaries(st.sampled_from(["example.com/owner", "x"]), st.text(max_size=3)),
                "generation": st.integers(0, 9),
                "managedFields": st.just([{"manager": "m", "fieldsV1": {"f:spec": {}}}]),
            },
        ),
    },
    optional={"spec": VALUES, "status": VALUES},
)


def indexed(obj: KubeObject) -> dict[str, list[str]]:
    """The values under which a cache finds an object, by path."""
    indexer: Indexer = Indexer(indexers={path: path for path in PATHS})
    indexer.add(obj)
    return {path: sorted(indexer.index_values(path)) for path in PATHS}


def from_watch(decoder: EntryDecoder, document: dict[str, Any]) -> KubeObject:
    line = json.dumps({"type": "MODIFIED", "object": document}, separators=(",", ":")).encode() + b"\n"
    decoder.event(line)  # the form of the lines is known from here on
    events: list[WatchEvent] = []
    for lines in LineFramer().feed(line):
        decoder.fast.read(lines, 1, events)
        if lines:
            events.append(decoder.event(lines.take() or b""))
    return events[0].object


@given(DOCUMENTS, st.lists(st.sampled_from(PATHS), max_size=5))
@example({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": None}, ["spec.nodeName"])
@example({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": []}, ["spec.nodeName", "spec"])
@example({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"nodeName": 1.5}}, ["spec.nodeName"])
def test_an_object_has_the_same_values_however_its_paths_are_read(document: dict[str, Any], paths: list[str]) -> None:
    raw = json.dumps(document).encode()
    expected = indexed(KubeObject.from_json(raw))
    decoder = EntryDecoder()
    decoder.read_paths(paths)
    assert indexed(decoder.item(raw)) == expected
    assert indexed(from_watch(decoder, document)) == expected


def unreadable(path: str, document: dict[str, Any]) -> KubeObject:
    """An object whose paths have been read, and whose JSON is gone: a second read of it would fail."""
    decoder = EntryDecoder()
    decoder.read_paths([path])
    obj = decoder.item(json.dumps(document).encode())
    return KubeObject(*(getattr(obj, field) if field != "_data" else b"" for field in KubeObject.__struct_fields__))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("spec.nodeName", ["node-1"]),
        ("spec.replicas", ["3"]),
        ("spec.paused", ["true"]),
        ("metadata.annotations['example.com/owner']", ["me"]),
        ("status.phase", []),
        ("spec.host", []),
    ],
)
def test_a_value_that_was_read_with_the_object_is_not_read_again(path: str, found: list[str]) -> None:
    document = {
        "metadata": {"name": "a", "annotations": {"example.com/owner": "me"}},
        "spec": {"nodeName": "node-1", "replicas": 3, "paused": True, "host": None},
    }
    indexer: Indexer = Indexer(indexers={"path": path})
    indexer.add(unreadable(path, document))
    assert indexer.index_values("path") == found


def test_objects_with_equal_values_share_them_and_long_values_are_left_in_the_object() -> None:
    decoder = EntryDecoder()
    decoder.read_paths(["spec.nodeName"])
    first, second, long = (
        decoder.item(json.dumps({"metadata": {"name": name}, "spec": {"nodeName": node}}).encode())
        for name, node in (("a", "node-1"), ("b", "node-1"), ("c", "n" * 10_000))
    )
    assert read_values(first) is read_values(second) is not None
    assert read_values(long) is None
    indexer: Indexer = Indexer(indexers={"node": "spec.nodeName"})
    indexer.add(long)
    assert indexer.index_values("node") == ["n" * 10_000]
