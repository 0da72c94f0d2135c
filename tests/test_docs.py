"""What the documentation says of the code is so."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def test_each_step_of_the_architecture_names_a_function_that_is_there() -> None:
    steps = re.findall(r"^\| .*\| `(\w+)\.py` \| `([\w.]+)` \|$", ARCHITECTURE, re.MULTILINE)
    assert len(steps) > 10
    for module, path in steps:
        found = import_module(f"kinformer.{module}")
        for name in path.split("."):
            found = getattr(found, name)
        assert callable(found)


def test_each_module_of_the_core_has_a_room() -> None:
    """Those outside the core, such as the command line, have pages of their own."""
    section = ARCHITECTURE.split("## The rooms")[1].split("\n## ")[0]
    rooms = re.findall(r"^\| [\w ]+ \| ((?:`\w+`(?:, )?)+) \|", section, re.MULTILINE)
    named = [module for room in rooms for module in re.findall(r"`(\w+)`", room)]
    assert len(named) == len(set(named)), "a module stands in two rooms"
    there = {path.stem for path in (ROOT / "kinformer").glob("*.py")} - {"__init__", "__main__"}
    tools = {"exceptions", "clock", "brackets", "resync_timer", "cancellation"}
    assert set(named) | tools == there
