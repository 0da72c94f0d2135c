"""The names on the page on operators exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import kinformer
from kinformer import Controller, Request
from kinformer.workqueue import RateLimitingQueue
from tests.support.metrics_sink import MemoryMetrics

PAGE = (Path(__file__).parents[2] / "docs" / "operators.md").read_text()


def test_its_program_is_python_and_imports_what_there_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module == "kinformer":
                assert {alias.name for alias in node.names} <= set(kinformer.__all__)


def test_its_metrics_are_those_that_are_exported() -> None:
    async def reconcile(request: Request) -> None:
        return None

    metrics = MemoryMetrics()
    Controller(reconcile, metrics=metrics)._metrics.open(1, lambda: 0)
    RateLimitingQueue[str](name="q", metrics=metrics)
    section = PAGE.split("\n## Metrics")[1]
    named = set(re.findall(r"`((?:workqueue|controller_runtime|kinformer)_\w+)`", section))
    assert named == metrics.names
