"""What this process takes of the machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["processor_seconds", "resident_memory"]


def resident_memory() -> int | None:
    """Bytes that this process has in memory; None where the system has no such file."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds() -> float:
    """Seconds of processor time since this process began."""
    return time.process_time()
