# The public names of this package. `__init__.py` reads this file.

from kinformer.watching.differences import StreamEvent as StreamEvent
from kinformer.watching.stream import WatchStream as WatchStream
from kinformer.watching.stream import watch as watch
