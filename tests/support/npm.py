"""A package of npm, for what only JavaScript has; it is fetched once by npm itself, and kept in pytest's cache."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

_PATIENCE = 60  # seconds that the registry has


class NotFetchedError(Exception):
    """The package cannot be had here; the text says why."""


def package(spec: str, cache: Path) -> Path:
    """Return the folder of a package such as `"axe-core@4.10.3"`; its dependencies are not fetched.

    Raises:
        NotFetchedError: There is no npm, or the registry is not reachable.
    """
    folder = cache / spec.replace("/", "+")
    if folder.is_dir():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise NotFetchedError(f"no {spec}: npm is not installed")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        command = [npm, "pack", spec, "--pack-destination", temporary, "--silent", "--fetch-retries=0"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_PATIENCE, cwd=temporary)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            told = error.stderr if isinstance(error.stderr, str) else ""
            raise NotFetchedError(f"no {spec}: npm cannot fetch it: {(told.strip() or str(error))[-300:]}") from error
        (archive,) = Path(temporary).glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(temporary, filter="data")
        try:
            (Path(temporary) / "package").replace(folder)
        except OSError:  # another worker was faster
            if not folder.is_dir():
                raise
    return folder
