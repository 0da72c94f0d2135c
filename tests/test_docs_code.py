"""Every block of Python in the documentation runs, on an embedded API server, and every command in it is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documentation import ROOT, Block, blocks, name_of, pages, run_page

MOST_NOT_RUN = 4
WITH_CODE = [page for page in pages() if any(block.is_python for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
async def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_page(page, tmp_path, monkeypatch)


def test_few_blocks_do_not_run_and_each_says_why() -> None:
    reasons = [block.not_run for page in pages() for block in blocks(page) if block.not_run]
    assert len(reasons) <= MOST_NOT_RUN, reasons
    assert all(len(reason.split()) >= 3 for reason in reasons), reasons


def test_no_fence_and_no_directive_is_overlooked() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        found = list(blocks(page))
        fences = len(re.findall(r"^\s*(```+|~~~+)", text, re.MULTILINE))
        assert fences == 2 * sum(not block.hidden for block in found), name_of(page)
        directives = len(re.findall(r"<!--\s*code", text))
        known = sum(block.hidden + bool(block.until) + bool(block.not_run) for block in found)
        assert directives == known, f"{name_of(page)}: a comment `code:` that nobody reads"
