# The public names of this package. `__init__.py` reads this file.

from kinformer.watchcache.informer_server import WatchCache as WatchCache
from kinformer.watchcache.proxy.proxy import Proxy as Proxy
from kinformer.watchcache.share.share import Share as Share
