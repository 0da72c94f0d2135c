"""A shard by itself: each uid is in one of them, and the server's filter selects the same objects."""

from __future__ import annotations

from collections import Counter
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer import ConfigError, KubeObject
from kinformer.sharding import Shard
from tests.support.kube import entry, pod


def owned(uid: str, owner: str | None, *, controller: bool = True) -> KubeObject:
    document = pod("a", rv=1, uid=uid, owner=owner)
    for reference in document["metadata"].get("ownerReferences", []):
        reference["controller"] = controller
    return KubeObject.from_dict(document)


@given(st.text(), st.integers(1, 40))
def test_each_uid_is_in_exactly_one_of_all_shards(uid: str, count: int) -> None:
    obj = entry(uid=uid)
    assert sum(Shard(index, count).has(obj) for index in range(count)) == 1


@given(st.uuids(), st.integers(1, 40))
def test_what_an_object_owns_is_in_the_shard_of_its_owner(uid: object, count: int) -> None:
    owner = entry(uid=f"uid-{uid}")
    child = owned("another", str(uid))
    for shard in (Shard(index, count) for index in range(count)):
        assert shard.of_owners().has(child) == shard.has(owner)


def test_shards_of_many_uids_have_similar_sizes() -> None:
    shards, random = [Shard(index, 4) for index in range(4)], Random(1)
    objects = [entry(uid=str(UUID(int=random.getrandbits(128), version=4))) for _ in range(4000)]
    sizes = Counter(shard.index for obj in objects for shard in shards if shard.has(obj))
    assert min(sizes.values()) > 900
    assert max(sizes.values()) < 1100


@pytest.mark.parametrize(
    "obj", [owned("a", None), owned("a", "b", controller=False)], ids=["no owner", "an owner that does not control it"]
)
def test_an_object_without_a_controlling_owner_is_in_no_shard_of_owners(obj: KubeObject) -> None:
    assert not any(Shard(index, 3).of_owners().has(obj) for index in range(3))


# Vectors of the authors of the hash (draft-eastlake-fnv), which is what apimachinery computes (pkg/sharding/hash.go).
@pytest.mark.parametrize(
    ("uid", "value"),
    [("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8), ("chongo was here!\n", 0x46810940EFF5F915)],
)
@pytest.mark.parametrize("count", [2, 3, 7, 1000, 2**40])
def test_the_hash_is_fnv_1a_with_64_bits(uid: str, value: int, count: int) -> None:
    assert Shard(value * count // 2**64, count).has(entry(uid=uid))


@pytest.mark.parametrize(
    ("index", "count", "words"),
    [
        (3, 3, "index=3 of count=3"),
        (-1, 3, "index=-1 of count=3"),
        (0, 0, "index=0 of count=0"),
        (0, -2, "count=-2"),
        ("0", 3, "index='0'"),
        (0, 2.0, "count=2.0"),
        (True, 3, "index=True"),
    ],
)
def test_a_shard_that_does_not_exist_is_refused_by_name(index: int, count: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Shard(index, count)


def test_equal_shards_are_equal_and_owners_make_a_difference() -> None:
    assert Shard(1, 3) == Shard(1, 3)
    assert len({Shard(1, 3), Shard(1, 3), Shard(1, 3).of_owners(), Shard(2, 3)}) == 3
    assert Shard(1, 3) != Shard(1, 3).of_owners() == Shard(1, 3).of_owners().of_owners()
    assert isinstance(Shard(1, 3).of_owners(), Shard)


def test_no_selector_is_sent_for_all_uids_and_for_owners() -> None:
    assert Shard(0, 1).selector is Shard(0, 2).of_owners().selector is None
    halves = [Shard(index, 2).selector for index in range(2)]
    assert halves == [
        "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')",
        "shardRange(object.metadata.uid,'0x8000000000000000','0x10000000000000000')",
    ]
