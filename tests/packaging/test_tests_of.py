"""From a file of the package to its tests: every package says where they are, and `tools/tests_of.py` reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.tests_of import ROOT, files_of, imports, places_of

PACKAGES = sorted(path.parent for path in (ROOT / "kinformer").rglob("__init__.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_says_where_its_tests_are(package: Path) -> None:
    places = places_of(package)
    assert places
    for place in places:
        assert place.exists(), place
        assert place.is_dir() or place.name.startswith("test_"), place


def test_the_tests_of_a_module_begin_with_the_file_of_its_name() -> None:
    tests = files_of(ROOT / "kinformer/cache/indexer.py")
    assert tests[0] == ROOT / "tests/cache/test_indexer.py"
    assert ROOT / "tests/cache/test_lister.py" in tests


def test_a_test_file_that_imports_a_module_covers_it() -> None:
    test = ROOT / "tests/runtime/test_waiters.py"
    assert imports(test, "kinformer._runtime.waiters")
    assert files_of(ROOT / "kinformer/_runtime/waiters.py")[0] == test


def test_the_tests_of_a_test_file_are_itself() -> None:
    assert files_of(Path(__file__)) == [Path(__file__)]


def test_a_file_that_is_not_there_is_refused_by_its_name() -> None:
    with pytest.raises(SystemExit, match=r"kinformer/cache/shop\.py: no such file"):
        files_of(ROOT / "kinformer/cache/shop.py")
