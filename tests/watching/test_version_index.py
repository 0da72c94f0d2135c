"""Records of uid and resourceVersion, packed.

Internals: the index itself, since a stream does not show its splits.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer.watching.version_index import VersionIndex

TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=4)
KEYS = st.text(alphabet="ab/é\x00\n", max_size=3)


STEPS = ["set", "set", "set", "pop", "mark", "unmark", "begin", "sweep"]


@given(st.lists(st.tuples(st.sampled_from(STEPS), KEYS, TEXTS, TEXTS), max_size=300))
def test_it_is_equal_to_a_dict_and_a_set_of_marks(steps: list[tuple[str, str, str, str]]) -> None:
    index, truth = VersionIndex(), dict[str, tuple[str, str]]()
    marked: set[str] | None = None
    for step, key, uid, version in steps:
        if step == "set":
            index.set(key, uid, version)
            truth[key] = (uid, version)
            marked = None if marked is None else marked | {key}
            assert index.has(key, uid, version)
            assert not index.has(key, uid, version + "0")
        elif step == "pop":
            removed, expected = index.pop(key), truth.pop(key, None)
            assert (removed and (removed.uid, removed.version)) == expected
            marked = None if marked is None else marked - {key}
        elif step == "mark":
            assert not index.mark(key, "no such", version)
            assert index.mark(key, *truth.get(key, (uid, version))) == (key in truth)
            marked = None if marked is None else marked | ({key} & truth.keys())
        elif step == "unmark":
            index.unmark(key)
            marked = None if marked is None else marked - {key}
        elif step == "begin":
            index.begin_marking()
            marked = set()
        elif marked is not None:
            gone = [record for records in index.sweep() for record in records]
            assert {r.key: (r.uid, r.version) for r in gone} == {k: truth[k] for k in truth if k not in marked}
            truth = {key: truth[key] for key in marked}
            marked = None
        assert len(index) == len(truth)
        assert index.marking == (marked is not None)
        assert index.marked == len(marked or ())
    for key, (uid, version) in truth.items():
        assert key in index
        assert index.get(key) == (key, uid, version)
    assert index.get("another") is None


def test_marks_stay_with_their_records_through_many_splits() -> None:
    index = VersionIndex()
    for number in range(100):
        index.set(f"old-{number}", "uid", str(number))
    index.begin_marking()
    for number in range(0, 100, 3):
        assert index.mark(f"old-{number}", "uid", str(number))
    for number in range(5_000):
        index.set(f"new-{number}", "uid", str(number))
    for number in range(0, 5_000, 2):
        index.unmark(f"new-{number}")
    gone = {record.key for records in index.sweep() for record in records}
    assert gone == {f"old-{n}" for n in range(100) if n % 3} | {f"new-{n}" for n in range(0, 5_000, 2)}
    assert len(index) == 34 + 2_500


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
    index.begin_marking()
    assert not any(index.sweep())


@pytest.mark.parametrize("text", ["a\nb", "a\x00b", "ÿþ", "日本"])
def test_no_text_is_taken_for_a_separator(text: str) -> None:
    index = VersionIndex()
    index.set(text, text, text)
    index.set(text + text, "x", "y")
    assert index.get(text) == (text, text, text)
    assert not index.has(text, "x", "y")
