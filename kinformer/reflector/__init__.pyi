# The public names of this package. `__init__.py` reads this file.

from kinformer.reflector.health import InformerHealth as InformerHealth
from kinformer.reflector.indexed import namespace_keyed_indexer_and_reflector as namespace_keyed_indexer_and_reflector
from kinformer.reflector.reflector import Reflector as Reflector
