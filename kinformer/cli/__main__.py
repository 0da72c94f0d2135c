"""Runs `python -m kinformer.cli`, if the console script is not on the PATH."""

from __future__ import annotations

import sys

from kinformer.cli import main

sys.exit(main())
