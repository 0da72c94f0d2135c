"""Pages of a cache for web pages: sorted by a path, by a cursor that never expires, without holding the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import ConfigError, SharedInformer
from kinformer.derived import mapped
from tests.support.memory_source import MemorySource
from tests.support.virtual_time import VirtualTimeLoop


async def all_pages(collection: Any, **options: Any) -> list[Any]:
    """Read page after page, and return the objects of all."""
    found: list[Any] = []
    after: str | None = None
    while True:
        page = await collection.page(after=after, **options)
        assert len(page.items) <= options["limit"]
        found += page.items
        after = page.next
        if after is None:
            return found


VALUES = st.one_of(st.none(), st.integers(-5, 5), st.sampled_from(["", "a", "b", "10"]), st.booleans())


@pytest.mark.slow
@given(st.lists(VALUES, max_size=30), st.integers(1, 7), st.booleans())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_pages_together_are_the_sorted_cache(values: list[Any], limit: int, descends: bool) -> None:
    async def check() -> None:
        source = MemorySource()
        for number, value in enumerate(values):
            source.set(f"m{number}", data={"rank": value})
        async with SharedInformer(source) as informer:
            await informer.wait_synced()
            found = await all_pages(informer, sort="-data.rank" if descends else "data.rank", limit=limit)
            assert {obj.key for obj in found} == set(source.objects)
            assert len(found) == len(values)

            def order(obj: Any) -> tuple[int, Any, str]:
                rank = obj.path("data.rank")
                return (0, 0, obj.key) if rank is None else (2 if isinstance(rank, str) else 1, rank, obj.key)

            assert [obj.key for obj in found] == [obj.key for obj in sorted(found, key=order, reverse=descends)]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(check())


async def test_a_page_counts_what_meets_the_condition_on_all_pages() -> None:
    source = MemorySource()
    for number in range(10):
        source.set(f"m{number}", labels={"even": str(number % 2 == 0)})
    async with SharedInformer(source) as informer:
        await informer.wait_synced()
        page = await informer.page(where=lambda obj: obj.labels["even"] == "True", limit=3)
        assert ([obj.name for obj in page.items], page.total) == (["m0", "m2", "m4"], 5)
        source.delete("m4")  # the last one of the page: the cursor is its place
        source.set("m5", labels={"even": "True"})
        await asyncio.sleep(0.05)
        page = await informer.page(where=lambda obj: obj.labels["even"] == "True", limit=3, after=page.next)
        assert ([obj.name for obj in page.items], page.total, page.next) == (["m5", "m6", "m8"], 5, None)


async def test_values_of_a_derived_collection_are_sorted_by_a_function() -> None:
    source = MemorySource()
    for name in "bca":
        source.set(name)
    async with SharedInformer(source) as informer, mapped(informer, lambda obj: obj.name * 2) as names:
        await names.wait_synced()
        assert await all_pages(names, sort=lambda value: value, limit=2) == ["aa", "bb", "cc"]
        with pytest.raises(ConfigError, match="pass a function as sort="):
            await names.page()


async def test_other_tasks_run_while_a_long_cache_is_sorted() -> None:
    source = MemorySource()
    for number in range(5000):
        source.set(f"m{number}")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with SharedInformer(source) as informer:
        await informer.wait_synced()
        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        before = turns
        page = await informer.page(sort="data.v", limit=20)
        assert (len(page.items), page.total) == (20, 5000)
        assert turns - before > 3
        counting.cancel()
        await asyncio.wait([counting])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limit": 0}, "limit=0"),
        ({"sort": "metadata["}, "metadata"),
        ({"after": "nonsense!"}, "after='nonsense!'"),
        ({"after": "WzEsImEiLCJiIl0"}, "after="),
    ],
)
async def test_a_bad_argument_is_named(options: dict[str, Any], words: str) -> None:
    async with SharedInformer(MemorySource()) as informer:
        await informer.wait_synced()
        with pytest.raises(ConfigError, match=words):
            await informer.page(**options)
