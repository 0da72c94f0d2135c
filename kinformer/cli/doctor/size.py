"""The last step of `kinformer doctor`: what an informer would hold, and how long its first list takes."""

from __future__ import annotations

import asyncio
import importlib.util
import statistics
import time
from collections.abc import Sequence
from typing import Any

from kinformer.cli.doctor.findings import Report
from kinformer.cli.doctor.resource import Place, Sample
from kinformer.cli.listing import read_page
from kinformer.cli.output.amounts import count, seconds, size
from kinformer.client.client import Client
from kinformer.exceptions import APIError, ConnectError, DecodeError
from kinformer.informer.metrics import OVERHEAD
from kinformer.list_watcher import ListOptions
from kinformer.listwatch.compact import SAMPLES, Compaction
from kinformer.objects.object import KubeObject

__all__ = ["check_sizes"]

_LARGE = 500_000  # bytes of an object: a third of what etcd takes
_MUCH = 1_000_000_000  # bytes of a cache from which on there should be a thought about them
_LONG = 30.0  # seconds of a first list, likewise


async def check_sizes(report: Report, client: Client, place: Place, sample: Sample, timeout: float) -> None:
    """Sizes of the objects, and from them memory and time."""
    if not sample.objects:
        report.ok("objects", "there are none to measure")
        return
    sizes = [len(obj.raw) for obj in sample.objects]
    largest = max(sample.objects, key=lambda obj: len(obj.raw))
    left_out = max(0.0, 1 - sum(sizes) / sample.received) if sample.received else 0.0
    text = (
        f"median {size(statistics.median(sizes))}, largest {size(max(sizes))} ({largest.key}), of {len(sizes):,} "
        f"looked at; {left_out:.0%} of what is sent is managedFields and the like, which is not kept"
    )
    facts = {
        "looked_at": len(sizes),
        "median": statistics.median(sizes),
        "mean": round(statistics.fmean(sizes)),
        "largest": max(sizes),
        "largest_key": largest.key,
        "not_kept": round(left_out, 3),
    }
    if max(sizes) > _LARGE:
        report.warn("objects", text, "etcd takes 1.5 MB at the most, and each change sends all of it", **facts)
    else:
        report.ok("objects", text, **facts)
    await _check_expectation(report, client, place, sample, timeout)


async def _check_expectation(report: Report, client: Client, place: Place, sample: Sample, timeout: float) -> None:
    total = sample.total or len(sample.objects)
    share = total / len(sample.objects)
    memory = _memory([len(obj.raw) for obj in sample.objects], total)
    facts: dict[str, Any] = {
        "objects": total,
        "at_least": sample.total is None,
        "memory": memory,
        "list_seconds": round(sample.seconds * share, 3),
    }
    other = []
    compact = await _compact_memory(sample.objects, total)
    if compact is not None and compact < memory:
        facts["memory_compact"] = compact
        other.append(f"{size(compact)} with compact=True")
    metadata = await _metadata_only(client, place, timeout)
    if metadata is not None:
        facts["memory_metadata_only"] = _memory(metadata[0], total)
        facts["list_seconds_metadata_only"] = round(metadata[1] * total / len(metadata[0]), 3)
        other.append(f"{size(facts['memory_metadata_only'])} with metadata_only=True")
    known = "" if sample.total is not None else " at the least"
    text = (
        f"{count(total, 'object')} in about {size(memory)} of memory{known}"
        f"{' (' + ', '.join(other) + ')' if other else ''}; the first list in about {seconds(facts['list_seconds'])}"
    )
    advice = []
    if memory > _MUCH:
        advice.append("keep less of it: fields=[...], compact=True, metadata_only=True, selectors, or namespaces")
    if facts["list_seconds"] > _LONG:
        advice.append("snapshot=PATH spares most restarts that list")
    if compact is None:
        advice.append("pip install 'kinformer[compact]' to have compact=True measured")
    if memory > _MUCH or facts["list_seconds"] > _LONG:
        report.warn("informer", text, *advice, **facts)
    else:
        report.ok("informer", text, *advice, **facts)


def _memory(sizes: Sequence[int], total: int) -> int:
    return round((statistics.fmean(sizes) + OVERHEAD) * total)


async def _compact_memory(objects: Sequence[KubeObject], total: int) -> int | None:
    """Bytes that all take when they are compressed; None without the library.

    A cache that is large enough trains a dictionary. Half of the sample trains one here, and the other half is
    measured: what a dictionary has seen it knows by heart.
    """
    if importlib.util.find_spec("zstandard") is None:
        return None
    compaction = Compaction()
    measured: Sequence[KubeObject] = objects
    if total >= SAMPLES and len(objects) > 1:
        for obj in objects[::2]:
            compaction.compact(obj)
        await compaction.train()
        measured = objects[1::2]
    return _memory([len(compaction.compact(obj)._data) for obj in measured], total)


async def _metadata_only(client: Client, place: Place, timeout: float) -> tuple[list[int], float] | None:
    """The sizes of a page of metadata, and its seconds; None where it does not come."""
    source = place.source(client, metadata_only=True)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(timeout):
            _, objects = await read_page(source, ListOptions(limit=500))
    except (APIError, ConnectError, DecodeError, TimeoutError):
        return None
    return ([len(obj.raw) for obj in objects], time.perf_counter() - began) if objects else None
