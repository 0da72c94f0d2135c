"""Parts of an object refuse to be changed, are dicts and lists for all others, and have plain copies.

Internals: `view`, which is what handlers get.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from operator import add, delitem, iadd, imul, ior, setitem
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer import KubeObject
from kinformer.objects.object import view

OBJECT = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "web:1", "args": ["a", "b"]}], "nodeName": "n1"},
}
FORMS: dict[str, Callable[[], KubeObject]] = {
    "an object": lambda: KubeObject.from_dict(OBJECT),
    "a view": lambda: view(KubeObject.from_dict(OBJECT)),
}
DICTS: dict[str, Callable[[KubeObject], Any]] = {
    "a part": lambda obj: obj["spec"],
    "a part of a part": lambda obj: obj["metadata"]["labels"],
    "get": lambda obj: obj.get("metadata").get("labels"),
    "items": lambda obj: dict(obj.items())["metadata"],
    "values": lambda obj: next(value for value in obj.values() if "labels" in value),
    "an item": lambda obj: obj["spec"]["containers"][0],
    "the last item": lambda obj: obj["spec"]["containers"][-1],
    "an item of a slice": lambda obj: obj["spec"]["containers"][:][0],
    "an iterated item": lambda obj: next(iter(obj["spec"]["containers"])),
    "a reversed item": lambda obj: next(reversed(obj["spec"]["containers"])),
    "an iterated value": lambda obj: next(iter(obj["metadata"]["labels"].items())) and obj["metadata"]["labels"],
    "a path": lambda obj: obj.path("metadata.labels"),
    "a path with a wildcard": lambda obj: obj.path("spec.containers[*]")[0],
    "in a copy": lambda obj: dict(obj["metadata"])["labels"],
    "in an unpacked one": lambda obj: {**obj["metadata"]}["labels"],
    "in copy.copy": lambda obj: copy.copy(obj["metadata"])["labels"],
    "in a merged one": lambda obj: (obj["metadata"] | {})["labels"],
    "merged into another": lambda obj: ({} | obj["metadata"])["labels"],
    "in a sum": lambda obj: add([], obj["spec"]["containers"])[0],
    "in a product": lambda obj: (obj["spec"]["containers"] * 2)[1],
}
LISTS: dict[str, Callable[[KubeObject], Any]] = {
    "a part": lambda obj: obj["spec"]["containers"],
    "of an item": lambda obj: obj["spec"]["containers"][0]["args"],
    "a path": lambda obj: obj.path("spec.containers[0].args"),
}
CHANGES_OF_DICTS: list[Callable[[Any], object]] = [
    lambda it: setitem(it, "x", "y"),
    lambda it: delitem(it, next(iter(it))),
    lambda it: ior(it, {"x": "y"}),
    lambda it: it.update(x="y"),
    lambda it: it.setdefault("x", "y"),
    lambda it: it.pop(next(iter(it))),
    lambda it: it.popitem(),
    lambda it: it.clear(),
]
CHANGES_OF_LISTS: list[Callable[[Any], object]] = [
    lambda it: setitem(it, 0, "y"),
    lambda it: setitem(it, slice(0, 1), ["y"]),
    lambda it: delitem(it, 0),
    lambda it: iadd(it, ["y"]),
    lambda it: imul(it, 2),
    lambda it: it.append("y"),
    lambda it: it.extend(["y"]),
    lambda it: it.insert(0, "y"),
    lambda it: it.remove(it[0]),
    lambda it: it.pop(),
    lambda it: it.clear(),
    lambda it: it.reverse(),
    lambda it: it.sort(key=str),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("read", DICTS)
def test_a_dict_refuses_every_change_and_says_what_to_do(form: str, read: str) -> None:
    obj = FORMS[form]()
    for change in CHANGES_OF_DICTS:
        with pytest.raises(TypeError, match=r"this dict belongs to an object .* change a copy, such as obj.to_dict"):
            change(DICTS[read](obj))
    assert obj.to_dict() == OBJECT
    assert dict(obj.items()) == OBJECT


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("read", LISTS)
def test_so_does_a_list(form: str, read: str) -> None:
    obj = FORMS[form]()
    for change in CHANGES_OF_LISTS:
        with pytest.raises(TypeError, match="this list belongs to an object that was read"):
            change(LISTS[read](obj))
    assert dict(obj.items()) == OBJECT


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_deep_copies_are_plain_at_each_level(copied: Callable[[Any], Any]) -> None:
    spec = copied(FORMS["a view"]()["spec"])
    assert [type(spec), type(spec["containers"]), type(spec["containers"][0])] == [dict, list, dict]
    spec["containers"][0]["args"].append("c")
    assert spec["containers"][0]["args"] == ["a", "b", "c"]


def test_flat_copies_are_plain_themselves() -> None:
    spec = FORMS["a view"]()["spec"]
    for flat in (dict(spec), spec.copy(), copy.copy(spec), spec | {}, {} | spec):
        assert type(flat) is dict
    containers = spec["containers"]
    for items in (
        list(containers),
        containers.copy(),
        copy.copy(containers),
        containers[:],
        add(containers, []),
        [*containers],
    ):
        assert type(items) is list
    with pytest.raises(TypeError):
        spec | [("x", "y")]
    with pytest.raises(TypeError):
        add(containers, ("x",))


class _Spec(pydantic.BaseModel):
    containers: list[dict[str, Any]]


def test_encoders_and_validators_take_it_as_what_it_is() -> None:
    spec = FORMS["a view"]()["spec"]
    assert json.loads(json.dumps(spec)) == OBJECT["spec"]
    assert msgspec.json.decode(msgspec.json.encode(spec)) == OBJECT["spec"]
    assert msgspec.to_builtins(spec) == OBJECT["spec"]
    assert _Spec.model_validate(spec).containers == OBJECT["spec"]["containers"]  # type: ignore[index]
    match FORMS["a view"]():
        case {"spec": {"containers": [{"image": image}]}}:
            assert image == "web:1"
        case _:
            pytest.fail("it is no mapping")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), values, max_size=4))
def test_it_equals_what_was_stored_however_it_is_read(spec: dict[str, Any]) -> None:
    obj = view(KubeObject.from_dict({"metadata": {"name": "a"}, "spec": spec}))
    read = obj["spec"]
    assert read == spec
    assert list(read) == list(spec)
    assert dict(read) == spec == dict(read.items())
    assert list(read.values()) == list(spec.values())
    assert {key: read[key] for key in read} == spec
    assert {key: read.get(key) for key in read} == spec
    assert read.get("absent", spec) is spec
    assert copy.deepcopy(read) == spec
    assert json.loads(json.dumps(read)) == spec
    assert obj.to_dict()["spec"] == spec
