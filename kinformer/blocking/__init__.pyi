# The public names of this package. `__init__.py` reads this file.

from kinformer.blocking.event_stream import EventStream as EventStream
from kinformer.blocking.informer import HandlerRegistration as HandlerRegistration
from kinformer.blocking.informer import Informer as Informer
from kinformer.blocking.informers import Informers as Informers
