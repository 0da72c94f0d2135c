"""Memory and processor time of this process."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["processor_seconds", "resident_memory"]


def resident_memory() -> int | None:
    """Return the bytes of this process that are in memory; None if the system does not tell (no /proc)."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds() -> float:
    """Return the seconds of processor time since this process began."""
    return time.process_time()
