"""The objects of a cache are invisible to the garbage collector, so a cycle through one would never be freed.

No public method hands out anything by which a program could make such a cycle. 100,000 attempts are made, through
each of them; afterwards the memory must be what it was.

Internals: views and models without an informer, and the hints for attributes.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import operator
import pickle
import sys
import weakref
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec
import pytest

from kinformer import Indexer, KubeObject, Lister, SharedInformer, meta_namespace_key
from kinformer.objects.attribute_hints import AttributeHint
from kinformer.objects.models.typed import Model
from kinformer.objects.object import view
from tests.support.interpreter import FREE_THREADED
from tests.support.memory_source import MemorySource

pytestmark = pytest.mark.search

ATTEMPTS = 100_000
SLACK = 1000 if FREE_THREADED else 300  # blocks; without the GIL their count is less exact


class DocumentDict(TypedDict, total=False):
    metadata: dict[str, Any]
    spec: dict[str, Any]


@dataclass
class DocumentClass:
    metadata: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)


class DocumentStruct(msgspec.Struct):
    metadata: dict[str, Any]
    spec: dict[str, Any]


def document(name: str = "web-1") -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-0", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"u-{name}",
            "resourceVersion": "7",
            "generation": 1,
            "labels": {"app": "web"},
            "annotations": {"note": "x"},
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "deletionTimestamp": "2026-11-21T10:00:01Z",
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": "node-a", "containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}]},
    }


DOCUMENT = document()


def tie(value: Any, knot: Any) -> None:
    """Put `knot` wherever `value` lets anybody put something."""
    if isinstance(value, str | bytes | int | None):
        return
    if type(value) is dict:
        for inner in list(value.values()):
            tie(inner, knot)
        value["me"] = knot
    elif type(value) is list:
        for inner in list(value):
            tie(inner, knot)
        value.append(knot)
    else:
        _tie_anything(value, knot)


def _tie_anything(value: Any, knot: Any) -> None:
    if isinstance(value, Mapping):
        inside: list[Any] = [] if isinstance(value, KubeObject) else list(value.values())
    elif isinstance(value, tuple | set | ItemsView | ValuesView):
        inside = list(value)
    else:
        inside = [getattr(value, name, None) for name in ("metadata", "spec")]
    for inner in inside:
        if inner is not value and inner is not knot:
            tie(inner, knot)
    puts: tuple[Callable[[], Any], ...] = (
        lambda: operator.setitem(value, "me", knot),
        lambda: value.add(knot),
        lambda: setattr(value, "me", knot),
        lambda: setattr(value, "labels", knot),
        lambda: setattr(value, "metadata", knot),
        lambda: value.__dict__.update(me=knot),
    )
    for put in puts:
        with suppress(TypeError, AttributeError, ValueError):
            put()


def _weak(obj: KubeObject) -> Any:
    """A weak reference with a callback that holds the object; refused by what the collector does not see."""
    with suppress(TypeError):
        return weakref.ref(obj, lambda _, held=obj: held)
    return None


# Every public name of KubeObject, and the operations that have no name.
READS: dict[str, Callable[[KubeObject], Any]] = {
    "annotations": lambda obj: obj.annotations,
    "api_version": lambda obj: obj.api_version,
    "creation_timestamp": lambda obj: obj.creation_timestamp,
    "decode": lambda obj: [obj.decode(kind) for kind in (dict, DocumentDict, DocumentClass, DocumentStruct)],
    "deletion_timestamp": lambda obj: obj.deletion_timestamp,
    "from_dict": lambda obj: KubeObject.from_dict(obj),
    "from_json": lambda obj: KubeObject.from_json(obj.raw),
    "generation": lambda obj: obj.generation,
    "get": lambda obj: [obj.get("spec"), obj.get("status", {})],
    "items": lambda obj: obj.items(),
    "key": lambda obj: obj.key,
    "keys": lambda obj: obj.keys(),
    "kind": lambda obj: obj.kind,
    "labels": lambda obj: obj.labels,
    "model": lambda obj: getattr(obj, "model", None),
    "name": lambda obj: obj.name,
    "namespace": lambda obj: obj.namespace,
    "owner_references": lambda obj: obj.owner_references,
    "path": lambda obj: [obj.path("spec"), obj.path("spec.containers[*].env"), obj.path("status", {})],
    "raw": lambda obj: obj.raw,
    "resource_version": lambda obj: obj.resource_version,
    "to_dict": lambda obj: obj.to_dict(),
    "uid": lambda obj: obj.uid,
    "values": lambda obj: obj.values(),
    "obj[...]": lambda obj: [obj["metadata"], obj["spec"]],
    "iteration": list,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda obj: pickle.loads(pickle.dumps(obj)),
    "weak reference": _weak,
    "itself": lambda obj: obj,
}


def collect() -> None:
    """Collect all garbage; without the GIL some of what a collection finds is freed by the next one."""
    for _ in range(3):
        gc.collect()


@contextmanager
def memory_stays(attempts: int, *, slack: int = SLACK) -> Iterator[None]:
    """What the block allocates is free after it: of 20 attempts not one may have kept anything."""
    collect()
    before = sys.getallocatedblocks()
    yield
    collect()
    kept = sys.getallocatedblocks() - before
    assert kept < attempts / 20 + slack, f"{attempts} attempts kept {kept} blocks of memory"


def test_every_public_name_of_an_object_is_attempted() -> None:
    hints = {
        name for name in dir(KubeObject) if isinstance(getattr(KubeObject, name), AttributeHint)
    }  # they only raise
    public = {name for name in dir(KubeObject) if not name.startswith("_")} - hints
    assert public <= set(READS), f"no attempt is made through {sorted(public - set(READS))}"


MODEL = Model(DocumentClass, "v1/pods")


class Hidden(msgspec.Struct, gc=False):
    memo: Any = None


def test_a_leak_would_be_noticed() -> None:
    def leak() -> None:
        for _ in range(1000):
            hidden = Hidden()
            hidden.memo = {"me": hidden}

    with pytest.raises(AssertionError, match="1000 attempts kept"), memory_stays(1000):
        leak()


@pytest.mark.parametrize(
    "made",
    [
        KubeObject.from_dict,
        lambda doc: view(KubeObject.from_dict(doc)),
        lambda doc: MODEL.read(KubeObject.from_dict(doc)),
    ],
    ids=["entry", "view", "view with a model"],
)
def test_no_public_method_of_an_object_leads_to_a_cycle_that_stays(made: Callable[[Any], KubeObject]) -> None:
    rounds = ATTEMPTS // 2 // len(READS) + 1
    for read in READS.values():  # what is made once and kept, such as decoders
        tie(read(made(DOCUMENT)), None)
    with memory_stays(rounds * len(READS)):
        for read in READS.values():
            for _ in range(rounds):
                obj = made(DOCUMENT)
                tie(read(obj), obj)
        del obj


def test_a_dict_that_an_object_is_made_of_is_not_kept() -> None:
    with memory_stays(2000):
        for _ in range(2000):
            source = document()
            obj = KubeObject.from_dict(source)
            tie(source, obj)
        del source, obj


def test_models_of_other_libraries_do_not_lead_to_a_cycle_that_stays() -> None:
    pydantic = pytest.importorskip("pydantic")
    from kubernetes_asyncio.client import V1Pod

    model = pydantic.create_model("Pod", metadata=(dict[str, Any], ...), spec=(dict[str, Any], ...))

    def attempt() -> None:
        obj = KubeObject.from_dict(DOCUMENT)
        tie(obj.decode(model), obj)
        pod = obj.decode(V1Pod)
        tie(pod.metadata.labels, obj)
        pod.metadata.labels = pod.spec = obj

    for _ in range(300):  # what these libraries make once, and keep
        attempt()
    with memory_stays(1000):
        for _ in range(1000):
            attempt()


def test_what_a_lister_and_an_indexer_return_does_not_lead_to_a_cycle_that_stays() -> None:
    def attempt() -> None:
        indexer = Indexer(meta_namespace_key, {"node": lambda obj: [obj.path("spec.nodeName")]})
        for number in range(20):
            indexer.add(KubeObject.from_dict(document(f"web-{number}")))
        lister = Lister(indexer)
        for found in (
            lister.list(),
            lister.list("app=web"),
            lister.by_namespace("default").list(),
            lister.by_index("node", "node-a"),
            lister.index_values("node"),
            lister.keys(),
            indexer.list(),
            indexer.list_keys(),
            indexer.by_index("node", "node-a"),
            indexer.index_keys("node", "node-a"),
            [lister.get("web-1", namespace="default"), indexer.get_by_key("default/web-2")],
        ):
            knot = list(found)
            for one in knot:
                if isinstance(one, KubeObject):
                    for read in READS.values():
                        tie(read(one), knot)
            found += [knot, found, lister, indexer]

    attempt()
    with memory_stays(30 * 20):
        for _ in range(30):
            attempt()


async def test_handlers_and_streams_may_tie_what_they_like() -> None:
    source = MemorySource()
    for number in range(50):
        source.set(f"map-{number}", data={"v": "x" * 500})

    async def life() -> None:
        seen: list[Any] = []

        class Greedy:
            def __init__(self, informer: SharedInformer) -> None:
                self.informer = informer

            def on_add(self, obj: KubeObject) -> None:
                self.hold(obj)

            def on_update(self, old: KubeObject, new: KubeObject) -> None:
                self.hold(old)
                self.hold(new)
                tie(old["data"], new)
                tie(new["data"], old)

            def on_delete(self, obj: KubeObject) -> None:
                self.hold(obj)

            def hold(self, obj: KubeObject) -> None:
                tie(obj["data"], obj)
                tie(obj["metadata"], self)
                tie(obj.to_dict(), self.informer.lister.get(obj.name, namespace=obj.namespace))
                seen.append((self, obj, seen))

        async with SharedInformer(source) as informer:
            informer.add_event_handler(Greedy(informer))
            async with informer.events() as stream:
                await informer.wait_synced(5)
                for number in range(50):
                    source.set(f"map-{number}", data={"v": "y" * 500})
                async with asyncio.timeout(10):
                    for _ in range(100):
                        event = await anext(stream)
                        tie(event.object["data"], event)
                        tie(event.object["data"], stream)
                        seen.append(event)

    await life()
    source.history.clear()
    rounds = 20
    with memory_stays(rounds * 150):
        for _ in range(rounds):
            await life()
            source.history.clear()
