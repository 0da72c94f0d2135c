# The public names of this package. `__init__.py` reads this file.

from kinformer.client.client import Client as Client
from kinformer.connection.body import keep_free_memory as keep_free_memory
from kinformer.connection.config import ConnectionInfo as ConnectionInfo
from kinformer.connection.discovery import APIResource as APIResource
from kinformer.connection.discovery import Discovery as Discovery
from kinformer.connection.discovery import discover as discover
from kinformer.connection.retries import ClientStatistics as ClientStatistics
