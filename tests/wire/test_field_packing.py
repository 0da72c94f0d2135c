"""With `fields` an object is kept as bare values, and reads as the JSON of what was declared.

Internals: the decoder and the packed form.
"""

from __future__ import annotations

import gc
import json
import pickle
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import KubeObject, SharedInformer
from kinformer.objects.object import view
from kinformer.objects.packed import PackedObject
from kinformer.objects.paths.projection import Projection
from kinformer.wire.decoder import EntryDecoder
from tests.support.held import held_bytes
from tests.support.memory_source import MemorySource

FIELDS = ["spec.nodeName", "status.phase", "spec.containers[*].image", "metadata.annotations['a/b']"]

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u-r", "controller": True}

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-1",
        "namespace": "default",
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": "2026-11-02T08:00:00Z",
        "labels": {"app": "wéb"},
        "annotations": {"a/b": "1", "other": "2"},
        "ownerReferences": [OWNER],
    },
    "spec": {"nodeName": "n-1", "containers": [{"name": "a", "image": "i1"}, {"name": "b", "image": "i2"}]},
    "status": {"phase": "Running", "podIP": "10.0.0.1"},
}


def kept(document: dict[str, Any], fields: list[str] = FIELDS) -> KubeObject:
    return EntryDecoder(fields=fields).item(json.dumps(document, separators=(",", ":")).encode())


def projected(document: dict[str, Any], fields: list[str] = FIELDS) -> dict[str, Any]:
    """What is to be left, by the plain way."""
    left: dict[str, Any] = json.loads(Projection(fields)(json.dumps(document).encode()))
    return left


def test_what_is_read_is_what_was_declared_and_what_identifies_the_object() -> None:
    obj = kept(POD)
    assert type(obj) is PackedObject
    assert obj.to_dict() == projected(POD)
    assert json.loads(obj.raw) == projected(POD)
    assert obj["spec"] == {"nodeName": "n-1", "containers": [{"image": "i1"}, {"image": "i2"}]}
    assert (obj.annotations, obj.generation, obj.labels) == ({"a/b": "1"}, 2, {"app": "wéb"})
    assert obj.creation_timestamp is not None
    assert obj.path("status.podIP") is None
    assert obj.path("spec.containers[*].image") == ["i1", "i2"]
    assert obj == KubeObject.from_dict(POD)


def test_the_values_alone_are_kept() -> None:
    obj = kept(POD)
    assert b"web-1" not in held_bytes(obj)
    assert b"nodeName" not in held_bytes(obj)
    assert sys.getsizeof(held_bytes(obj)) < 150
    assert not gc.is_tracked(obj)


def test_a_view_of_it_remembers_and_a_pickle_is_a_plain_object() -> None:
    obj = kept(POD)
    seen = view(obj)
    assert seen["spec"] is seen["spec"]
    assert seen.raw == obj.raw
    for one in (obj, seen):
        back = pickle.loads(pickle.dumps(one))
        assert (back, back.raw) == (obj, obj.raw)
    assert type(pickle.loads(pickle.dumps(obj))) is KubeObject


@pytest.mark.parametrize(
    "fields",
    [
        [],
        ["metadata"],
        ["metadata.labels"],
        ["metadata.labels.app"],
        ["metadata.ownerReferences[*].name"],
        ["metadata.annotations"],
        ["spec", "spec.nodeName"],
        ["status"],
        ["nothing.of.the.kind", "kind"],
        ["spec.containers[0].image"],
    ],
    ids=str,
)
@pytest.mark.parametrize("fewer", [[], ["labels"], ["ownerReferences", "annotations"], ["namespace", "uid"]], ids=str)
def test_any_fields_leave_what_the_plain_projection_leaves(fields: list[str], fewer: list[str]) -> None:
    document = {**POD, "metadata": {key: value for key, value in POD["metadata"].items() if key not in fewer}}
    assert kept(document, fields).to_dict() == projected(document, fields)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("spec", "text"),
        ("spec", []),
        ("status", 3),
        ("spec", {"containers": "none"}),
        ("spec", {"containers": {"a": 1}}),
    ],
)
def test_an_object_built_otherwise_than_the_paths_expect_is_kept_the_plain_way(change: str, value: Any) -> None:
    document = {**POD, change: value}
    assert kept(document).to_dict() == projected(document)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
PATHS = st.lists(st.sampled_from(["spec.a", "spec.b.c", "spec.a[*].b", "status", "spec['c'].a[*]"]), max_size=4)


def _without_empty(value: Any) -> Any:
    """An object of which nothing is kept, and null, say as little as one that is not there."""
    if isinstance(value, dict):
        left = {key: _without_empty(child) for key, child in value.items()}
        return {key: child for key, child in left.items() if child not in (None, {})}
    return value


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(VALUES, VALUES, PATHS)
def test_whatever_the_object_and_the_paths_are(spec: Any, status: Any, fields: list[str]) -> None:
    document = {**POD, "spec": spec, "status": status}
    obj, plain = kept(document, fields), projected(document, fields)
    assert _without_empty(obj.to_dict()) == _without_empty(plain)
    for path in ("spec.a", "spec.b.c", "status", "metadata.name", "metadata.labels.app"):
        assert _without_empty(obj.path(path)) == _without_empty(KubeObject.from_dict(plain).path(path))


def test_the_two_flags_of_an_owner_that_are_false_are_left_out() -> None:
    owner = {**OWNER, "controller": False, "blockOwnerDeletion": True}
    document = {**POD, "metadata": {**POD["metadata"], "ownerReferences": [owner]}}
    obj = kept(document)
    assert obj["metadata"]["ownerReferences"] == [{key: value for key, value in owner.items() if key != "controller"}]
    assert obj.owner_references[0].controller is False


async def test_a_relist_an_update_and_an_index_take_it_like_any_other() -> None:
    decoder = EntryDecoder(fields=["data.v"])

    class Fields(MemorySource):
        """One that keeps fields, as a ListWatch does."""

        def set(self, name: str = "a", **more: Any) -> KubeObject:
            obj = super().set(name, **more)
            lean = decoder.item(obj.raw)
            self.objects[obj.key] = lean
            event = self.history[-1]
            self.history[-1] = (event[0], event[1]._replace(object=lean))
            return lean

    source = Fields()
    source.set("a", data={"v": "1", "w": "2"})
    async with SharedInformer(source, indexers={"v": "data.v"}, watch_list=False) as informer:
        await informer.wait_synced(10)
        source.set("a", data={"v": "3", "w": "4"})
        source.set("b", data={"v": "3"})
        await informer.wait_for_resource_version(str(source.version), timeout=10)
        assert sorted(obj.name for obj in informer.lister.by_index("v", "3")) == ["a", "b"]
        assert all(type(obj) is PackedObject for obj in informer.lister)
        before = informer.lister.get("a", namespace="default")
        source.expire()
        await informer.wait_for_resource_version(str(source.version), timeout=10)
        assert informer.lister.get("a", namespace="default") is before
