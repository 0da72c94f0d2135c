"""Objects: what they read, share, copy, pickle and forget.

Internals: paths, projections, views and bookmarks without a source.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import pickle
import timeit
import tracemalloc
import weakref
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec
import pytest

from kinformer import KubeObject
from kinformer.conditions import matches
from kinformer.exceptions import ConfigError, DecodeError
from kinformer.objects import OwnerReference
from kinformer.objects.object import ObjectView, view
from kinformer.objects.paths.json_path import PathIndex, parse_path
from kinformer.objects.paths.projection import Projection, covers
from kinformer.wire.decoder import decode_bookmark
from tests.support.interpreter import FREE_THREADED

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-1",
        "namespace": "default",
        "uid": "u-1",
        "resourceVersion": "123",
        "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "web", "a.b/c": "x"},
        "annotations": {"note": "Grüße\u2028"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-0", "controller": True}
        ],
    },
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:2"}],
        "on": True,
    },
    "status": {"phase": "Running", "conditions": None},
}


def pod(**metadata: Any) -> KubeObject:
    return KubeObject.from_dict({**POD, "metadata": {**POD["metadata"], **metadata}})


def test_an_object_is_an_immutable_mapping() -> None:
    obj = pod()
    assert isinstance(obj, Mapping)
    assert obj["spec"] == POD["spec"]
    assert dict(obj) == obj.to_dict() == POD
    assert list(obj) == list(obj.keys()) == list(POD)
    assert len(obj) == 5
    assert "spec" in obj
    assert "nothing" not in obj
    assert obj.get("nothing") is None
    assert obj.get("nothing", 7) == 7
    assert dict(obj.items()) == POD
    assert list(obj.values()) == list(POD.values())
    with pytest.raises(KeyError, match="nothing"):
        obj["nothing"]
    with pytest.raises(AttributeError):
        obj.uid = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        obj["spec"] = {}  # type: ignore[index]
    match obj:
        case {"kind": "Pod", "spec": {"nodeName": node}}:
            assert node == "n1"
        case _:
            pytest.fail("no mapping to a match statement")


def test_the_parts_of_its_identity_are_attributes() -> None:
    obj = pod()
    assert (obj.api_version, obj.kind, obj.namespace, obj.name, obj.key) == (
        "v1",
        "Pod",
        "default",
        "web-1",
        "default/web-1",
    )
    assert (obj.uid, obj.resource_version, obj.generation) == ("u-1", "123", 3)
    assert obj.labels == {"app": "web", "a.b/c": "x"}
    assert obj.annotations == {"note": "Grüße\u2028"}
    assert obj.owner_references == (OwnerReference("apps/v1", "ReplicaSet", "web", "u-0", True, False),)
    assert obj.creation_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert obj.deletion_timestamp is None
    assert pod(deletionTimestamp="2026-01-02T03:04:05.000006+02:00").deletion_timestamp is not None
    assert json.loads(obj.raw) == POD
    assert repr(obj) == "<Pod default/web-1 rv=123>"


def test_a_cluster_scoped_object_has_the_empty_namespace() -> None:
    node = KubeObject.from_dict({"kind": "Node", "metadata": {"name": "n1"}})
    assert (node.namespace, node.name, node.key) == ("", "n1", "n1")
    assert (node.labels, node.annotations, node.owner_references) == ({}, {}, ())
    assert (node.creation_timestamp, node.generation, node.api_version) == (None, 0, "")


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_labels_and_annotations_are_read_only(field: str) -> None:
    with pytest.raises(TypeError):
        getattr(pod(), field)["new"] = "x"


def test_a_copy_belongs_to_the_reader() -> None:
    obj = pod()
    obj.to_dict()["spec"]["nodeName"] = "elsewhere"
    obj.path("spec.containers[*].image").append("elsewhere")
    assert obj.to_dict() == POD


def test_paths_lead_into_the_object() -> None:
    for obj in (pod(), view(pod())):
        assert obj.path("spec.nodeName") == "n1"
        assert obj.path(".spec.nodeName") == obj.path("$.spec.nodeName") == "n1"
        assert obj.path("metadata.labels['a.b/c']") == obj.path(r"metadata.labels.a\.b/c") == "x"
        assert obj.path('metadata.labels["app"]') == "web"
        assert obj.path("spec.containers[*].image") == ["i:1", "i:2"]
        assert obj.path("spec.containers[1].image") == obj.path("spec.containers[-1].image") == "i:2"
        assert obj.path("metadata.labels[*]") == ["web", "x"]
        assert obj.path("spec.nothing[*].image") == []
        assert obj.path("status.conditions", "default") == "default"
        assert obj.path("spec.containers[7].image", 0) == 0
        assert obj.path("spec.nodeName.deeper") is None
        assert obj.path("spec.containers.image") is None


@pytest.mark.parametrize(
    ("path", "position"),
    [("", 0), ("spec.", 5), ("spec[", 4), ("spec[a]", 4), ("spec nodeName", 4), ("a]b", 1), (".", 1)],
)
def test_a_bad_path_is_refused_with_the_position(path: str, position: int) -> None:
    with pytest.raises(ConfigError, match=f"position {position}") as caught:
        pod().path(path)
    assert repr(path) in str(caught.value)


def test_objects_are_equal_by_uid_and_version_else_by_their_bytes() -> None:
    assert pod() == pod(labels={})
    assert hash(pod()) == hash(pod(labels={}))
    assert pod() != pod(resourceVersion="124")
    assert pod() != pod(uid="u-2")
    bare = KubeObject.from_dict({"kind": "Pod", "metadata": {"name": "a"}})
    assert bare == KubeObject.from_dict({"kind": "Pod", "metadata": {"name": "a"}})
    assert hash(bare) == hash(KubeObject.from_json(bare.raw))
    assert bare != KubeObject.from_dict({"kind": "Pod", "metadata": {"name": "b"}})
    assert pod() != POD
    assert len({pod(), view(pod()), pod(labels={})}) == 1


def test_objects_survive_copies_and_pickles() -> None:
    for obj in (pod(), view(pod())):
        for twin in (copy.copy(obj), copy.deepcopy(obj), pickle.loads(pickle.dumps(obj))):
            assert type(twin) is type(obj)
            assert twin == obj
            assert twin.to_dict() == POD
            assert twin.labels == obj.labels


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "metadata"),
        ({"metadata": None}, "metadata"),
        ({"metadata": {}}, "metadata.name is missing"),
        ({"metadata": {"name": 3}}, "name"),
        ({"metadata": {"name": "a", "labels": {"n": 1}}}, "labels"),
        ({"metadata": {"name": "a", "ownerReferences": [{"name": 1}]}}, "name"),
        ({"metadata": {"name": "a"}, "spec": object()}, "object"),
    ],
)
def test_what_is_no_object_is_refused(document: dict[str, Any], problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        KubeObject.from_dict(document)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'{"metadata":{"name":"a"}}x', b'{"metadata":{"name":"a"},"b":"\xff"}']
)
def test_bytes_that_are_no_object_are_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        KubeObject.from_json(raw)


def test_annotations_that_are_no_text_fail_only_where_they_are_read() -> None:
    obj = KubeObject.from_json(b'{"metadata":{"name":"a","annotations":{"a":1}}}')
    assert obj.key == "a"
    with pytest.raises(DecodeError, match="cannot read"):
        _ = obj.annotations


class Spec(msgspec.Struct, rename="camel"):
    node_name: str


class Pod(msgspec.Struct):
    spec: Spec


@dataclasses.dataclass
class DataSpec:
    nodeName: str  # noqa: N815


@dataclasses.dataclass
class DataPod:
    spec: DataSpec


class TypedPod(TypedDict):
    spec: dict[str, Any]


def test_an_object_is_decoded_into_types_of_the_users_choice() -> None:
    obj = pod()
    assert obj.decode(Pod).spec.node_name == "n1"
    assert obj.decode(DataPod).spec.nodeName == "n1"
    assert obj.decode(TypedPod)["spec"]["nodeName"] == "n1"
    first = obj.decode(Pod)
    first.spec.node_name = "elsewhere"
    assert obj.decode(Pod).spec.node_name == "n1"


def test_an_object_is_decoded_into_pydantic_models() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        spec: dict[str, Any]

    class Wrong(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        spec: int

    assert pod().decode(Model).spec["nodeName"] == "n1"
    with pytest.raises(DecodeError, match="does not fit"):
        pod().decode(Wrong)


def test_an_object_is_decoded_into_models_of_kubernetes_asyncio() -> None:
    from kubernetes_asyncio.client import V1Pod

    model = pod().decode(V1Pod)
    assert model.metadata.name == "web-1"
    assert model.metadata.creation_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert model.metadata.owner_references[0].controller is True
    assert [container.image for container in model.spec.containers] == ["i:1", "i:2"]
    assert model.status.conditions is None
    # A server's answer is not refused because the client would not let it be written.
    odd = KubeObject.from_dict({"metadata": {"name": "a"}, "spec": {"containers": [{"image": "x"}]}}).decode(V1Pod)
    assert odd.spec.containers[0].name is None


def test_a_type_that_does_not_fit_says_which_object() -> None:
    with pytest.raises(DecodeError, match=r"<Pod default/web-1 rv=123> does not fit .*nothing"):
        pod().decode(msgspec.defstruct("Wrong", [("nothing", int)]))


def test_the_collector_does_not_see_objects_of_the_cache() -> None:
    obj = pod()
    assert not gc.is_tracked(obj)
    assert not gc.is_tracked(obj.owner_references[0])
    with pytest.raises(TypeError):
        weakref.ref(obj)


def test_a_view_remembers_what_it_decoded_and_nobody_else_sees_it() -> None:
    entry = pod()
    mine, yours = view(entry), view(entry)
    spec = mine["spec"]
    assert mine["spec"] is spec
    assert spec["containers"] is spec["containers"]
    assert spec["containers"][0] is spec.get("containers")[0]
    assert mine.path("spec.nodeName") == "n1"
    assert dict(mine.items())["spec"] is spec
    assert next(value for value in mine.values() if value is spec)
    assert yours["spec"] == entry["spec"] == view(mine)["spec"] == POD["spec"]
    assert mine.to_dict() == POD
    assert mine.raw == entry.raw
    assert mine == entry == yours
    assert hash(mine) == hash(entry)
    assert isinstance(mine, ObjectView)
    assert mine.labels == entry.labels
    assert list(mine) == list(entry)


def test_a_view_of_what_is_no_kube_object_is_that_itself() -> None:
    assert view(POD) is POD


def test_a_cycle_through_a_view_is_collected() -> None:
    flag: list[Any] = []

    class Canary:
        def __del__(self) -> None:
            flag.append(None)

    one = view(pod())
    assert gc.is_tracked(one)
    dict.__setitem__(one["spec"], "self", one)  # past its refusal
    dict.__setitem__(one["status"], "canary", Canary())
    del one
    gc.collect()
    assert flag


@pytest.mark.slow
def test_no_public_method_makes_a_cycle_that_is_never_freed() -> None:
    def attempt(entry: KubeObject) -> None:
        for obj in (entry, view(entry)):
            spec = obj["spec"]
            dict.__setitem__(spec, "self", obj)  # past its refusal
            obj.to_dict()["self"] = obj
            list.append(obj.path("spec.containers"), obj)
            obj.decode(DataPod).spec.nodeName = obj  # type: ignore[assignment]
            dict(obj.labels)["self"] = obj  # type: ignore[assignment]
            for field in (obj.labels, obj.annotations):
                with pytest.raises(TypeError):
                    field["self"] = obj  # type: ignore[index]
            for name in ("key", "raw", "labels", "memo", "_labels", "anything"):
                with pytest.raises((AttributeError, TypeError)):
                    setattr(obj, name, [obj])
            for value in obj.values():
                if isinstance(value, dict):
                    dict.__setitem__(value, "self", obj)

    raw = pod().raw[:-1] + b',"ballast":"' + b"x" * 20_000 + b'"}'

    def run(times: int) -> int:
        for number in range(times):
            attempt(KubeObject.from_json(raw.replace(b'"u-1"', b'"u-%d"' % number)))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = run(10)
        # 2,500 objects, 40 attempts each. What leaked of them would hold 20 KB an object, 50 MB in all. Without the GIL
        # the interpreter frees some of what is garbage later.
        assert run(2500) - before < (10_000_000 if FREE_THREADED else 1_000_000)
    finally:
        tracemalloc.stop()


def test_making_a_view_is_cheap() -> None:
    entry = pod()
    assert min(timeit.repeat(lambda: view(entry), number=2000, repeat=5)) / 2000 < 5e-6


def test_of_a_bookmark_only_version_and_annotations_are_read() -> None:
    bookmark = decode_bookmark(
        b'{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"resourceVersion":"21",'
        b'"creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"versions":null,"names":3}}'
    )
    assert bookmark.resource_version == "21"
    assert bookmark.annotations == {"k8s.io/initial-events-end": "true"}
    assert (bookmark.key, bookmark.kind) == ("", "CustomResourceDefinition")
    assert "spec" not in bookmark
    with pytest.raises(DecodeError, match="bookmark"):
        decode_bookmark(b'{"metadata":{"resourceVersion":7}}')


def test_declared_fields_are_all_that_is_kept() -> None:
    keep = Projection(["spec.nodeName", "spec.containers[*].image", "metadata.annotations.note", "nothing.here"])
    kept = KubeObject.from_json(keep(pod(managedFields=[{"manager": "x"}]).raw))
    assert kept.to_dict() == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": POD["metadata"],
        "spec": {"nodeName": "n1", "containers": [{"image": "i:1"}, {"image": "i:2"}]},
    }
    assert Projection(["metadata.labels[*]", "spec"])(pod().raw)


def test_declared_fields_of_an_unexpected_type_are_left_out() -> None:
    raw = b'{"metadata":{"name":"a"},"spec":"text","status":{"x":[null,{"y":1,"z":2},3]},"data":{"k":{"y":1,"z":2}}}'
    kept = json.loads(Projection(["spec.nodeName", "status.x[*].y", "data[*].y"])(raw))
    assert kept["metadata"] == {"name": "a"}
    assert kept["status"] == {"x": [None, {"y": 1}, None]}
    assert kept["data"] == {"k": {"y": 1}}
    assert kept["spec"] is None
    with pytest.raises(DecodeError):
        Projection(["spec"])(raw[:-1])


@pytest.mark.parametrize(
    ("fields", "path", "metadata_only", "expected"),
    [
        (None, "spec.nodeName", False, True),
        (None, "spec.nodeName", True, False),
        (None, "metadata.annotations.a", True, True),
        (["spec.nodeName"], "spec.nodeName", False, True),
        (["spec.nodeName"], "spec", False, False),
        (["spec"], "spec.a.b[0]", False, True),
        (["spec.containers[*].image"], "spec.containers[0].image", False, True),
        (["spec.containers[*].image"], "spec.containers[*].name", False, False),
        ([], "metadata.labels.app", False, True),
        ([], "metadata.annotations.a", False, False),
        ([], "metadata.name", False, True),
    ],
)
def test_whether_a_path_is_kept_is_known_beforehand(
    fields: list[str] | None, path: str, metadata_only: bool, expected: bool
) -> None:
    assert covers(fields, path, metadata_only=metadata_only) is expected


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("spec.containers.0.image", r"position 16: write \[0\] for an item of a list, or \['0'\] for a key"),
        ("spec.containers.-1", r"write \[-1\]"),
        (".data.0", r"or \['0'\] for a key"),
        ("{.spec.nodeName}", "without braces"),
    ],
)
def test_a_path_in_another_language_is_refused_with_the_right_form(path: str, hint: str) -> None:
    for use in (pod().path, lambda one: Projection([one]), PathIndex, matches):
        with pytest.raises(ConfigError, match=hint):
            use(path)


def test_a_key_that_is_a_number_is_written_in_brackets_or_escaped() -> None:
    obj = KubeObject.from_dict({**POD, "data": {"0": "zero", "10": "ten"}})
    assert obj.path("data['0']") == "zero"
    assert obj.path(r"data.\10") == "ten"
    assert obj.path("data.v1") is None


def test_a_star_after_a_dot_is_the_wildcard_as_in_kubectl() -> None:
    assert pod().path("spec.containers.*.image") == ["i:1", "i:2"]
    assert sorted(pod().path("metadata.labels.*")) == ["web", "x"]


def test_an_index_of_a_path_gives_text() -> None:
    assert PathIndex("spec.nodeName")(pod()) == ["n1"]
    assert PathIndex("spec.containers[*].image")(POD) == ["i:1", "i:2"]
    assert PathIndex("spec.on")(pod()) == ["true"]
    assert PathIndex("metadata.generation")(pod()) == ["3"]
    assert PathIndex("spec.nothing")(pod()) == []
    assert PathIndex("spec.nodeName") == PathIndex(".spec.nodeName")
    assert PathIndex("spec.nodeName") != PathIndex("spec")
    with pytest.raises(TypeError, match="spec"):
        PathIndex("spec")(pod())


def test_reading_a_path_of_malformed_bytes_fails() -> None:
    with pytest.raises(DecodeError, match=r"spec\.nodeName"):
        parse_path("spec.nodeName").read(b'{"spec":{"nodeName":')


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("spec", 'use obj["spec"]'),
        ("metadata", "obj.labels"),
        ("age", "obj.creation_timestamp"),
        ("phase", 'obj.path("status.phase")'),
        ("resourceVersion", "obj.resource_version"),
    ],
)
def test_an_attribute_that_objects_do_not_have_is_an_error_that_names_the_way(name: str, way: str) -> None:
    obj = KubeObject.from_dict({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1}})
    for one in (obj, view(obj)):
        with pytest.raises(AttributeError) as raised:
            getattr(one, name)
        assert way in str(raised.value)
        assert f"<Pod a> has no attribute {name!r}" in str(raised.value)
        assert not hasattr(one, name)
        assert getattr(one, name, 7) == 7
        assert name not in dir(one)
    assert "labels" in dir(obj)
    with pytest.raises(AttributeError, match="no attribute 'whatever'"):
        obj.whatever  # type: ignore[attr-defined]  # noqa: B018
