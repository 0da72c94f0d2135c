"""Builds the wheel and the sdist as a frontend does, and says what is in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

from tools.sbom import metadata

ROOT = Path(__file__).parents[2]
SOURCES = ("kinformer", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore")
PROGRAM = """\
import sys
from hatchling.build import build_sdist, build_wheel
build_sdist(sys.argv[1])
build_wheel(sys.argv[1])
"""


class Distributions:
    """A wheel and an sdist in one folder."""

    def __init__(self, folder: Path) -> None:
        (self.wheel,) = folder.glob("kinformer-*.whl")
        (self.sdist,) = folder.glob("kinformer-*.tar.gz")

    @property
    def metadata(self) -> Message:
        return metadata(self.wheel)

    @property
    def classifiers(self) -> list[str]:
        return self.metadata.get_all("Classifier", [])

    def in_wheel(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as archive:
            return set(archive.namelist())

    def in_sdist(self) -> set[str]:
        """The files, without the folder that all are in."""
        with tarfile.open(self.sdist) as archive:
            return {name.partition("/")[2] for name in archive.getnames()}


def build(folder: Path, *, source: Path = ROOT, epoch: str | None = None, **environ: str) -> Distributions:
    """Build both from a checkout by the hooks of the build backend, as a frontend does without isolation."""
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"} | environ
    if epoch is not None:
        environment["SOURCE_DATE_EPOCH"] = epoch
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True, timeout=90)
    return Distributions(folder)


def copy_sources(target: Path) -> Path:
    """Copy what the build reads, with new times."""
    target.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, target / name, copy_function=shutil.copyfile, ignore=ignored)
        else:
            shutil.copyfile(ROOT / name, target / name)
    return target


def files_of_package() -> set[str]:
    """The files of the package in this checkout, without what Python leaves there."""
    found = {path for path in (ROOT / "kinformer").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    return {str(path.relative_to(ROOT)) for path in found}
