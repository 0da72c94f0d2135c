from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kinformer import DeletedFinalStateUnknown, Store
from kinformer.exceptions import KeyFuncError
from tests.support.kube import config_map, entry
from tests.support.reading_threads import reading_threads


@dataclass
class Book:
    isbn: str
    title: str = ""


def books() -> Store:
    store = Store(lambda book: book.isbn)
    store.add(Book("1", "Emma"))
    store.add(Book("2", "Persuasion"))
    return store


def test_an_object_that_was_added_is_found_by_its_key_and_by_itself() -> None:
    store = books()
    assert store.get_by_key("1") == Book("1", "Emma")
    assert store.get(Book("1")) == Book("1", "Emma")
    assert store.get_by_key("3") is None
    assert store.get(Book("3")) is None


def test_add_and_update_both_put_the_object_in_whatever_was_there() -> None:
    store = books()
    store.add(Book("1", "Sanditon"))
    store.update(Book("3", "Mansfield Park"))
    assert sorted(book.title for book in store.list()) == ["Mansfield Park", "Persuasion", "Sanditon"]


def test_the_length_iteration_and_membership_of_a_store_are_those_of_its_objects() -> None:
    store = books()
    assert len(store) == 2
    assert sorted(book.isbn for book in store) == ["1", "2"]
    assert "1" in store
    assert "3" not in store
    assert bool(Store(str)), "an empty store is no missing store"


def test_delete_takes_an_object_or_a_tombstone_and_does_not_mind_one_that_is_not_there() -> None:
    store = books()
    store.delete(Book("1"))
    store.delete(DeletedFinalStateUnknown("2", None))
    store.delete(Book("3"))
    assert store.list() == []


def test_what_list_gives_is_a_snapshot_that_later_changes_do_not_reach() -> None:
    store = books()
    objects, keys = store.list(), store.list_keys()
    store.replace([])
    assert len(objects) == 2
    assert sorted(keys) == ["1", "2"]


def test_replace_leaves_exactly_the_items_and_the_last_of_equal_keys() -> None:
    store = books()
    store.replace([Book("2", "first"), Book("7", "seven"), Book("2", "last")], "42")
    assert {book.isbn: book.title for book in store.list()} == {"2": "last", "7": "seven"}
    assert store.resource_version == "42"
    store.bookmark("43")
    assert store.resource_version == "43"


def test_a_replace_with_an_item_without_a_key_changes_nothing() -> None:
    store = books()
    with pytest.raises(KeyFuncError):
        store.replace([Book("9"), object()], "42")
    assert sorted(store.list_keys()) == ["1", "2"]
    assert store.resource_version == ""


@pytest.mark.parametrize("write", ["add", "update", "delete", "get"])
def test_a_failing_key_function_is_named_with_its_object_and_cause(write: str) -> None:
    store, wrong = books(), object()
    with pytest.raises(KeyFuncError, match="type object") as caught:
        getattr(store, write)(wrong)
    assert caught.value.object is wrong
    assert isinstance(caught.value.__cause__, AttributeError)
    assert len(store) == 2


@pytest.mark.parametrize("key", [None, "", 7])
def test_a_key_that_is_no_text_is_a_failure_of_the_key_function(key: Any) -> None:
    with pytest.raises(KeyFuncError, match="no key"):
        Store(lambda _: key).add("x")


def test_the_default_key_is_namespace_and_name() -> None:
    store = Store()
    store.add(config_map("web", namespace="shop", rv=1))
    store.add(entry("db", namespace="shop"))
    assert sorted(store.list_keys()) == ["shop/db", "shop/web"]
    assert store.any_key() in {"shop/db", "shop/web"}
    assert Store().any_key() is None


def test_a_resync_changes_nothing() -> None:
    store = books()
    store.resync()
    assert len(store) == 2


def test_readers_in_other_threads_always_see_a_state_of_one_moment() -> None:
    """The writer keeps the total at 1000 or 1001 (in before out); a torn copy would show another."""
    store = Store(lambda number: str(number))
    for number in range(1000):
        store.add(number)

    def read() -> None:
        objects = store.list()
        assert len(objects) in (1000, 1001)
        assert len(set(objects)) == len(objects)

    with reading_threads(read):
        for number in range(4000):
            store.add(number + 1000)
            store.delete(number)
