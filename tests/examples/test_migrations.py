"""The recipes that show an example show it as it is: their blocks are excerpts, and each part of one is in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.documentation import DOCS, ROOT, Block, blocks

RECIPES = {
    "event-feed": "examples/event_feed/feed.py",
    "job-watcher": "examples/job_watcher/job_watcher.py",
    "service-discovery": "examples/service_discovery/router.py",
    "sidecar": "examples/config_sidecar/sidecar.py",
    "spawner": "examples/spawner/spawner.py",
}


def excerpts(recipe: str) -> Iterator[tuple[str, Block]]:
    """The blocks of a recipe that are excerpts, each with the path of its file."""
    for block in blocks(DOCS / "recipes" / f"{recipe}.md"):
        if block.not_run.startswith("an excerpt of "):
            yield block.not_run.removeprefix("an excerpt of "), block


def parts(text: str) -> list[str]:
    """The parts of an excerpt: between them are lines that are `# ...`."""
    return [part.strip("\n") for part in re.split(r"^ *# \.\.\.$", text, flags=re.MULTILINE)]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_shows_its_example_as_it_is(recipe: str) -> None:
    found = list(excerpts(recipe))
    assert {path for path, _ in found} == {RECIPES[recipe]}
    for path, block in found:
        program = (ROOT / path).read_text(encoding="utf-8")
        strange = [part for part in parts(block.text) if part and f"\n{part}\n" not in program]
        assert strange == [], f"{block.where}: not in {path}"


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_leads_to_its_example(recipe: str) -> None:
    page = (DOCS / "recipes" / f"{recipe}.md").read_text(encoding="utf-8")
    assert f"](../../{RECIPES[recipe]})" in page


def test_a_line_that_the_example_does_not_have_is_found() -> None:
    assert parts("a\n# ...\n\n    b\n    # ...\nc\n") == ["a", "    b", "c"]
