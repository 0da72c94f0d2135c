"""Each dependency has its reason in the documentation, with its bound; and nothing else is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "support.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OF_EXTRAS = PROJECT["optional-dependencies"]
NEEDED = [*PROJECT["dependencies"], *(one for needed in OF_EXTRAS.values() for one in needed)]

MODULES = {
    "pyyaml": "yaml",
    "prometheus-client": "prometheus_client",
    "pyarrow": "pyarrow",
    "opentelemetry-api": "opentelemetry",
    "time-machine": "time_machine",
}
MODULES |= {"kubernetes-asyncio": "kubernetes_asyncio", "pytest-asyncio": "pytest_asyncio"}
MODULES |= {"backports.zstd": "backports"}
COME_WITH = {"yarl": "aiohttp", "multidict": "aiohttp", "starlette": "fastapi", "click": "typer"}


def requirements(section: str) -> dict[str, set[str]]:
    """Each requirement that a section of the page names, with the extras in its row ("" if there are none)."""
    text = PAGE.split(f"\n### {section}\n")[1].split("\n##")[0]
    found: dict[str, set[str]] = {}
    for row in re.findall(r"^\| (.*) \|$", text, re.MULTILINE):
        cells = row.split(" | ")
        first = set(re.findall(r"`([^`]+)`", cells[0]))
        if len(first) == 1 and ">=" in "".join(first):
            found.setdefault(first.pop(), set()).add("")
        elif len(cells) > 1 and (named := re.fullmatch(r"`([^`]+)`", cells[1])):
            found.setdefault(named[1], set()).update(first)
    return found


def without_marker(requirement: str) -> str:
    return requirement.split(";")[0].strip()


def test_each_dependency_has_its_reason_and_its_bound_on_the_page() -> None:
    assert set(requirements("Always installed")) == set(PROJECT["dependencies"])


def test_each_extra_has_its_reasons_and_bounds_on_the_page() -> None:
    wanted: dict[str, set[str]] = {}
    for extra, needed in OF_EXTRAS.items():
        for requirement in needed:
            wanted.setdefault(without_marker(requirement), set()).add(extra)
    assert requirements("Extras") == wanted


def test_each_requirement_has_a_lower_bound_and_no_upper_one() -> None:
    assert [one for one in NEEDED if not re.fullmatch(r"[\w.-]+>=[\d.]+", without_marker(one))] == []


def test_what_is_imported_is_a_dependency_or_comes_with_one() -> None:
    names = {without_marker(one).split(">=")[0] for one in NEEDED}
    known = {MODULES.get(name, name) for name in names}
    for module, owner in COME_WITH.items():
        assert owner in known, f"{module} comes with {owner}"
    imported = set()
    for file in (ROOT / "kinformer").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        checked = [
            node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        ]
        for_checkers = {id(inner) for node in checked for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if id(node) in for_checkers:
                continue
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    others = imported - set(sys.stdlib_module_names) - {"kinformer", "__future__"}
    assert others - known - set(COME_WITH) == set()
    assert others >= {"aiohttp", "msgspec", "anyio", "yaml", "kubernetes_asyncio"}
