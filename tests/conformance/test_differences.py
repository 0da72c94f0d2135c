"""Known differences are documented, and no transcript or recording is left without its test."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conformance.differences import KNOWN
from tests.conformance.recorded_differences import known_differences
from tests.conformance.recordings import FOLDER, read

HERE = Path(__file__).parent


def test_the_documentation_lists_every_known_difference() -> None:
    page = (HERE.parents[1] / "docs" / "testing.md").read_text(encoding="utf-8")
    assert [one.reason for one in KNOWN if one.reason not in page] == []


def test_the_documentation_counts_the_tests_that_an_older_server_answers_otherwise() -> None:
    page = (HERE.parents[1] / "docs" / "internals" / "conformance.md").read_text(encoding="utf-8")
    folders = sorted((HERE / "transcripts").glob("1.*"))
    assert folders
    for folder in folders:
        section = page.split(f"\n## {folder.name} beside ")[1].split("\n## ")[0]
        counted = re.findall(r"In\s+(\d+)\s+tests\s+some\s+answers\s+differ", section)
        assert counted == [str(len(list(folder.rglob("*.jsonl"))))], folder.name


def test_every_transcript_has_its_test() -> None:
    left = []
    for file in (HERE / "transcripts").rglob("*.jsonl"):
        module = HERE / f"test_{file.parent.name}.py"
        functions = re.findall(r"async def test_(\w+)", module.read_text(encoding="utf-8"))
        if not any(file.stem == name or file.stem.startswith(f"{name}_") for name in functions):
            left.append(f"{file.parent.name}/{file.name}")
    assert left == []


def test_every_recording_has_its_test_and_every_known_difference_its_case() -> None:
    tests = "".join(file.read_text(encoding="utf-8") for file in HERE.glob("*.py"))
    assert [file.stem for file in FOLDER.glob("*.jsonl") if f'"{file.stem}"' not in tests] == []
    listed = [(by, known.recording, case) for known in known_differences() for by in known.by for case in known.cases]
    assert len(listed) == len(set(listed))
    assert [case for _, recording, case in listed if case not in read(recording)] == []
