"""The cost of reading from a cache of 100,000 pods, over the plainest Python that would do."""

from __future__ import annotations

import copy
import statistics
import sys
import time
from collections.abc import Callable
from operator import attrgetter
from types import FunctionType
from typing import Any

import orjson

from benchmarks.data import KINDS
from benchmarks.harness import Figure, median, run
from kinformer import NAMESPACE_INDEX, Indexer, Lister, meta_namespace_index_func
from kinformer.objects.object import view
from kinformer.wire.decoder import EntryDecoder

PODS = 100_000
ROUNDS = 9


def us(work: Callable[[], Any], count: int) -> float:
    """CPU microseconds of one of `count` calls."""
    began = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - began) / count * 1e6


def compared(
    name: str,
    ours: Callable[[], Any],
    plain: Callable[[], Any],
    counts: tuple[int, int],
    *,
    faster: bool,
    **limits: Any,
) -> Figure:
    """One against the other, in turns: the speed or the cost of ours, as a ratio."""
    mine, theirs = [], []
    for number in range(ROUNDS + 1):
        pair = us(ours, counts[0]), us(plain, counts[1])
        if number:
            mine.append(pair[0])
            theirs.append(pair[1])
    ratios = [b / a if faster else a / b for a, b in zip(mine, theirs, strict=True)]
    text = f"{statistics.median(mine):.3g} us, the plain way {statistics.median(theirs):.3g} us"
    return median(name, ratios, "x faster" if faster else "x", least=faster, reference=text, **limits)


def cached() -> Indexer:
    data, decoder = KINDS["pods"], EntryDecoder()
    indexer = Indexer(attrgetter("key"), {NAMESPACE_INDEX: meta_namespace_index_func})
    for number in range(PODS):
        obj = decoder.item(data.item(number), "v1", "Pod")
        indexer.put(obj.key, obj)
    return indexer


def lookups(indexer: Indexer) -> list[Figure]:
    lister = Lister(indexer)
    objects = indexer.list()
    plain = {obj.key: obj for obj in objects}
    chosen = [obj.key for obj in objects[:: PODS // 1000]]
    names = [key.split("/") for key in chosen]

    def by_key() -> None:
        get = indexer.get_by_key
        for key in chosen:
            get(key)

    def by_name() -> None:
        get = lister.get
        for namespace, name in names:
            get(name, namespace=namespace)

    def by_dict() -> None:
        get = plain.get
        for key in chosen:
            get(key)

    return [
        compared("G11 get_by_key over dict.get", by_key, by_dict, (20, 20), faster=False, limit=7, aim=5),
        compared("G11 lister.get over dict.get", by_name, by_dict, (20, 20), faster=False, limit=12, aim=9),
    ]


def lists(indexer: Indexer) -> list[Figure]:
    lister = Lister(indexer)
    objects = indexer.list()
    sizes: dict[str, int] = {}
    for obj in objects:
        sizes[obj.namespace] = sizes.get(obj.namespace, 0) + 1
    namespace = max(sizes, key=lambda name: sizes[name])
    in_namespace = lister.list(namespace=namespace)
    app = objects[0].labels["app.kubernetes.io/name"]
    labels = [dict(obj.labels) for obj in objects]

    def scan() -> list[Any]:
        wanted = {"app.kubernetes.io/name": app}.items()
        return [obj for obj, own in zip(objects, labels, strict=True) if wanted <= own.items()]

    def select() -> list[Any]:
        return lister.list(f"app.kubernetes.io/name={app}")

    assert {obj.key for obj in scan()} == {obj.key for obj in select()}
    name = f"G11 list of a namespace ({len(in_namespace)} pods) over a copy of the list"
    return [
        compared("G11 label selector over a scan", select, scan, (5, 1), faster=True, limit=50, aim=100),
        compared(
            name,
            lambda: lister.list(namespace=namespace),
            in_namespace.copy,
            (200, 1000),
            faster=False,
            limit=5,
            aim=2,
        ),
        compared("list of all over a copy of the list", lister.list, objects.copy, (2, 5), faster=False),
    ]


def copies(indexer: Indexer) -> list[Figure]:
    objects = indexer.list()[:200]
    documents = [orjson.loads(obj.raw) for obj in objects]

    def fresh() -> None:
        for obj in objects:
            obj.to_dict()

    def deep() -> None:
        for document in documents:
            copy.deepcopy(document)

    return [compared("G12 a mutable copy over copy.deepcopy", fresh, deep, (3, 1), faster=True, limit=4, aim=5)]


def in_a_handler() -> Figure:
    """The image of each container and one condition, read by a handler as subscripts, and from plain decoded JSON."""
    data, decoder = KINDS["pods"].dropped(), EntryDecoder()
    objects = [decoder.item(data.item(number), "v1", "Pod") for number in range(200)]

    def images_and_ready(pod: Any) -> tuple[list[str], str]:
        ready = next(condition for condition in pod["status"]["conditions"] if condition["type"] == "Ready")
        return [container["image"] for container in pod["spec"]["containers"]], ready["status"]

    # Code of its own, because the interpreter specializes a subscript for the type that it has seen there.
    plainly = FunctionType(images_and_ready.__code__.replace(), globals())

    def ours() -> None:
        for obj in objects:
            images_and_ready(view(obj))

    def plain() -> None:
        for obj in objects:
            plainly(orjson.loads(obj.raw))

    assert [images_and_ready(view(obj)) for obj in objects] == [plainly(orjson.loads(obj.raw)) for obj in objects]
    return compared("G29 a handler's reads over orjson.loads", ours, plain, (20, 20), faster=False, limit=1.6)


async def measure() -> list[Figure]:
    indexer = cached()
    return [*lists(indexer), *lookups(indexer), *copies(indexer), in_a_handler()]


if __name__ == "__main__":
    sys.exit(run("reads", measure))
