# The public names of this package. `__init__.py` reads this file.

from kinformer._runtime.fence import check_fences as check_fences
from kinformer.leaderelection.leader_election import LeaderElectionHealth as LeaderElectionHealth
from kinformer.leaderelection.leader_election import LeaderElector as LeaderElector
