# The public names of this package. `__init__.py` reads this file.

from kinformer.sharding.shard import Shard as Shard
