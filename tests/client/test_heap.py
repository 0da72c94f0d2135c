"""The heap keeps memory that comes and goes in pieces, and does not give it back to the system each time."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the thresholds are those of glibc"),
]

PROGRAM = """
import resource, sys
from kinformer.client import keep_free_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def take_and_free():
    pieces = [bytes(64 * 1024) for _ in range(50)]

if "keep" in sys.argv:
    keep_free_memory()
take_and_free()
before = faults()
for _ in range(20):
    take_and_free()
print(faults() - before)
"""


def faults(*arguments: str) -> int:
    """Page faults of a program that takes and frees three megabytes in pieces, twenty times."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    return int(run.stdout)


def test_memory_that_comes_and_goes_is_kept() -> None:
    if faults() < 20 * 200:  # of 800 pages
        pytest.skip("malloc keeps as much here by itself")
    assert faults("keep") < 20 * 20
