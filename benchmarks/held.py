"""Memory of one pod of 8 KB in the form in which a program holds it: JSON decoded, or the objects of other clients.

The memory of kinformer's own caches is in `benchmarks.compact`: of a running informer, with its indexes. These here are
held in a plain list, and nothing else of their client is running. Each form has a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import KINDS
from benchmarks.harness import Figure, resident, run
from benchmarks.peers import is_installed

PODS = 2_000
FEW = 300  # of those that are large and slow to make
WARM = 50  # made and let go before the memory is looked at: models, caches of strings
Decode = Callable[[bytes], Any]


def orjson_dict() -> Decode:
    import orjson

    return orjson.loads


def json_dict() -> Decode:
    return json.loads


def lightkube_pod() -> Decode:
    from lightkube.resources.core_v1 import Pod

    return lambda line: Pod.from_dict(json.loads(line))


class _Answer:
    """As much of an HTTP answer as a deserializer looks at."""

    def __init__(self, data: str) -> None:
        self.data = data


def kubernetes_asyncio_pod() -> Decode:
    from kubernetes_asyncio.client import ApiClient, Configuration

    client: Any = ApiClient.__new__(ApiClient)  # without its session, which wants a loop
    client.configuration = Configuration(host="http://127.0.0.1")
    return lambda line: client.deserialize(_Answer(line.decode()), "V1Pod")


def kubernetes_pod() -> Decode:
    from kubernetes.client import V1Pod

    return lambda line: V1Pod.from_dict(json.loads(line))


def kr8s_pod() -> Decode:
    from kr8s.asyncio.objects import Pod

    no_api: Any = object()
    return lambda line: Pod(json.loads(line), api=no_api)


FORMS: dict[str, tuple[Callable[[], Decode], int]] = {
    "dict, orjson": (orjson_dict, PODS),
    "dict, json": (json_dict, PODS),
    "lightkube, Pod": (lightkube_pod, PODS),
    "kubernetes_asyncio, V1Pod": (kubernetes_asyncio_pod, PODS),
    "kubernetes, V1Pod": (kubernetes_pod, FEW),
    "kr8s, Pod": (kr8s_pod, FEW),
}


def bytes_each(form: str) -> float:
    """Make so many, hold them, and look at the memory of this process."""
    make, count = FORMS[form]
    decode = make()
    data = KINDS["pods"]
    lines = [b"{%b,%b" % (data.head, data.item(index)[1:]) for index in range(count + WARM)]
    for line in lines[count:]:
        decode(line)
    gc.collect()
    before = resident()
    held = [decode(line) for line in lines[:count]]
    return (resident() - before) / len(held)


def _in_a_process(form: str) -> float:
    command = [sys.executable, "-m", "benchmarks.held", "--form", form]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parent.parent)
    return float(done.stdout)


async def measure() -> list[Figure]:
    data = KINDS["pods"]
    received = sum(len(data.item(index)) + 1 for index in range(PODS)) / PODS
    figures = []
    for form in FORMS:
        if not is_installed(form) and not form.startswith("dict"):
            print(f"  {form}: not installed")
            continue
        each = await asyncio.to_thread(_in_a_process, form)
        text = f"{each / 1e3:.1f} KB for a pod of {received / 1e3:.1f} KB of JSON"
        details = {"form": form, "bytes": each}
        figures.append(Figure(form, each / received, "bytes per byte of JSON", [], reference=text, details=details))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Memory of a pod in the form in which a program holds it.")
    parser.add_argument("--form", choices=FORMS, help="(of its own child process)")
    options = parser.parse_args()
    if options.form:
        print(bytes_each(options.form))
        sys.exit(0)
    sys.exit(run("held", measure))
