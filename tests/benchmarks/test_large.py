"""The measurement of large caches: with few objects it ends, and has every figure that the page quotes."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("psutil")

from benchmarks import large

pytestmark = pytest.mark.process


@pytest.mark.parametrize("part", large.CACHES)
def test_a_cache_has_its_times_stalls_memory_and_the_cost_of_an_event(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "EVENTS", 50)
    figures = {figure.name: figure.value for figure in asyncio.run(large.one_part(part, 300, 0))}
    names = [f"{step}, {what}" for step in ("first list", "relist") for what in ("time", "longest stall")]
    names += ["cache", "gc.collect(), added", "relist, peak", "an event"]
    assert set(figures) == {f"{part}: {name}" for name in names}
    assert all(figures[f"{part}: {name}"] > 0 for name in ("first list, time", "relist, time", "an event"))


@pytest.mark.parametrize("part", large.TOGETHER)
def test_each_of_many_informers_hears_of_its_events(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "EVENTS", 50)
    monkeypatch.setattr(large, "IDLE", 0.1)
    monkeypatch.setattr(large, "TOGETHER", {part: 2 * (number > 0) for part, number in large.TOGETHER.items()})
    figures = {figure.name: figure.value for figure in asyncio.run(large.one_part(part, 0, 5))}
    assert figures[f"{part}: an event"] > 0
    assert figures[f"{part}: memory of one"] > 0
