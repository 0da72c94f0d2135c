"""Memory and CPU time of this process."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["processor_seconds", "resident_memory"]


def resident_memory() -> int | None:
    """Return the resident memory of this process in bytes, or None if it is unknown (no /proc)."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds() -> float:
    """Return the CPU time of this process in seconds."""
    return time.process_time()
