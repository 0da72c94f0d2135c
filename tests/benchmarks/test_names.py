"""The modules of the benchmarks can be imported, also those that are rarely run."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.tools  # they need what the quick tests do without

FOLDER = Path(__file__).parents[2] / "benchmarks"
MODULES = [
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    for path in sorted(FOLDER.rglob("*.py"))
    if path.name not in ("__init__.py", "__main__.py")
]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_can_be_imported(module: str) -> None:
    if module == "benchmarks.plots" and importlib.util.find_spec("matplotlib") is None:
        pytest.skip("draws with matplotlib")
    import_module(module)
