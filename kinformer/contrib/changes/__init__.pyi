# The public names of this package. `__init__.py` reads this file.

from kinformer.contrib.changes.change import Change as Change
from kinformer.contrib.changes.differences import ABSENT as ABSENT
from kinformer.contrib.changes.differences import Difference as Difference
from kinformer.contrib.changes.differences import object_differences as object_differences
from kinformer.contrib.changes.log import Changes as Changes
