"""The path of a socket."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def path() -> Iterator[Path]:
    """Give a path that is short enough, which those below `tmp_path` need not be."""
    with tempfile.TemporaryDirectory(prefix="kf") as folder:
        yield Path(folder) / "cache.sock"
