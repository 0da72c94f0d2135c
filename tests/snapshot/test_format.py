"""The bytes of a snapshot: they give back what was written, or nothing at all.

Internals: the format itself, since each of its bits is flipped.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kinformer import KubeObject
from kinformer.snapshot.format import OBJECTS, ObjectWriter, Seal, SnapshotHeader, SnapshotRefusedError
from tests.support.held import label_set
from tests.support.kube import entry
from tests.support.resumable_source import read

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}


def written(objects: list[KubeObject], *, block: int = 3, secrets: bool = False) -> bytes:
    header = SnapshotHeader(
        contents={"resource": "v1/configmaps"},
        resource_versions={"": "9"},
        cluster="c",
        objects=len(objects),
        taken_at=1.5,
    )
    seal, writer = Seal(), ObjectWriter(secrets=secrets)
    pieces = seal.header(header)
    for start in range(0, len(objects), block):
        pieces += seal.block(OBJECTS, *writer.block(objects[start : start + block]))
    return b"".join(pieces + seal.end())


def some_objects() -> list[KubeObject]:
    objects = [entry(f"c{number}", rv=number, labels={"app": f"a{number % 2}"}) for number in range(1, 9)]
    owned = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "ownerReferences": [OWNER]}}
    return [*objects, KubeObject.from_dict(owned), entry("ü", namespace="other", rv="x")]


def fields(obj: KubeObject) -> tuple[Any, ...]:
    return (
        obj.key,
        obj.namespace,
        obj.uid,
        obj.resource_version,
        obj.api_version,
        obj.kind,
        dict(obj.labels),
        obj.owner_references,
        obj.raw,
    )


def test_objects_come_back_as_they_were() -> None:
    objects = some_objects()
    header, found = read(written(objects))
    assert [fields(obj) for obj in found] == [fields(obj) for obj in objects]
    assert (header.cluster, dict(header.resource_versions), header.objects) == ("c", {"": "9"}, len(objects))


def test_what_objects_share_is_shared_again() -> None:
    _, found = read(written(some_objects(), block=2))
    assert label_set(found[0]) is label_set(found[2])
    assert label_set(found[1]) is label_set(found[7])


def test_the_objects_of_an_empty_cache_are_none() -> None:
    header, found = read(written([]))
    assert (header.objects, found) == (0, [])


GOOD = written(some_objects())
WHOLE = [fields(obj) for obj in some_objects()]


def test_every_single_bit_that_is_flipped_is_noticed() -> None:
    for place in range(len(GOOD)):
        for bit in range(8):
            bad = bytearray(GOOD)
            bad[place] ^= 1 << bit
            with pytest.raises(SnapshotRefusedError) as refused:
                read(bytes(bad))
            assert refused.value.reason in ("torn", "format")


def test_every_length_at_which_it_is_cut_off_is_noticed() -> None:
    for length in range(len(GOOD)):
        with pytest.raises(SnapshotRefusedError) as refused:
            read(GOOD[:length])
        assert refused.value.reason == "torn"


@given(st.binary(min_size=1, max_size=64))
def test_what_stands_behind_its_end_is_noticed(more: bytes) -> None:
    with pytest.raises(SnapshotRefusedError, match="after its end"):
        read(GOOD + more)


@settings(max_examples=300)
@given(st.data())
def test_any_damage_gives_the_whole_or_nothing(data: st.DataObject) -> None:
    """Pieces are cut out, doubled, moved and written over: what was written is read whole, or refused."""
    bad = GOOD
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(bad)))
        end = data.draw(st.integers(start, min(len(bad), start + 400)))
        piece = data.draw(st.sampled_from([b"", bad[start:end] * 2, bad[end : end + 100]]) | st.binary(max_size=40))
        bad = bad[:start] + piece + bad[end:]
    try:
        _, found = read(bad)
    except SnapshotRefusedError:
        assert bad != GOOD
    else:
        assert [fields(obj) for obj in found] == WHOLE


@given(st.binary(max_size=300))
def test_bytes_that_are_no_snapshot_are_refused(noise: bytes) -> None:
    with pytest.raises(SnapshotRefusedError):
        read(noise)


@settings(max_examples=200)
@example(b"\x96\x96\x96\xb6\x96" + b"\x96" * 40, b"", 2)
@example(b"\x92\x90\x91\x95\xa1\x96\xa0\xa0\x00\x00", b"", 2)
@given(st.binary(max_size=200), st.binary(max_size=50), st.integers(0, 4))
def test_a_block_that_is_none_of_ours_is_refused_though_its_checksum_is_right(
    head: bytes, body: bytes, kind: int
) -> None:
    header = SnapshotHeader(contents={}, resource_versions={}, cluster=None, objects=0, taken_at=0.0)
    seal = Seal()
    pieces = [*seal.header(header), *seal.block(kind, head, [body]), *seal.end()]
    try:
        _, found = read(b"".join(pieces))
    except SnapshotRefusedError as error:
        assert error.reason == "torn"  # noqa: PT017 - whether it raises depends on the bytes
    else:
        assert not found


def test_the_file_of_another_version_says_so() -> None:
    with pytest.raises(SnapshotRefusedError, match="another version") as refused:
        read(GOOD.replace(b"snapshot 1", b"snapshot 2", 1))
    assert refused.value.reason == "format"


def test_a_secret_is_not_written_unless_asked() -> None:
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "c2VjcmV0"}}
    objects = [*some_objects(), KubeObject.from_dict(document)]
    with pytest.raises(SnapshotRefusedError, match="Secret") as refused:
        written(objects)
    assert "c2VjcmV0" not in str(refused.value)
    assert read(written(objects, secrets=True))[1][-1].kind == "Secret"
