"""The Python that runs the tests, as far as they depend on it."""

from __future__ import annotations

import sys

FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()
"""True if there is no GIL."""
