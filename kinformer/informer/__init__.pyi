# The public names of this package. `__init__.py` reads this file.

from kinformer.informer.collection import Collection as Collection
from kinformer.informer.factory import SharedInformerFactory as SharedInformerFactory
from kinformer.informer.informer import SharedInformer as SharedInformer
from kinformer.informer.memory import estimate_memory as estimate_memory
from kinformer.informer.metrics import InformerStatistics as InformerStatistics
from kinformer.informer.object_wait import wait_for as wait_for
