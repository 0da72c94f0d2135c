"""An index by a path files objects by the values that their decoder has read, and moves those whose values change.

Internals: a decoder, since only that reads the values of paths beforehand.
"""

from __future__ import annotations

import asyncio
import json
import time
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import Indexer, KubeObject
from kinformer.wire.decoder import EntryDecoder

BY_NODE = {"node": "spec.nodeName"}
MISSING, GONE = "no nodeName", "the object is deleted"
NODES = st.sampled_from(["node-1", "node-2", "", None, {"a": "b"}, MISSING])
versions = count(100)


def pod(decoder: EntryDecoder, name: str, node: Any) -> KubeObject:
    metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(next(versions))}
    document = {"metadata": metadata, "spec": {} if node is MISSING else {"nodeName": node}}
    return decoder.item(json.dumps(document).encode(), "v1", "Pod")


def filed(indexer: Indexer[KubeObject]) -> dict[str, list[tuple[str, str]]]:
    """The keys and versions of the objects of each value."""
    return {
        value: sorted((obj.key, obj.resource_version) for obj in indexer.by_index("node", value))
        for value in indexer.index_values("node")
    }


def expected(indexer: Indexer[KubeObject]) -> dict[str, list[tuple[str, str]]]:
    """What an index has that was made of the objects at once, by a program that has never heard of shared values."""
    fresh: Indexer[KubeObject] = Indexer(indexers=BY_NODE)
    for obj in indexer.list():
        fresh.add(KubeObject.from_json(obj.raw))
    return filed(fresh)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from("ab"), NODES | st.just(GONE))), st.integers(0, 3), st.booleans())
def test_objects_are_filed_by_the_values_that_they_have(
    steps: list[tuple[str, Any]], added_at: int, reads_paths: bool
) -> None:
    decoder = EntryDecoder()
    indexer: Indexer[KubeObject] = Indexer()
    for number, (name, node) in enumerate(steps):
        if number == added_at:
            if reads_paths:
                decoder.read_paths(BY_NODE.values())
            indexer.add_indexers(BY_NODE)
        if node is GONE:
            indexer.pop(f"ns/{name}")
        else:
            obj = pod(decoder, name, node)
            indexer.advance(obj.key, obj)
    indexer.add_indexers(BY_NODE)
    assert filed(indexer) == expected(indexer)


async def test_objects_that_change_while_an_index_is_built_are_filed_once() -> None:
    decoder = EntryDecoder()
    decoder.read_paths(BY_NODE.values())
    indexer: Indexer[KubeObject] = Indexer()
    names = [f"pod-{number}" for number in range(30)]
    for name in names:
        obj = pod(decoder, name, "node-1")
        indexer.advance(obj.key, obj)

    def slow(_: KubeObject) -> list[str]:
        time.sleep(0.002)  # more than a slice, so that others run after each object
        return []

    build = asyncio.create_task(indexer.build_indexers({"slow": slow, **BY_NODE}))
    turns = 0
    while not build.done():
        turns += 1
        obj = pod(decoder, names[turns % 30], f"node-{turns % 2}")
        indexer.advance(obj.key, obj)
        indexer.pop(f"ns/{names[-turns % 30]}")
        await asyncio.sleep(0)
    await build
    assert turns >= 10, "the build has been in the midst of it"
    assert filed(indexer) == expected(indexer)
