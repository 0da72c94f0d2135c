"""The lines of a watch, cut out of chunks.

Internals: the framer itself, since a server cannot be made to cut a chunk at every byte.
"""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer.exceptions import DecodeError
from kinformer.wire.lines import LineFramer


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(bounds)]


def fed(framer: LineFramer, chunk: bytes | bytearray | memoryview) -> list[bytes]:
    return [line for lines in framer.feed(chunk) for line in lines]


LINES = st.lists(st.text(alphabet='a\r \x85\u2028é{"', max_size=12).map(str.encode), max_size=12)


@given(LINES, st.lists(st.integers(0, 500), max_size=20))
def test_lines_are_the_same_however_the_chunks_fall(lines: list[bytes], places: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    framer = LineFramer()
    found = [line for chunk in cut(data, places) for line in fed(framer, chunk)]
    assert found == [kept for line in lines if (kept := line.removesuffix(b"\r"))]
    assert framer.pending == 0


def test_only_a_newline_ends_a_line() -> None:
    line = '{"a":"\x85\u2028\x0b"}'.encode()
    assert fed(LineFramer(), line + b"\r\n" + line + b"\n") == [line, line]


def test_what_has_no_end_is_held_and_counted() -> None:
    framer = LineFramer()
    assert fed(framer, b'one\n{"type":') == [b"one"]
    assert framer.pending == 8
    assert fed(framer, b"2}") == []
    assert framer.pending == 10
    assert fed(framer, b"\n") == [b'{"type":2}']
    assert framer.pending == 0
    assert fed(framer, b"") == []


def test_chunks_may_be_any_kind_of_bytes() -> None:
    framer = LineFramer()
    buffer = bytearray(b"one\ntw")
    lines = fed(framer, memoryview(buffer))
    buffer[:] = b"xxxxxx"
    assert lines == [b"one"]
    assert fed(framer, bytearray(b"o\n")) == [b"two"]


@pytest.mark.parametrize("chunks", [[b"x" * 11 + b"\n"], [b"x" * 6, b"x" * 5], [b"x" * 6, b"xxxxx\n"]])
def test_a_line_above_the_cap_is_an_error_that_names_the_cap(chunks: list[bytes]) -> None:
    framer = LineFramer(10)
    *before, last = chunks
    for chunk in before:
        assert fed(framer, chunk) == []
    with pytest.raises(DecodeError, match="max_event_bytes=10"):
        framer.feed(last)
    assert framer.pending == 0
    with pytest.raises(DecodeError, match="max_event_bytes=10"):
        framer.feed(b"fine\n")


def test_the_cap_itself_is_allowed() -> None:
    framer = LineFramer(10)
    assert fed(framer, b"x" * 10) == []
    assert fed(framer, b"\n") == [b"x" * 10]


def test_lines_before_one_above_the_cap_are_not_lost() -> None:
    framer = LineFramer(10)
    assert fed(framer, b"one\n" + b"x" * 11 + b"\nafter\n") == [b"one"]
    with pytest.raises(DecodeError):
        framer.feed(b"")


def test_a_long_line_in_small_chunks_takes_time_in_proportion() -> None:
    framer = LineFramer()
    began = time.process_time()
    for _ in range(40_000):
        framer.feed(b"x" * 200)
    assert fed(framer, b"\n") == [b"x" * 8_000_000]
    assert time.process_time() - began < 1.0  # joining at each chunk would copy 160 GB
