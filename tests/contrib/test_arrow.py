"""Tables of Apache Arrow from a cache: a column a path, with one type each, for DuckDB and Polars."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kinformer import ConfigError, SharedInformer
from kinformer.derived import mapped
from tests.support.memory_source import MemorySource

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

from kinformer.contrib.arrow import to_arrow  # noqa: E402 - needs pyarrow


@pytest.fixture
async def maps() -> AsyncIterator[SharedInformer]:
    source = MemorySource()
    source.set("a", labels={"app": "web"}, data={"n": 1, "x": 1, "on": True, "odd": 1, "big": 2**70})
    source.set("b", labels={"app": "web"}, data={"n": 2, "x": 0.5, "on": False, "odd": "one"})
    source.set("c", data={"items": [{"image": "i1"}, {"image": "i2"}]})
    async with SharedInformer(source) as informer:
        await informer.wait_synced()
        yield informer


async def test_a_column_has_the_type_of_its_values_and_nulls_where_there_are_none(maps: SharedInformer) -> None:
    paths = ["metadata.name", "metadata.labels['app']", "data.n", "data.x", "data.on", "data.odd", "data.big"]
    table = await to_arrow(maps, [*paths, "data.items[*].image", "data.none"])
    assert {field.name: str(field.type) for field in table.schema} == {
        "name": "string",
        "app": "string",
        "n": "int64",
        "x": "double",
        "on": "bool",
        "odd": "string",
        "big": "string",
        "image": "string",
        "none": "bool",
    }
    rows = {row["name"]: row for row in table.to_pylist()}
    assert rows["a"]["odd"] == "1"
    assert rows["b"] == rows["b"] | {"app": "web", "n": 2, "x": 0.5, "on": False, "odd": "one", "big": None}
    assert rows["a"]["big"] == str(2**70)
    assert rows["c"]["image"] == '["i1","i2"]'


async def test_sql_answers_a_question_about_the_cache(maps: SharedInformer) -> None:
    table = await to_arrow(maps, {"app": "metadata.labels.app", "n": "data.n"})
    answer = duckdb.from_arrow(table).query("maps", "SELECT app, sum(n) FROM maps WHERE app IS NOT NULL GROUP BY app")
    assert answer.fetchall() == [("web", 3)]


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ([], "no path"),
        ("metadata.name", "expected a list"),
        (["metadata.name", "data.name"], "column 'name'"),
        (["spec["], "spec"),
    ],
)
async def test_bad_paths_are_refused(maps: SharedInformer, paths: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        await to_arrow(maps, paths)


async def test_values_without_paths_are_refused(maps: SharedInformer) -> None:
    async with mapped(maps, lambda obj: obj.name) as names:
        await names.wait_synced()
        with pytest.raises(ConfigError, match="such as a str"):
            await to_arrow(names, ["metadata.name"])
