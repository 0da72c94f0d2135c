# The public names of this package. `__init__.py` reads this file.

from kinformer.queue.delta import Delta as Delta
from kinformer.queue.delta import DeltaType as DeltaType
from kinformer.queue.delta_fifo import DeltaFIFO as DeltaFIFO
