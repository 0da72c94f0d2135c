"""The names on the page on operators exist, and so do the metrics of controllers and queues."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path

import pytest

import kinformer
from kinformer import Controller, Request, SharedInformer
from kinformer.workqueue import RateLimitingQueue
from tests.support.memory_source import MemorySource
from tests.support.metrics_sink import MemoryMetrics

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operators.md").read_text()
METRICS = (DOCS / "metrics.md").read_text()


def test_its_program_is_python_and_imports_what_there_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module == "kinformer":
                assert {alias.name for alias in node.names} <= set(kinformer.__all__)


@pytest.mark.virtual_time
async def test_the_metrics_of_controllers_and_queues_are_those_that_are_exported() -> None:
    async def reconcile(request: Request) -> None:
        return None

    metrics = MemoryMetrics()
    RateLimitingQueue[str](name="q", metrics=metrics)
    async with SharedInformer(MemorySource()) as informer:
        running = asyncio.create_task(Controller(reconcile, metrics=metrics).for_(informer).run())
        await asyncio.sleep(1)
        exported = metrics.names
        running.cancel()
        await asyncio.wait({running})
    sections = [METRICS.split(f"\n## {title}\n")[1].split("\n## ")[0] for title in ("Queues", "Controllers")]
    named = set(re.findall(r"`((?:workqueue|controller_runtime|kinformer)_\w+)`", "".join(sections)))
    assert named == exported
