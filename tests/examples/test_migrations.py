"""The recipes that show a migration show the code of the example that they are about."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.documentation import DOCS, blocks
from tests.examples.example_program import EXAMPLES

PROGRAMS = {
    "event-feed": "event_feed/feed.py",
    "job-watcher": "job_watcher/job_watcher.py",
    "service-discovery": "service_discovery/router.py",
    "sidecar": "config_sidecar/sidecar.py",
    "spawner": "spawner/spawner.py",
}


def definitions(text: str) -> dict[str, str]:
    """The functions and classes of a module, by name, with their decorators."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found[node.name] = "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return found


@pytest.mark.parametrize("recipe", PROGRAMS)
def test_a_recipe_shows_its_example_as_it_is(recipe: str) -> None:
    example = EXAMPLES / PROGRAMS[recipe]
    [block] = [block for block in blocks(DOCS / "recipes" / f"{recipe}.md") if block.file == example.name]
    shown, there = definitions(block.text), definitions(example.read_text(encoding="utf-8"))
    assert len(shown) >= 2
    assert {name: there.get(name) for name in shown} == shown


@pytest.mark.parametrize("recipe", PROGRAMS)
def test_a_recipe_names_its_example_and_shows_what_was_there_before(recipe: str) -> None:
    page = (DOCS / "recipes" / f"{recipe}.md").read_text(encoding="utf-8")
    assert f"examples/{Path(PROGRAMS[recipe]).parent}/" in page
    assert "```python\n# before\n" in page
