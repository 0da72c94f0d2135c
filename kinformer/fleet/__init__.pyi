# The public names of this package. `__init__.py` reads this file.

from kinformer.fleet.fleet import Fleet as Fleet
from kinformer.fleet.keeper import Cluster as Cluster
from kinformer.fleet.keeper import ClusterHealth as ClusterHealth
from kinformer.fleet.roster import FleetStatistics as FleetStatistics
