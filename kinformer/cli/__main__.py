"""`python -m kinformer.cli`, where the console script is not on the PATH."""

from __future__ import annotations

import sys

from kinformer.cli import main

sys.exit(main())
