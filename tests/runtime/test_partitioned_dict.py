"""A partitioned dict behaves as a dict, and so do the caches whose buckets have become one.

Internals: the dict itself, and its limit, which is patched.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer import NAMESPACE_INDEX, Indexer, KubeObject, meta_namespace_index_func
from kinformer._runtime import partitioned_dict
from kinformer._runtime.partitioned_dict import PARTITION_AT, PartitionedDict, stored
from kinformer.wire.decoder import EntryDecoder
from tests.support.kube import config_map

KEYS = st.one_of(st.text(max_size=3), st.integers(0, 40))
WRITES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers())), max_size=60)


def write(table: Any, plain: dict[Any, int], writes: list[tuple[Any, int | None]]) -> None:
    for key, value in writes:
        if value is not None:
            table[key] = plain[key] = value
        elif key in plain:
            del table[key], plain[key]
        else:
            assert table.pop(key) is None


def assert_same(table: PartitionedDict[Any, int], plain: dict[Any, int]) -> None:
    assert len(table) == len(plain)
    assert bool(table) == bool(plain)
    assert set(table) == set(plain)
    assert sorted(table.values()) == sorted(plain.values())
    assert all(table[key] == table.get(key) == value for key, value in plain.items())
    assert table.get("not there") is None


@pytest.mark.slow
@given(WRITES)
def test_it_holds_what_a_dict_would_hold(writes: list[tuple[Any, int | None]]) -> None:
    table: PartitionedDict[Any, int] = PartitionedDict()
    plain: dict[Any, int] = {}
    write(table, plain, writes)
    assert_same(table, plain)


@given(WRITES, WRITES, WRITES)
def test_a_copy_that_is_written_to_leaves_the_original_alone_and_may_take_its_place(
    before: list[tuple[Any, int | None]], after: list[tuple[Any, int | None]], later: list[tuple[Any, int | None]]
) -> None:
    table: PartitionedDict[Any, int] = PartitionedDict()
    plain: dict[Any, int] = {}
    write(table, plain, before)
    old_partitions = list(table.partitions)
    made, made_plain = table.copy(), dict(plain)
    write(made, made_plain, after)
    assert_same(table, plain)
    assert_same(made, made_plain)
    replaced = made.settle()
    assert all(any(partition is old for old in old_partitions) for partition in replaced)
    assert not any(partition is mine for partition in replaced for mine in made.partitions)
    write(made, made_plain, later)
    assert_same(made, made_plain)


def test_a_table_is_partitioned_when_it_has_become_too_large() -> None:
    table: Any = {}
    for number in range(PARTITION_AT):
        assert stored(table, number, number) is table
    grown = stored(table, PARTITION_AT, PARTITION_AT)
    assert isinstance(grown, PartitionedDict)
    assert sorted(grown) == list(range(PARTITION_AT + 1))
    assert len(table) == PARTITION_AT, "a reader of the old one finds it whole"
    assert stored(grown, -1, -1) is grown


@pytest.fixture
def partitioned_at_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_dict, "PARTITION_AT", 2)  # so that a test needs no 10,000 objects


def pods(count: int, version: int = 1, *, shared: bool = True) -> list[KubeObject]:
    decoder = EntryDecoder()
    return [
        decoder.item(
            json.dumps(
                config_map(
                    f"pod-{number}",
                    namespace=f"team-{number % 2}",
                    rv=version,
                    labels={"app": "web", "part": "x" if shared else f"{number}"},
                )
            ).encode()
        )
        for number in range(count)
    ]


@pytest.mark.usefixtures("partitioned_at_two")
@pytest.mark.parametrize("shared", [True, False], ids=["one label set", "a label set each"])
def test_a_cache_with_partitioned_buckets_finds_adds_changes_and_forgets_as_any_other(shared: bool) -> None:
    indexer = Indexer(
        indexers={NAMESPACE_INDEX: meta_namespace_index_func, "all": lambda obj: ["one"], "uid": lambda obj: [obj.key]}
    )
    listed = pods(20, shared=shared)
    for pod in listed:
        indexer.add(pod)
    assert {pod.key for pod in indexer.by_index("all", "one")} == {pod.key for pod in listed}
    assert len(indexer.index_values("uid")) == 20

    changed = pods(20, version=2, shared=shared)
    before = {pod.key: pod for pod in indexer.list()}
    rebuild = indexer.rebuild()
    for pod in changed[:15]:
        rebuild.add(pod)
    list(rebuild.sweep())
    for index, value in (("all", "one"), (NAMESPACE_INDEX, "team-0"), ("uid", "team-1/pod-1")):
        assert all(pod is before[pod.key] for pod in indexer.by_index(index, value)), "a reader sees the old state"
    rebuild.commit()

    present = {pod.key: pod for pod in changed[:15]}
    assert {pod.key for pod in indexer.by_index("all", "one")} == present.keys()
    assert all(present[pod.key] is pod for pod in indexer.by_index("all", "one"))
    assert set(indexer.index_values("uid")) == present.keys()
    for namespace in ("team-0", "team-1"):
        keys = {key for key in present if key.startswith(namespace)}
        assert set(indexer.index_keys(NAMESPACE_INDEX, namespace)) == keys
        assert {pod.key for pod in indexer.by_index(NAMESPACE_INDEX, namespace)} == keys
        matching = indexer.select(lambda labels: labels["app"] == "web", namespace)
        assert {pod.key for pod in matching} == keys
    assert len(indexer.select(lambda labels: labels["part"] == "3")) == (0 if shared else 1)

    for pod in changed[:15]:
        indexer.delete(pod)
    assert indexer.list() == indexer.by_index("all", "one") == indexer.select(lambda _: True) == []
    assert indexer.index_values("uid") == indexer.index_values(NAMESPACE_INDEX) == []
