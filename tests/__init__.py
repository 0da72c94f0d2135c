"""The tests of kinformer. pytest imports this module before all others of them."""

import sys
from pathlib import Path

# Where Python writes no bytecode (PYTHONDONTWRITEBYTECODE, as in most containers), each run and each of its workers
# would rewrite the assertions of all tests again. It is kept with pytest's cache, so the sources' folders stay clean.
if sys.dont_write_bytecode and sys.pycache_prefix is None:
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    sys.dont_write_bytecode = False
