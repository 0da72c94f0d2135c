"""Values that are equal and have other contents: a `KubeObject` equals any with its uid and resourceVersion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from kinformer import KubeObject, SharedInformer, derive, group_by, join, union
from kinformer.derived import filtered, mapped
from tests.support.memory_source import MemorySource
from tests.support.waiting import settle

pytestmark = pytest.mark.virtual_time


class Told:
    """A handler that keeps the mark of each value that it was told."""

    def __init__(self, mark: Callable[[Any], str]) -> None:
        self.marks: list[str] = []
        self._mark = mark

    def on_add(self, value: Any) -> None:
        self.marks.append(self._mark(value))

    def on_update(self, _: Any, value: Any) -> None:
        self.marks.append(self._mark(value))


def marked(obj: KubeObject, mark: str) -> KubeObject:
    """The same object, as far as uid and resourceVersion tell, with a label and data of another."""
    document = obj.to_dict()
    document["metadata"]["labels"] = {"mark": mark}
    document["data"] = {"mark": mark}
    return KubeObject.from_dict(document)


def mark_of(obj: KubeObject) -> str:
    return str(obj["data"]["mark"])


@dataclass(frozen=True)
class Noted:
    obj: KubeObject
    note: str = field(default="", compare=False)


class Boxed(msgspec.Struct):
    objects: list[KubeObject]


SHAPES: dict[str, tuple[Callable[[KubeObject], Any], Callable[[Any], KubeObject]]] = {
    "itself": (lambda obj: obj, lambda value: value),
    "a tuple": (lambda obj: ("x", obj), lambda value: value[1]),
    "a list": (lambda obj: [obj, "x"], lambda value: value[0]),
    "a dict": (lambda obj: {"x": obj}, lambda value: value["x"]),
    "keys of a dict": (lambda obj: {obj: "x"}, lambda value: next(iter(value))),
    "a set": (lambda obj: {obj}, lambda value: next(iter(value))),
    "a dataclass": (Noted, lambda value: value.obj),
    "a struct": (lambda obj: Boxed([obj]), lambda value: value.objects[0]),
    "a tuple of dicts of lists": (lambda obj: ({"x": [obj]},), lambda value: value[0]["x"][0]),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_object_that_the_function_has_changed_is_told(shape: str) -> None:
    make, take = SHAPES[shape]
    source, settings = MemorySource(), MemorySource()
    source.set("a")
    settings.set("one", data={"mark": "1"})

    def with_mark(pod: KubeObject, fetch: Any) -> Any:
        return make(marked(pod, fetch(config, key="default/one")["data"]["mark"]))

    pods: SharedInformer[Any] = SharedInformer(source, name="pods")
    config: SharedInformer[Any] = SharedInformer(settings, name="settings")
    async with pods, config, derive(pods, with_mark) as collection:
        await collection.wait_synced(10)
        told = Told(lambda value: mark_of(take(value)))
        collection.add_event_handler(told)
        for mark in "1223":
            settings.set("one", data={"mark": mark})
            await settle()
        assert mark_of(take(collection.by_key["default/a"])) == "3"
        assert told.marks == ["1", "2", "3"]


async def test_a_change_of_the_content_goes_through_everything_that_is_derived_from_it() -> None:
    source, settings = MemorySource(), MemorySource()
    source.set("a")
    settings.set("one", data={"mark": "1"})
    pods: SharedInformer[Any] = SharedInformer(source, name="pods")
    config: SharedInformer[Any] = SharedInformer(settings, name="settings")
    low = derive(pods, lambda pod, fetch: marked(pod, mark_of(fetch(config, key="default/one"))), name="low")
    every = filtered(low, lambda obj: True)
    even = filtered(low, lambda obj: mark_of(obj) in "24")
    groups = group_by(low, "metadata.name")
    pairs = join(low, low, on=lambda obj: obj.key)
    both = union({"east": every, "west": even})
    marks = mapped(both, mark_of)
    async with pods, config, low, every, even, groups, pairs, both, marks:
        await marks.wait_synced(10)
        for mark in "234":
            settings.set("one", data={"mark": mark})
            await settle()
            east = {"east/default/a": mark}
            assert dict(marks.by_key) == (east if mark == "3" else {**east, "west/default/a": mark})
            assert [mark_of(obj) for obj in groups.by_key["a"]] == [mark]
            assert [mark_of(obj) for obj in pairs.by_key["default/a"]] == [mark, mark]
            assert [obj.key for obj in low.lister.list(f"mark={mark}")] == ["default/a"]


async def test_an_object_that_is_only_written_in_another_order_has_not_changed() -> None:
    source, settings = MemorySource(), MemorySource()
    source.set("a", data={"x": "1"})
    settings.set("one")

    def turned(pod: KubeObject, fetch: Any) -> KubeObject:
        version = int(fetch(config, key="default/one").resource_version)
        return KubeObject.from_dict(dict(list(pod.to_dict().items())[:: 1 if version % 2 else -1]))

    pods: SharedInformer[Any] = SharedInformer(source, name="pods")
    config: SharedInformer[Any] = SharedInformer(settings, name="settings")
    async with pods, config, derive(pods, turned) as collection:
        await collection.wait_synced(10)
        told = Told(lambda obj: obj.raw.decode())
        collection.add_event_handler(told)
        await settle()
        runs = collection.statistics().runs  # two, if the first one was before the settings had synced
        for _ in range(3):
            settings.set("one")
            await settle()
        assert collection.statistics().runs == runs + 3
        assert len(told.marks) == 1
