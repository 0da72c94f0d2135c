# The public names of this package. `__init__.py` reads this file.

from kinformer.client.body import keep_free_memory as keep_free_memory
from kinformer.client.client import Client as Client
from kinformer.client.config import ConnectionInfo as ConnectionInfo
from kinformer.client.discovery import APIResource as APIResource
from kinformer.client.discovery import Discovery as Discovery
from kinformer.client.discovery import discover as discover
from kinformer.client.retries import ClientStatistics as ClientStatistics
