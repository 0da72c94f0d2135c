# The public names of this package. `__init__.py` reads this file.

from kinformer.manager.background import Background as Background
from kinformer.manager.health import readiness as readiness
from kinformer.manager.health import stale_reason as stale_reason
from kinformer.manager.health import status_report as status_report
from kinformer.manager.manager import Manager as Manager
