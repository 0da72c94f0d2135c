"""The last steps of `kinformer doctor`: the sizes of objects, and the memory and time of an informer."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from kinformer import APIError, Client, ConfigError, ConnectError, KubeObject, ListOptions
from kinformer.cli.doctor.findings import Report
from kinformer.cli.doctor.resource import Place, Sample, read_page
from kinformer.cli.output.amounts import count, seconds, size
from kinformer.exceptions import DecodeError
from kinformer.informer import estimate_memory

__all__ = ["check_sizes"]

_LARGE = 500_000  # bytes of an object that cause a warning, a third of etcd's limit
_MUCH = 1_000_000_000  # bytes of a cache that cause a warning
_LONG = 30.0  # seconds of a first list that cause a warning


async def check_sizes(report: Report, client: Client, place: Place, sample: Sample, timeout: float) -> None:
    """Measure the objects, and estimate memory and time from them."""
    if not sample.objects:
        report.ok("objects", "no objects to measure")
        return
    sizes = [len(obj.raw) for obj in sample.objects]
    largest = max(sample.objects, key=lambda obj: len(obj.raw))
    left_out = max(0.0, 1 - sum(sizes) / sample.received) if sample.received else 0.0
    message = (
        f"median {size(statistics.median(sizes))}, largest {size(max(sizes))} ({largest.key}), of {len(sizes):,} "
        f"objects measured; {left_out:.0%} of the bytes sent are managedFields and the like, which are not kept"
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
        report.warn("objects", message, "etcd accepts 1.5 MB at most, and each change sends the whole object", **facts)
    else:
        report.ok("objects", message, **facts)
    await _check_expectation(report, client, place, sample, timeout)


async def _check_expectation(report: Report, client: Client, place: Place, sample: Sample, timeout: float) -> None:
    total = sample.total or len(sample.objects)
    share = total / len(sample.objects)
    memory = await estimate_memory(sample.objects, total)
    facts: dict[str, Any] = {
        "objects": total,
        "at_least": sample.total is None,
        "memory": memory,
        "list_seconds": round(sample.seconds * share, 3),
    }
    other = []
    try:
        compact = await estimate_memory(sample.objects, total, compact=True)
    except ConfigError:  # backports.zstd is not installed
        compact = None
    if compact is not None and compact < memory:
        facts["memory_compact"] = compact
        other.append(f"{size(compact)} with compact=True")
    metadata = await _metadata_only(client, place, timeout)
    if metadata is not None:
        objects, took = metadata
        facts["memory_metadata_only"] = await estimate_memory(objects, total)
        facts["list_seconds_metadata_only"] = round(took * total / len(objects), 3)
        other.append(f"{size(facts['memory_metadata_only'])} with metadata_only=True")
    bound = "" if sample.total is not None else " at least"
    message = (
        f"{count(total, 'object')} in about {size(memory)} of memory{bound}"
        f"{' (' + ', '.join(other) + ')' if other else ''}; the first list in about {seconds(facts['list_seconds'])}"
    )
    advice = []
    if memory > _MUCH:
        advice.append("keep less of it: fields=[...], compact=True, metadata_only=True, selectors, or namespaces")
    if facts["list_seconds"] > _LONG:
        advice.append("snapshot=PATH avoids the list at most restarts")
    if compact is None:
        advice.append("pip install 'kinformer[compact]' to measure compact=True too")
    if memory > _MUCH or facts["list_seconds"] > _LONG:
        report.warn("informer", message, *advice, **facts)
    else:
        report.ok("informer", message, *advice, **facts)


async def _metadata_only(client: Client, place: Place, timeout: float) -> tuple[list[KubeObject], float] | None:
    """Return a page of metadata and its duration in seconds, or None if it cannot be listed."""
    source = place.source(client, metadata_only=True)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(timeout):
            _, objects = await read_page(source, ListOptions(limit=500))
    except (APIError, ConnectError, DecodeError, TimeoutError):
        return None
    return (objects, time.perf_counter() - began) if objects else None
