"""The statements of the documentation about the code are true."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def test_each_step_of_the_architecture_names_a_function_that_is_there() -> None:
    steps = re.findall(r"^\| .*\| `([\w/]+)\.py` \| `([\w.]+)` \|$", ARCHITECTURE, re.MULTILINE)
    assert len(steps) > 10
    for module, path in steps:
        found = import_module(f"kinformer.{module.replace('/', '.')}")
        for name in path.split("."):
            found = getattr(found, name)
        assert callable(found)


def test_each_package_of_the_core_is_described() -> None:
    """Those outside the core, such as the command line, have pages of their own."""
    section = ARCHITECTURE.split("## The packages, in reading order")[1].split("\n## ")[0]
    described = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    packages = {path.parent.name for path in (ROOT / "kinformer").glob("*/__init__.py")}
    assert described == packages - {"cli", "contrib", "testing"}


def test_the_floors_are_those_of_the_contract() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = tools["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract.get("containers") == ["kinformer"]]
    section = ARCHITECTURE.split("## Floors")[1].split("\n## ")[0]
    assert section.split("```")[1].strip().splitlines() == layers
