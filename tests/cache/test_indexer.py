"""Indexes, groups of labels, and rebuilds of a cache.

Internals: the type of a rebuild, and a decoder, since only that makes objects share their labels.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

import pytest

from kinformer import (
    NAMESPACE_INDEX,
    DeletedFinalStateUnknown,
    Indexer,
    KubeObject,
    meta_namespace_index_func,
    meta_namespace_key,
)
from kinformer.cache.rebuild import IndexerRebuild
from kinformer.exceptions import ConfigError, IndexNotFoundError, KeyFuncError
from kinformer.wire.decoder import EntryDecoder
from tests.support.kube import config_map, entry
from tests.support.log_records import Said, message_of, said
from tests.support.reading_threads import reading_threads

BY_NAMESPACE = {NAMESPACE_INDEX: meta_namespace_index_func}


def book(isbn: str, *authors: str, **more: Any) -> dict[str, Any]:
    return {"isbn": isbn, "authors": list(authors), **more}


def library() -> Indexer:
    indexer = Indexer(lambda item: item["isbn"], {"author": lambda item: item["authors"]})
    for item in (book("1", "Gaiman", "Pratchett"), book("2", "Pratchett"), book("3")):
        indexer.add(item)
    return indexer


def found(indexer: Indexer, name: str, value: str) -> list[str]:
    return sorted(item["isbn"] for item in indexer.by_index(name, value))


# --- indexes -----------------------------------------------------------------------------------


def test_objects_are_found_by_each_of_their_values() -> None:
    indexer = library()
    assert found(indexer, "author", "Pratchett") == ["1", "2"]
    assert found(indexer, "author", "Gaiman") == ["1"]
    assert found(indexer, "author", "nobody") == []
    assert indexer.index_keys("author", "Pratchett") == ["1", "2"], "sorted, as in client-go"
    assert indexer.index_keys("author", "nobody") == []
    assert sorted(indexer.index_values("author")) == ["Gaiman", "Pratchett"]


def test_an_update_moves_an_object_from_its_old_values_to_the_new() -> None:
    indexer = library()
    indexer.update(book("1", "Gaiman", "Austen"))
    assert found(indexer, "author", "Pratchett") == ["2"]
    assert found(indexer, "author", "Austen") == ["1"]
    assert indexer.by_index("author", "Gaiman")[0]["authors"] == ["Gaiman", "Austen"], "the new object, not the old"
    indexer.update(book("1"))
    assert sorted(indexer.index_values("author")) == ["Pratchett"], "values that nobody has any more are gone"


def test_a_deleted_object_is_in_no_index_also_when_a_tombstone_says_so() -> None:
    indexer = library()
    indexer.delete(DeletedFinalStateUnknown("1", None))
    indexer.delete(book("2"))
    indexer.delete(book("9"))
    assert indexer.index_values("author") == []
    assert indexer.list_keys() == ["3"]


def test_index_gives_what_shares_a_value_with_an_object_each_once() -> None:
    indexer = library()
    assert sorted(item["isbn"] for item in indexer.index("author", book("x", "Pratchett", "Gaiman"))) == ["1", "2"]
    assert [item["isbn"] for item in indexer.index("author", book("x", "Gaiman"))] == ["1"]
    assert indexer.index("author", book("x")) == []


def test_the_empty_text_is_a_value_like_any_other() -> None:
    indexer = library()
    indexer.add(book("4", ""))
    assert found(indexer, "author", "") == ["4"]


def test_a_value_given_twice_counts_once() -> None:
    indexer = library()
    indexer.add(book("4", "Eco", "Eco"))
    assert found(indexer, "author", "Eco") == ["4"]
    indexer.update(book("4", "Eco"))
    assert found(indexer, "author", "Eco") == ["4"]
    indexer.delete(book("4"))
    assert found(indexer, "author", "Eco") == []


def test_an_unknown_index_is_an_error_that_names_those_there_are() -> None:
    indexer = library()
    for read in (
        lambda: indexer.by_index("titel", "x"),
        lambda: indexer.index("titel", book("1")),
        lambda: indexer.index_keys("titel", "x"),
        lambda: indexer.index_values("titel"),
    ):
        with pytest.raises(IndexNotFoundError, match=r"'titel'.*'author'") as caught:
            read()
        assert isinstance(caught.value, LookupError)


def test_a_function_that_says_something_else_each_time_leaves_nothing_behind() -> None:
    answers = iter("abcdef")
    indexer = Indexer(lambda item: item["isbn"], {"fickle": lambda _: [next(answers)]})
    indexer.add(book("1"))
    indexer.update(book("1"))
    indexer.update(book("1"))
    assert indexer.index_values("fickle") == ["c"]
    indexer.delete(book("1"))
    assert indexer.index_values("fickle") == []


def test_an_object_changed_behind_the_cache_is_still_taken_out_where_it_was_filed() -> None:
    indexer, item = library(), book("5", "Eco")
    indexer.add(item)
    item["authors"] = ["somebody else"]
    indexer.delete(item)
    assert found(indexer, "author", "Eco") == []


def test_a_path_is_an_index_function_too() -> None:
    indexer = Indexer(indexers={"version": "data.v", "tier": "metadata.labels['tier']"})
    indexer.add(entry("a", rv=7, labels={"tier": "web"}))
    indexer.add(config_map("b", rv=7))
    assert indexer.index_keys("version", "7") == ["default/a", "default/b"]
    assert indexer.index_keys("tier", "web") == ["default/a"]
    assert indexer.index_errors == 0
    with pytest.raises(ConfigError):
        Indexer(indexers={"broken": "spec..x"})


def test_the_namespace_index_knows_entries_dicts_and_cluster_scoped_objects() -> None:
    indexer = Indexer(indexers=BY_NAMESPACE)
    indexer.add(entry("a", namespace="shop"))
    indexer.add(config_map("b", namespace="shop", rv=1))
    indexer.add({"metadata": {"name": "node-1"}})
    assert indexer.index_keys("namespace", "shop") == ["shop/a", "shop/b"]
    assert indexer.index_keys("namespace", "") == ["node-1"]


# --- functions that fail -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [lambda item: item["publisher"], lambda item: [item], lambda _: None, lambda _: "text"]
)
def test_an_object_that_an_index_function_cannot_take_is_stored_and_out_of_that_index(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    indexer = Indexer(lambda item: item["isbn"], {"good": lambda item: item["authors"], "bad": wrong})
    indexer.add(book("1", "Austen"))
    assert indexer.get_by_key("1") is not None
    assert found(indexer, "good", "Austen") == ["1"]
    assert indexer.index_values("bad") == []
    assert indexer.index_errors == 1
    assert len(caplog.records) == 1
    assert said(caplog, "index_failed") == [Said("ERROR", "kinformer.indexer", key="1")]
    assert "'bad'" in message_of(caplog, "index_failed")


def test_a_failure_is_counted_each_time_and_logged_once_per_key(caplog: pytest.LogCaptureFixture) -> None:
    indexer = Indexer(lambda item: item["isbn"], {"publisher": lambda item: [item["publisher"]]})
    for isbn in ("1", "2", "1", "1"):
        indexer.update(book(isbn))
    assert indexer.index_errors == 4
    assert len(caplog.records) == 2
    indexer.update(book("1", publisher="Murray"))
    assert found(indexer, "publisher", "Murray") == ["1"]
    indexer.update(book("1"))
    assert found(indexer, "publisher", "Murray") == [], "what cannot be indexed now is not found by what it was"
    assert len(caplog.records) == 3, "it had recovered, so this is news"


def test_index_raises_what_the_function_raises_for_the_object_asked_about() -> None:
    with pytest.raises(KeyError):
        library().index("author", {"isbn": "1"})


# --- indexes that come later -----------------------------------------------------------------------


def test_an_index_that_is_added_later_has_the_objects_that_are_there() -> None:
    indexer = library()
    indexer.add_indexers({"isbn": lambda item: [item["isbn"]]})
    assert found(indexer, "isbn", "2") == ["2"]
    assert indexer.index_names == ("author", "isbn")


def test_added_indexers_are_all_or_nothing_and_the_same_function_again_is_fine() -> None:
    indexer = library()

    def by_length(item: Any) -> list[str]:
        return [str(len(item["authors"]))]

    with pytest.raises(ValueError, match="'author'"):
        indexer.add_indexers({"count": by_length, "author": by_length})
    with pytest.raises(IndexNotFoundError):
        indexer.by_index("count", "1")
    indexer.add_indexers({"count": by_length, "title": "title"})
    indexer.add_indexers({"count": by_length, "title": "title"})
    assert found(indexer, "count", "2") == ["1"]
    with pytest.raises(ValueError, match="'title'"):
        indexer.add_indexers({"title": "subtitle"})
    with pytest.raises(TypeError, match="'none'"):
        indexer.add_indexers({"none": 7})  # type: ignore[dict-item]


def slow(item: Any) -> list[str]:
    end = time.perf_counter() + 0.00005
    while time.perf_counter() < end:
        pass
    return [item["authors"][0]]


def many(count: int = 1000) -> Indexer:
    indexer = Indexer(lambda item: item["isbn"])
    for number in range(count):
        indexer.add(book(str(number), "old"))
    return indexer


async def test_an_index_is_built_in_slices_while_changes_keep_coming() -> None:
    indexer = many()
    build = asyncio.create_task(indexer.build_indexers({"author": slow}))
    steps = 0
    while not build.done():
        steps += 1
        indexer.update(book(str(steps), "new"))
        indexer.delete(book(str(999 - steps)))
        indexer.add(book(f"n{steps}", "new"))
        with pytest.raises(IndexNotFoundError):
            indexer.by_index("author", "old")
        await asyncio.sleep(0)
    await build
    assert steps >= 10, "50 ms of work in slices of 2 ms"
    for value in ("old", "new"):
        expected = sorted(item["isbn"] for item in indexer.list() if item["authors"] == [value])
        assert indexer.index_keys("author", value) == expected
    indexer.update(book("1", "third"))
    assert found(indexer, "author", "third") == ["1"]


async def test_a_build_that_is_cancelled_leaves_nothing_behind_and_can_be_repeated() -> None:
    indexer = many()
    build = asyncio.create_task(indexer.build_indexers({"author": slow}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    build.cancel()
    with pytest.raises(asyncio.CancelledError):
        await build
    assert indexer.index_names == ()
    await asyncio.gather(indexer.build_indexers({"author": slow}), indexer.build_indexers({"author": slow}))
    assert len(indexer.by_index("author", "old")) == 1000
    with pytest.raises(ValueError, match="'author'"):
        await indexer.build_indexers({"author": len})  # type: ignore[dict-item]


async def test_an_index_that_is_needed_at_once_does_not_wait_for_its_build() -> None:
    indexer = many()
    build = asyncio.create_task(indexer.build_indexers({"author": slow}))
    await asyncio.sleep(0)
    indexer.add_indexers({"author": slow})
    assert len(indexer.by_index("author", "old")) == 1000
    await build
    indexer.delete(book("1"))
    assert len(indexer.by_index("author", "old")) == 999


async def test_a_build_and_a_rebuild_at_the_same_time_end_in_the_same_index() -> None:
    indexer = many()
    build = asyncio.create_task(indexer.build_indexers({"author": slow}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rebuild = indexer.rebuild()
    for number in range(0, 1500, 2):
        rebuild.add(book(str(number), "relisted"))
        if number % 100 == 0:
            await asyncio.sleep(0)
    assert not build.done()
    rebuild.commit()
    await build
    assert len(indexer.by_index("author", "relisted")) == 750
    assert indexer.index_values("author") == ["relisted"]


async def test_a_build_that_is_asked_for_during_a_rebuild_starts_when_that_has_ended() -> None:
    indexer = many()
    rebuild = indexer.rebuild()
    rebuild.add(book("1", "relisted"))
    build = asyncio.create_task(indexer.build_indexers({"author": slow}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rebuild.add(book("2", "relisted"))
    rebuild.commit()
    await build
    assert indexer.index_values("author") == ["relisted"]
    assert indexer.index_keys("author", "relisted") == ["1", "2"]


async def rebuilt_in_a_row(indexer: Indexer) -> None:
    """A rebuild for each of two namespaces, the second opened in the step that ends the first."""
    for namespace in ("one", "two"):
        rebuild = indexer.rebuild(namespace)
        for number in range(500):
            rebuild.add(housed(namespace, number, "relisted"))
            if number > 250:
                await asyncio.sleep(0)
        rebuild.commit()


def housed(namespace: str, number: int, author: str) -> Any:
    return {"metadata": {"namespace": namespace, "name": str(number)}, "authors": [author]}


@pytest.mark.parametrize("turns", [0, 2], ids=["before it starts", "amid it"])
async def test_a_build_and_rebuilds_in_a_row_end_in_the_same_index(turns: int) -> None:
    indexer = Indexer()
    indexer.replace([housed(namespace, number, "old") for namespace in ("one", "two") for number in range(500)])
    rebuilds: Any = rebuilt_in_a_row(indexer)
    if not turns:
        rebuilds = asyncio.create_task(rebuilds)
        await asyncio.sleep(0)
    build = asyncio.create_task(indexer.build_indexers({"author": slow}))
    for _ in range(turns):
        await asyncio.sleep(0)
    assert not build.done()
    await rebuilds
    await build
    assert indexer.index_values("author") == ["relisted"]
    assert len(indexer.by_index("author", "relisted")) == 1000


# --- replace and rebuild -----------------------------------------------------------------------------


def test_replace_swaps_objects_and_indexes_together() -> None:
    indexer = library()
    indexer.replace([book("2", "Austen"), book("8", "Pratchett")], "5")
    assert sorted(indexer.list_keys()) == ["2", "8"]
    assert found(indexer, "author", "Pratchett") == ["8"]
    assert sorted(indexer.index_values("author")) == ["Austen", "Pratchett"]
    assert indexer.resource_version == "5"


def test_a_replace_that_fails_changes_nothing_and_blocks_nothing() -> None:
    indexer = library()
    with pytest.raises(KeyFuncError):
        indexer.replace([book("8"), {}], "5")
    assert sorted(indexer.list_keys()) == ["1", "2", "3"]
    assert indexer.resource_version == ""
    indexer.add(book("4"))
    assert len(indexer) == 4


def state(indexer: Indexer) -> Any:
    return (
        {obj.key: obj.resource_version for obj in indexer.list()},
        {value: indexer.index_keys("namespace", value) for value in indexer.index_values("namespace")},
        {value: indexer.index_keys("version", value) for value in indexer.index_values("version")},
        sorted(obj.key for obj in indexer.select(lambda labels: labels.get("app") == "web")),
    )


def cache() -> Indexer:
    indexer = Indexer(indexers={**BY_NAMESPACE, "version": "data.v"})
    for namespace in ("shop", "bank"):
        for name in "abc":
            indexer.add(entry(name, namespace=namespace, labels={"app": "web" if name != "c" else "db"}))
    return indexer


def test_readers_see_the_old_state_whole_until_the_new_one_is_committed() -> None:
    indexer = cache()
    before = state(indexer)
    rebuild = indexer.rebuild()
    rebuild.add(entry("a", namespace="shop", rv=2, labels={"app": "web"}))
    rebuild.add(entry("z", namespace="shop", rv=3, labels={"app": "web"}))
    assert state(indexer) == before
    gone = [obj.key for step in rebuild.sweep() for obj in step]
    assert sorted(gone) == ["bank/a", "bank/b", "bank/c", "shop/b", "shop/c"]
    assert state(indexer) == before
    rebuild.commit()
    assert state(indexer) == (
        {"shop/a": "2", "shop/z": "3"},
        {"shop": ["shop/a", "shop/z"]},
        {"2": ["shop/a"], "3": ["shop/z"]},
        ["shop/a", "shop/z"],
    )


@pytest.mark.parametrize("relists", [False, True])
def test_the_states_of_an_object_share_the_text_of_its_key(relists: bool) -> None:
    indexer = Indexer(indexers=BY_NAMESPACE)
    first = entry("a", rv=1)
    indexer.add(first)
    following = entry("a", rv=2, labels={"app": "web"})
    assert following.key is not first.key
    if relists:
        indexer.replace([following])
    else:
        indexer.advance(following.key, following)
    assert indexer.list() == [following]
    assert following.key is first.key


@pytest.mark.parametrize("relists", [False, True])
def test_an_object_keeps_its_own_key_in_a_cache_with_other_keys(relists: bool) -> None:
    indexer = Indexer(lambda obj: obj["data"]["isbn"])
    indexer.add(entry("a", rv=1, data={"isbn": "1"}))
    following = entry("b", rv=2, data={"isbn": "1"})
    if relists:
        indexer.replace([following])
    else:
        indexer.advance("1", following)
    assert [obj.key for obj in indexer.list()] == ["default/b"]


def test_an_unchanged_object_keeps_its_entry_and_its_index_function_is_not_asked_again() -> None:
    asked: list[str] = []

    def count(obj: KubeObject) -> list[str]:
        asked.append(obj.key)
        return ["x"]

    indexer = Indexer(indexers={"count": count})
    old = entry("a", rv=1)
    indexer.replace([old, entry("b", rv=1)])
    asked.clear()
    same, newer = entry("a", rv=1), entry("b", rv=2)
    rebuild = indexer.rebuild()
    assert rebuild.add(same) is old
    assert rebuild.add(newer).resource_version == "1", "add tells what was there"
    assert rebuild.add(entry("new")) is None
    rebuild.commit()
    assert indexer.get_by_key("default/a") is old
    assert indexer.get_by_key("default/b") is newer
    assert asked == ["default/b", "default/new"]
    assert len(indexer.by_index("count", "x")) == 3


def test_a_rebuild_of_one_namespace_carries_the_others_over() -> None:
    indexer = cache()
    kept = indexer.get_by_key("bank/a")
    rebuild = indexer.rebuild("shop")
    rebuild.add(entry("a", namespace="shop", rv=9))
    assert sorted(obj.key for step in rebuild.sweep() for obj in step) == ["shop/b", "shop/c"]
    rebuild.commit()
    assert sorted(indexer.list_keys()) == ["bank/a", "bank/b", "bank/c", "shop/a"]
    assert indexer.get_by_key("bank/a") is kept
    assert indexer.index_keys("version", "1") == ["bank/a", "bank/b", "bank/c"]
    assert indexer.index_keys("version", "9") == ["shop/a"]
    assert sorted(obj.key for obj in indexer.select(lambda labels: labels.get("app") == "web")) == ["bank/a", "bank/b"]


def test_of_two_items_with_the_same_key_the_last_one_stays() -> None:
    indexer = cache()
    rebuild = indexer.rebuild()
    rebuild.add(entry("a", namespace="shop", rv=5))
    rebuild.add(entry("a", namespace="shop", rv=1, labels={"app": "web"}))
    rebuild.commit()
    assert state(indexer)[0] == {"shop/a": "1"}
    assert indexer.index_keys("version", "1") == ["shop/a"]
    assert indexer.index_values("version") == ["1"]


def test_a_discarded_rebuild_never_was() -> None:
    indexer = cache()
    before = state(indexer)
    rebuild = indexer.rebuild()
    rebuild.add(entry("z", rv=4))
    list(rebuild.sweep())
    rebuild.discard()
    rebuild.discard()
    assert state(indexer) == before
    indexer.add(entry("z", rv=4))
    assert indexer.index_keys("version", "4") == ["default/z"]


def test_a_sweep_that_is_left_half_way_is_finished_by_the_commit_and_then_at_its_end() -> None:
    indexer = Indexer(indexers=BY_NAMESPACE)
    indexer.replace([entry(f"n{number}") for number in range(20_000)])
    rebuild = indexer.rebuild()
    kept = rebuild.add(entry("n7"))
    sweep = rebuild.sweep()
    steps = [next(sweep), next(sweep)]
    assert 0 < sum(map(len, steps)) <= 64, "a step takes out no more than it may stall for"
    rebuild.commit()
    assert indexer.list() == indexer.by_index("namespace", "default") == [kept]
    assert list(sweep) == []


def test_while_a_rebuild_is_open_nobody_else_writes() -> None:
    indexer = cache()
    rebuild = indexer.rebuild()
    for write in (
        lambda: indexer.add(entry("z")),
        lambda: indexer.delete(entry("a")),
        lambda: indexer.replace([]),
        indexer.rebuild,
    ):
        with pytest.raises(RuntimeError, match="open"):
            write()
    rebuild.commit()
    for use in (lambda: rebuild.add(entry("z")), rebuild.commit):
        with pytest.raises(RuntimeError, match="committed"):
            use()
    assert len(indexer) == 0


@pytest.mark.parametrize("swept", [False, True])
def test_an_index_that_is_added_during_a_rebuild_has_the_old_state_and_then_the_new(swept: bool) -> None:
    indexer = cache()
    rebuild = indexer.rebuild()
    rebuild.add(entry("a", namespace="shop", rv=2))
    rebuild.add(entry("b", namespace="shop", rv=1))
    rebuild.add(entry("n", namespace="shop", rv=3))
    if swept:
        list(rebuild.sweep())
    indexer.add_indexers({"rv": lambda obj: [obj.resource_version]})
    assert len(indexer.index_keys("rv", "1")) == 6
    rebuild.commit()
    assert {rv: indexer.index_keys("rv", rv) for rv in sorted(indexer.index_values("rv"))} == {
        "1": ["shop/b"],
        "2": ["shop/a"],
        "3": ["shop/n"],
    }


def fill(rebuild: IndexerRebuild, rv: int, count: int) -> None:
    for number in range(count):
        rebuild.add(entry(f"n{number}", rv=rv))


@pytest.mark.slow
def test_a_relist_is_one_step_for_readers_in_other_threads() -> None:
    """An object that a read by key has found is found by any later read of an index, too."""
    names = [f"i{number}" for number in range(8)]
    indexer = Indexer(indexers={name: lambda obj: ["all"] for name in names})

    def relist(rv: int) -> None:
        indexer.replace([entry(f"n{number}", rv=rv, labels={"app": "web"}) for number in range(20)])

    relist(1)

    def version(objects: Iterable[KubeObject]) -> int:
        versions = {int(obj.resource_version) for obj in objects}
        assert len(versions) == 1, versions
        return versions.pop()

    def read() -> None:
        at_least = int(indexer.get_by_key("default/n0").resource_version)
        for name in names:
            assert version(indexer.by_index(name, "all")) >= at_least, name
        assert version(indexer.select(Asked("web"))) >= at_least
        assert version(indexer.list()) >= at_least

    with reading_threads(read, count=3, switch_interval=1e-6):
        for rv in range(2, 1500):
            relist(rv)


def test_an_object_that_is_listed_twice_hides_none_that_is_gone() -> None:
    """Many keys, so that there are gone and repeated ones in one partition."""
    indexer = Indexer()
    indexer.replace([entry(f"old{number}") for number in range(2000)])
    new = [entry(f"new{number}") for number in range(2000)]
    indexer.replace([obj for obj in new for _ in range(2)])
    assert sorted(indexer.list_keys()) == sorted(obj.key for obj in new)


def test_the_old_objects_go_when_the_caller_lets_them_go_and_not_before() -> None:
    indexer = Indexer(indexers=BY_NAMESPACE)
    rebuild = indexer.rebuild()
    fill(rebuild, 1, 500)
    rebuild.commit()
    old = indexer.get_by_key("default/n0")
    nowhere_else = object()
    alone = sys.getrefcount(nowhere_else)  # from Python 3.14 on a local variable is lent to a call, and not counted
    rebuild = indexer.rebuild()
    fill(rebuild, 2, 500)
    garbage = rebuild.commit()
    gc.collect()
    assert sys.getrefcount(old) > alone
    for _ in garbage:
        pass
    assert sys.getrefcount(old) == alone
    assert len(rebuild_refs(rebuild)) == 0, "a rebuild that somebody still holds keeps no state"


def rebuild_refs(rebuild: IndexerRebuild) -> list[Any]:
    return [obj for obj in gc.get_referents(rebuild) if isinstance(obj, list) and obj]


# --- labels ------------------------------------------------------------------------------------------


def decoded(count: int, sets: int) -> list[KubeObject]:
    decoder = EntryDecoder()
    documents = (
        config_map(f"n{i}", namespace=f"ns-{i % 4}", labels={"app": f"app-{i % sets}", "tier": "web"}, rv=1)
        for i in range(count)
    )
    return [decoder.item(json.dumps(document).encode()) for document in documents]


class Asked:
    """A selector that counts how often it is asked."""

    def __init__(self, app: str) -> None:
        self.app = app
        self.times = 0

    def __call__(self, labels: Any) -> bool:
        self.times += 1
        return labels.get("app") == self.app


def test_a_selector_is_asked_once_per_label_set_and_not_once_per_object() -> None:
    indexer = Indexer(indexers=BY_NAMESPACE)
    indexer.replace(decoded(1000, 10))
    asked = Asked("app-3")
    assert len(indexer.select(asked)) == 100
    assert asked.times == 10


def test_a_selector_within_a_namespace_is_asked_once_per_label_set_too() -> None:
    indexer = Indexer(indexers=BY_NAMESPACE)
    objects = decoded(1000, 10)
    indexer.replace(objects)
    asked = Asked("app-3")
    expected = {obj.key for obj in objects if obj.labels["app"] == "app-3" and obj.namespace == "ns-1"}
    assert expected
    assert {obj.key for obj in indexer.select(asked, "ns-1")} == expected
    assert asked.times <= 10
    small = Indexer(indexers=BY_NAMESPACE)
    small.replace(objects[:20])
    assert {obj.key for obj in small.select(Asked("app-3"), "ns-1")} == {"ns-1/n13"}


def test_an_object_whose_labels_change_moves_to_its_new_group() -> None:
    indexer = Indexer()
    indexer.add(entry("a", labels={"app": "web"}))
    indexer.add(entry("b"))
    indexer.add(entry("c"))
    indexer.update(entry("a", rv=2, labels={"app": "db"}))
    indexer.update(entry("b", rv=2, labels={"app": "db"}))
    indexer.update(entry("c", rv=2))
    assert indexer.select(Asked("web")) == []
    assert sorted(obj.key for obj in indexer.select(Asked("db"))) == ["default/a", "default/b"]
    assert [obj.resource_version for obj in indexer.select(lambda labels: not labels)] == ["2"]
    indexer.delete(entry("a"))
    indexer.delete(entry("c"))
    assert [obj.key for obj in indexer.select(lambda _: True)] == ["default/b"]


def test_objects_of_other_types_are_searched_by_the_labels_they_have_now() -> None:
    indexer = Indexer(indexers=BY_NAMESPACE)
    document = config_map("a", labels={"app": "web"}, rv=1)
    indexer.add(document)
    indexer.add(entry("b", labels={"app": "web"}))
    indexer.add({"metadata": {"name": "bare"}})
    assert len(indexer.select(Asked("web"))) == 2
    assert len(indexer.select(Asked("web"), "default")) == 2
    document["metadata"]["labels"]["app"] = "db"
    assert [meta_namespace_key(obj) for obj in indexer.select(Asked("web"))] == ["default/b"]
    indexer.update(entry("a", labels={"app": "db"}))
    indexer.delete({"metadata": {"name": "bare"}})
    assert [obj.key for obj in indexer.select(Asked("db"))] == ["default/a"]


def test_a_namespace_is_found_without_its_index_too() -> None:
    indexer = Indexer()
    indexer.replace([entry("a", namespace="shop"), entry("b", namespace="bank"), {"metadata": {"name": "node"}}])
    assert [obj.key for obj in indexer.in_namespace("shop")] == ["shop/a"]
    assert indexer.in_namespace("") == [{"metadata": {"name": "node"}}]


def test_readers_in_other_threads_miss_no_object_that_matches_before_and_after() -> None:
    """One object changes its labels all the time, another its index value; each read has to have both."""
    indexer = Indexer(indexers={"color": lambda obj: [obj["data"]["v"], "any"]})
    shapes = [
        [entry("a", rv=rv, labels={"app": "web", "rev": str(rv % 2)}), entry("b", rv=rv, data={"v": str(rv % 2)})]
        for rv in range(1, 40)
    ]
    for obj in shapes[0]:
        indexer.add(obj)

    def read() -> None:
        assert [obj.key for obj in indexer.select(Asked("web"))] == ["default/a"]
        assert len(indexer.by_index("color", "any")) == 2
        indexer.index_values("color")
        indexer.index_keys("color", "any")

    with reading_threads(read):
        for round_ in range(60):
            for pair in shapes:
                for obj in pair:
                    indexer.update(obj)
            if round_ % 10 == 0:
                indexer.replace(shapes[-1])


def test_a_cache_of_entries_is_invisible_to_the_garbage_collector() -> None:
    if sys.version_info >= (3, 14):
        pytest.skip("from 3.14 on every dict is tracked")
    objects = decoded(3000, 30)
    gc.collect()
    before = len(gc.get_objects())
    indexer = Indexer(indexers={**BY_NAMESPACE, "version": "data.v"})
    indexer.replace(objects)
    indexer.select(Asked("app-1"))
    gc.collect()
    gc.collect()
    assert len(gc.get_objects()) - before < 300, "partitions, buckets and groups, not objects"
