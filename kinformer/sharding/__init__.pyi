# The public names of this package. `__init__.py` reads this file.

from kinformer.sharding.membership import ShardMembershipHealth as ShardMembershipHealth
from kinformer.sharding.sharded_controller import ShardedController as ShardedController
