"""Every block of Python in the documentation runs, on an embedded API server, and every command in it is one.

Internals: the commands that there are.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from kinformer.cli.app import app
from tests.docs.documentation import Block, blocks, marks_of, name_of, pages, run_page
from tests.docs.documented_commands import SHELLS, commands, complaint

MOST_NOT_RUN = 4
WITH_CODE = [
    pytest.param(page, marks=marks_of(page.read_text(encoding="utf-8")), id=name_of(page))
    for page in pages()
    if any(block.is_python for block in blocks(page))
]


@pytest.mark.parametrize("page", WITH_CODE)
async def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_page(page, tmp_path, monkeypatch)


TESTS = "```python\n# test_it.py\ndef test_it():\n    assert 1 == 2\n```\n"
PAGE = """
<!-- code: run
make_pod("web-1", namespace="shop", phase="Pending")
-->
```python
# told.py
WORD = "told"
```

```python
import told
from kinformer import Client

async with Client() as client:
    pod = await client.request("GET", "/api/v1/namespaces/shop/pods/web-1")
print(told.WORD, pod["status"]["phase"])
```

1. In a list:

   ```python
   assert pod["spec"]["nodeName"] == "node-1"
   ```

<!-- code: until "waiting" in printed() -->
```python
print("waiting")
await asyncio.Event().wait()
```
"""


async def test_a_page_is_one_program_on_a_server_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("import told", "import asyncio\nimport told"), encoding="utf-8")
    names = await run_page(page, tmp_path, monkeypatch)
    assert names["printed"]() == "told Pending\nwaiting\n"
    assert "told" not in sys.modules


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nassert 1 == 2, 'no'\n```\n", "no"),
        ("```python\nawait nobody()\n```\n", "nobody"),
        ("<!-- code: until 1 == 2 -->\n```python\nawait server.compact()\n```\n", "it ended by itself"),
        ("<!-- code: until 1 == 1 -->\nNo block.\n", "no block follows"),
        ("<!-- code: not run: for a reason -->\n<!-- code: run\n1\n-->\n", "stands before a hidden block"),
        pytest.param(TESTS, "assert 1 == 2", marks=marks_of(TESTS)),
    ],
)
async def test_a_page_whose_code_does_not_hold_fails(
    text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises((AssertionError, NameError, ValueError), match=complaint):
        await run_page(page, tmp_path, monkeypatch)


def test_few_blocks_do_not_run_and_each_says_why() -> None:
    left_out = [block for page in pages() for block in blocks(page) if block.not_run]
    # An excerpt is part of a program with tests of its own; tests/examples/test_migrations.py compares the two.
    left_out = [block for block in left_out if not block.not_run.startswith("an excerpt of examples/")]
    foreign = [block for block in left_out if re.fullmatch(r"\w+ is not installed (here|everywhere)", block.not_run)]
    for block in foreign:  # programs on other libraries, that are Python at least
        assert block.text.startswith("# before\n"), block.where
        compile(block.text, block.where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    reasons = [block.not_run for block in left_out if block not in foreign]
    assert len(reasons) <= MOST_NOT_RUN, reasons
    assert all(len(reason.split()) >= 3 for reason in reasons), reasons


def test_no_fence_and_no_directive_is_overlooked() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        found = list(blocks(page))
        fences = len(re.findall(r"^\s*(```+|~~~+)", text, re.MULTILINE))
        assert fences == 2 * sum(not block.hidden for block in found), name_of(page)
        directives = len(re.findall(r"<!--\s*code", text))
        known = sum(block.hidden + bool(block.until) + bool(block.not_run) + bool(block.fails) for block in found)
        assert directives == known, f"{name_of(page)}: a comment `code:` that nobody reads"


def test_every_command_is_one_and_takes_these_arguments() -> None:
    asked, wrong = 0, []
    for page in pages():
        found = list(blocks(page))
        shown = {block.file for block in found}
        for block in found:
            for words in commands(block) if block.language in SHELLS else ():
                asked += 1
                if error := complaint(words, shown):
                    wrong.append(f"{block.where}: {error}")
    assert asked >= 20
    assert not wrong, "\n".join(wrong)


def test_every_command_of_ours_in_a_sentence_is_one() -> None:
    named: dict[str, str] = {}
    for page in pages():
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        named |= dict.fromkeys(re.findall(r"`kinformer ([a-z]\w*)", prose), name_of(page))
    assert named.keys() >= {"demo", "watch", "stats", "serve", "dashboard"}
    shown = [command for command in app.registered_commands if not command.hidden]
    known = {command.name or command.callback.__name__ for command in shown if command.callback}
    assert not {f"{page}: kinformer {name}" for name, page in named.items() if name not in known}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("kinformer watch pods -A -o json", False),
        ("kinformer watch", True),
        ("kinformer look pods", True),
        ("kinformer watch pods --sort-by=.metadata.name", False),
        ("kinformer watch pods --sort-with=name", True),
        ("kinformer get pods", True),
        ("kinformer serve --objects pods=20 --churn x", True),
        ("pip install 'kinformer[cli,fastapi]'", False),
        ("pip install 'kinformer[cli,flask]'", True),
        (".venv/bin/python -m pip install -e . --group tests", True),
        ("KUBECONFIG=a python -m kinformer.cli serve --port 8001", False),
        ("python -m kinformer.tests", True),
        ("python examples/no_such_file.py", True),
        ("pytest tests/no_such_folder", True),
        ("nox -s documentation", True),
        ("make docs", True),
    ],
)
def test_a_command_that_is_none_is_found(line: str, wrong: bool) -> None:
    [words] = commands(Block(pages()[0], 1, "sh", line))
    assert bool(complaint(words)) is wrong, complaint(words)
