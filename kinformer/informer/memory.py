"""Estimates of the memory that cached objects take, based on a sample of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kinformer.cache.indexer import Indexer
from kinformer.listwatch.compact import SAMPLES, Compaction
from kinformer.objects.object import KubeObject

__all__ = ["cache_memory", "estimate_memory"]

_SAMPLE = 512  # the most objects of a cache that an estimate examines
_OVERHEAD = 300  # bytes per object besides its JSON: the entry, its key and uid, its places in the cache and an index


def cache_memory(indexer: Indexer) -> int:
    """Return the bytes that the objects of a cache take, estimated from a sample."""
    return _extrapolated(indexer.sample(_SAMPLE), len(indexer))


async def estimate_memory(objects: Sequence[KubeObject], count: int | None = None, *, compact: bool = False) -> int:
    """Estimate the bytes that an informer's cache would take, from a sample of its objects.

    ::

        pods = informer.lister.list()  # of one namespace
        print(await estimate_memory(pods, count=100_000), "bytes for 100,000 pods")

    Args:
        objects: A sample, in the form that the cache would hold: after a transform, without managedFields.
        count: The number of objects in the cache. By default, the size of the sample.
        compact: Estimate for `compact=True`. A cache of a thousand objects or more trains a dictionary. For such a
            cache, half of the sample trains one, in a worker thread, and the other half is measured, because a
            dictionary compresses the data that it was trained on too well.

    Raises:
        ConfigError: `compact` needs zstd, which comes with Python 3.14 or with `kinformer[compact]`.
    """
    total = len(objects) if count is None else count
    if not compact:
        return _extrapolated(objects, total)
    compaction = Compaction()
    measured = objects
    if total >= SAMPLES and len(objects) > 1:
        for obj in objects[::2]:
            compaction.compact(obj)
        await compaction.train()
        measured = objects[1::2]
    return _extrapolated([compaction.compact(obj) for obj in measured], total)


def _extrapolated(objects: Iterable[KubeObject], count: int) -> int:
    sizes = [len(obj._data) for obj in objects]
    return round((sum(sizes) / len(sizes) + _OVERHEAD) * count) if sizes else 0
