"""The prose of the project is plain English: docstrings, comments, messages, and the pages of the documentation.

Each mark of bad prose is counted per 10,000 words, by kind of text. A few uses are fine; a habit is not.
The limits are about twice what the documentation of anyio, trio, httpx and kopf has.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.documentation import DOCS, ROOT


class Mark(NamedTuple):
    """A mark of bad prose: a pattern, how often it may occur in 10,000 words, and what to write instead."""

    pattern: re.Pattern[str]
    limit: float
    instead: str


def mark(pattern: str, limit: float, instead: str) -> Mark:
    return Mark(re.compile(pattern, re.IGNORECASE | re.MULTILINE), limit, instead)


MARKS = {
    "whoever": mark(r"\b(whoever|somebody|nobody|everybody|whom)\b", 2, "name the person or the part"),
    "noun clause first": mark(
        r"(^|[.;:|] )(What|Whether|Whom|Who|How|When|Why) [a-z]", 20, "begin with the subject, or with a verb"
    ),
    "where for if": mark(r"\bwhere (it|there|that|nothing|one|somebody|the|a|they|nobody|an|none)\b", 6, "if"),
    "stands": mark(r"\b(stands|stood)\b(?! for)", 2, "is"),
    "is said": mark(r"\b(is|are|was|were|be|been) said\b", 1, "name who says it, or leave it out"),
    "but for": mark(r"\bbut for\b", 1, "except"),
    "hears of": mark(r"\b(hears?|heard) of\b", 2, "gets, is called for"),
    "one who": mark(r"\b(one|those|he|all) who\b|\bthat which\b", 2, "a program that, a user who"),
    "nothing but": mark(r"\bnothing but\b", 2, "only"),
    "is no": mark(
        r"(?<![Tt]here )\b(is|are|was|were) no (?!longer|more|such|other|need|reason|way|point|limit|one\b)\w+",
        4,
        "is not a",
    ),
    "has to be": mark(r"\b(has|have) to be\b", 2, "must be"),
}


class Text(NamedTuple):
    """A piece of prose: its file, the line that it begins at, and its words."""

    path: Path
    line: int
    words: str


class Hit(NamedTuple):
    """A mark that was found."""

    place: str
    line: str

    def __str__(self) -> str:
        return f"{self.place}: {self.line.strip()}"


# --- where prose is -------------------------------------------------------------------------------------------------


def text_of(node: ast.expr) -> str:
    """The text of a message, with `{}` for the values in it; "" if it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) if isinstance(value, ast.Constant) else "{}" for value in node.values)
    return ""


def prose_of_code(path: Path, source: str) -> Iterator[Text]:
    """Docstrings, comments, and the texts that are given to errors, logs and options."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if docstring := ast.get_docstring(node):
                yield Text(path, node.body[0].lineno, docstring)
        elif isinstance(node, ast.Call):
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                if len((message := text_of(argument)).split()) > 3:
                    yield Text(path, argument.lineno, message)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(path, token.start[0], token.string.lstrip("# "))


def prose_of_page(path: Path, source: str) -> Iterator[Text]:
    """A page without its blocks of code, its comments, and code within lines."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    for pattern in (r"^ *```.*?^ *```$", r"<!--.*?-->"):
        source = re.sub(pattern, blank, source, flags=re.DOTALL | re.MULTILINE)
    yield Text(path, 1, re.sub(r"`[^`\n]+`", "x", source))


@cache
def prose(kind: str) -> list[Text]:
    """All prose of a kind: the package's, the pages', or that of the examples, benchmarks and tools."""
    found: list[Text] = []
    for folder in {"package": ["kinformer"], "programs": ["examples", "benchmarks", "docs", "tools"]}.get(kind, []):
        for path in sorted((ROOT / folder).rglob("*.py")):
            found += prose_of_code(path, path.read_text(encoding="utf-8"))
    if kind == "pages":
        pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "RELEASING.md", *sorted(DOCS.rglob("*.md"))]
        for path in pages:
            found += prose_of_page(path, path.read_text(encoding="utf-8"))
    if kind == "tests":  # the docstrings of modules: what a file of tests is about
        for path in sorted((ROOT / "tests").rglob("*.py")):
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            found += [Text(path, 1, docstring)] if docstring else []
    return found


def hits(texts: list[Text], pattern: re.Pattern[str]) -> list[Hit]:
    """Every place at which a pattern occurs."""
    found = []
    for text in texts:
        for match in pattern.finditer(text.words):
            number = text.words.count("\n", 0, match.start())
            path = text.path.relative_to(ROOT) if text.path.is_relative_to(ROOT) else text.path
            found.append(Hit(f"{path}:{text.line + number}", text.words.split("\n")[number]))
    return found


def complaint(name: str, texts: list[Text]) -> str:
    """The places of a mark if there are more of them than its limit; "" if not."""
    words = sum(len(text.words.split()) for text in texts)
    found = hits(texts, MARKS[name].pattern)
    allowed = max(1.0, MARKS[name].limit * words / 10_000)
    if len(found) <= allowed:
        return ""
    places = "\n".join(map(str, found))
    return f"{name}: {len(found)} in {words:,} words, at most {allowed:.0f}; write: {MARKS[name].instead}\n{places}"


@pytest.mark.parametrize("kind", ["package", "pages", "programs", "tests"])
@pytest.mark.parametrize("name", MARKS)
def test_prose_is_plain_english(kind: str, name: str) -> None:
    texts = prose(kind)
    assert sum(len(text.words.split()) for text in texts) > 1_000, "prose is not where it is looked for"
    assert (found := complaint(name, texts)) == "", found


# --- the test can fail ----------------------------------------------------------------------------------------------

RIDDLE = '''
"""What it is: nobody knows."""


def f(x):
    # It stands where there is one who was said to be.
    raise ValueError("somebody has to be here, but for the one who hears of nothing but it: it is no path")
'''


def test_each_mark_is_found_in_code_with_its_line() -> None:
    texts = list(prose_of_code(Path("riddle.py"), RIDDLE)) * 10
    for name in MARKS:
        found = complaint(name, texts)
        assert "riddle.py:" in found, name
    assert [hit.place for hit in hits(texts[:3], MARKS["whoever"].pattern)] == ["riddle.py:2", "riddle.py:7"]


def test_code_on_a_page_is_not_prose_and_the_lines_around_it_keep_their_numbers() -> None:
    page = "# A\n\n<!-- code: run\nnobody\n-->\n```python\nwhere_it = 'nobody'  # nobody\n```\n`nobody`, and nobody\n"
    (text,) = prose_of_page(Path("page.md"), page)
    assert [hit.place for hit in hits([text], MARKS["whoever"].pattern)] == ["page.md:9"]


def test_a_few_uses_are_allowed() -> None:
    texts = [Text(Path("a.md"), 1, "Nobody is here. " + "word " * 20_000)]
    assert complaint("whoever", texts) == ""
    assert complaint("whoever", texts * 5) == ""
    assert "at most 4" in complaint("whoever", [*texts, Text(Path("b.md"), 1, "nobody " * 4)])
