"""A row of objects in chunks: in order, whole, unknown to the garbage collector, and gone as it is read.

Internals: the list itself.
"""

from __future__ import annotations

import gc
import weakref
from itertools import chain

from kinformer._runtime.chunks import ChunkedList
from tests.support.interpreter import FREE_THREADED


class Thing:
    pass


def test_what_was_added_comes_out_in_order_and_as_often_as_it_is_asked_for() -> None:
    chunks: ChunkedList[int] = ChunkedList(
        [{number: number for number in row} for row in (range(3), (), range(3, 700))]
    )
    for number in range(700, 1000):
        chunks.append(number)
    chunks.add(range(1000, 1900))
    chunks.add([])
    chunks.add([1900])
    chunks.add_table({"last": 1901})
    assert len(chunks) == 1902
    assert list(chunks) == list(chunks) == list(range(1902))
    assert list(chunks.drain()) == list(range(1902))
    assert len(chunks) == 0
    assert list(chunks) == []
    chunks.append(1)
    assert list(chunks) == [1], "it may be filled again"


def test_an_empty_row_has_nothing() -> None:
    assert list(ChunkedList()) == list(ChunkedList([])) == list(ChunkedList().drain()) == []


def test_it_may_be_read_while_others_read_and_still_be_added_to_before() -> None:
    chunks: ChunkedList[int] = ChunkedList()
    chunks.add(range(10))
    first = iter(chunks)
    assert next(first) == 0
    assert list(chunks) == list(range(10))
    assert list(first) == list(range(1, 10))


def test_objects_are_free_when_the_last_reader_has_passed_them() -> None:
    things = [Thing() for _ in range(2000)]
    alive = [weakref.ref(thing) for thing in things]
    chunks: ChunkedList[Thing] = ChunkedList()
    chunks.add(things[:1000])
    chunks.add(things[1000:])
    del things
    one, other = iter(chunks), chunks.drain()
    for _ in range(1500):
        next(one)
    assert all(ref() is not None for ref in alive), "the other reader has not passed them"
    for _ in range(1500):
        next(other)
    assert all(ref() is None for ref in alive[:1000])
    del one, other
    assert all(ref() is None for ref in alive)


def test_a_long_row_is_freed_without_recursion_and_hides_from_the_collector() -> None:
    chunks: ChunkedList[str] = ChunkedList({"key": "text"} for _ in range(200_000))
    chunks.drain()
    for number in range(100_000):
        chunks.append(f"one of many: {number}")
    every = iter(chunks)
    gc.collect(0)  # which a program does every 700 containers or so; it looks at each chunk once
    known = [held for held in gc.get_objects() if type(held) in (dict, list, tuple) and len(held) > 200]
    values = chain.from_iterable(held.values() if isinstance(held, dict) else held for held in known)
    if not FREE_THREADED:  # without the GIL the collector visits every tuple, whatever is in it
        assert not [value for value in values if type(value) is str and value == "one of many: 1000"]
    assert sum(1 for _ in every) == 100_000
