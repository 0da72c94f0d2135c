"""The files of Kubernetes that the package cites as the source of a rule, and where.

Two citations are of one file if the path of one ends with that of the other: `tools/cache/store.go` is the store of
`client-go/tools/cache/store.go`, and not that of `registry/generic/registry/store.go`. A `*` matches a folder.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

_FILE = re.compile(r"[\w./*-]*\w\.go\b")
_BROKEN = re.compile(r"/\s*\n[#\s]*")  # a path that goes on in the next line


class Citation(NamedTuple):
    """A file of Go that a docstring or a comment cites.

    Attributes:
        file: Its path as it is cited, without a leading slash.
        package: The package of the first rank, or the module of the root, that cites it.
        place: The module and the line at which the text begins.
    """

    file: str
    package: str
    place: str


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield each string that is a statement and each block of comments, with its first line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != last + 1:
                yield last - len(block) + 1, "\n".join(block)
                block = []
            block.append(token.string)
            last = token.start[0]
    if block:
        yield last - len(block) + 1, "\n".join(block)


def citations_in(package: Path) -> list[Citation]:
    """Return the citations in a package, in the order of its modules."""
    found: list[Citation] = []
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        for line, text in texts_of(path.read_text(encoding="utf-8")):
            for file in _FILE.findall(_BROKEN.sub("/", text)):
                found.append(Citation(file.lstrip("/"), place.parts[0].removesuffix(".py"), f"{place}:{line}"))
    return found


def is_one_file(file: str, other: str) -> bool:
    """Return True if two citations are of the same file."""
    pairs = zip(reversed(file.split("/")), reversed(other.split("/")), strict=False)
    return all(fnmatchcase(one, another) or fnmatchcase(another, one) for one, another in pairs)


def shared(citations: Iterable[Citation]) -> dict[str, list[Citation]]:
    """Return the files that more than one package cites, by their longest path, with all their citations."""
    citations = sorted(set(citations), key=lambda citation: (-citation.file.count("/"), citation.file, citation.place))
    files: dict[str, list[Citation]] = {}
    for citation in citations:
        homes = [file for file in files if is_one_file(file, citation.file)] or [citation.file]
        for file in homes:
            files.setdefault(file, []).append(citation)
    return {file: of_file for file, of_file in files.items() if len({citation.package for citation in of_file}) > 1}
