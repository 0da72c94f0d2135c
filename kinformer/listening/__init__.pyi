# The public names of this package. `__init__.py` reads this file.

from kinformer.listening.connections import Connections as Connections
from kinformer.listening.hosts import AllowedHosts as AllowedHosts
from kinformer.listening.listener import Listener as Listener
