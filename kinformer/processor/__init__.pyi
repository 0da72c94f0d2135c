# The public names of this package. `__init__.py` reads this file.

from kinformer.processor.event_stream import EventStream as EventStream
from kinformer.processor.event_stream import InformerEvent as InformerEvent
from kinformer.processor.handler import HandlerRegistration as HandlerRegistration
