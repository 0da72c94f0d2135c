# The public names of this package. `__init__.py` reads this file.

from kinformer.kinds.conditions import Check as Check
from kinformer.kinds.conditions import has_condition as has_condition
from kinformer.kinds.conditions import is_crd_established as is_crd_established
from kinformer.kinds.conditions import is_deleted as is_deleted
from kinformer.kinds.conditions import is_deployment_rolled_out as is_deployment_rolled_out
from kinformer.kinds.conditions import is_job_complete as is_job_complete
from kinformer.kinds.conditions import is_job_failed as is_job_failed
from kinformer.kinds.conditions import is_loadbalancer_ready as is_loadbalancer_ready
from kinformer.kinds.conditions import is_pod_ready as is_pod_ready
from kinformer.kinds.conditions import is_pod_running as is_pod_running
from kinformer.kinds.conditions import is_pod_serving as is_pod_serving
from kinformer.kinds.conditions import matches as matches
