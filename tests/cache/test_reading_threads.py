"""Reads from eight threads beside changes and relists: each is of one moment, with the GIL and without it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kinformer import Indexer, KubeObject
from tests.support.kube import entry

pytestmark = pytest.mark.slow

PAIRS = 40
READERS = 8


def state(pair: int, side: str, version: int, relist: int) -> KubeObject:
    """One of the two objects of a pair. Of the two, `a` is always changed first."""
    return entry(
        f"{side}{pair}",
        namespace=f"ns-{pair % 3}",
        rv=version,
        labels={"app": "web", "side": side, "turn": str(version % 2), "relist": str(relist)},
        data={"pair": str(pair), "turn": str(version % 2)},
    )


def pair_of(obj: KubeObject) -> int:
    return int(obj.name[1:])


def is_web(labels: Any) -> bool:
    return labels["app"] == "web"


class Reader:
    """Reads a cache in each way, and keeps what cannot have been true at any moment."""

    def __init__(self, indexer: Indexer[KubeObject]) -> None:
        self.indexer = indexer
        self.wrong: list[str] = []
        self.reads = 0

    def all_of(self, what: str, objects: list[KubeObject], count: int) -> None:
        keys = {obj.key for obj in objects}
        if len(objects) != count or len(keys) != count:
            self.wrong.append(f"{what}: {len(objects)} objects with {len(keys)} keys, expected {count}")
        found = {(obj.name[0], pair_of(obj)): int(obj.resource_version) for obj in objects}
        for (side, pair), version in found.items():
            if side == "a" and version - found.get(("b", pair), version) not in (0, 1):
                self.wrong.append(f"{what}: pair {pair} has versions {version} and {found['b', pair]}")
        relists = {obj.labels["relist"] for obj in objects}
        if len(relists) > 1:
            self.wrong.append(f"{what}: objects of the relists {sorted(relists)}")

    def once(self) -> None:
        indexer, everything = self.indexer, 2 * PAIRS
        self.all_of("list", indexer.list(), everything)
        self.all_of("select", indexer.select(is_web), everything)
        self.all_of("in_namespace", indexer.in_namespace("ns-1"), 2 * len(range(1, PAIRS, 3)))
        self.all_of("by_index", indexer.by_index("pair", "7"), 2)
        if len(indexer) != everything or len(set(indexer.list_keys())) != everything:
            self.wrong.append("len")
        if len(indexer.index_keys("pair", "7")) != 2 or len(indexer.index_values("pair")) != PAIRS:
            self.wrong.append("index_keys")
        if indexer.get_by_key("ns-1/a1") is None or "ns-1/b1" not in indexer:
            self.wrong.append("get_by_key")
        self.reads += 1

    def run(self, done: threading.Event) -> None:
        try:
            while not done.is_set():
                self.once()
        except BaseException as error:  # it is an assertion's text in the end
            self.wrong.append(repr(error))


@contextmanager
def reading(indexer: Indexer[KubeObject]) -> Iterator[list[Reader]]:
    done = threading.Event()
    readers = [Reader(indexer) for _ in range(READERS)]
    threads = [threading.Thread(target=reader.run, args=(done,)) for reader in readers]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        yield readers
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)


def stream(indexer: Indexer[KubeObject], version: int, relist: int) -> None:
    """Change each object, by the two ways in which events are applied."""
    write: Callable[[str, KubeObject], object] = indexer.advance if version % 2 else indexer.put
    for pair in range(PAIRS):
        for side in "ab":
            obj = state(pair, side, version, relist)
            write(obj.key, obj)


def test_eight_threads_read_one_moment_each_beside_a_stream_of_changes() -> None:
    indexer: Indexer[KubeObject] = Indexer(indexers={"pair": "data.pair", "turn": "data.turn"})
    stream(indexer, 1, 0)
    with reading(indexer) as readers:
        for version in range(2, 150):
            stream(indexer, version, 0)
    assert [reader.wrong[:3] for reader in readers] == [[]] * READERS
    assert min(reader.reads for reader in readers) > 0


def test_eight_threads_read_one_moment_each_beside_relists_and_changes() -> None:
    indexer: Indexer[KubeObject] = Indexer(indexers={"pair": "data.pair", "turn": "data.turn"})
    stream(indexer, 1, 0)
    with reading(indexer) as readers:
        version = 1
        for relist in range(1, 60):
            version += 1
            rebuild = indexer.rebuild()
            for pair in range(PAIRS):
                for side in "ab":
                    rebuild.add(state(pair, side, version, relist))
            for _ in rebuild.commit():
                pass
            for _ in range(2):
                version += 1
                stream(indexer, version, relist)
    assert [reader.wrong[:3] for reader in readers] == [[]] * READERS
    assert min(reader.reads for reader in readers) > 0
