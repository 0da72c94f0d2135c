"""The one command of a release: the Unreleased part of CHANGELOG.md becomes a version, and the package has its number.

    python tools/release.py 0.2.0

It changes `CHANGELOG.md` and `kinformer/__init__.py`, the one place of the version, and commits nothing.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNRELEASED = "## Unreleased"
VERSION_LINE = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


class ReleaseError(Exception):
    """A release that cannot be made; the text says why."""


def release(root: Path, version: str, date: datetime.date) -> None:
    """Make a checkout that of a version. Both files are changed, or none.

    Args:
        root: The checkout.
        version: The new version, such as "0.2.0".
        date: The day that the changelog names.

    Raises:
        ReleaseError: the version is none, or not newer than the present one, or there is nothing to release.
    """
    changelog, package = root / "CHANGELOG.md", root / "kinformer" / "__init__.py"
    log = released_changelog(changelog.read_text(encoding="utf-8"), version, date)
    code = with_version(package.read_text(encoding="utf-8"), version)
    changelog.write_text(log, encoding="utf-8")
    package.write_text(code, encoding="utf-8")


def released_changelog(text: str, version: str, date: datetime.date) -> str:
    """Return a changelog in which all that was unreleased is released, below an empty part for what comes next."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    found = [number for number, part in enumerate(parts) if part.split("\n", 1)[0].rstrip() == UNRELEASED]
    if len(found) != 1:
        raise ReleaseError(f"CHANGELOG.md has {len(found)} parts {UNRELEASED!r}: expected one")
    if any(re.match(rf"## \[?{re.escape(version)}\b", part) for part in parts):
        raise ReleaseError(f"CHANGELOG.md has {version} already")
    number = found[0]
    changes = parts[number].split("\n", 1)[1].strip("\n")
    if not re.search(r"^[-*] ", changes, re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has nothing below {UNRELEASED!r}")
    ending = "\n" if number == len(parts) - 1 else "\n\n"
    parts[number] = f"{UNRELEASED}\n\n## {version} - {date.isoformat()}\n\n{changes}{ending}"
    return "".join(parts)


def with_version(text: str, version: str) -> str:
    """Return the source of the package with another version in it."""
    match = VERSION_LINE.search(text)
    if not match:
        raise ReleaseError("kinformer/__init__.py has no line __version__ = ...")
    if _numbers(version) <= _numbers(match[1]):
        raise ReleaseError(f"{version} is not newer than {match[1]}, the version of the package")
    return f'{text[: match.start()]}__version__ = "{version}"{text[match.end() :]}'


def _numbers(version: str) -> tuple[int, ...]:
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version, re.ASCII):
        raise ReleaseError(f"invalid version {version!r}: expected three numbers, such as 0.2.0")
    return tuple(map(int, version.split(".")))


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Makes the Unreleased part of CHANGELOG.md a version.")
    parser.add_argument("version", help="the new version, such as 0.2.0")
    parser.add_argument(
        "--date",
        type=datetime.date.fromisoformat,
        default=datetime.datetime.now(datetime.UTC).date(),
        help="the day of the release, by default today in UTC",
    )
    options = parser.parse_args(arguments)
    try:
        release(root, options.version, options.date)
    except ReleaseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"This is {options.version} now. RELEASING.md says what comes next.\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
