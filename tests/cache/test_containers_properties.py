"""Whatever happens in whatever order, the containers agree with a model that a child would write.

Internals: a decoder, since only that makes objects share their labels.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import NAMESPACE_INDEX, DeltaFIFO, Indexer, KubeObject, Store, meta_namespace_index_func
from kinformer.queue import Delta, DeltaType
from kinformer.wire.decoder import EntryDecoder
from tests.support.kube import entry

pytestmark = pytest.mark.slow

DECODER = EntryDecoder()  # objects of equal labels share one dict, as those of an informer do

NAMESPACES = ("shop", "bank")
LABELS: list[dict[str, str]] = [{}, {"app": "web"}, {"app": "web", "tier": "x"}, {"app": "db"}]
COLORS = ("", "red", "red blue", "blue green", "fails")


def by_color(obj: KubeObject) -> list[str]:
    color = obj["data"]["color"]
    if color == "fails":
        raise ValueError(color)
    return list(color.split())


def by_version(obj: KubeObject) -> list[str]:
    return [obj.resource_version]


def is_web(labels: Any) -> bool:
    return bool(labels.get("app") == "web")


objects = st.builds(
    lambda name, namespace, rv, labels, color: entry(
        name, namespace=namespace, rv=rv, labels=labels, data={"color": color}
    ),
    st.sampled_from("abcde"),
    st.sampled_from(NAMESPACES),
    st.integers(1, 1),  # equal versions have to mean equal objects: each object gets its own below
    st.sampled_from(LABELS),
    st.sampled_from(COLORS),
)


def versioned(obj: KubeObject, version: int) -> KubeObject:
    document = obj.to_dict()
    document["metadata"]["resourceVersion"] = str(version)
    return DECODER.item(json.dumps(document).encode())


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), objects),
        st.tuples(st.just("delete"), objects),
        st.tuples(st.just("replace"), st.lists(objects, max_size=6)),
        st.tuples(
            st.just("rebuild"), st.sampled_from((None, *NAMESPACES)), st.lists(objects, max_size=6), st.booleans()
        ),
        st.tuples(st.just("relist unchanged"), st.integers(0, 3)),
        st.tuples(st.just("add index")),
    ),
    max_size=25,
)


def agree(indexer: Indexer, model: dict[str, KubeObject]) -> None:
    assert {obj.key: obj.resource_version for obj in indexer.list()} == {
        key: obj.resource_version for key, obj in model.items()
    }
    assert sorted(indexer.list_keys()) == sorted(model)
    for name in indexer.index_names:
        function = {"namespace": meta_namespace_index_func, "color": by_color, "version": by_version}[name]
        expected: dict[str, set[KubeObject]] = {}
        for obj in model.values():
            try:
                values = function(obj)
            except ValueError:
                continue
            for value in values:
                expected.setdefault(value, set()).add(obj)
        assert {value: set(indexer.by_index(name, value)) for value in indexer.index_values(name)} == expected
    web = {obj for obj in model.values() if is_web(obj.labels)}
    assert set(indexer.select(is_web)) == web
    for namespace in NAMESPACES:
        assert set(indexer.select(is_web, namespace)) == {obj for obj in web if obj.namespace == namespace}


@settings(deadline=None, max_examples=120)
@given(steps)
def test_an_indexer_agrees_with_a_plain_dict_whatever_is_done_to_it(history: Sequence[tuple[Any, ...]]) -> None:
    indexer = Indexer(indexers={NAMESPACE_INDEX: meta_namespace_index_func, "color": by_color})
    model: dict[str, KubeObject] = {}
    version = 0

    def fresh(items: Sequence[KubeObject]) -> list[KubeObject]:
        nonlocal version
        version += len(items)
        return [versioned(obj, version - place) for place, obj in enumerate(items)]

    for kind, *arguments in history:
        if kind == "put":
            (obj,) = fresh([arguments[0]])
            indexer.update(obj)
            model[obj.key] = obj
        elif kind == "delete":
            indexer.delete(arguments[0])
            model.pop(arguments[0].key, None)
        elif kind == "replace":
            items = fresh(arguments[0])
            indexer.replace(items)
            model = {obj.key: obj for obj in items}
        elif kind == "relist unchanged":
            kept = list(model.values())[arguments[0] :]
            indexer.replace([DECODER.item(obj.raw) for obj in kept])
            model = {obj.key: obj for obj in kept}
        elif kind == "add index":
            indexer.add_indexers({"version": by_version})
        else:
            namespace, items, commit = arguments[0], fresh(arguments[1]), arguments[2]
            if namespace is not None:
                items = [obj for obj in items if obj.namespace == namespace]
            rebuild = indexer.rebuild(namespace)
            for obj in items:
                rebuild.add(obj)
            indexer.add_indexers({"version": by_version})
            agree(indexer, model)
            if commit:
                kept = [] if namespace is None else [obj for obj in model.values() if obj.namespace != namespace]
                gone = {obj.key for part in rebuild.sweep() for obj in part}
                before = set(model)
                model = {obj.key: obj for obj in (*kept, *items)}
                assert gone == before - set(model)
                agree_before_commit = {obj.key for obj in indexer.list()}
                assert agree_before_commit == before
                rebuild.commit()
            else:
                rebuild.discard()
        agree(indexer, model)


mixed_steps = st.lists(
    st.tuples(
        st.sampled_from(("put", "delete", "replace", "rebuild", "add index")),
        st.lists(st.tuples(objects, st.booleans()), min_size=1, max_size=5),
    ),
    max_size=25,
)


def seen(objects: Sequence[Any]) -> list[int]:
    return sorted(map(id, objects))


@settings(deadline=None, max_examples=120)
@given(mixed_steps, st.booleans())
def test_a_cache_of_dicts_and_objects_finds_both_by_namespace_and_by_labels(
    history: Sequence[tuple[str, list[tuple[KubeObject, bool]]]], indexed: bool
) -> None:
    """An object of one kind may take the place of one of the other, under the same key."""
    by_namespace = {NAMESPACE_INDEX: meta_namespace_index_func}
    indexer = Indexer(indexers=by_namespace if indexed else {})
    model: dict[str, Any] = {}

    for version, (kind, chosen) in enumerate(history, 1):
        keys = [obj.key for obj, _ in chosen]
        items = [versioned(obj, version).to_dict() if is_dict else versioned(obj, version) for obj, is_dict in chosen]
        if kind == "put":
            indexer.update(items[0])
            model[keys[0]] = items[0]
        elif kind == "delete":
            indexer.delete(items[0])
            model.pop(keys[0], None)
        elif kind == "add index":
            indexer.add_indexers(by_namespace)
        else:
            rebuild = indexer.rebuild()
            for obj in items:
                rebuild.add(obj)
            if kind == "rebuild":  # half of it, and then an index that has to follow
                indexer.add_indexers(by_namespace)
            rebuild.commit()
            # Of equal versions the first stays.
            model = {key: indexer.get_by_key(key) for key in keys}
        for namespace in NAMESPACES:
            here = {key: obj for key, obj in model.items() if key.startswith(f"{namespace}/")}
            web = [obj for obj in here.values() if is_web(obj["metadata"].get("labels") or {})]
            assert seen(indexer.in_namespace(namespace)) == seen(list(here.values()))
            assert seen(indexer.select(is_web, namespace)) == seen(web)
            if NAMESPACE_INDEX in indexer.index_names:
                assert seen(indexer.by_index(NAMESPACE_INDEX, namespace)) == seen(list(here.values()))
                assert indexer.index_keys(NAMESPACE_INDEX, namespace) == sorted(here)
                assert (namespace in indexer.index_values(NAMESPACE_INDEX)) == bool(here)
    assert indexer.index_errors == 0


# --- the queue -----------------------------------------------------------------------------------------

Thing = tuple[str, int]


def run(coroutine: Any) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")


names = st.sampled_from("abcd")
events = st.lists(
    st.one_of(
        st.tuples(st.just("set"), names),
        st.tuples(st.just("delete"), names),
        st.tuples(st.just("missed set"), names),
        st.tuples(st.just("missed delete"), names),
        st.tuples(st.just("relist")),
        st.tuples(st.just("resync")),
        st.tuples(st.just("pop")),
        st.tuples(st.just("pop batch")),
    ),
    max_size=40,
)


class Source:
    """A truth, and a reflector that misses some of it and relists."""

    def __init__(self, fifo: DeltaFIFO) -> None:
        self.fifo = fifo
        self.truth: dict[str, Thing] = {}
        self.version = 0

    def step(self, kind: str, *arguments: Any) -> None:
        self.version += 1
        verb = kind.removeprefix("missed ")
        if verb == "set":
            thing = (arguments[0], self.version)
            is_new = arguments[0] not in self.truth
            self.truth[arguments[0]] = thing
            if kind == verb:
                (self.fifo.add if is_new else self.fifo.update)(thing)
        elif verb == "delete":
            last = self.truth.pop(arguments[0], None)
            if kind == verb and last is not None:
                self.fifo.delete(last)
        elif kind == "relist":
            self.fifo.replace(list(self.truth.values()), str(self.version))
        else:
            self.fifo.resync()


def one(process: Any) -> Any:
    return lambda deltas, initial: process(None, deltas, initial)


def each(process: Any) -> Any:
    return lambda batch: [process(*item) for item in batch]


@settings(deadline=None, max_examples=200)
@given(events)
def test_a_cache_fed_by_a_queue_is_the_truth_after_a_relist_whatever_was_missed(
    history: Sequence[tuple[Any, ...]],
) -> None:
    known = Store(lambda thing: thing[0])
    fifo = DeltaFIFO(lambda thing: thing[0], known_objects=known)
    source = Source(fifo)

    def process(key: str | None, deltas: list[Delta], _: bool) -> None:
        assert deltas
        keys = {obj.key if hasattr(obj, "key") else obj[0] for _, obj in deltas}
        assert len(keys) == 1
        assert key in (None, *keys)
        for kind, obj in deltas:
            if kind is DeltaType.DELETED:
                known.delete(obj)
            else:
                known.update(obj)

    for kind, *arguments in history:
        if kind == "pop":
            if len(fifo):
                run(fifo.pop(one(process)))
        elif kind == "pop batch":
            if len(fifo):
                run(fifo.pop_batch(each(process)))
                assert len(fifo) == 0
        else:
            source.step(kind, *arguments)
    source.step("relist")
    while len(fifo):
        run(fifo.pop(one(process)))
    assert {thing[0]: thing for thing in known.list()} == source.truth
    assert fifo.has_synced
