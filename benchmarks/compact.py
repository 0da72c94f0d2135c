"""What `compact`, `fields` and `metadata_only` make of a cache: memory over the JSON received, CPU, and reads.

Each way of keeping objects is measured in a process of its own, so that none inherits the memory of another.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.data import KINDS
from benchmarks.harness import Figure, loads_us, resident, run, serving, stay_on_one_core
from kinformer import Client, SharedInformerFactory

OBJECTS = 100_000
FIELDS = ("spec.nodeName", "status.phase", "status.podIP")
WAYS: dict[str, dict[str, Any]] = {"default": {}, "compact": {"compact": True}, "fields": {"fields": FIELDS}}
LIMITS = {"default": 0.80, "compact": 0.30, "fields": 0.08}


async def one_way(url: str, way: str) -> dict[str, float]:
    """Sync one cache, and look at it."""
    data = KINDS["pods"]
    async with Client.from_url(url) as client:
        async with SharedInformerFactory(client, watch_list=False) as factory:
            # Caches and pools of the transport, and modules, are not part of the figure: fill them first.
            factory.for_resource(data.resource, field_selector="warm=up", **{**WAYS[way], "compact": False})
            await factory.wait_for_cache_sync(timeout=120)
        del factory  # and its cache
        before = resident()
        async with SharedInformerFactory(client, watch_list=False) as factory:
            informer = factory.for_resource(data.resource, **WAYS[way])
            began = time.process_time()
            await factory.wait_for_cache_sync(timeout=300)
            cost = (time.process_time() - began) / OBJECTS * 1e6
            cache = resident() - before
            objects = informer.lister.list()[:2000]
            began = time.process_time()
            for obj in objects:
                obj.path("spec.nodeName")
            read = (time.process_time() - began) / len(objects) * 1e6
            assert len(informer.lister) == OBJECTS
    return {"cache": cache, "cost": cost, "read": read}


def _in_a_process(url: str, way: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.compact", "--url", url, "--way", way]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parent.parent)
    result: dict[str, float] = json.loads(done.stdout)
    return result


async def measure() -> list[Figure]:
    data = KINDS["pods"]
    items = [data.item(index) for index in range(OBJECTS)]
    received = sum(len(item) + 1 for item in items)
    reference = loads_us(items[:3000])
    del items
    figures: list[Figure] = []
    async with serving("pods", OBJECTS) as url:
        for way in WAYS:
            seen = await asyncio.to_thread(_in_a_process, url, way)
            text = (
                f"{received / 1e6:.0f} MB of JSON became {seen['cache'] / 1e6:.0f} MB, "
                f"{seen['cache'] / OBJECTS:.0f} bytes an object; CPU {seen['cost']:.0f} us an object "
                f"(orjson.loads {reference:.0f} us), a read of one path {seen['read']:.1f} us"
            )
            value = seen["cache"] / received
            figures.append(
                Figure(
                    f"cache, {way}",
                    value,
                    "bytes per byte of JSON",
                    [],
                    limit=LIMITS[way],
                    reference=text,
                    details=seen,
                )
            )
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", help="(of its own child process) the server")
    parser.add_argument("--way", choices=sorted(WAYS))
    options = parser.parse_args()
    if options.url:
        stay_on_one_core()
        print(json.dumps(asyncio.run(one_way(options.url, options.way))))
        sys.exit(0)
    sys.exit(run("compact", measure))
