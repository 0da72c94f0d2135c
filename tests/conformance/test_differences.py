"""Known differences are documented, and no transcript is left without its test."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conformance.differences import KNOWN

HERE = Path(__file__).parent


def test_the_documentation_lists_every_known_difference() -> None:
    page = (HERE.parents[1] / "docs" / "testing.md").read_text(encoding="utf-8")
    assert [one.reason for one in KNOWN if one.reason not in page] == []


def test_every_transcript_has_its_test() -> None:
    left = []
    for file in (HERE / "transcripts").rglob("*.jsonl"):
        module = HERE / f"test_{file.parent.name}.py"
        functions = re.findall(r"async def test_(\w+)", module.read_text(encoding="utf-8"))
        if not any(file.stem == name or file.stem.startswith(f"{name}_") for name in functions):
            left.append(f"{file.parent.name}/{file.name}")
    assert left == []
