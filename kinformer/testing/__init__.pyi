# The public names: this list, and none other. `__init__.py` reads it.

from kinformer.testing import explore as explore
from kinformer.testing import faults as faults
from kinformer.testing.cluster_server import ClusterServer as ClusterServer
from kinformer.testing.clusters.control_plane import ControlPlane as ControlPlane
from kinformer.testing.clusters.processes import ProcessError as ProcessError
from kinformer.testing.factories import MakeDeployment as MakeDeployment
from kinformer.testing.factories import MakeObject as MakeObject
from kinformer.testing.factories import MakePod as MakePod
from kinformer.testing.features import Features as Features
from kinformer.testing.programs import running as running
from kinformer.testing.server import APIServer as APIServer
