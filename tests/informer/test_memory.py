"""Estimates of memory: from a sample, and of the cache of a running informer."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from kinformer import ConfigError, KubeObject, SharedInformer
from kinformer.informer import estimate_memory
from tests.support.memory_source import MemorySource


def pods(count: int, size: int = 2000) -> list[KubeObject]:
    """Pods that are alike, as those of one deployment."""
    return [
        KubeObject.from_dict(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"web-{number}", "namespace": "shop", "uid": f"{number}", "resourceVersion": "1"},
                "spec": {"containers": [{"name": "main", "image": "registry.example/web:1.0", "args": ["x" * size]}]},
            }
        )
        for number in range(count)
    ]


async def test_an_estimate_grows_with_the_objects_and_their_sizes() -> None:
    sample = pods(20)
    one = await estimate_memory(sample, 1)
    assert len(sample[0].raw) < one < len(sample[0].raw) + 1000
    assert await estimate_memory(sample, 1000) == pytest.approx(1000 * one, rel=0.01)
    assert await estimate_memory(sample) == pytest.approx(20 * one, rel=0.01)
    assert await estimate_memory(pods(20, size=4000), 1) > one + 1900
    assert await estimate_memory([], 1000) == 0


async def test_compressed_objects_take_less_and_less_still_with_a_dictionary() -> None:
    sample = pods(300, size=40)
    plain, few, many = (
        await estimate_memory(sample, 900),
        await estimate_memory(sample, 900, compact=True),
        await estimate_memory(sample, 1000, compact=True),
    )
    assert many < few < plain, "a cache of 1,000 objects has a dictionary"


async def test_without_the_extra_an_estimate_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"^compact=True needs " + re.escape(name)):
        await estimate_memory(pods(1), compact=True)


async def test_the_statistics_of_an_informer_have_the_memory_of_its_cache() -> None:
    source = MemorySource()
    for number in range(40):
        source.set(f"web-{number}")
    async with SharedInformer(source) as informer:
        assert informer.statistics().memory == 0
        await informer.wait_synced(5)
        figures = informer.statistics()
        assert figures.memory == await estimate_memory(informer.lister.list())
        assert replace(figures, memory=0) == figures, "an estimate is not compared"
