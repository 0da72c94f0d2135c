"""The command of a release turns the unreleased changes into a version, in the changelog and in the package."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pytest

import kinformer
from tools.release import ReleaseError, main, released_changelog, with_version

ROOT = Path(__file__).parents[2]
DAY = datetime.date(2026, 12, 1)
BEFORE = """\
# Changelog

Some words.

## Unreleased

### Added
- A thing.
  ## not a heading

## 0.1.0 - 2026-01-02

- The first.
"""
AFTER = """\
# Changelog

Some words.

## Unreleased

## 0.2.0 - 2026-12-01

### Added
- A thing.
  ## not a heading

## 0.1.0 - 2026-01-02

- The first.
"""


def test_what_was_unreleased_is_below_the_version_and_the_day() -> None:
    assert released_changelog(BEFORE, "0.2.0", DAY) == AFTER


def test_a_changelog_without_earlier_versions_keeps_every_line() -> None:
    text = "# Changelog\n\n## Unreleased\n\n- A thing.\n"
    assert released_changelog(text, "0.2.0", DAY) == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n- A thing.\n"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# Changelog\n\n## 0.1.0 - 2026-01-02\n\n- The first.\n", "has 0 parts '## Unreleased'"),
        ("## Unreleased\n\n- a\n\n## Unreleased\n\n- b\n", "has 2 parts '## Unreleased'"),
        ("## Unreleased\n\n### Added\n\n## 0.1.0 - 2026-01-02\n\n- The first.\n", "has nothing below"),
        ("## Unreleased\n\n- a\n\n## 0.2.0 - 2026-01-02\n\n- b\n", "has 0.2.0 already"),
    ],
)
def test_a_changelog_that_cannot_be_released_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ReleaseError, match=complaint):
        released_changelog(text, "0.2.0", DAY)


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "0.2", "v0.2.0", "0.2.0rc1", "00.2.0", "", "0.2.0\n"])
def test_a_version_that_is_none_or_not_newer_is_refused(version: str) -> None:
    with pytest.raises(ReleaseError, match=r"not newer|three numbers"):
        with_version('__version__ = "0.1.0"\n', version)


def test_numbers_are_compared_as_numbers() -> None:
    assert with_version('a = 1\n__version__ = "0.9.0"\nb = 2\n', "0.10.0") == 'a = 1\n__version__ = "0.10.0"\nb = 2\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "kinformer").mkdir()
    for name in ("CHANGELOG.md", "kinformer/__init__.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    log = tmp_path / "CHANGELOG.md"  # just after a release, nothing is unreleased
    log.write_text(log.read_text().replace("## Unreleased\n", "## Unreleased\n\n- Something else.\n", 1))
    return tmp_path


def following(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}.0"


def test_the_command_releases_this_project(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version = following(kinformer.__version__)
    before = (checkout / "CHANGELOG.md").read_text().splitlines()
    assert main([version, "--date", "2026-12-01"], checkout) == 0
    after = (checkout / "CHANGELOG.md").read_text().splitlines()
    assert [line for line in after if line and line not in before] == [f"## {version} - 2026-12-01"]
    assert [line for line in before if line] == [
        line for line in after if line and not line.startswith(f"## {version}")
    ]
    assert f'__version__ = "{version}"\n' in (checkout / "kinformer/__init__.py").read_text()
    assert f"This is {version} now" in capsys.readouterr().out
    assert main([following(version)], checkout) == 1, "nothing was done since"
    assert "has nothing below '## Unreleased'" in capsys.readouterr().err


def test_a_release_that_is_refused_changes_no_file(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    assert main(["0.0.1"], checkout) == 1
    assert "is not newer than" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before
