"""A Python without the GIL keeps it disabled, whatever of kinformer is used."""

from __future__ import annotations

import subprocess
import sys
import sysconfig

import pytest

import kinformer

USE_EVERYTHING = """
import sys
import kinformer

for name in {names!r}:
    getattr(kinformer, name)
assert not sys._is_gil_enabled()
"""


@pytest.mark.process
@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_no_public_name_enables_the_gil() -> None:
    program = USE_EVERYTHING.format(names=sorted(kinformer.__all__))
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)
