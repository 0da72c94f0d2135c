# The public names of this package. `__init__.py` reads this file.

from kinformer.kinds.builtin import is_namespaced as is_namespaced
from kinformer.kinds.columns import columns_of as columns_of
from kinformer.kinds.health.severity import severity_of as severity_of
from kinformer.kinds.state import state_of as state_of
