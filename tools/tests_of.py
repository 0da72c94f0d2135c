"""The test files that cover a file of the package: `nox -s tests-of -- kinformer/cache/store.py` runs them.

    python tools/tests_of.py FILE [FILE ...]    # prints them, the closest first

A package's `__init__` says in its line `Tests:` where its tests are, for its own modules and for those of the packages
inside it that have no such line. Beside them are the test files that import a module by its name.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LINE = re.compile(r"^Tests: (.+(?:\n(?!\n).+)*)", re.MULTILINE)


def places_of(package: Path) -> list[Path]:
    """Return the files and folders that the `Tests:` line of the closest package names; the docstring may wrap it."""
    for folder in (package, *package.parents):
        initial = folder / "__init__.py"
        if folder == ROOT or not initial.is_file():
            break
        line = _LINE.search(ast.get_docstring(ast.parse(initial.read_text())) or "")
        if line is not None:
            return [ROOT / place.strip().rstrip(".") for place in re.split(r",\s+", line[1].replace("\n", " "))]
    return []


def test_files(places: list[Path]) -> Iterator[Path]:
    """Yield the test files that are, or are in, these places."""
    for place in places:
        yield from sorted(place.rglob("test_*.py")) if place.is_dir() else [place]


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules and names that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def imports(test: Path, module: str) -> bool:
    """True if a test imports a module, or a name from it."""
    return any(module in {name, name.rpartition(".")[0]} for name in imported(ast.parse(test.read_text())))


def files_of(file: Path) -> list[Path]:
    """Return the test files of one file: of its name, then those that import it, then those of its package.

    Raises:
        SystemExit: There is no such file in the package or among the tests, or nothing covers it.
    """
    file = file.resolve()
    if not file.is_file() or not file.is_relative_to(ROOT):
        raise SystemExit(f"{file}: no such file in {ROOT}")
    if file.is_relative_to(ROOT / "tests"):
        return [file] if file.name.startswith("test_") else list(test_files([file.parent]))
    module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    importing = [test for test in sorted((ROOT / "tests").rglob("test_*.py")) if imports(test, module)]
    tests = list(dict.fromkeys((*importing, *test_files(places_of(file.parent)))))
    if not tests:
        raise SystemExit(f"{file.relative_to(ROOT)}: no test imports it, and no package has a line `Tests:` for it")
    return sorted(tests, key=lambda test: test.stem != f"test_{file.stem}")


def main(arguments: list[str]) -> int:
    """Print the test files of all arguments, each once."""
    if not arguments:
        raise SystemExit("pass a file, such as kinformer/cache/store.py")
    for test in dict.fromkeys(test for argument in arguments for test in files_of(Path(argument))):
        print(test.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
