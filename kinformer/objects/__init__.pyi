# The public names of this package. `__init__.py` reads this file.

from kinformer.objects.conditions import Condition as Condition
from kinformer.objects.conditions import condition_is as condition_is
from kinformer.objects.conditions import condition_of as condition_of
from kinformer.objects.conditions import with_conditions as with_conditions
from kinformer.objects.meta import DeletedFinalStateUnknown as DeletedFinalStateUnknown
from kinformer.objects.meta import GroupVersionResource as GroupVersionResource
from kinformer.objects.meta import OwnerReference as OwnerReference
from kinformer.objects.meta import meta_namespace_key as meta_namespace_key
from kinformer.objects.meta import split_meta_namespace_key as split_meta_namespace_key
from kinformer.objects.object import KubeObject as KubeObject
from kinformer.objects.owner_references import controller_of as controller_of
from kinformer.objects.owner_references import owned_by as owned_by
from kinformer.objects.owner_references import owner_reference as owner_reference
from kinformer.objects.pod_status import PodState as PodState
from kinformer.objects.secrets import showable as showable
from kinformer.objects.selectors import FieldSelector as FieldSelector
from kinformer.objects.selectors import LabelSelector as LabelSelector
from kinformer.objects.types import NoModel as NoModel
