# The public names of this package. `__init__.py` reads this file.

from kinformer.watchcache.share.share import Share as Share
