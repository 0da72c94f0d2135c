# The public names of this package. `__init__.py` reads this file.

from kinformer.conditions.anything import Check as Check
from kinformer.conditions.anything import has_condition as has_condition
from kinformer.conditions.anything import is_deleted as is_deleted
from kinformer.conditions.anything import matches as matches
from kinformer.conditions.kinds import is_crd_established as is_crd_established
from kinformer.conditions.kinds import is_deployment_rolled_out as is_deployment_rolled_out
from kinformer.conditions.kinds import is_job_complete as is_job_complete
from kinformer.conditions.kinds import is_job_failed as is_job_failed
from kinformer.conditions.kinds import is_loadbalancer_ready as is_loadbalancer_ready
from kinformer.conditions.kinds import is_pod_ready as is_pod_ready
from kinformer.conditions.kinds import is_pod_running as is_pod_running
from kinformer.conditions.kinds import is_pod_serving as is_pod_serving
