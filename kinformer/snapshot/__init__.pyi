# The public names of this package. `__init__.py` reads this file.

from kinformer.snapshot.option import Snapshot as Snapshot
