# The public names of this package. `__init__.py` reads this file.

from kinformer.watchcache.proxy.proxy import Proxy as Proxy
from kinformer.watchcache.share.share import Share as Share
from kinformer.watchcache.watch_cache import WatchCache as WatchCache
