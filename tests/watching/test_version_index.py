"""Records of uid and resourceVersion, packed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer.watching.version_index import VersionIndex

TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=4)
KEYS = st.text(alphabet="ab/é\x00\n", max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["set", "set", "pop"]), KEYS, TEXTS, TEXTS), max_size=300))
def test_it_is_equal_to_a_dict(steps: list[tuple[str, str, str, str]]) -> None:
    index, truth = VersionIndex(), dict[str, tuple[str, str]]()
    for step, key, uid, version in steps:
        if step == "set":
            index.set(key, uid, version)
            truth[key] = (uid, version)
            assert index.has(key, uid, version)
            assert not index.has(key, uid, version + "0")
        else:
            removed, expected = index.pop(key), truth.pop(key, None)
            assert (removed and (removed.uid, removed.version)) == expected
        assert len(index) == len(truth)
    assert {r.key: (r.uid, r.version) for bucket in index.buckets() for r in bucket} == truth
    for key, (uid, version) in truth.items():
        assert key in index
        assert index.get(key) == (key, uid, version)
    assert index.get("another") is None


def test_it_grows_and_shrinks_through_many_splits() -> None:
    index = VersionIndex()
    for number in range(20_000):
        index.set(f"ns-{number % 7}/name-{number}", f"uid-{number}", str(number))
    for number in range(0, 20_000, 2):
        index.set(f"ns-{number % 7}/name-{number}", f"uid-{number}", str(number + 1))
    assert len(index) == 20_000
    for number in range(20_000):
        assert index.has(f"ns-{number % 7}/name-{number}", f"uid-{number}", str(number + (number % 2 == 0)))
    for number in range(20_000):
        assert index.pop(f"ns-{number % 7}/name-{number}") is not None
    assert len(index) == 0
    assert [record for bucket in index.buckets() for record in bucket] == []


@pytest.mark.parametrize("text", ["a\nb", "a\x00b", "ÿþ", "日本"])
def test_no_text_is_taken_for_a_separator(text: str) -> None:
    index = VersionIndex()
    index.set(text, text, text)
    index.set(text + text, "x", "y")
    assert index.get(text) == (text, text, text)
    assert not index.has(text, "x", "y")
