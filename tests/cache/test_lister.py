"""Reads of a cache by name, namespace, selector and index.

Internals: a decoder, since only that makes objects share their labels.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kinformer import NAMESPACE_INDEX, Indexer, LabelSelector, Lister, meta_namespace_index_func
from kinformer.exceptions import IndexNotFoundError, SelectorError
from kinformer.wire.decoder import EntryDecoder
from tests.support.kube import config_map, entry
from tests.support.log_records import Said, message_of, said

BY_NAMESPACE = {NAMESPACE_INDEX: meta_namespace_index_func}


def lister(**options: Any) -> Lister:
    indexer = Indexer(indexers={**BY_NAMESPACE, "version": "data.v"})
    for namespace in ("shop", "bank"):
        for number, tier in enumerate(("web", "web", "db")):
            indexer.add(entry(f"{tier}-{number}", namespace=namespace, rv=number + 1, labels={"tier": tier}))
    return Lister(indexer, **options)


def keys(objects: Any) -> list[str]:
    return sorted(obj.key for obj in objects)


def test_get_finds_an_object_by_name_and_namespace_and_gives_none_where_there_is_none() -> None:
    pods = lister()
    assert pods.get("web-0", namespace="shop").key == "shop/web-0"
    assert pods.get("web-9", namespace="shop") is None
    assert pods.get("web-0", namespace="nowhere") is None


def test_a_name_without_a_namespace_is_an_error_where_the_keys_have_one() -> None:
    with pytest.raises(ValueError, match="namespace"):
        lister().get("web-0")


def test_cluster_scoped_objects_need_no_namespace() -> None:
    nodes = Lister(Indexer(indexers=BY_NAMESPACE))
    assert nodes.get("node-1") is None
    nodes = Lister(Indexer(indexers=BY_NAMESPACE))
    indexer = Indexer(indexers=BY_NAMESPACE)
    indexer.add({"metadata": {"name": "node-1"}})
    nodes = Lister(indexer)
    assert nodes.get("node-1") == {"metadata": {"name": "node-1"}}
    assert nodes.get("node-2") is None
    assert nodes.by_namespace("").get("node-1") is not None


def test_the_cache_of_one_namespace_supplies_it_and_another_may_still_be_named() -> None:
    pods = lister(default_namespace="shop")
    assert pods.get("web-0").key == "shop/web-0"
    assert pods.get("web-9") is None
    assert pods.get("web-0", namespace="bank").key == "bank/web-0"


def test_list_gives_all_or_what_matches_in_all_or_one_namespace() -> None:
    pods = lister()
    assert len(pods.list()) == len(pods) == 6
    assert keys(pods.list("tier=db")) == ["bank/db-2", "shop/db-2"]
    assert keys(pods.list({"tier": "db"}, namespace="shop")) == ["shop/db-2"]
    assert keys(pods.list(LabelSelector.parse("tier in (db), tier != web"))) == ["bank/db-2", "shop/db-2"]
    assert keys(pods.list(namespace="bank")) == ["bank/db-2", "bank/web-0", "bank/web-1"]
    assert pods.list(namespace="nowhere") == []
    assert len(pods.list("")) == len(pods.list({})) == len(pods.list("!nothing")) == 6


def test_a_namespace_has_a_lister_of_its_own() -> None:
    shop = lister().by_namespace("shop")
    assert shop.namespace == "shop"
    assert shop.get("web-0").key == "shop/web-0"
    assert shop.get("web-9") is None
    assert keys(shop.list()) == keys(shop) == ["shop/db-2", "shop/web-0", "shop/web-1"]
    assert keys(shop.list("tier=web")) == ["shop/web-0", "shop/web-1"]
    assert len(shop) == 3
    assert len(lister().by_namespace("").list()) == 6, "the empty namespace is all of them"


def test_indexes_keys_and_iteration_are_those_of_the_cache() -> None:
    pods = lister()
    assert keys(pods.by_index("version", "3")) == ["bank/db-2", "shop/db-2"]
    assert sorted(pods.index_values("version")) == ["1", "2", "3"]
    assert sorted(pods.index_values("namespace")) == ["bank", "shop"]
    assert sorted(pods.keys()) == keys(pods)
    with pytest.raises(IndexNotFoundError, match=r"'node'.*'namespace', 'version'"):
        pods.by_index("node", "x")
    with pytest.raises(IndexNotFoundError):
        pods.index_values("node")


def test_a_selector_that_does_not_parse_says_where() -> None:
    with pytest.raises(SelectorError) as caught:
        lister().list("tier in web")
    assert caught.value.position == 8
    with pytest.raises(SelectorError):
        lister().by_namespace("shop").list({"tier": "not a value"})


def test_an_empty_cache_has_a_lister_that_is_true_and_finds_nothing() -> None:
    empty = Lister(Indexer())
    assert empty
    assert len(empty) == 0
    assert list(empty) == empty.list("a=b") == empty.list(namespace="x") == []
    assert empty.get("x") is None
    assert empty.by_namespace("x")


def test_a_list_is_a_snapshot() -> None:
    indexer = Indexer(indexers=BY_NAMESPACE)
    indexer.add(entry("a"))
    pods = Lister(indexer)
    before = pods.list(namespace="default")
    indexer.update(entry("a", rv=2))
    indexer.add(entry("b"))
    assert [obj.resource_version for obj in before] == ["1"]


def test_a_selector_over_shared_label_sets_is_much_faster_than_asking_each_object() -> None:
    """At 100,000 objects it is more than fifty times; ten times at 20,000 leaves room for a busy machine."""
    decoder = EntryDecoder()
    indexer = Indexer(indexers=BY_NAMESPACE)
    for number in range(20_000):
        document = config_map(f"n{number}", labels={"app": f"app-{number % 200}", "tier": "web"}, rv=1)
        indexer.add(decoder.item(json.dumps(document).encode()))
    pods, selector = Lister(indexer), LabelSelector.parse("app=app-7,tier")

    def best(read: Any) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            assert len(read()) == 100
            times.append(time.perf_counter() - start)
        return min(times)

    scan = best(lambda: [obj for obj in pods.list() if selector.matches(obj.labels)])
    assert best(lambda: pods.list("app=app-7,tier")) < scan / 10


# --- what would mislead -----------------------------------------------------------------------------------------------


def test_a_key_in_a_lister_is_an_error_that_names_the_mapping() -> None:
    pods = lister()
    for view in (pods, pods.by_namespace("shop")):
        with pytest.raises(TypeError, match=r"'shop/web-0' in informer\.by_key"):
            assert "shop/web-0" in view
    assert pods.get("web-0", namespace="shop") in pods
    assert pods.get("web-0", namespace="shop") in pods.by_namespace("shop")
    assert pods.get("web-0", namespace="shop") not in pods.by_namespace("bank")
    assert entry("other", namespace="shop") not in pods
    assert 7 not in pods


def test_a_key_in_the_place_of_a_name_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'shop/web-0' is a key.*get\('web-0', namespace='shop'\)"):
        lister().get("shop/web-0", namespace="shop")
    with pytest.raises(ValueError, match="is a key"):
        lister(default_namespace="shop").get("shop/web-0")


def test_several_namespaces_in_the_place_of_one_are_an_error_that_says_so() -> None:
    pods = lister()
    several: Any = ["shop", "bank"]
    calls = {
        "list": lambda: pods.list(namespace=several),
        "get": lambda: pods.get("web-0", namespace=several),
        "by_namespace": lambda: pods.by_namespace(several),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=rf"{name}: invalid namespace=\['shop', 'bank'\]: expected a string"):
            call()


def test_a_namespace_that_is_read_as_a_selector_is_named_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    indexer = Indexer(indexers=BY_NAMESPACE)
    indexer.add(entry("a", namespace="team-01", labels={"team-02": "x"}))
    indexer.add(entry("b", namespace="team-02"))
    pods = Lister(indexer)
    for _ in range(3):
        assert pods.list("team-01") == []
    assert said(caplog, "namespace_as_selector") == [Said("WARNING", "kinformer.lister")]
    assert "list(namespace='team-01')" in message_of(caplog, "namespace_as_selector")
    assert keys(pods.list("team-02")) == ["team-01/a"]  # a label of that name: it is what it seems
    assert pods.list("team-03") == []
    assert pods.list("app=web") == []
    assert len(caplog.records) == 1


def test_a_lister_says_how_many_objects_it_has() -> None:
    pods = lister()
    assert [repr(pods), repr(pods.by_namespace("shop"))] == ["<Lister of 6 objects>", "<NamespaceLister of 3 objects>"]
